"""Slurm's cgroup plugin needs what the node does not have."""

from typing import Any

import pytest
import rolefleet
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl


def run(box: NodeBox, mode: str, plugins: list[str], dbus: bool, **more: Any) -> Any:
    Systemctl(box, strict=False)
    facts = {
        **rolefleet.FACTS, "cgroup": {"mode": mode}, "slurm_plugins": plugins, "dbus": dbus,
    }  # fmt: skip
    roles = RoleRun(box, rolefleet.contract(), **more)
    steps = [("slurm", "preflight"), ("slurm", "configure")]
    return roles.play(steps, "--limit", "infer-001", node=facts)


def settings(text: str) -> dict[str, str]:
    rows = (row.split("=", 1) for row in text.splitlines() if "=" in row and row[0] != "#")
    return dict(rows)


def slurm(box: NodeBox) -> tuple[dict[str, str], dict[str, str]]:
    return settings(box.read("/etc/slurm/cgroup.conf")), settings(box.read("/etc/slurm/slurm.conf"))


@pytest.mark.parametrize(("plugins", "dbus"), [(["cgroup_v1"], True), (["cgroup_v2"], False)])
def test_c42_what_is_missing_is_said_with_a_way_out_and_nothing_is_laid(
    box: NodeBox, plugins: list[str], dbus: bool
) -> None:
    done = run(box, "v2", plugins, dbus)
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert f"D-Bus {'running' if dbus else 'not running'} and the plugins {plugins[0]}" in said
    assert "install dbus and a Slurm built with libdbus, or set slurm_cgroup" in said
    assert not box.exists("/etc/slurm/cgroup.conf")


def test_c42_with_all_of_it_jobs_are_held_to_their_devices(laid: rolefleet.RoleFleet) -> None:
    box = laid.box
    cgroup, conf = slurm(box)
    assert (cgroup["CgroupPlugin"], cgroup["ConstrainDevices"]) == ("cgroup/v2", "yes")
    assert conf["ProctrackType"] == "proctrack/cgroup"
    assert "task/cgroup" in conf["TaskPlugin"].split(",")
    assert conf["JobAcctGatherType"] == "jobacct_gather/cgroup"
    # Without it systemd takes slurmd's cgroups away from it.
    unit = box.read("/etc/systemd/system/slurmd.service.d/10-gpufleet.conf")
    assert "Delegate=yes" in unit.split("[Service]\n")[1].splitlines()


def test_c42_an_older_host_has_the_older_settings(box: NodeBox) -> None:
    assert run(box, "v1", ["cgroup_v1"], False).returncode == 0
    cgroup, conf = slurm(box)
    assert (cgroup["CgroupPlugin"], cgroup["ConstrainDevices"]) == ("cgroup/v1", "yes")
    assert conf["ProctrackType"] == "proctrack/cgroup"


def test_c42_with_both_versions_at_once_nothing_is_promised(box: NodeBox) -> None:
    """Slurm's plugin refuses such a host; ConstrainDevices without it would be a lie."""
    assert run(box, "hybrid", ["cgroup_v1", "cgroup_v2"], True).returncode == 0
    cgroup, conf = slurm(box)
    assert cgroup == {"CgroupPlugin": "disabled"}
    assert conf["ProctrackType"] == "proctrack/linuxproc"
    assert "cgroup" not in conf["TaskPlugin"] + conf["JobAcctGatherType"]
