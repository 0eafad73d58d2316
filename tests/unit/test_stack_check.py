"""Contradictions are found, each by name, and the nearest set that works is offered."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stack_failures import FAILURES

from gpufleet.stack import (
    StackSet,
    check,
    check_change,
    differences,
    distance,
    get,
    is_coherent,
    names,
    nearest,
    rules,
    universe,
)

NOW = date(2026, 12, 1)
COHERENT = [name for name in names() if name != "tutorial"]


def changed(
    name: str, pins: Mapping[str, str], targets: Mapping[str, tuple[str, ...]] | None = None
) -> StackSet:
    base = get(name)
    return replace(base, pins={**base.pins, **pins}, targets={**base.targets, **(targets or {})})


@pytest.mark.parametrize("name", COHERENT)
def test_every_set_but_the_tutorials_goes_together(name: str) -> None:
    assert check(get(name), NOW) == []


# What is wrong with the tutorial's pins, and the rules that say so.
CONTRADICTIONS = {
    "driver 560 is too old for CUDA 12.8 and its branch has ended": [
        ("cuda.minimum-driver", {"driver": "560.35.05", "cuda": "12.8.1"}),
        ("driver.support", {"driver": "560.35.05"}),
    ],
    "vLLM 0.8.6 does not exist": [("vllm.released", {"vllm": "0.8.6"})],
    "Ray 2.40 is too old for any vLLM 0.8": [("vllm.ray", {"vllm": "0.8.6", "ray": "2.40.0"})],
    "there is no torch 2.6 for CUDA 12.8": [
        ("torch.cuda-build", {"torch": "2.6.0", "torch_cuda": "12.8"})
    ],
    "driver 560 does not know a B200": [
        ("gpu.minimum-driver", {"driver": "560.35.05", "gpu": "b200"})
    ],
    "Ubuntu 22.04 has no Python 3.12": [
        ("os.native-python", {"os": "ubuntu-22.04", "python": "3.12"})
    ],
    "Slurm 24.11 has ended and has open advisories": [
        ("slurm.support", {"slurm": "24.11.6"}),
        ("slurm.advisories-2026", {"slurm": "24.11.6"}),
    ],
    "vLLM refuses a newer OpenTelemetry": [
        ("vllm.otel", {"vllm": "0.8.6", "engine_otel": "1.30.0"})
    ],
    "NCCL_IB_TIMEOUT does nothing on EFA": [("nccl.ib-timeout-on-efa", {"nccl_ib_timeout": "22"})],
    "a fabric manager pinned by a star": [("pins.exact", {"fabricmanager": "560.*"})],
}


def test_the_tutorial_is_refused_with_every_contradiction_and_no_other() -> None:
    assert len(CONTRADICTIONS) == 10
    found = {(clash.rule, tuple(clash.pins.items())) for clash in check(get("tutorial"), NOW)}
    expected = {
        (id_, tuple(pins.items())) for rows in CONTRADICTIONS.values() for id_, pins in rows
    }
    assert found == expected


def test_the_tutorials_way_out_is_its_coherent_twin() -> None:
    near = nearest(get("tutorial"), NOW)
    assert near is not None
    assert near.name == "tutorial-coherent"


def test_every_clash_says_why_and_what_to_do() -> None:
    for clash in check(get("tutorial"), NOW):
        assert clash.message
        assert clash.fix
        assert clash.source.title
        assert all(value in clash.message for value in clash.pins.values()), clash


def test_every_rule_has_a_change_that_breaks_it() -> None:
    judged = {rule.id for rule in rules() if rule.kind != "upgrade-span"}
    assert {row[0] for row in FAILURES} == judged


@pytest.mark.parametrize(
    ("rule", "name", "pins", "targets"), FAILURES, ids=[x[0] for x in FAILURES]
)
def test_every_rule_can_fail(
    rule: str, name: str, pins: dict[str, str], targets: dict[str, tuple[str, ...]]
) -> None:
    day = date(2027, 6, 30) if rule == "os.support" else NOW
    clashes = [x for x in check(changed(name, pins, targets), day) if x.rule == rule]
    assert clashes
    assert all(clash.level == "error" for clash in clashes)
    assert "{" not in clashes[0].message + clashes[0].fix


def test_support_that_is_about_to_end_is_a_warning_and_then_a_clash() -> None:
    pinned = changed("current", {"slurm": "25.11.8"})
    by_day = {
        day: [x.level for x in check(pinned, day) if x.rule == "slurm.support"]
        for day in (date(2027, 3, 1), date(2027, 3, 3), date(2027, 5, 31), date(2027, 6, 1))
    }
    assert list(by_day.values()) == [[], ["warning"], ["warning"], ["error"]]
    assert is_coherent(check(pinned, date(2027, 3, 3)))


def test_a_distribution_may_support_longer_than_upstream() -> None:
    found = check(changed("current", {"slurm": "24.11.5-4+deb13u1"}), NOW)
    assert [x for x in found if x.rule.startswith("slurm.")] == []


def test_a_version_newer_than_the_data_is_a_warning() -> None:
    (found,) = [
        x for x in check(changed("current", {"ray": "2.99.0"}), NOW) if x.rule == "ray.released"
    ]
    assert found.level == "warning"
    assert "newer than what was known" in found.message


def test_a_target_counts_if_it_is_one_of_several() -> None:
    pins = {"nccl_ib_timeout": "22"}
    clashes = check(changed("current", pins, {"fabric": ("infiniband",)}), NOW)
    assert clashes == []
    assert check(changed("current", pins, {"fabric": ("infiniband", "efa")}), NOW)


def test_pins_that_a_set_leaves_out_clash_with_nothing() -> None:
    assert check(StackSet("few", "", {"driver": "580.126.20"}), NOW) == []


def test_a_change_of_slurm_goes_no_further_than_its_window() -> None:
    def to(old: str, new: str) -> list[str]:
        clashes = check_change(
            changed("current", {"slurm": old}), changed("current", {"slurm": new})
        )
        return [x.message for x in clashes]

    assert to("24.11.5-4+deb13u1", "25.11.8") == []
    (message,) = to("23.11.10", "25.11.8")
    assert "24.05, 24.11, 25.05, 25.11" in message
    assert to("25.11.8", "24.11.6")


@given(st.sampled_from(names()), st.sampled_from(names()))
def test_only_the_same_pins_are_at_no_distance(first: str, second: str) -> None:
    far = distance(get(first), get(second))
    assert (far == 0) == (first == second)
    assert (differences(get(first), get(second)) == []) == (first == second)


def test_a_step_within_a_series_is_nearer_than_one_out_of_it() -> None:
    base = get("cuda128")
    near = distance(base, changed("cuda128", {"vllm": "0.11.2"}))
    far = distance(base, changed("cuda128", {"vllm": "0.12.0"}))
    assert 0 < near < far
    assert distance(base, replace(base, pins={**base.pins, "nccl_ib_timeout": "22"})) == 0


def test_weights_are_one_to_ten() -> None:
    assert all(1 <= x.weight <= 10 for x in universe().components.values())
