"""From a node's identity and instance type to its simulated GPUs: pure and deterministic."""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpufleet.simgpu.keys import read_bus_id
from gpufleet.simgpu.model import GpuDescription, NodeDescription

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "simgpu.gpufleet")
"""Parent of the UUIDs of all simulated GPUs."""

_MODELS_FILE = Path(__file__).with_name("models.yaml")


class InstanceTypeLike(Protocol):
    """What of an instance type matters here; `gpufleet.catalog.InstanceType` is one."""

    @property
    def name(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def gpus(self) -> int: ...
    @property
    def gpu_model(self) -> str | None: ...
    @property
    def gpu_memory_mib(self) -> int | None: ...
    @property
    def nvlink(self) -> str | None: ...
    @property
    def numa_nodes(self) -> int: ...


class UnknownModelError(ValueError):
    """The instance type names a GPU that no row of models.yaml describes."""


@dataclass(frozen=True, slots=True)
class _Model:
    product: str
    pci_bus_ids: tuple[str, ...]
    switch_bus_ids: tuple[str, ...]
    gpu: Mapping[str, Any]
    nvlink: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Data:
    driver: Mapping[str, str]
    models: Mapping[str, _Model]


def _bus_ids(buses: Sequence[str]) -> tuple[str, ...]:
    return tuple(read_bus_id(f"{bus}:00.0") for bus in buses)


@cache
def _data() -> _Data:
    loaded = yaml.safe_load(_MODELS_FILE.read_text(encoding="utf-8"))
    models = {
        name: _Model(
            product=row["product"],
            pci_bus_ids=_bus_ids(row["pci_bus_ids"]),
            switch_bus_ids=_bus_ids(row["switch_bus_ids"]),
            gpu=row["gpu"],
            nvlink=row["nvlink"],
        )
        for name, row in loaded["models"].items()
    }
    return _Data(driver=loaded["driver"], models=models)


def gpu_uuid(cluster: str, node: str, index: int) -> str:
    """The identity of a simulated GPU: the same for the same place, different for any other."""
    return f"GPU-{uuid.uuid5(NAMESPACE, f'{cluster}/{node}/{index}')}"


def _serial(identity: str) -> str:
    """Twenty digits; real ones have thirteen, so the two cannot be taken for each other."""
    digest = hashlib.sha256(identity.encode()).digest()
    return f"99{int.from_bytes(digest[:8]) % 10**18:018}"


def _share(index: int, count: int, parts: int) -> int:
    """Which of `parts` equal runs item `index` of `count` falls in."""
    return index * parts // count


def _cpus_of(node: int, numa_nodes: int, vcpus: int) -> tuple[int, ...]:
    """CPUs of a NUMA node: equal runs of the instance's CPUs; all where they are too few."""
    first, end = node * vcpus // numa_nodes, (node + 1) * vcpus // numa_nodes
    return tuple(range(first, end)) or tuple(range(vcpus))


def _nvlinks(itype: InstanceTypeLike) -> int:
    if not itype.nvlink:
        return 0
    found = re.fullmatch(r"NV([0-9]+)", itype.nvlink)
    if not found:
        raise ValueError(
            f"{itype.name}: nvlink is {itype.nvlink!r}; expected NV and a number, such as NV18"
        )
    return int(found[1])


def describe(cluster: str, node: str, itype: InstanceTypeLike) -> NodeDescription:
    """The simulated GPUs of `node`, the same on every call.

    GPUs are spread evenly over the NUMA nodes and over the slots of the model's real board, so
    that two GPUs of an eight-GPU board sit in different halves of it. NVLinks lead to the
    board's NVSwitches. Raises UnknownModelError for a GPU model without a row, ValueError for an
    instance type with more GPUs than its board has slots or a malformed NVLink class.
    """
    data = _data()
    versions: dict[str, Any] = {
        "driver_version": data.driver["version"],
        "nvml_version": data.driver["nvml"],
        "cuda_version": data.driver["cuda"],
    }
    if itype.gpus == 0:
        return NodeDescription(node=node, **versions)
    model = data.models.get(itype.gpu_model or "")
    if model is None:
        known = ", ".join(sorted(data.models))
        raise UnknownModelError(
            f"{itype.name}: GPU model {itype.gpu_model!r} cannot be simulated; known: {known}"
        )
    slots = len(model.pci_bus_ids)
    if itype.gpus > slots or not itype.gpu_memory_mib:
        raise ValueError(
            f"{itype.name}: {itype.gpus} GPUs of {itype.gpu_memory_mib} MiB;"
            f" a board of {itype.gpu_model} holds at most {slots}, each with memory"
        )
    numa_nodes = max(1, itype.numa_nodes)
    nvlinks = _nvlinks(itype)
    gpus = []
    for index in range(itype.gpus):
        identity = gpu_uuid(cluster, node, index)
        numa_node = _share(index, itype.gpus, numa_nodes)
        gpus.append(
            GpuDescription(
                index=index,
                uuid=identity,
                serial=_serial(identity),
                name=f"{model.product} (simulated)",
                memory_mib=itype.gpu_memory_mib,
                pci_bus_id=model.pci_bus_ids[_share(index, itype.gpus, slots)],
                minor=index,
                numa_node=numa_node,
                cpu_affinity=_cpus_of(numa_node, numa_nodes, itype.vcpus),
                nvlinks=nvlinks,
                **(model.nvlink if nvlinks else {}),
                **model.gpu,
            )
        )
    return NodeDescription(
        node=node,
        gpus=tuple(gpus),
        switches=model.switch_bus_ids if nvlinks else (),
        fabric="completed" if nvlinks else "not_supported",
        **versions,
    )
