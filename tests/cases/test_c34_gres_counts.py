"""Slurm.conf and gres.conf have to count the same GPUs, of the same types, on the same nodes."""

import re
from typing import Any

import contracts
import pytest
import rolefleet
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

from gpufleet.hostlist import expand


def mixed() -> dict[str, Any]:
    """Eight GPUs, four of another model, one alone, and none."""
    l4 = {"model": "NVIDIA L4 (simulated)", "link_class": "PCIe"}
    rows = [
        contracts.node("train-001", 2, 8), contracts.node("train-002", 3, 8),
        contracts.node("infer-001", 4)
        | {"gpus": [contracts.gpu("infer-001", number, **l4) for number in range(4)]},
        contracts.node("infer-002", 5) | {"gpus": [contracts.gpu("infer-002", 0, **l4)]},
        contracts.node("infer-003", 6, 0),
    ]  # fmt: skip
    return contracts.contract(*rows)


def rows(text: str) -> list[dict[str, str]]:
    found = [row for row in text.splitlines() if row.startswith("NodeName=")]
    return [dict(word.split("=", 1) for word in row.split()) for row in found]


def counts(text: str) -> dict[str, tuple[str, int]]:
    """Type and number of GPUs of each node in slurm.conf."""
    found = {}
    for row in rows(text):
        for name in expand(row["NodeName"]):
            assert name not in found, f"{name} stands twice"
            _, kind, number = row.get("Gres", "gpu::0").split(":")
            found[name] = (kind, int(number))
    return found


def devices(text: str) -> dict[str, tuple[str, int]]:
    """Type and number of device files of each node in gres.conf."""
    found = {}
    for row in rows(text):
        for name in expand(row["NodeName"]):
            assert name not in found, f"{name} stands twice"
            files = expand(row["File"].removeprefix("/dev/"))
            assert files == [f"nvidia{number}" for number in range(len(files))]
            assert row["Name"] == "gpu"
            found[name] = (row["Type"], len(files))
    return found


def test_c34_both_files_count_the_same(box: NodeBox) -> None:
    fleet = mixed()
    Systemctl(box, strict=False)
    done = RoleRun(box, fleet).play(
        [("slurm", "configure")], "--limit", "infer-003", node=rolefleet.FACTS
    )
    assert done.returncode == 0, done.stdout
    conf, gres = box.read("/etc/slurm/slurm.conf"), box.read("/etc/slurm/gres.conf")
    wanted = {node["name"]: len(node["gpus"]) for node in fleet["nodes"]}
    assert {name: number for name, (_, number) in counts(conf).items()} == wanted
    assert devices(gres) == {name: row for name, row in counts(conf).items() if row[1]}
    assert {kind for kind, number in counts(conf).values() if number} == {"h200", "l4"}
    assert "GresTypes=gpu" in conf.splitlines()
    # Files are named whatever is detected, so a Slurm without NVML has its GPUs.
    assert "AutoDetect=off" in gres.splitlines()
    members = re.findall(r"^PartitionName=\S+ Nodes=(\S+)", conf, re.MULTILINE)
    assert sorted(name for text in members for name in expand(text)) == sorted(wanted)


@pytest.mark.parametrize(
    ("plugins", "fine"),
    [(["cgroup_v1", "cgroup_v2"], False), (["cgroup_v2", "gpu_nvml"], True), ([], True)],
)
def test_c34_nvml_is_asked_for_only_where_slurm_has_it(
    box: NodeBox, plugins: list[str], fine: bool
) -> None:
    """An empty list: Slurm is not installed yet, so nothing is known."""
    roles = RoleRun(box, rolefleet.contract("infer-001"), slurm_autodetect="nvml")
    facts = {**rolefleet.FACTS, "slurm_plugins": plugins}
    done = roles.play([("slurm", "preflight")], node=facts)
    assert (done.returncode == 0) is fine
    if not fine:
        assert "Slurm on infer-001 was built without it: set it to `off`" in " ".join(
            done.stdout.split()
        )
