"""A clock that is off looks like a fault of Slurm's: one service keeps it."""

from typing import Any

import aptbox
import pytest
import rolefleet
from aptbox import package
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl


def preflight(box: NodeBox, seconds: float, within: float = 0.1) -> Any:
    facts = {**rolefleet.FACTS, "clock_offset": {"seconds": seconds, "within": within}}
    return RoleRun(box, rolefleet.contract("infer-001")).play([("base", "preflight")], node=facts)


def test_c41_a_host_that_is_minutes_off_ends_the_run(box: NodeBox) -> None:
    seconds = -420.0
    done = preflight(box, seconds)
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert f"the clock of infer-001 is {seconds} s off (allowed 60)" in said
    assert "it is not synchronised" in said


@pytest.mark.parametrize(
    ("seconds", "within", "warned"),
    [(0.1, 0.1, False), (5.0, 4.8, False), (61.0, 2.0, True)],
)
def test_c41_below_that_there_is_a_band_of_warnings(
    box: NodeBox, seconds: float, within: float, warned: bool
) -> None:
    """The offset less what the way there and back leaves unsure."""
    done = preflight(box, seconds, within)
    assert done.returncode == 0
    assert ("WARNING: the clock of infer-001" in done.stdout) is warned


def chrony(box: NodeBox, provider: str) -> list[str]:
    nodes = rolefleet.contract("train-001", "infer-001")["nodes"]
    fleet = {**rolefleet.contract("train-001"), "nodes": nodes, "provider": provider}
    roles = RoleRun(box, fleet)
    Systemctl(box, strict=False)
    done = roles.play([("base", "configure")], "--limit", "infer-001", node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    return box.read("/etc/chrony/chrony.conf").splitlines()


def test_c41_in_ec2_time_comes_from_the_hypervisor(box: NodeBox) -> None:
    rows = chrony(box, "aws")
    sources = [row for row in rows if row.startswith(("server", "pool", "peer"))]
    assert sources == ["server 169.254.169.123 iburst"]
    assert "rtcsync" in rows


def test_c41_without_a_way_out_nodes_keep_to_the_controller(box: NodeBox) -> None:
    rows = chrony(box, "local")
    assert f"server {rolefleet.NETWORK}.2 iburst minpoll 4" in rows
    assert "local stratum 8" not in rows


def test_c41_one_time_service_comes_and_its_rivals_go(box: NodeBox) -> None:
    """What the role asks of the package module, told by the packages that are there."""
    aptbox.bare(box)
    rivals = [package(name, "1") for name in ("ntp", "ntpsec", "openntpd")]
    wanted = [package(name, "99") for name in ("chrony", "jq", "rsync", "python3-apt")]
    aptbox.source(box, aptbox.publish(box, [*rivals, *wanted]))
    for name in ("ntp", "openntpd"):
        assert box.module("packages", packages={name: "1"})["changed"]
    roles = RoleRun(box, rolefleet.contract("infer-001"), base_packages=["chrony", "jq"])
    roles.box.run("dpkg", "--force-all", "--purge", "systemd-timesyncd")
    done = roles.play([("base", "install")], node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    rows = box.run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n").stdout
    there = {row.split()[0] for row in rows.splitlines() if row.endswith(" installed")}
    assert "chrony" in there
    assert not there & {"ntp", "ntpsec", "openntpd", "systemd-timesyncd"}


def test_c41_a_service_that_does_not_keep_the_clock_is_said(box: NodeBox) -> None:
    roles = RoleRun(box, rolefleet.contract("infer-001"))
    for state, said in (("Normal", False), ("Not synchronised", True)):
        box.stub("chronyc", f"echo 'Leap status     : {state}'")
        # A dry run does not wait for it to become well.
        done = roles.play([("base", "verify")], "--check", node=rolefleet.FACTS)
        assert ("time is synchronised: `chronyc" in done.stderr + done.stdout) is said
        assert box.calls() == ["chronyc -n tracking"]
