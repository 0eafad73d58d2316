"""Field case: Slurm upgraded in the wrong order, too far, or without a backup."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.stack import universe
from gpufleet.stack.slurm_upgrade import CannotUpgrade, Installed, Step, Target, plan, release

NODES = ("n-001", "n-002", "n-003")


def installed(dbd: str, ctld: str, slurmd: str) -> Installed:
    return Installed(dbd, ctld, dict.fromkeys(NODES, slurmd))


ALL_2205 = installed("22.05.8", "22.05.8", "22.05.8")


def actions(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.daemon, step.action) for step in steps]


def test_c43_controller_newer_than_the_database_daemon_is_refused_with_the_order() -> None:
    with pytest.raises(CannotUpgrade) as caught:
        plan(ALL_2205, Target("22.05.8", "23.02.7", "23.02.7"))
    (found,) = caught.value.refusals
    assert found.daemon == "slurmctld"
    assert "newer than slurmdbd 22.05.8" in found.message
    assert found.allowed.startswith("slurmdbd first, then slurmctld, then slurmd")


def test_c43_jump_of_four_releases_is_refused_with_the_allowed_span() -> None:
    with pytest.raises(CannotUpgrade) as caught:
        plan(ALL_2205, Target("24.11.5", "24.11.5", "24.11.5"))
    assert {x.daemon for x in caught.value.refusals} == {"slurmdbd", "slurmctld", "slurmd"}
    assert "from 23.02, 23.11, 24.05, 24.11 to 24.11" in str(caught.value)


def test_c43_right_pins_give_the_steps_in_order() -> None:
    steps = plan(ALL_2205, Target("23.02.7", "23.02.7", "23.02.7"), batch=2)
    assert actions(steps) == [
        ("slurmdbd", "back up the database"),
        ("slurmdbd", "test the backup"),
        ("slurmdbd", "stop"),
        ("slurmdbd", "install"),
        ("slurmdbd", "convert in the foreground"),
        ("slurmdbd", "start and wait until it answers"),
        ("slurmctld", "back up the state folder"),
        ("slurmctld", "stop"),
        ("slurmctld", "install"),
        ("slurmctld", "start and wait until it answers"),
        ("slurmd", "build SPANK plugins anew"),
        ("slurmd", "install and restart"),
        ("slurmd", "wait until nodes are back"),
        ("slurmd", "install and restart"),
        ("slurmd", "wait until nodes are back"),
    ]
    assert [x.nodes for x in steps if x.action == "install and restart"] == [NODES[:2], NODES[2:]]
    (convert,) = [x for x in steps if x.action == "convert in the foreground"]
    assert "without a start time-out" in convert.why


def test_c43_conversion_is_checked_first_where_the_daemon_can_do_that() -> None:
    old = installed("24.11.5", "24.11.5", "24.11.5")
    assert ("slurmdbd", "check the conversion") in actions(
        plan(old, Target("25.11.8", "25.11.8", "25.11.8"))
    )


def test_c43_maintenance_release_converts_nothing_but_is_backed_up() -> None:
    steps = actions(plan(installed("25.11.4", "25.11.4", "25.11.4"), Target(*["25.11.8"] * 3)))
    assert ("slurmdbd", "back up the database") in steps
    assert ("slurmdbd", "convert in the foreground") not in steps
    assert ("slurmd", "build SPANK plugins anew") not in steps


def test_c43_nothing_to_do_is_no_step() -> None:
    assert plan(installed(*["25.11.8"] * 3), Target(*["25.11.8"] * 3)) == []


def test_c43_step_back_is_refused() -> None:
    with pytest.raises(CannotUpgrade, match="cannot go back"):
        plan(installed(*["25.11.8"] * 3), Target(*["24.11.6"] * 3))


def test_c43_node_that_was_left_behind_too_far_is_named() -> None:
    old = Installed("24.11.5", "24.11.5", {"n-001": "24.11.5", "n-002": "23.02.7"})
    with pytest.raises(CannotUpgrade) as caught:
        plan(old, Target(*["25.11.8"] * 3))
    assert {x.daemon for x in caught.value.refusals} == {"slurmd"}


def test_c43_release_that_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(CannotUpgrade, match="nothing is known of release 31.05"):
        plan(ALL_2205, Target(*["31.05.1"] * 3))


@pytest.mark.parametrize("text", ["24", "x.y", ""])
def test_c43_what_is_no_slurm_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        plan(installed(text or "-", "24.11.5", "24.11.5"), Target(*["24.11.5"] * 3))


RELEASES = ["22.05.8", "23.02.7", "23.11.10", "24.05.8", "24.11.6", "25.05.9", "25.11.8", "26.05.1"]
version = st.sampled_from(RELEASES)


@settings(deadline=None)
@given(version, version, version, version, version, version)
def test_c43_at_no_moment_of_a_plan_is_a_daemon_newer_than_the_one_above_it(
    dbd: str, ctld: str, slurmd: str, new_dbd: str, new_ctld: str, new_slurmd: str
) -> None:
    if not release(dbd) >= release(ctld) >= release(slurmd):
        return
    try:
        steps = plan(installed(dbd, ctld, slurmd), Target(new_dbd, new_ctld, new_slurmd), batch=1)
    except CannotUpgrade:
        return
    now = {"slurmdbd": dbd, "slurmctld": ctld, **dict.fromkeys(NODES, slurmd)}
    saved = False
    for step in steps:
        saved = saved or step.action == "back up the database"
        if not step.action.startswith("install"):
            continue
        assert saved or step.daemon != "slurmdbd"
        for changed in step.nodes or (step.daemon,):
            now[changed] = step.version
        order = ["slurmdbd", "slurmctld", *NODES]
        for above, below in [("slurmdbd", "slurmctld")] + [("slurmctld", x) for x in order[2:]]:
            assert release(now[above]) >= release(now[below])
            window = universe()["slurm"].facts(now[above])["upgrade_from"]
            same = ".".join(now[above].split(".")[:2])
            assert ".".join(now[below].split(".")[:2]) in (*window, same)
    assert now == {"slurmdbd": new_dbd, "slurmctld": new_ctld, **dict.fromkeys(NODES, new_slurmd)}
