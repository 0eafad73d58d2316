"""The keys of the description's sections: one row a key, with how its value is read and written.

`sim/nvml/conf_keys.c` holds the same table for the C library; a test reads both.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gpufleet.simgpu.model import Process

MAX_MIB = 1 << 24
MAX_COUNT = 2**31 - 1
MAX_CPUS = 1024
MAX_NVLINKS = 36
MAX_GPUS = 64
MAX_SWITCHES = 16
MAX_XIDS = 32
MAX_PROCESSES = 64
MAX_TEXT = {"name": 95, "serial": 29, "vbios": 31, "node": 63, "driver": 79, "nvml": 79}
"""Characters a text value may have: sizes of NVML's own buffers."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section. `read` raises ValueError with what is allowed."""

    name: str
    attribute: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    most: int = 1
    """How often the key may stand in a section; above 1 its attribute is a tuple."""


def text(name: str, attribute: str | None = None) -> Key:
    limit = MAX_TEXT[name]

    def read(value: str) -> str:
        if not 1 <= len(value.encode()) <= limit or not value.isprintable():
            raise ValueError(f"1 to {limit} characters")
        if name == "name" and "simulated" not in value:
            raise ValueError("a product name that contains the word simulated")
        return value

    return Key(name, attribute or name, read, str)


def pattern(name: str, expression: str, allowed: str) -> Key:
    compiled = re.compile(expression, re.ASCII)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(allowed)
        return value

    return Key(name, name, read, str)


def number(name: str, limit: int, attribute: str | None = None) -> Key:
    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", value) or int(value) > limit:
            raise ValueError(f"a whole number from 0 to {limit}")
        return int(value)

    return Key(name, attribute or name, read, str)


def hexadecimal(name: str) -> Key:
    def read(value: str) -> int:
        if not re.fullmatch(r"0x[0-9A-Fa-f]{1,8}", value):
            raise ValueError("a hexadecimal number such as 0x233510DE")
        return int(value, 16)

    return Key(name, name, read, lambda value: f"0x{value:08X}")


def watts(name: str, attribute: str) -> Key:
    def read(value: str) -> int:
        found = re.fullmatch(r"([0-9]{1,5})(?:\.([0-9]{1,3}))?", value)
        if not found or int(found[1]) > 10_000:
            raise ValueError("watts up to 10000 with at most three decimals, such as 76.5")
        return int(found[1]) * 1000 + int((found[2] or "0").ljust(3, "0"))

    def write(value: int) -> str:
        whole, fraction = divmod(value, 1000)
        return f"{whole}.{fraction:03}".rstrip("0").rstrip(".") if fraction else str(whole)

    return Key(name, attribute, read, write)


def switch(name: str) -> Key:
    def read(value: str) -> bool:
        if value not in ("on", "off"):
            raise ValueError("on or off")
        return value == "on"

    return Key(name, name, read, lambda value: "on" if value else "off")


def choice(name: str, *allowed: str) -> Key:
    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return value

    return Key(name, name, read, str)


def reasons(name: str, *allowed: str) -> Key:
    def read(value: str) -> tuple[str, ...]:
        given = value.split(",")
        if not set(given) <= {*allowed, "none"}:
            raise ValueError("none, or a list of " + ", ".join(allowed))
        return tuple(reason for reason in allowed if reason in given)

    return Key(name, name, read, lambda value: ",".join(value) or "none")


def read_set(value: str, size: int) -> tuple[int, ...]:
    """Numbers of a list such as `0-3,8`; all below `size`. Raises ValueError."""
    allowed = f"numbers and ranges below {size} such as 0-3,8"
    members: set[int] = set()
    for part in value.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if not found:
            raise ValueError(allowed)
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last or last >= size:
            raise ValueError(allowed)
        members.update(range(first, last + 1))
    return tuple(sorted(members))


def write_set(members: Iterable[int]) -> str:
    """The shortest list of ranges that `read_set` reads back."""
    ranges: list[list[int]] = []
    for member in sorted(set(members)):
        if ranges and member == ranges[-1][1] + 1:
            ranges[-1][1] = member
        else:
            ranges.append([member, member])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def numbers(name: str, size: int) -> Key:
    return Key(name, name, lambda value: read_set(value, size), write_set)


def read_bus_id(value: str) -> str:
    """`BUS:DEVICE.0` or `DOMAIN:BUS:DEVICE.0` in its canonical form. Raises ValueError."""
    found = re.fullmatch(r"(?:([0-9A-Fa-f]{1,8}):)?([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,8})\.0", value)
    if not found or int(found[2], 16) > 0xFF or int(found[3], 16) > 0x1F:
        raise ValueError("a PCI bus id such as 00000000:1B:00.0")
    return f"{int(found[1] or '0', 16):08X}:{int(found[2], 16):02X}:{int(found[3], 16):02X}.0"


BUS_ID = Key("pci_bus_id", "pci_bus_id", read_bus_id, str)


def _read_xid(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", value) or not 1 <= int(value) <= 999:
        raise ValueError("an Xid number such as 79")
    return int(value)


def _read_process(value: str) -> Process:
    found = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", value)
    if not found or not 1 <= int(found[1]) <= MAX_COUNT or int(found[2]) > MAX_MIB:
        raise ValueError("PID:MEMORY_MIB such as 4242:1024")
    return Process(int(found[1]), int(found[2]))


UUID = r"GPU-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

GPU_KEYS: tuple[Key, ...] = (
    text("name"),
    pattern("uuid", UUID, "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
    text("serial"),
    text("vbios"),
    BUS_ID,
    number("minor", 255),
    choice("architecture", "volta", "turing", "ampere", "ada", "hopper", "blackwell"),
    pattern("compute_capability", r"[0-9]{1,2}\.[0-9]", "MAJOR.MINOR such as 9.0"),
    hexadecimal("pci_device_id"),
    hexadecimal("pci_subsystem_id"),
    number("memory_mib", MAX_MIB),
    number("memory_reserved_mib", MAX_MIB),
    number("memory_used_mib", MAX_MIB),
    number("bar1_mib", MAX_MIB),
    number("memory_bus_bits", 65536),
    number("numa_node", 63),
    numbers("cpu_affinity", MAX_CPUS),
    number("pcie_gen", 7),
    number("pcie_gen_max", 7),
    number("pcie_width", 32),
    number("pcie_width_max", 32),
    number("pcie_tx_kbps", MAX_COUNT),
    number("pcie_rx_kbps", MAX_COUNT),
    number("pcie_replays", MAX_COUNT),
    number("nvlinks", MAX_NVLINKS),
    numbers("nvlinks_down", MAX_NVLINKS),
    choice("nvlink_version", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"),
    number("nvlink_mbps", MAX_COUNT),
    number("nvlink_tx_kib", (2**63 - 1) // (64 * 1024)),
    number("nvlink_rx_kib", (2**63 - 1) // (64 * 1024)),
    number("nvlink_crc_errors", MAX_COUNT),
    number("nvlink_replays", MAX_COUNT),
    number("utilization_gpu", 100),
    number("utilization_memory", 100),
    number("temperature", 200),
    number("memory_temperature", 200),
    watts("power_w", "power_mw"),
    watts("power_limit_w", "power_limit_mw"),
    watts("power_limit_min_w", "power_limit_min_mw"),
    watts("power_limit_max_w", "power_limit_max_mw"),
    number("sm_clock_mhz", 10_000),
    number("sm_clock_max_mhz", 10_000),
    number("memory_clock_mhz", 50_000),
    number("memory_clock_max_mhz", 50_000),
    number("video_clock_mhz", 10_000),
    number("video_clock_max_mhz", 10_000),
    number("performance_state", 15),
    switch("persistence"),
    choice("compute_mode", "default", "prohibited", "exclusive_process"),
    switch("ecc"),
    number("ecc_corrected", MAX_COUNT),
    number("ecc_uncorrectable", MAX_COUNT),
    number("ecc_corrected_aggregate", MAX_COUNT),
    number("ecc_uncorrectable_aggregate", MAX_COUNT),
    number("remapped_correctable", MAX_COUNT),
    number("remapped_uncorrectable", MAX_COUNT),
    switch("remap_pending"),
    switch("remap_failed"),
    choice("fault", "none", "lost", "hang"),
    reasons("throttle", "thermal", "power", "hw_slowdown"),
    Key("xid", "xids", _read_xid, str, MAX_XIDS),
    Key("process", "processes", _read_process, lambda p: f"{p.pid}:{p.memory_mib}", MAX_PROCESSES),
)

SYSTEM_KEYS: tuple[Key, ...] = (
    number("version", 2**32 - 1),
    number("gpus", MAX_GPUS, "gpu_count"),
    text("node"),
    text("driver", "driver_version"),
    text("nvml", "nvml_version"),
    Key(
        "cuda",
        "cuda_version",
        pattern("cuda", r"[0-9]{1,2}\.[0-9]", "MAJOR.MINOR such as 13.0").read,
        str,
    ),
    choice("fabric", "not_supported", "not_started", "in_progress", "completed"),
    number("fabric_clique", 2**32 - 1),
)

SWITCH_KEYS: tuple[Key, ...] = (BUS_ID,)

LINK_KEYS: tuple[Key, ...] = (
    choice("path", "internal", "single", "multiple", "hostbridge", "node", "system"),
    number("nvlinks", MAX_NVLINKS),
)
