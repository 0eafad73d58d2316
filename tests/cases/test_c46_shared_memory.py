"""Docker's 64 MB of shared memory break engines that span GPUs."""

import json

import contracts
import pytest
import rolefleet
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl


def gibibytes(box: NodeBox) -> int:
    text = json.loads(box.read("/etc/docker/daemon.json"))["default-shm-size"]
    assert text.endswith("g")
    return int(text[:-1])


def test_c46_a_container_has_a_gibibyte_for_each_gpu(laid: rolefleet.RoleFleet) -> None:
    assert gibibytes(laid.box) == 2


@pytest.mark.parametrize(("gpus", "size"), [(0, 1)])
def test_c46_it_follows_the_nodes_own_gpus(box: NodeBox, gpus: int, size: int) -> None:
    Systemctl(box, strict=False)
    fleet = contracts.contract(contracts.node("infer-001", 2, gpus))
    done = RoleRun(box, fleet).play([("container", "configure")], node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    assert gibibytes(box) == size
