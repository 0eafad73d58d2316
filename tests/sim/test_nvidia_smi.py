"""The stand-in for nvidia-smi: what operators and scripts read from it."""

import csv
import io
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from gpufleet.simgpu import Link, NodeDescription, Process
from simnode import ANSWER_S, SIM, SimNode

BANNER = "gpufleet SIMULATED GPUs"


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text))]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-L",),
        ("-q",),
        ("topo", "-m"),
        ("--help",),
        ("--help-query-gpu",),
        ("--query-gpu=name", "--format=csv"),
    ],
)
def test_every_surface_says_simulated(node: SimNode, arguments: tuple[str, ...]) -> None:
    done = node.smi(*arguments)
    assert done.returncode == 0, done.stderr
    assert "simulated" in done.stdout.lower()


def test_table_has_a_banner_versions_and_every_gpu(node: SimNode, h200: NodeDescription) -> None:
    lines = node.smi().stdout.splitlines()
    assert lines[2].strip("| ") == BANNER
    assert "Driver Version: 580.105.08" in lines[3]
    assert "CUDA Version: 13.0" in lines[3]
    assert len({len(line) for line in lines if line.startswith(("|", "+"))}) == 1
    for gpu in h200.gpus:
        [line] = [line for line in lines if gpu.pci_bus_id in line]
        assert "NVIDIA H200 (simulated)" in line
    assert sum("0MiB / 143771MiB" in line for line in lines) == 8
    assert any("No running processes found" in line for line in lines)


def test_list_names_every_gpu_by_uuid(node: SimNode, h200: NodeDescription) -> None:
    assert node.smi("-L").stdout.splitlines() == [
        f"GPU {gpu.index}: NVIDIA H200 (simulated) (UUID: {gpu.uuid})" for gpu in h200.gpus
    ]


def test_csv_has_units_in_header_and_cells(node: SimNode, h200: NodeDescription) -> None:
    fields = (
        "index,gpu_uuid,serial,pci.bus_id,memory.total,utilization.gpu,temperature.gpu,"
        "power.draw,power.limit,ecc.errors.uncorrected.volatile.total,driver_version,"
        "pcie.link.gen.current,compute_cap,mig.mode.current,fan.speed"
    )
    node.write(h200.with_gpu(1, ecc_uncorrectable=3, utilization_gpu=12))
    table = rows(node.smi(f"--query-gpu={fields}", "--format=csv", "-i", "1").stdout)
    gpu = h200.gpus[1]
    assert table == [
        ["index", "gpu_uuid", "serial", "pci.bus_id", "memory.total [MiB]", "utilization.gpu [%]",
         "temperature.gpu", "power.draw [W]", "power.limit [W]",
         "ecc.errors.uncorrected.volatile.total", "driver_version", "pcie.link.gen.current",
         "compute_cap", "mig.mode.current", "fan.speed [%]"],
        ["1", gpu.uuid, gpu.serial, gpu.pci_bus_id, "143771 MiB", "12 %", "28", "74.58 W",
         "700.00 W", "3", "580.105.08", "5", "9.0", "Disabled", "[N/A]"],
    ]  # fmt: skip


def test_csv_without_header_and_units(node: SimNode) -> None:
    asked = "--query-gpu=index,memory.total"
    table = rows(node.smi(asked, "--format=csv,noheader,nounits").stdout)
    assert table == [[str(index), "143771"] for index in range(8)]


def test_every_field_that_help_names_can_be_queried(node: SimNode) -> None:
    fields = node.smi("--help-query-gpu").stdout.splitlines()[1:]
    done = node.smi(f"--query-gpu={','.join(fields)}", "--format=csv", "-i", "0")
    assert done.returncode == 0, done.stdout
    header, values = rows(done.stdout)
    assert len(header) == len(values) == len(fields) > 50


def test_gpu_is_selected_by_any_of_its_names(node: SimNode, h200: NodeDescription) -> None:
    gpu = h200.gpus[6]
    for name in ("6", gpu.uuid, gpu.serial, gpu.pci_bus_id, gpu.pci_bus_id[4:].lower()):
        assert node.smi("-L", "-i", name).stdout.startswith("GPU 6:"), name
    assert len(node.smi("-L", "-i", f"0,{gpu.uuid}").stdout.splitlines()) == 2


def test_processes_are_listed(node: SimNode, h200: NodeDescription) -> None:
    node.write(h200.with_gpu(2, processes=(Process(os.getpid(), 4096),)))
    asked = "--query-compute-apps=gpu_uuid,pid,used_memory"
    table = rows(node.smi(asked, "--format=csv").stdout)
    assert table == [
        ["gpu_uuid", "pid", "used_memory [MiB]"],
        [h200.gpus[2].uuid, str(os.getpid()), "4096 MiB"],
    ]
    assert f"{os.getpid()}      C" in node.smi().stdout


def matrix(node: SimNode) -> list[list[str]]:
    lines = node.smi("topo", "-m").stdout.splitlines()
    return [line.split("\t") for line in lines if line.startswith("GPU")]


def test_topology_of_a_switched_board(node: SimNode) -> None:
    table = matrix(node)
    for index, row in enumerate(table):
        links = [" X " if peer == index else "NV18" for peer in range(8)]
        assert row[1:9] == links
        assert row[9:11] == (["0-7", "0"] if index < 4 else ["8-15", "1"])
    legend = node.smi("topo", "-m").stdout
    for name in ("X", "SYS", "NODE", "PHB", "PXB", "PIX", "NV#"):
        assert f"  {name} " in legend


def test_topology_shows_the_weaker_end_and_the_pcie_path(
    node: SimNode, h200: NodeDescription
) -> None:
    node.write(h200.with_gpu(0, nvlinks_down=(1, 2)))
    assert matrix(node)[0][2] == matrix(node)[1][1] == "NV16"
    plain = replace(
        h200,
        gpus=tuple(replace(gpu, nvlinks=4 if gpu.index < 2 else 0) for gpu in h200.gpus),
        switches=(),
        links=(Link(0, 1, nvlinks=4), Link(2, 3, path="single"), Link(4, 5, path="hostbridge")),
    )
    node.write(plain)
    table = matrix(node)
    assert [table[0][2], table[2][4], table[4][6]] == ["NV4", "PIX", "PHB"]
    assert [table[0][3], table[0][5]] == ["NODE", "SYS"]


def test_lost_gpu_is_named_and_ends_in_15(node: SimNode, h200: NodeDescription) -> None:
    node.write(h200.with_gpu(3, fault="lost"))
    sentence = "Unable to determine the device handle for GPU3: GPU is lost."
    for arguments, healthy in [((), 0), (("-L",), 7), (("-i", "3"), 0)]:
        done = node.smi(*arguments)
        assert done.returncode == 15
        assert sentence in done.stdout
        assert done.stdout.count("UUID: ") == healthy
    assert node.smi("-i", "2").returncode == 0
    assert node.smi("-i", h200.gpus[3].uuid).returncode == 15
    done = node.smi("--query-gpu=index", "--format=csv,noheader")
    assert done.returncode == 15
    assert done.stdout.split() == ["0", "1", "2", "4", "5", "6", "7"]
    assert sentence in done.stderr


def test_hanging_gpu_hangs_the_tool_until_it_is_killed(
    node: SimNode, h200: NodeDescription
) -> None:
    node.write(h200.with_gpu(3, fault="hang"))
    command = ["timeout", "0.5", sys.executable, "-B", str(SIM / "nvidia-smi"), "-L"]
    with subprocess.Popen(command, env=node.environment(), stdout=subprocess.DEVNULL) as tool:
        assert tool.wait(timeout=ANSWER_S) == 124
    for name in ("2", h200.gpus[2].uuid, h200.gpus[2].pci_bus_id):
        assert node.smi("-L", "-i", name).stdout.startswith("GPU 2:")


def test_unknown_field_names_the_nearest(node: SimNode) -> None:
    done = node.smi("--query-gpu=index,memory.totl", "--format=csv")
    assert done.returncode == 2
    assert 'Field "memory.totl" is not a valid field to query.' in done.stdout
    assert "memory.total" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--query-gpu=index",),
        ("--query-gpu=index", "--format=xml"),
        ("--query-gpu=index", "--format=csv,plain"),
        ("topo",),
        ("--no-such-option",),
    ],
)
def test_bad_argument_is_code_2(node: SimNode, arguments: tuple[str, ...]) -> None:
    assert node.smi(*arguments).returncode == 2


def test_gpu_that_is_not_there_is_code_6(node: SimNode) -> None:
    done = node.smi("-L", "-i", "12")
    assert done.returncode == 6
    assert done.stdout.strip() == "No devices were found"


def test_missing_driver_and_library_are_told_apart(node: SimNode) -> None:
    node.file.unlink()
    done = node.smi()
    assert done.returncode == 9
    assert "no usable description" in done.stdout
    node.library = node.library.parent / "elsewhere" / node.library.name
    done = node.smi()
    assert done.returncode == 12
    assert "libnvidia-ml.so.1" in done.stdout
