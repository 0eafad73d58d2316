"""Faults injected by editing the description of a node that is in use."""

import signal
import subprocess
import sys
from dataclasses import replace

import pynvml
import pytest

from gpufleet.simgpu import NodeDescription
from simnode import ANSWER_S, NvmlCallError, SimNode

BLOCKED_S = 0.3
"""How long a call must stay without an answer to count as hanging."""


def test_lost_gpu_refuses_every_call_and_still_counts(node: SimNode, h200: NodeDescription) -> None:
    with node.session() as nvml:
        node.write(h200.with_gpu(3, fault="lost"))
        assert nvml.call("nvmlDeviceGetCount") == 8
        for query in ("Name", "UUID", "MemoryInfo", "PowerUsage", "MigMode", "FanSpeed"):
            with pytest.raises(NvmlCallError, match="GPU is lost"):
                nvml.get(query, 3)
        for call, key in [
            ("nvmlDeviceGetHandleByIndex", 3),
            ("nvmlDeviceGetHandleByUUID", h200.gpus[3].uuid),
        ]:
            with pytest.raises(NvmlCallError, match="GPU is lost"):
                nvml.call(call, key)
        with pytest.raises(NvmlCallError, match="GPU is lost"):
            nvml.call("nvmlDeviceGetTopologyCommonAncestor", {"gpu": 0}, {"gpu": 3})
        assert nvml.get("UUID", 2) == h200.gpus[2].uuid
        node.write(h200)
        assert nvml.get("UUID", 3) == h200.gpus[3].uuid


def test_gpu_taken_out_of_the_description_is_lost_to_its_holder(
    node: SimNode, h200: NodeDescription
) -> None:
    with node.session() as nvml:
        node.write(replace(h200, gpus=h200.gpus[:4]))
        assert nvml.call("nvmlDeviceGetCount") == 4
        with pytest.raises(NvmlCallError, match="GPU is lost"):
            nvml.get("Name", 7)


def test_hanging_call_ends_when_the_edit_takes_the_fault_away(
    node: SimNode, h200: NodeDescription
) -> None:
    with node.session() as nvml, node.session() as other:
        node.write(h200.with_gpu(1, fault="hang"))
        nvml.send("nvmlDeviceGetUUID", {"gpu": 1})
        assert not nvml.answered(BLOCKED_S)
        assert other.get("UUID", 0) == h200.gpus[0].uuid
        node.write(h200)
        assert nvml.receive() == h200.gpus[1].uuid


def test_hanging_call_can_be_killed(node: SimNode, h200: NodeDescription) -> None:
    with node.session() as nvml:
        node.write(h200.with_gpu(1, fault="hang"))
        nvml.send("nvmlDeviceGetUUID", {"gpu": 1})
        assert not nvml.answered(BLOCKED_S)
        nvml.process.send_signal(signal.SIGTERM)
        assert nvml.process.wait(timeout=ANSWER_S) == -signal.SIGTERM


def test_hang_that_turns_into_a_loss_ends_with_an_error(
    node: SimNode, h200: NodeDescription
) -> None:
    with node.session() as nvml:
        node.write(h200.with_gpu(1, fault="hang"))
        nvml.send("nvmlDeviceGetUUID", {"gpu": 1})
        assert not nvml.answered(BLOCKED_S)
        node.write(h200.with_gpu(1, fault="lost"))
        with pytest.raises(NvmlCallError, match="GPU is lost"):
            nvml.receive()


def test_memory_errors_are_counted(node: SimNode, h200: NodeDescription) -> None:
    with node.session() as nvml:
        volatile, aggregate = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
        single, double = 0, 1
        assert nvml.get("TotalEccErrors", 0, double, volatile) == 0
        node.write(
            h200.with_gpu(
                0,
                ecc_corrected=5,
                ecc_uncorrectable=2,
                ecc_uncorrectable_aggregate=9,
                remapped_correctable=1,
                remapped_uncorrectable=2,
                remap_pending=True,
            )
        )
        assert nvml.get("TotalEccErrors", 0, single, volatile) == 5
        assert nvml.get("TotalEccErrors", 0, single, aggregate) == 5
        assert nvml.get("TotalEccErrors", 0, double, volatile) == 2
        assert nvml.get("TotalEccErrors", 0, double, aggregate) == 9
        dram, sram = pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM
        assert nvml.get("MemoryErrorCounter", 0, double, volatile, dram) == 2
        assert nvml.get("MemoryErrorCounter", 0, double, volatile, sram) == 0
        assert nvml.get("RemappedRows", 0) == [1, 2, 1, 0]
        assert nvml.call("field", 0, pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL) == 2
        assert nvml.call("field", 0, pynvml.NVML_FI_DEV_REMAPPED_PENDING) == 1
        node.write(h200.with_gpu(0, ecc=False))
        with pytest.raises(NvmlCallError, match="Not Supported"):
            nvml.get("TotalEccErrors", 0, double, volatile)


@pytest.mark.parametrize(
    ("throttle", "reasons"),
    [
        (("thermal",), pynvml.nvmlClocksEventReasonSwThermalSlowdown),
        (("power",), pynvml.nvmlClocksEventReasonSwPowerCap),
        (
            ("thermal", "hw_slowdown"),
            pynvml.nvmlClocksEventReasonSwThermalSlowdown
            | pynvml.nvmlClocksEventReasonHwSlowdown
            | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
        ),
    ],
)
def test_throttled_gpu_says_why_and_slows_down(
    node: SimNode, h200: NodeDescription, throttle: tuple[str, ...], reasons: int
) -> None:
    busy = h200.with_gpu(4, sm_clock_mhz=1980, utilization_gpu=99)
    node.write(busy)
    with node.session() as nvml:
        assert nvml.get("CurrentClocksEventReasons", 4) == 0
        assert nvml.get("ClockInfo", 4, pynvml.NVML_CLOCK_SM) == 1980
        node.write(busy.with_gpu(4, throttle=throttle))
        assert nvml.get("CurrentClocksEventReasons", 4) == reasons
        assert nvml.get("CurrentClocksThrottleReasons", 4) == reasons
        assert nvml.get("ClockInfo", 4, pynvml.NVML_CLOCK_SM) == 990
        assert nvml.get("MaxClockInfo", 4, pynvml.NVML_CLOCK_SM) == 1980


def test_nvlink_taken_down(node: SimNode, h200: NodeDescription) -> None:
    with node.session() as nvml:
        node.write(h200.with_gpu(0, nvlinks_down=(0, 17)))
        states = [nvml.get("NvLinkState", 0, link) for link in range(18)]
        assert states == [0, *[1] * 16, 0]
        with pytest.raises(NvmlCallError, match="Not Supported"):
            nvml.get("NvLinkRemotePciInfo", 0, 0)


def test_description_edited_in_place_is_read_anew(node: SimNode, h200: NodeDescription) -> None:
    """Edits of one length in quick succession: times and size of the file may stay the same."""
    with node.session() as nvml:
        for watts in range(100, 150):
            text = h200.with_gpu(0, power_mw=watts * 1000).render()
            node.file.write_text(text, encoding="utf-8")
            assert nvml.get("PowerUsage", 0) == watts * 1000


def test_broken_edit_is_named_and_mended(node: SimNode, h200: NodeDescription) -> None:
    broken = h200.render().replace("numa_node = 1", "numa_node = one")
    line = broken.splitlines().index("numa_node = one") + 1
    with node.session() as nvml:
        node.write(broken)
        for _ in range(3):
            with pytest.raises(NvmlCallError, match="Driver Not Loaded"):
                nvml.get("Name", 0)
        node.write(h200)
        assert nvml.get("UUID", 0) == h200.gpus[0].uuid
        nvml.process.terminate()
        assert nvml.process.stderr is not None
        said = nvml.process.stderr.read()
    assert said.count("\n") == 1
    assert f"{node.file}:{line}: numa_node = one: expected a whole number" in said


def test_missing_description_is_no_driver(node: SimNode) -> None:
    node.file.unlink()
    error, said = node.init()
    assert error == "Driver Not Loaded"
    assert f"{node.file}: cannot be read" in said


def test_node_without_gpus_has_none(node: SimNode, h200: NodeDescription) -> None:
    node.write(replace(h200, gpus=(), switches=()))
    with node.session() as nvml:
        assert nvml.call("nvmlDeviceGetCount") == 0
    assert node.smi("-L").returncode == 6


def test_library_survives_a_fork(node: SimNode) -> None:
    """Engines fork workers after they have looked at the GPUs."""
    code = (
        "import os, pynvml\n"
        "pynvml.nvmlInit()\n"
        "child = os.fork()\n"
        "count = pynvml.nvmlDeviceGetCount()\n"
        "os._exit(count) if not child else print(os.waitstatus_to_exitcode(os.wait()[1]), count)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=ANSWER_S, check=False,
        env=node.environment(),
    )  # fmt: skip
    assert done.stdout.split() == ["8", "8"], done.stderr
