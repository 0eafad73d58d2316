"""Lines of slurm.conf, gres.conf and topology.conf from what is declared of the nodes. Pure.

Facts of the nodes play no part, so a run on some of them writes the same files as one on all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .groups import gpu_group
from .hostlist import compress, expand

NEEDED = (
    "ansible_host",
    "gpufleet_vcpus",
    "gpufleet_memory_mib",
    "gpufleet_gpus",
    "gpufleet_partition",
    "gpufleet_failure_domain",
)


class SlurmConfError(ValueError):
    """The declared nodes make no configuration; the text names nodes and variables."""


@dataclass(frozen=True, order=True)
class SlurmNode:
    """A node as Slurm plans with it: processors, memory in MiB, GPUs of one type."""

    name: str
    address: str
    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str
    partition: str
    domain: str


def declared(name: str, variables: Mapping[str, Any]) -> SlurmNode:
    """A node from its inventory variables; raises SlurmConfError with what is missing or mixed."""
    missing = [key for key in NEEDED if key not in variables]
    if missing:
        raise SlurmConfError(
            f"{name}: no {', '.join(missing)} in the inventory; nothing is written. "
            "The node is not in the fleet contract: run `gpufleet up`"
        )
    gpus = variables["gpufleet_gpus"]
    types = sorted({gpu_group(gpu["model"]).removeprefix("gpu_") for gpu in gpus})
    if len(types) > 1:
        raise SlurmConfError(f"{name}: GPUs of several types ({', '.join(types)}) in one node")
    if sorted(gpu["index"] for gpu in gpus) != list(range(len(gpus))):
        seen = ", ".join(str(gpu["index"]) for gpu in gpus)
        raise SlurmConfError(f"{name}: indices of its GPUs are {seen}, not 0 to {len(gpus) - 1}")
    return SlurmNode(
        name=name,
        address=str(variables["ansible_host"]),
        cpus=int(variables["gpufleet_vcpus"]),
        memory_mib=int(variables["gpufleet_memory_mib"]),
        gpus=len(gpus),
        gpu_type=types[0] if types else "",
        partition=str(variables["gpufleet_partition"]),
        domain=str(variables["gpufleet_failure_domain"]),
    )


def node_lines(nodes: Iterable[SlurmNode], share: float = 1.0) -> list[str]:
    """One `NodeName=` line a set of equal nodes; `share` of the memory is for jobs."""

    def shape(node: SlurmNode) -> tuple[int, int, int, str]:
        return node.cpus, node.memory_mib, node.gpus, node.gpu_type

    lines = []
    for (cpus, memory, gpus, kind), same in groupby(sorted(nodes, key=shape), shape):
        words = [
            f"NodeName={compress(node.name for node in same)}",
            f"CPUs={cpus}",
            f"RealMemory={int(memory * share)}",
        ]
        if gpus:
            words.append(f"Gres=gpu:{kind}:{gpus}")
        lines.append(" ".join([*words, "State=UNKNOWN"]))
    return lines


def gres_lines(nodes: Iterable[SlurmNode]) -> list[str]:
    """One `NodeName=` line a set of nodes with equal GPUs: as many device files as GPUs."""

    def shape(node: SlurmNode) -> tuple[int, str]:
        return node.gpus, node.gpu_type

    lines = []
    with_gpus = sorted((node for node in nodes if node.gpus), key=shape)
    for (gpus, kind), same in groupby(with_gpus, shape):
        names = compress(node.name for node in same)
        files = "/dev/nvidia0" if gpus == 1 else f"/dev/nvidia[0-{gpus - 1}]"
        lines.append(f"NodeName={names} Name=gpu Type={kind} File={files}")
    return lines


def partitions(nodes: Iterable[SlurmNode]) -> dict[str, str]:
    """Partition to its nodes as a host list; no node is in two."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(node.partition, []).append(node.name)
    return {name: compress(members) for name, members in sorted(found.items())}


def topology_lines(nodes: Iterable[SlurmNode]) -> list[str]:
    """A leaf switch a failure domain and one above them; nothing where that says nothing."""
    domains: dict[str, list[str]] = {}
    for node in nodes:
        domains.setdefault(node.domain, []).append(node.name)
    if not any(len(members) > 1 for members in domains.values()):
        return []
    rows = [
        f"SwitchName=leaf{number:03d} Nodes={compress(members)}"
        for number, (_, members) in enumerate(sorted(domains.items()))
    ]
    if len(rows) > 1:
        rows.append(f"SwitchName=top Switches=leaf[000-{len(rows) - 1:03d}]")
    return rows


def vanishing(
    present: Iterable[str], nodes: Iterable[SlurmNode], leaving: Iterable[str]
) -> list[str]:
    """Nodes that a configuration has (as host lists) and the declared ones lack, less `leaving`."""
    there = {name for text in present for name in expand(text) if name != "DEFAULT"}
    return sorted(there - {node.name for node in nodes} - set(leaving))
