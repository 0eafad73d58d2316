"""nvidia-ml-py, unchanged, on simulated GPUs that are well."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from gpufleet.simgpu import Link, NodeDescription, Process
from simnode import NvmlCallError, Session, SimNode

MIB = 1024 * 1024


@pytest.fixture
def nvml(node: SimNode) -> Iterator[Session]:
    with node.session() as session:
        yield session


def test_library_exports_nothing_but_nvml(library: Path) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[-1] for line in listed.splitlines()]
    assert names
    assert all(name.startswith("nvml") for name in names)


def test_system_says_its_versions(nvml: Session, h200: NodeDescription) -> None:
    assert nvml.call("nvmlSystemGetDriverVersion") == h200.driver_version
    assert nvml.call("nvmlSystemGetNVMLVersion") == h200.nvml_version
    assert nvml.call("nvmlSystemGetCudaDriverVersion") == 13000
    assert nvml.call("nvmlSystemGetCudaDriverVersion_v2") == 13000
    assert nvml.call("nvmlErrorString", 15) == "GPU is lost"
    assert nvml.call("nvmlErrorString", 12345) == "Unknown Error"


def test_identity_is_the_descriptions(nvml: Session, h200: NodeDescription) -> None:
    assert nvml.call("nvmlDeviceGetCount") == 8
    for gpu in h200.gpus:
        assert nvml.get("Name", gpu.index) == gpu.name == "NVIDIA H200 (simulated)"
        assert nvml.get("UUID", gpu.index) == gpu.uuid
        assert nvml.get("Serial", gpu.index) == gpu.serial
        assert nvml.get("Index", gpu.index) == gpu.index
        assert nvml.get("MinorNumber", gpu.index) == gpu.minor
        assert nvml.get("VbiosVersion", gpu.index) == "simulated"
        pci = nvml.get("PciInfo", gpu.index)
        assert pci["busId"] == gpu.pci_bus_id
        assert pci["busIdLegacy"] == gpu.pci_bus_id[4:]
        assert pci["pciDeviceId"] == 0x233510DE
    assert nvml.get("Brand", 0) == pynvml.NVML_BRAND_NVIDIA
    assert nvml.get("Architecture", 0) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert nvml.get("CudaComputeCapability", 0) == [9, 0]
    assert nvml.get("MemoryBusWidth", 0) == 6144


def test_every_key_of_a_gpu_finds_the_same_handle(nvml: Session, h200: NodeDescription) -> None:
    gpu = h200.gpus[5]
    bus = gpu.pci_bus_id
    for call, key in [
        ("nvmlDeviceGetHandleByUUID", gpu.uuid),
        ("nvmlDeviceGetHandleBySerial", gpu.serial),
        ("nvmlDeviceGetHandleByPciBusId", bus),
        ("nvmlDeviceGetHandleByPciBusId", bus[4:].lower()),
        ("nvmlDeviceGetHandleByPciBusId", bus.split(":", 1)[1]),
    ]:
        assert nvml.call(call, key) == {"gpu": 5}
    assert nvml.call("nvmlDeviceGetHandleByIndex", 5) == {"gpu": 5}
    with pytest.raises(NvmlCallError, match="Invalid Argument"):
        nvml.call("nvmlDeviceGetHandleByIndex", 8)
    with pytest.raises(NvmlCallError, match="Not Found"):
        nvml.call("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000000")


def test_memory_adds_up_in_both_forms(nvml: Session) -> None:
    first, second = nvml.get("MemoryInfo", 0), nvml.call("memory_v2", 0)
    assert first["total"] == second["total"] == 143771 * MIB
    assert second["reserved"] == 700 * MIB
    assert second["reserved"] + second["used"] + second["free"] == second["total"]
    assert first["used"] == second["used"] + second["reserved"]
    assert nvml.get("BAR1MemoryInfo", 0)["bar1Total"] == 262144 * MIB
    with pytest.raises(NvmlCallError, match=r"(?i)version"):
        nvml.call("wrong_version", 0)


def test_load_and_power_are_the_descriptions(node: SimNode, h200: NodeDescription) -> None:
    node.write(
        h200.with_gpu(
            2,
            utilization_gpu=97,
            utilization_memory=41,
            temperature=66,
            memory_temperature=71,
            power_mw=612_345,
            sm_clock_mhz=1755,
            pcie_tx_kbps=1200,
            pcie_rx_kbps=3400,
            pcie_gen=4,
            pcie_replays=7,
            performance_state=2,
        )
    )
    with node.session() as nvml:
        assert nvml.get("UtilizationRates", 2) == {"gpu": 97, "memory": 41}
        assert nvml.get("Temperature", 2, pynvml.NVML_TEMPERATURE_GPU) == 66
        assert nvml.get("TemperatureV", 2, pynvml.NVML_TEMPERATURE_GPU) == 66
        assert nvml.call("field", 2, pynvml.NVML_FI_DEV_MEMORY_TEMP) == 71
        assert nvml.get("PowerUsage", 2) == 612_345
        assert nvml.get("EnforcedPowerLimit", 2) == 700_000
        assert nvml.get("PowerManagementLimitConstraints", 2) == [200_000, 700_000]
        assert nvml.get("ClockInfo", 2, pynvml.NVML_CLOCK_SM) == 1755
        assert nvml.get("MaxClockInfo", 2, pynvml.NVML_CLOCK_SM) == 1980
        assert nvml.get("PcieThroughput", 2, pynvml.NVML_PCIE_UTIL_TX_BYTES) == 1200
        assert nvml.get("PcieThroughput", 2, pynvml.NVML_PCIE_UTIL_RX_BYTES) == 3400
        assert nvml.get("CurrPcieLinkGeneration", 2) == 4
        assert nvml.get("MaxPcieLinkGeneration", 2) == 5
        assert nvml.get("CurrPcieLinkWidth", 2) == nvml.get("MaxPcieLinkWidth", 2) == 16
        assert nvml.get("PcieReplayCounter", 2) == 7
        assert nvml.get("PerformanceState", 2) == 2
        assert nvml.get("CurrentClocksEventReasons", 2) == 0
        assert nvml.get("CurrentClocksEventReasons", 1) == pynvml.nvmlClocksEventReasonGpuIdle


def test_modes_and_mig_off(nvml: Session) -> None:
    assert nvml.get("PersistenceMode", 0) == pynvml.NVML_FEATURE_ENABLED
    assert nvml.get("ComputeMode", 0) == pynvml.NVML_COMPUTEMODE_DEFAULT
    assert nvml.get("EccMode", 0) == [1, 1]
    assert nvml.get("MigMode", 0) == [0, 0]
    assert nvml.get("MaxMigDeviceCount", 0) == 0
    with pytest.raises(NvmlCallError, match="Not Found"):
        nvml.get("MigDeviceHandleByIndex", 0, 0)


def test_numa_and_cpu_affinity_split_the_board_in_half(nvml: Session) -> None:
    for index in range(8):
        half = index // 4
        assert nvml.get("NumaNodeId", index) == half
        assert nvml.get("CpuAffinity", index, 2) == [0xFF << 8 * half, 0]
        assert nvml.get("CpuAffinityWithinScope", index, 1, 0) == [0xFF << 8 * half]
        assert nvml.get("MemoryAffinity", index, 1, 0) == [1 << half]
    assert [g["gpu"] for g in nvml.call("nvmlSystemGetTopologyGpuSet", 9)] == [4, 5, 6, 7]


def test_topology_follows_numa_nodes(nvml: Session) -> None:
    pair = ({"gpu": 0}, {"gpu": 3})
    far = ({"gpu": 0}, {"gpu": 4})
    ancestor = "nvmlDeviceGetTopologyCommonAncestor"
    assert nvml.call(ancestor, *pair) == pynvml.NVML_TOPOLOGY_NODE
    assert nvml.call(ancestor, *far) == pynvml.NVML_TOPOLOGY_SYSTEM
    assert nvml.call(ancestor, pair[0], pair[0]) == pynvml.NVML_TOPOLOGY_INTERNAL
    near = nvml.get("TopologyNearestGpus", 0, pynvml.NVML_TOPOLOGY_NODE)
    assert [g["gpu"] for g in near] == [1, 2, 3]
    everybody = nvml.get("TopologyNearestGpus", 0, pynvml.NVML_TOPOLOGY_SYSTEM)
    assert [g["gpu"] for g in everybody] == [1, 2, 3, 4, 5, 6, 7]
    assert nvml.get("TopologyNearestGpus", 0, pynvml.NVML_TOPOLOGY_SINGLE) == []


def test_nvlinks_lead_to_the_switches(nvml: Session, h200: NodeDescription) -> None:
    remotes = []
    for link in range(18):
        assert nvml.get("NvLinkState", 6, link) == pynvml.NVML_FEATURE_ENABLED
        assert nvml.get("NvLinkVersion", 6, link) == pynvml.NVML_NVLINK_VERSION_4_0
        kind = nvml.get("NvLinkRemoteDeviceType", 6, link)
        assert kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        assert nvml.get("NvLinkCapability", 6, link, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED) == 1
        remotes.append(nvml.get("NvLinkRemotePciInfo", 6, link)["busId"])
    assert set(remotes) == set(h200.switches)
    assert sorted(remotes.count(bus) for bus in h200.switches) == [4, 4, 5, 5]
    with pytest.raises(NvmlCallError, match="Invalid Argument"):
        nvml.get("NvLinkState", 6, 18)
    peers = ({"gpu": 1}, {"gpu": 7})
    status = nvml.call("nvmlDeviceGetP2PStatus", *peers, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    assert status == pynvml.NVML_P2P_STATUS_OK
    assert nvml.call("field", 1, pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT) == 18
    assert nvml.call("field", 1, pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, 3) == 26562
    for version in (2, 3):
        info = nvml.call("fabric", 0, version)
        assert info["state"] == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
        assert info["status"] == pynvml.NVML_SUCCESS


def test_nvlink_counters_are_per_link_and_summed(node: SimNode, h200: NodeDescription) -> None:
    node.write(h200.with_gpu(0, nvlink_tx_kib=1000, nvlinks_down=(3,), nvlink_replays=2))
    with node.session() as nvml:
        field = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
        assert nvml.call("field", 0, field, 2) == 1000
        assert nvml.call("field", 0, field, 3) == 0
        assert nvml.call("field", 0, field, 0xFFFFFFFF) == 17_000
        replay = pynvml.NVML_NVLINK_ERROR_DL_REPLAY
        assert nvml.get("NvLinkErrorCounter", 0, 2, replay) == 2


def test_gpus_without_switches_are_joined_by_their_links(
    node: SimNode, h200: NodeDescription
) -> None:
    pairs = (Link(0, 1, path="single", nvlinks=12), Link(0, 2, nvlinks=4))
    bridged = replace(h200, switches=(), links=pairs, fabric="not_supported")
    node.write(bridged)
    with node.session() as nvml:
        ends = [nvml.get("NvLinkRemotePciInfo", 0, link)["busId"] for link in range(16)]
        assert ends == [h200.gpus[1].pci_bus_id] * 12 + [h200.gpus[2].pci_bus_id] * 4
        assert nvml.get("NvLinkState", 0, 16) == 0
        assert nvml.get("NvLinkRemoteDeviceType", 0, 0) == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        nvlink = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        status = "nvmlDeviceGetP2PStatus"
        assert nvml.call(status, {"gpu": 0}, {"gpu": 1}, nvlink) == pynvml.NVML_P2P_STATUS_OK
        assert nvml.call(status, {"gpu": 1}, {"gpu": 2}, nvlink) != pynvml.NVML_P2P_STATUS_OK
        near = nvml.get("TopologyNearestGpus", 0, pynvml.NVML_TOPOLOGY_SINGLE)
        assert [g["gpu"] for g in near] == [1]


def test_only_living_processes_are_shown(node: SimNode, h200: NodeDescription) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with subprocess.Popen(["sleep", "60"]) as alive:
        try:
            listed = (Process(alive.pid, 2048), Process(ended.pid, 512))
            node.write(h200.with_gpu(1, processes=listed))
            with node.session() as nvml:
                [shown] = nvml.get("ComputeRunningProcesses", 1)
                assert shown["pid"] == alive.pid
                assert shown["usedGpuMemory"] == 2048 * MIB
                assert nvml.call("nvmlSystemGetProcessName", alive.pid) == "sleep"
                assert nvml.call("memory_v2", 1)["used"] == 2048 * MIB
                assert nvml.get("ComputeRunningProcesses", 0) == []
                assert nvml.get("GraphicsRunningProcesses", 1) == []
        finally:
            alive.kill()


@pytest.mark.parametrize(
    "query",
    ["FanSpeed", "SupportedVgpus", "TotalEnergyConsumption", "RetiredPagesPendingStatus"],
)
def test_what_is_not_simulated_is_not_supported(nvml: Session, query: str) -> None:
    with pytest.raises(NvmlCallError, match="Not Supported"):
        nvml.get(query, 0)


def test_newer_functions_are_absent(nvml: Session) -> None:
    with pytest.raises(NvmlCallError, match="Function Not Found"):
        nvml.get("AddressingMode", 0)


def test_init_is_counted(nvml: Session) -> None:
    nvml.call("nvmlInit")
    nvml.call("nvmlShutdown")
    assert nvml.call("nvmlDeviceGetCount") == 8
    nvml.call("nvmlShutdown")
    with pytest.raises(NvmlCallError, match="Uninitialized"):
        nvml.call("nvmlDeviceGetCount")
    with pytest.raises(NvmlCallError, match="Uninitialized"):
        nvml.call("nvmlShutdown")


def test_two_threads_at_once_agree(nvml: Session) -> None:
    assert nvml.call("hammer", 2, 300) == []
