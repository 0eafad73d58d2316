"""What `nvidia-smi --query-gpu` can ask of a simulated GPU: field -> unit and reader."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pynvml as nvml

MIB = 1024 * 1024


class Gpu:
    """A GPU that answers; queries that the library lacks answer None."""

    def __init__(self, index: int, handle: object) -> None:
        self.index = index
        self.handle = handle

    def ask(self, function: str, *arguments: object) -> Any:
        try:
            return getattr(nvml, "nvmlDeviceGet" + function)(self.handle, *arguments)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            return None

    def memory(self) -> Any:
        return nvml.nvmlDeviceGetMemoryInfo(self.handle, version=nvml.nvmlMemory_v2)

    def field(self, number: int) -> int | None:
        value = nvml.nvmlDeviceGetFieldValues(self.handle, [number])[0]
        return value.value.uiVal if value.nvmlReturn == nvml.NVML_SUCCESS else None


def mode(value: int | None) -> str | None:
    return None if value is None else ("Enabled" if value else "Disabled")


def active(bit: int) -> Callable[[Gpu], str]:
    return lambda g: "Active" if g.ask("CurrentClocksEventReasons") & bit else "Not Active"


def watts(function: str) -> Callable[[Gpu], str | None]:
    def read(gpu: Gpu) -> str | None:
        value = gpu.ask(function)
        return None if value is None else f"{value / 1000:.2f}"

    return read


def ecc(kind: int, counter: int) -> Callable[[Gpu], object]:
    return lambda g: g.ask("TotalEccErrors", kind, counter)


def ecc_at(kind: int, counter: int, location: int) -> Callable[[Gpu], object]:
    return lambda g: g.ask("MemoryErrorCounter", kind, counter, location)


def clock(function: str, kind: int) -> Callable[[Gpu], object]:
    return lambda g: g.ask(function, kind)


def remapped(position: int, words: tuple[str, str] | None = None) -> Callable[[Gpu], object]:
    def read(gpu: Gpu) -> object:
        value = gpu.ask("RemappedRows")[position]
        return words[value] if words else value

    return read


def fabric_state(gpu: Gpu) -> str:
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(gpu.handle, nvml.byref(info))
    return ("N/A", "Not Started", "In Progress", "Completed")[info.state]


def compute_capability(gpu: Gpu) -> str | None:
    found = gpu.ask("CudaComputeCapability")
    return f"{found[0]}.{found[1]}" if found else None


def power_limits(position: int) -> Callable[[Gpu], str | None]:
    def read(gpu: Gpu) -> str | None:
        found = gpu.ask("PowerManagementLimitConstraints")
        return f"{found[position] / 1000:.2f}" if found else None

    return read


COMPUTE_MODES = {0: "Default", 2: "Prohibited", 3: "Exclusive_Process"}

# Field of --query-gpu -> (unit, reader of the value).
FIELDS: dict[str, tuple[str, Callable[[Gpu], object]]] = {
    "timestamp": ("", lambda g: datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]),
    "driver_version": ("", lambda g: nvml.nvmlSystemGetDriverVersion()),
    "count": ("", lambda g: nvml.nvmlDeviceGetCount()),
    "index": ("", lambda g: g.index),
    "name": ("", lambda g: g.ask("Name")),
    "uuid": ("", lambda g: g.ask("UUID")),
    "serial": ("", lambda g: g.ask("Serial")),
    "vbios_version": ("", lambda g: g.ask("VbiosVersion")),
    "pci.bus_id": ("", lambda g: g.ask("PciInfo").busId),
    "pci.domain": ("", lambda g: f"0x{g.ask('PciInfo').domain:04X}"),
    "pci.bus": ("", lambda g: f"0x{g.ask('PciInfo').bus:02X}"),
    "pci.device": ("", lambda g: f"0x{g.ask('PciInfo').device:02X}"),
    "pci.device_id": ("", lambda g: f"0x{g.ask('PciInfo').pciDeviceId:08X}"),
    "pci.sub_device_id": ("", lambda g: f"0x{g.ask('PciInfo').pciSubSystemId:08X}"),
    "pcie.link.gen.current": ("", lambda g: g.ask("CurrPcieLinkGeneration")),
    "pcie.link.gen.gpucurrent": ("", lambda g: g.ask("CurrPcieLinkGeneration")),
    "pcie.link.gen.max": ("", lambda g: g.ask("MaxPcieLinkGeneration")),
    "pcie.link.width.current": ("", lambda g: g.ask("CurrPcieLinkWidth")),
    "pcie.link.width.max": ("", lambda g: g.ask("MaxPcieLinkWidth")),
    "persistence_mode": ("", lambda g: mode(g.ask("PersistenceMode"))),
    "display_mode": ("", lambda g: mode(g.ask("DisplayMode"))),
    "display_active": ("", lambda g: mode(g.ask("DisplayActive"))),
    "compute_mode": ("", lambda g: COMPUTE_MODES[g.ask("ComputeMode")]),
    "compute_cap": ("", compute_capability),
    "mig.mode.current": ("", lambda g: mode(g.ask("MigMode")[0])),
    "mig.mode.pending": ("", lambda g: mode(g.ask("MigMode")[1])),
    "fan.speed": ("%", lambda g: g.ask("FanSpeed")),
    "pstate": ("", lambda g: f"P{g.ask('PerformanceState')}"),
    "clocks_event_reasons.active": ("", lambda g: f"0x{g.ask('CurrentClocksEventReasons'):016X}"),
    "clocks_event_reasons.gpu_idle": ("", active(0x1)),
    "clocks_event_reasons.sw_power_cap": ("", active(0x4)),
    "clocks_event_reasons.hw_slowdown": ("", active(0x8)),
    "clocks_event_reasons.sw_thermal_slowdown": ("", active(0x20)),
    "clocks_event_reasons.hw_thermal_slowdown": ("", active(0x40)),
    "memory.total": ("MiB", lambda g: g.memory().total // MIB),
    "memory.reserved": ("MiB", lambda g: g.memory().reserved // MIB),
    "memory.used": ("MiB", lambda g: g.memory().used // MIB),
    "memory.free": ("MiB", lambda g: g.memory().free // MIB),
    "utilization.gpu": ("%", lambda g: g.ask("UtilizationRates").gpu),
    "utilization.memory": ("%", lambda g: g.ask("UtilizationRates").memory),
    "temperature.gpu": ("", lambda g: g.ask("Temperature", nvml.NVML_TEMPERATURE_GPU)),
    "temperature.memory": ("", lambda g: g.field(nvml.NVML_FI_DEV_MEMORY_TEMP)),
    "power.draw": ("W", watts("PowerUsage")),
    "power.limit": ("W", watts("PowerManagementLimit")),
    "enforced.power.limit": ("W", watts("EnforcedPowerLimit")),
    "power.default_limit": ("W", watts("PowerManagementDefaultLimit")),
    "power.min_limit": ("W", power_limits(0)),
    "power.max_limit": ("W", power_limits(1)),
    "clocks.current.graphics": ("MHz", clock("ClockInfo", 0)),
    "clocks.current.sm": ("MHz", clock("ClockInfo", 1)),
    "clocks.current.memory": ("MHz", clock("ClockInfo", 2)),
    "clocks.max.graphics": ("MHz", clock("MaxClockInfo", 0)),
    "clocks.max.sm": ("MHz", clock("MaxClockInfo", 1)),
    "clocks.max.memory": ("MHz", clock("MaxClockInfo", 2)),
    "ecc.mode.current": ("", lambda g: mode(g.ask("EccMode")[0])),
    "ecc.mode.pending": ("", lambda g: mode(g.ask("EccMode")[1])),
    "ecc.errors.corrected.volatile.total": ("", ecc(0, 0)),
    "ecc.errors.corrected.aggregate.total": ("", ecc(0, 1)),
    "ecc.errors.uncorrected.volatile.total": ("", ecc(1, 0)),
    "ecc.errors.uncorrected.aggregate.total": ("", ecc(1, 1)),
    "ecc.errors.corrected.volatile.dram": ("", ecc_at(0, 0, 2)),
    "ecc.errors.uncorrected.volatile.dram": ("", ecc_at(1, 0, 2)),
    "ecc.errors.uncorrected.volatile.sram": ("", ecc_at(1, 0, 7)),
    "retired_pages.pending": ("", lambda g: g.ask("RetiredPagesPendingStatus")),
    "remapped_rows.correctable": ("", remapped(0)),
    "remapped_rows.uncorrectable": ("", remapped(1)),
    "remapped_rows.pending": ("", remapped(2, ("No", "Yes"))),
    "remapped_rows.failure": ("", remapped(3, ("No", "Yes"))),
    "fabric.state": ("", fabric_state),
}
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "power.draw.instant": "power.draw",
    "power.draw.average": "power.draw",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}
