"""One worker a GPU, by the GPU's UUID.

Numbers of GPUs differ between tools: the driver counts by bus, CUDA by speed unless told
otherwise, an inventory in the order it was written. Only the UUID names the same device in all.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
DEVICE_ORDER = "CUDA_DEVICE_ORDER"


class GpuLike(Protocol):
    """What identifies a GPU: `GPU-...` and its PCI bus id."""

    @property
    def uuid(self) -> str: ...
    @property
    def pci_bus_id(self) -> str: ...


class AssignmentError(ValueError):
    """GPUs and workers do not fit; `problems` says all that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def bus_order(pci_bus_id: str) -> tuple[int, ...]:
    """Sort key of a PCI bus id: its numbers, so that `0000:1b:00.0` equals `00000000:1B:00.0`.

    Raises ValueError for anything else than hexadecimal numbers with `:` and `.` between them.
    """
    if not re.fullmatch(r"(?:[0-9A-Fa-f]+:)?[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-7]", pci_bus_id):
        raise ValueError(f"{pci_bus_id!r} is no PCI bus id such as 00000000:1B:00.0")
    numbers = tuple(int(part, 16) for part in re.split(r"[:.]", pci_bus_id))
    return numbers if len(numbers) == 4 else (0, *numbers)


def environment(gpu: GpuLike) -> dict[str, str]:
    """Variables that show a process exactly this GPU.

    The order is set as well, so that indices seen inside the process follow the bus as those of
    the driver's tools do.
    """
    return {VISIBLE_DEVICES: gpu.uuid, DEVICE_ORDER: "PCI_BUS_ID"}


def labels(gpu: GpuLike) -> dict[str, str]:
    """Labels of a GPU's metrics: none of them changes with the order of enumeration."""
    domain, bus, device, function = bus_order(gpu.pci_bus_id)
    return {"gpu_uuid": gpu.uuid, "pci_bus_id": f"{domain:08X}:{bus:02X}:{device:02X}.{function}"}


def _duplicates(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _check(gpus: Sequence[GpuLike], workers: Sequence[str]) -> None:
    problems = [f"UUID {uuid} stands twice" for uuid in _duplicates([gpu.uuid for gpu in gpus])]
    problems += [f"worker {name} stands twice" for name in _duplicates(workers)]
    problems += [
        f"{gpu.uuid!r} is no UUID of a GPU (expected GPU-...)"
        for gpu in gpus
        if not re.fullmatch(r"GPU-[0-9A-Fa-f-]{36}", gpu.uuid)
    ]
    if len(workers) > len(gpus):
        problems.append(f"{len(workers)} workers for {len(gpus)} GPUs; at most one worker a GPU")
    if problems:
        raise AssignmentError(problems)


def assign(
    gpus: Sequence[GpuLike],
    workers: Sequence[str],
    previous: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, dict[str, str]]:
    """The environment of each worker: one GPU each, no GPU twice.

    Workers take the GPUs in the order of their PCI bus ids, whatever the order of `gpus`.
    A worker of `previous` (an earlier result) keeps its GPU as long as that is there, so a lost
    GPU moves nobody else. Raises AssignmentError when there are more workers than GPUs, or names
    or UUIDs that stand twice.
    """
    _check(gpus, workers)
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    chosen: dict[str, GpuLike] = {}
    for worker in workers:
        kept = by_uuid.get((previous or {}).get(worker, {}).get(VISIBLE_DEVICES, ""))
        if kept is not None and kept not in chosen.values():
            chosen[worker] = kept
    taken = {gpu.uuid for gpu in chosen.values()}
    free = iter(
        sorted(
            (gpu for gpu in gpus if gpu.uuid not in taken),
            key=lambda gpu: (bus_order(gpu.pci_bus_id), gpu.uuid),
        )
    )
    for worker in workers:
        if worker not in chosen:
            chosen[worker] = next(free)
    return {worker: environment(chosen[worker]) for worker in workers}
