"""The solver's answer is the newest one there is, and its refusal is minimal."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.stack import (
    BadWant,
    StackSet,
    Unsolvable,
    check,
    get,
    is_coherent,
    names,
    parse_want,
    rules,
    solve,
)
from gpufleet.stack.rules import read_rules
from gpufleet.stack.solve import newness
from gpufleet.stack.universe import Universe, read_universe

NOW = date(2026, 12, 1)
SHAPES = [name for name in names() if name != "tutorial"]
SOURCE = {"source": {"title": "t", "url": ""}, "date": NOW}


def answer(like: str, *wants: str) -> StackSet:
    base = get(like)
    return solve(base, [parse_want(x, base) for x in wants], NOW).found


@pytest.mark.parametrize("like", SHAPES)
def test_without_wants_the_newest_set_goes_together_and_is_no_older_than_the_shipped_one(
    like: str,
) -> None:
    found = answer(like)
    assert check(found, NOW) == []
    assert newness(found) <= newness(get(like))


# Not those of a target: fewer targets are less to meet.
WANTS = """
    driver=580 driver=595 python=3.12 slurm=24.11 slurm=25.11 vllm>=0.11 vllm=0.8 vllm<0.20
    torch_cuda=12.8 cuda=12 os=debian-13 torch!=2.14.0 ray>=2.46,<2.50
    efa_installer=1.43.2 dcgm=4.4
""".split()  # noqa: SIM905  a table


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(WANTS), max_size=3, unique=True), st.sampled_from(WANTS))
def test_a_solution_meets_its_wants_and_one_want_more_never_makes_it_newer(
    some: list[str], more: str
) -> None:
    base = get("current")
    try:
        first = answer("current", *some)
    except Unsolvable:
        with pytest.raises(Unsolvable):
            answer("current", *some, more)
        return
    assert is_coherent(check(first, NOW))
    for text in some:
        want = parse_want(text, base)
        assert want.range.allows(first.pins[want.pin])
    try:
        second = answer("current", *some, more)
    except Unsolvable:
        return
    assert newness(second) >= newness(first)


def test_the_same_question_has_the_same_answer() -> None:
    assert answer("current", "driver=580") == answer("current", "driver=580")


def test_a_branch_of_the_driver_moves_all_that_is_in_lock_step() -> None:
    pins = answer("current", "driver=580", "python=3.12").pins
    assert pins["driver"].startswith("580.")
    assert pins["driver"] == pins["fabricmanager"] == pins["nscq"] == pins["imex"]
    assert pins["python"] == "3.12"


def test_slurm_24_11_is_debians_mended_one() -> None:
    assert answer("current", "slurm=24.11").pins["slurm"] == "24.11.5-4+deb13u1"


def test_settings_stay_as_they_are() -> None:
    base = get("current")
    pinned = replace(
        base, pins={**base.pins, "nccl_ib_timeout": "22"}, targets={"fabric": ("infiniband",)}
    )
    assert solve(pinned, [], NOW).found.pins["nccl_ib_timeout"] == "22"


@pytest.mark.parametrize(
    ("wants", "rules_named"),
    [
        (["driver=560"], {"driver.support"}),
        (["nccl=2.21.5", "vllm>=0.11"], {"vllm.torch", "torch.nccl"}),
        (["slurm=23.11"], {"slurm.advisories-2026"}),
        (["gpu=b200", "torch=2.6"], {"gpu.minimum-torch-cuda", "torch.cuda-build"}),
    ],
)
def test_a_refusal_names_wants_and_rules_of_which_none_can_be_spared(
    wants: list[str], rules_named: set[str]
) -> None:
    base = get("current")
    with pytest.raises(Unsolvable) as caught:
        answer("current", *wants)
    reason = caught.value
    assert {rule.id for rule in reason.rules} == rules_named
    for spared in reason.rules:
        solve(base, reason.wants, NOW, by=[x for x in reason.rules if x is not spared])
    for want in reason.wants:
        solve(base, [x for x in reason.wants if x is not want], NOW, by=reason.rules)
    # What is not named does not matter: with all the rest it is no better.
    with pytest.raises(Unsolvable):
        solve(base, reason.wants, NOW, by=rules())


@pytest.mark.parametrize(
    ("want", "note"),
    [
        ("slurm=26.05", "security fixes of September 2026"),
        ("python=3.14", "wheels for it were not checked"),
        ("etcd=2", "the newest known are 3.5.16"),
    ],
)
def test_a_want_that_leaves_nothing_says_why(want: str, note: str) -> None:
    with pytest.raises(Unsolvable, match=note):
        answer("current", want)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("driver", "is not a want"),
        ("drivr=580", "did you mean driver"),
        ("driver>=latest", "not a whole version"),
        ("vllm_cpu=0.32", "have no vllm_cpu"),
        ("os>=debian-12", "no order"),
    ],
)
def test_what_is_no_want_is_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(BadWant, match=said):
        parse_want(text, get("current"))


# Small worlds of three components with random requirements, against trying everything.
NAMES = ("a", "b", "c")
VERSIONS = ("1", "2", "3")
RANGES = st.sampled_from([">=1", ">=2", "<3", "==2", "!=2", "<2"])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Universe, list[dict[str, Any]]]:
    components = {}
    for name in NAMES:
        versions = []
        for version in VERSIONS:
            others = draw(st.lists(st.sampled_from([x for x in NAMES if x != name]), unique=True))
            requires = {other: draw(RANGES) for other in others}
            versions.append({"version": version, "requires": requires})
        components[name] = {
            "title": name,
            "scheme": "dotted",
            "weight": 1,
            "versions": versions,
            **SOURCE,
        }
    rows = [
        {"id": f"{x}.{y}", "kind": "exact-requirement", "pin": x, "of": y, "explanation": "e",
         "message": "m", "fix": "f", **SOURCE}
        for x in NAMES for y in NAMES if x != y
    ]  # fmt: skip
    return read_universe({"components": components}), rows


@settings(max_examples=150, deadline=None)
@given(worlds(), st.dictionaries(st.sampled_from(NAMES), RANGES))
def test_the_solver_finds_what_trying_everything_finds(
    world: tuple[Universe, list[dict[str, Any]]], wanted: Mapping[str, str]
) -> None:
    known, rows = world
    judged = read_rules(rows, known)
    like = StackSet("like", "", dict.fromkeys(NAMES, "1"))
    wants = [parse_want(name + text, like, known) for name, text in wanted.items()]
    newest_first = sorted(product(VERSIONS, repeat=3), reverse=True)
    candidates = [StackSet("x", "", dict(zip(NAMES, row, strict=True))) for row in newest_first]
    fitting = [
        x
        for x in candidates
        if all(want.range.allows(x.pins[want.pin]) for want in wants)
        and not check(x, NOW, by=judged, known=known)
    ]
    if not fitting:
        with pytest.raises(Unsolvable):
            solve(like, wants, NOW, by=judged, known=known)
        return
    assert solve(like, wants, NOW, by=judged, known=known).found.pins == fitting[0].pins
