"""A run on some of the nodes writes what a run on all of them writes, or nothing."""

import hashlib
import json
from typing import Any

import pytest
import rolefleet
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

CONF = "/etc/slurm/slurm.conf"
FACTS = {key: value for key, value in rolefleet.FACTS.items() if key != "slurm_nodes"}


def digests(box: NodeBox) -> dict[str, str]:
    names = ("slurm.conf", "gres.conf", "cgroup.conf")
    return {x: hashlib.sha256(box.read(f"/etc/slurm/{x}").encode()).hexdigest() for x in names}


def said(done: Any) -> str:
    return " ".join(done.stdout.split())


def test_c38_every_limit_gives_the_same_files(box: NodeBox, laid: rolefleet.RoleFleet) -> None:
    """On a node and on the controller, whose files come from a run on it alone."""
    Systemctl(box, strict=False)
    roles = RoleRun(box, rolefleet.contract())
    done = roles.play([("slurm", "configure")], "--limit", "infer-001", node=FACTS)
    assert done.returncode == 0, done.stdout
    assert digests(box) == digests(laid.box)
    assert "NodeName=infer-[001-002],train-001 " in box.read(CONF)


def test_c38_a_node_that_cannot_be_reached_stays_in_the_file(box: NodeBox) -> None:
    Systemctl(box, strict=False)
    roles = RoleRun(box, rolefleet.contract())
    folder = roles.inventory / "host_vars"
    folder.mkdir()
    (folder / "infer-002.json").write_text(
        json.dumps({"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1})
    )
    done = roles.play([("slurm", "configure")], "--limit", "infer-001,infer-002", node=FACTS)
    assert "infer-002" in done.stdout
    assert "unreachable=1" in done.stdout
    assert "NodeName=infer-[001-002],train-001 " in box.read(CONF)


@pytest.fixture
def before(box: NodeBox) -> RoleRun:
    """A controller whose configuration has a node that the contract has no longer."""
    box.write(CONF, "# kept\nNodeName=infer-[001-003],train-001 CPUs=2\nNodeName=DEFAULT CPUs=1\n")
    return RoleRun(box, rolefleet.contract())


STEPS = [("slurm", "preflight"), ("slurm", "configure")]


def test_c38_a_node_that_vanished_ends_the_run_and_the_file_stays(before: RoleRun) -> None:
    systemd = Systemctl(before.box, strict=False)
    text = before.box.read(CONF)
    done = before.play(STEPS, "--limit", "infer-001", node=FACTS)
    assert done.returncode != 0
    assert "slurm.conf on infer-001 has infer-003, the inventory has not" in said(done)
    assert """-e '{"slurm_remove_nodes": ["infer-003"]}'""" in said(done)
    assert (before.box.read(CONF), systemd.calls()) == (text, [])


def test_c38_named_it_may_go(before: RoleRun) -> None:
    Systemctl(before.box, strict=False)
    leaving = json.dumps({"slurm_remove_nodes": ["infer-003"]})
    done = before.play(STEPS, "--limit", "infer-001", "-e", leaving, node=FACTS)
    assert done.returncode == 0, done.stdout
    assert "infer-003" not in before.box.read(CONF)
    assert "NodeName=infer-[001-002],train-001 " in before.box.read(CONF)


def test_c38_a_host_without_declared_data_stops_the_run_before_anything_is_written(
    before: RoleRun,
) -> None:
    text = before.box.read(CONF)
    (before.inventory / "hosts.yml").write_text("slurm_compute: {hosts: {gpu-009: {}}}\n")
    done = before.play([("slurm", "configure")], "--limit", "infer-001", node=FACTS)
    assert done.returncode != 0
    assert "gpu-009: no ansible_host, gpufleet_vcpus" in said(done)
    assert "nothing is written" in said(done)
    assert before.box.read(CONF) == text
