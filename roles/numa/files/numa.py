#!/usr/bin/python3
"""Written by gpufleet; changes are lost. Interrupts near their devices, and cores for GPUs.

`numa apply` moves interrupts and writes which cores are kept; `numa check [acs]` says what is not
as it should be, a line each, and changes nothing. GPUFLEET_ROOT is another root, for tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("GPUFLEET_ROOT", "/"))
DEVICES = ROOT / "sys/bus/pci/devices"
NODES = ROOT / "sys/devices/system/node"
IRQS = ROOT / "proc/irq"
KEPT = ROOT / "run/gpufleet/gpu-cpus.json"

ACS = 0x0D
REDIRECT = 0x04 | 0x08 | 0x10
"""Bits of the ACS control register that send peer traffic upstream: requests, completions, all."""
EXTENDED, LAST = 0x100, 0x1000


def read(path: Path) -> str:
    """Text of a file of the kernel's, empty where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def cpus(text: str) -> list[int]:
    """Processors of a list such as `0-3,8`."""
    found: list[int] = []
    for part in text.split(","):
        if part:
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found


def nodes() -> dict[int, list[int]]:
    """Processors by NUMA node."""
    return {int(x.name[4:]): cpus(read(x / "cpulist")) for x in NODES.glob("node[0-9]*")}


def siblings(cpu: int) -> list[int]:
    """Threads of a processor's core."""
    path = ROOT / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return cpus(read(path)) or [cpu]


def node_of(address: str) -> int:
    """NUMA node of a PCI device; -1 where the firmware does not tell."""
    return int(read(DEVICES / address / "numa_node") or -1)


def short(bus: str) -> str:
    """A bus id as the kernel writes it: `00000000:1B:00.0` is `0000:1b:00.0`."""
    domain, rest = bus.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def kept(config: dict[str, Any]) -> dict[str, list[int]]:
    """Cores of every GPU, all threads of them: the last ones of its node, one GPU after another.

    The first ones are where the kernel and other services begin.
    """
    left: dict[int, list[list[int]]] = {}
    for node, members in nodes().items():
        cores = {tuple(siblings(cpu)) for cpu in members}
        left[node] = [list(core) for core in sorted(cores)]
    found: dict[str, list[int]] = {}
    for bus in sorted(config["gpus"], key=short):
        node = node_of(short(bus))
        # Without a node of its own it takes from the one that has most left.
        pool = left.get(node) or max(left.values(), key=len)
        taken = [pool.pop() for _ in range(min(config["cores_per_gpu"], len(pool)))]
        found[bus] = sorted(cpu for core in taken for cpu in core)
    return found


def wanted(config: dict[str, Any]) -> dict[int, list[int]]:
    """Interrupt to the processors that may serve it."""
    taken = {cpu for own in kept(config).values() for cpu in own}
    by_node = nodes()
    every = sorted(cpu for members in by_node.values() for cpu in members)
    found: dict[int, list[int]] = {}
    for device in sorted(DEVICES.glob("*")):
        driver = (device / "driver").resolve().name
        if driver not in config["drivers"]:
            continue
        near = [x for x in by_node.get(node_of(device.name), every) if x not in taken]
        # One processor an interrupt, in turn: they are made for a queue each.
        for turn, number in enumerate(sorted(int(x.name) for x in device.glob("msi_irqs/*"))):
            found[number] = [near[turn % len(near)]] if near else every
    return found


def apply(config: dict[str, Any]) -> None:
    """Move interrupts and say which cores are kept."""
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    new = KEPT.with_suffix(".new")
    new.write_text(json.dumps(kept(config), indent=1, sort_keys=True) + "\n")
    new.rename(KEPT)
    for number, where in wanted(config).items():
        try:
            (IRQS / str(number) / "smp_affinity_list").write_text(",".join(map(str, where)))
        except OSError as error:
            # Some interrupts are the kernel's to place, which it answers with EIO or EPERM.
            sys.stdout.write(f"interrupt {number} stays where it is: {error.strerror}\n")


def misplaced(config: dict[str, Any]) -> list[str]:
    """Interrupts that are served elsewhere than they may be."""
    far = [
        number
        for number, where in wanted(config).items()
        if (now := cpus(read(IRQS / str(number) / "smp_affinity_list"))) and now != where
    ]
    return [f"interrupts {', '.join(map(str, far))} are not where they were put"] if far else []


def redirecting() -> list[str]:
    """Bridges whose ACS sends traffic between their devices up to the root."""
    found = []
    for device in sorted(DEVICES.glob("*")):
        if not read(device / "class").startswith("0x0604"):
            continue
        try:
            space = (device / "config").read_bytes()
        except OSError:
            continue
        at, seen = EXTENDED, set()
        while EXTENDED <= at <= min(len(space), LAST) - 8 and at not in seen:
            seen.add(at)
            header = int.from_bytes(space[at : at + 4], "little")
            if header & 0xFFFF == ACS:
                if int.from_bytes(space[at + 6 : at + 8], "little") & REDIRECT:
                    found.append(device.name)
                break
            at = header >> 20
    return found


def main(words: list[str]) -> int:
    """Run."""
    config = json.loads((ROOT / "etc/gpufleet/numa.json").read_text())
    if words == ["apply"]:
        apply(config)
        return 0
    if words and words[0] == "check":
        rows = misplaced(config)
        bridges = redirecting() if "acs" in words else []
        if bridges:
            rows.append(
                f"ACS is on in the bridges {', '.join(bridges)}: traffic between GPUs and network"
                " goes through the processor; switch it off in the firmware"
            )
        sys.stdout.write("".join(f"{row}\n" for row in rows))
        return 0
    sys.stderr.write("usage: numa apply | numa check [acs]\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
