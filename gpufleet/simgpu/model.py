"""What a node's simulated GPUs are, as values."""

from dataclasses import dataclass, replace
from typing import Any, Self

FORMAT_VERSION = 1
"""Version of the text format; the C library refuses any other."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process shown on a GPU as long as its PID is alive on the node."""

    pid: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Link:
    """How two GPUs are connected where that differs from what their NUMA nodes say.

    `path` is the PCIe level (internal, single, multiple, hostbridge, node, system) or None for
    the default: node on one NUMA node, else system. `nvlinks` counts NVLinks that join the two
    directly, without a switch.
    """

    first: int
    second: int
    path: str | None = None
    nvlinks: int = 0


@dataclass(frozen=True, slots=True)
class GpuDescription:
    """One simulated GPU. Memory in MiB, power in milliwatts, clocks in MHz, temperatures in C."""

    index: int
    uuid: str
    """`GPU-` and a UUID: the identity of the GPU everywhere."""
    name: str
    """Product name; contains the word `simulated`."""
    pci_bus_id: str
    """`DOMAIN:BUS:DEVICE.0`, upper case hexadecimal, eight digits of domain."""
    memory_mib: int
    minor: int
    """Number of the device file /dev/nvidiaN."""
    serial: str = ""
    vbios: str = "simulated"
    architecture: str | None = None
    compute_capability: str | None = None
    pci_device_id: int = 0
    pci_subsystem_id: int = 0
    memory_reserved_mib: int = 0
    memory_used_mib: int = 0
    bar1_mib: int = 0
    memory_bus_bits: int = 0
    numa_node: int = 0
    cpu_affinity: tuple[int, ...] = ()
    pcie_gen: int = 0
    pcie_gen_max: int = 0
    pcie_width: int = 0
    pcie_width_max: int = 0
    pcie_tx_kbps: int = 0
    pcie_rx_kbps: int = 0
    pcie_replays: int = 0
    nvlinks: int = 0
    nvlinks_down: tuple[int, ...] = ()
    nvlink_version: str | None = None
    nvlink_mbps: int = 0
    nvlink_tx_kib: int = 0
    nvlink_rx_kib: int = 0
    nvlink_crc_errors: int = 0
    nvlink_replays: int = 0
    utilization_gpu: int = 0
    utilization_memory: int = 0
    temperature: int = 0
    memory_temperature: int = 0
    power_mw: int = 0
    power_limit_mw: int = 0
    power_limit_min_mw: int = 0
    power_limit_max_mw: int = 0
    sm_clock_mhz: int = 0
    sm_clock_max_mhz: int = 0
    memory_clock_mhz: int = 0
    memory_clock_max_mhz: int = 0
    video_clock_mhz: int = 0
    video_clock_max_mhz: int = 0
    performance_state: int = 0
    persistence: bool = True
    compute_mode: str = "default"
    ecc: bool = True
    ecc_corrected: int = 0
    ecc_uncorrectable: int = 0
    ecc_corrected_aggregate: int = 0
    ecc_uncorrectable_aggregate: int = 0
    remapped_correctable: int = 0
    remapped_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    fault: str = "none"
    """`none`, `lost` (fallen off the bus) or `hang` (every call on it blocks)."""
    throttle: tuple[str, ...] = ()
    """Any of thermal, power, hw_slowdown."""
    xids: tuple[int, ...] = ()
    """Xid errors, oldest first; one more entry is one more event."""
    processes: tuple[Process, ...] = ()

    @property
    def link_class(self) -> str:
        """How the GPU reaches its peers: `NV18` for 18 NVLinks that are up, else `PCIe`."""
        active = self.nvlinks - len(set(self.nvlinks_down))
        return f"NV{active}" if active > 0 else "PCIe"


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """All simulated GPUs of one node and how they are joined."""

    node: str
    driver_version: str
    nvml_version: str
    cuda_version: str
    gpus: tuple[GpuDescription, ...] = ()
    switches: tuple[str, ...] = ()
    """PCI bus ids of the NVSwitches; all GPUs' NVLinks lead to them where there are any."""
    links: tuple[Link, ...] = ()
    fabric: str = "not_supported"
    """State of the NVLink fabric: not_supported, not_started, in_progress, completed."""
    fabric_clique: int = 0

    @property
    def nvlink(self) -> str | None:
        """Class of the NVLinks between GPUs joined by switches, such as `NV18`; None without."""
        if not self.switches or not self.gpus:
            return None
        active = min(gpu.nvlinks - len(set(gpu.nvlinks_down)) for gpu in self.gpus)
        return f"NV{active}" if active > 0 else None

    def with_gpu(self, index: int, **changes: Any) -> Self:
        """The same node with fields of GPU `index` changed: how a fault is injected by program.

        Raises IndexError for a GPU that the node does not have, TypeError for an unknown field.
        """
        if not 0 <= index < len(self.gpus):
            raise IndexError(f"GPU {index}: this node has {len(self.gpus)} GPUs")
        changed = replace(self.gpus[index], **changes)
        return replace(self, gpus=(*self.gpus[:index], changed, *self.gpus[index + 1 :]))

    def render(self) -> str:
        """The text of the description file; `parse` reads it back to an equal value."""
        from gpufleet.simgpu.text import render

        return render(self)
