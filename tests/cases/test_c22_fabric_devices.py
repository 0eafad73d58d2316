"""Field case: fewer fabric devices than the contract promises, and their environment.

fi_info and ibstat are stubs with the form of their output; the tree of interrupts and bridges is
made.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import CHECKOUT, Machine, Played, host, machine

BUSES = [f"0000:{n:02x}:00.0" for n in (0x4F, 0x50)]
EFA = [{"address": a, "vendor": "amazon", "device": "0xefa2"} for a in BUSES]
MELLANOX = [{"address": a, "vendor": "mellanox", "device": "0x1021"} for a in BUSES]
PINS = {"efa_installer": "1.51.0"}
FI_INFO = """#!/bin/sh
# STUB: two ways to use every device.
[ "$*" = "-p efa -t FI_EP_RDM" ] || exit 1
for fabric in efa efa-direct; do
    for domain in rdmap79s0-rdm rdmap80s0-rdm; do
        printf 'provider: efa\\n    fabric: %s\\n    domain: %s\\n' $fabric $domain
    done
done
"""
PORT = """CA 'mlx5_{number}'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: {state}
\t\tPhysical state: LinkUp
\t\tRate: {rate}
\t\tBase lid: 7
\t\tLink layer: {layer}
"""


def nics(fabric: str, count: int) -> list[dict[str, Any]]:
    return [{"name": f"f{n}", "fabric": fabric, "rate_gbps": 400.0} for n in range(count)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("c22")) as found:
        found.program("/opt/amazon/efa/bin/fi_info", FI_INFO)
        found.program("/usr/local/bin/ibstat", "#!/bin/sh\n# STUB\ncat /srv/ibstat\n")
        yield found


@pytest.fixture(scope="module")
def efa(made: Machine) -> Played:
    has = {"pci": EFA, "efa_installer": "1.51.0"}
    older = {**has, "efa_installer": "1.43.2"}
    return made.play(
        ["fabric_efa"],
        {
            "two": host(has, pins=PINS, nics=nics("efa", 2)),
            "three": host(has, pins=PINS, nics=nics("efa", 3)),
            "older": host(older, pins=PINS, nics=nics("efa", 2)),
            "simulated": host(nics=nics("efa", 2), simulated=True),
        },
        "--skip-tags", "verify",
    )  # fmt: skip


def test_c22_fewer_devices_than_the_contract_stop_with_both_numbers(efa: Played) -> None:
    assert efa.failed == {"three", "older"}
    said = efa.said("three")
    assert f"has 2 EFA devices ({', '.join(BUSES)}), its contract 3" in said


def test_c22_older_installer_is_not_taken_for_the_pinned_one(efa: Played) -> None:
    assert "has EFA installer 1.43.2, pinned is 1.51.0" in efa.said("older")


def test_c22_processes_and_containers_get_provider_and_devices(efa: Played, made: Machine) -> None:
    assert "FI_PROVIDER=efa\n" in made.read("/etc/gpufleet/env.d/efa.env")
    edits = json.loads(made.read("/etc/cdi/gpufleet-efa.json"))["devices"][0]["containerEdits"]
    assert edits["env"] == ["FI_PROVIDER=efa"]
    assert [x["path"] for x in edits["deviceNodes"]] == [
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/uverbs1",
    ]


def test_c22_devices_of_libfabric_are_counted_once_each(efa: Played, made: Machine) -> None:
    path = "/usr/local/lib/gpufleet/efa-check"
    assert made.run(path).returncode == 0
    made.program("/srv/more", made.read(path).replace("wanted=2", "wanted=3"))
    done = made.run("/srv/more", check=False)
    assert (done.returncode, done.stdout) == (1, "libfabric has 2 EFA devices, the contract 3\n")


@pytest.fixture(scope="module")
def infiniband(made: Machine) -> Played:
    return made.play(
        ["fabric_infiniband"],
        {
            "two": host({"pci": MELLANOX}, nics=nics("infiniband", 2), gpus=[{"index": 0}]),
            "long": host(
                {"pci": MELLANOX}, nics=nics("infiniband", 2), pins={"nccl_ib_timeout": "40"}
            ),
        },
        "--skip-tags", "install,verify",
    )  # fmt: skip


def test_c22_infiniband_has_its_time_out_and_modules(infiniband: Played, made: Machine) -> None:
    assert infiniband.failed == {"long"}
    assert "from 1 to 31 is allowed" in infiniband.said("long")
    assert "NCCL_IB_TIMEOUT=22\n" in made.read("/etc/gpufleet/env.d/infiniband.env")
    assert "nvidia_peermem\n" in made.read("/etc/modules-load.d/gpufleet-infiniband.conf")


@pytest.mark.parametrize(
    ("ports", "says"),
    [
        ([("Active", 400), ("Active", 400)], ""),
        ([("Active", 400), ("Initializing", 400)], "mlx5_1 port 1 is Initializing at 400"),
        ([("Active", 200), ("Active", 400)], "mlx5_0 port 1 is Active at 200 Gbit/s"),
        ([("Active", 400)], "1 ports are as they should be, the contract has 2"),
    ],
)
def test_c22_ports_are_active_and_of_their_rate(
    infiniband: Played, made: Machine, ports: list[tuple[str, int]], says: str
) -> None:
    rows = [PORT.format(number=n, state=state, rate=rate, layer="InfiniBand")
            for n, (state, rate) in enumerate(ports)]  # fmt: skip
    ethernet = PORT.format(number=9, state="Active", rate=400, layer="Ethernet")
    made.write("/srv/ibstat", "".join([*rows, ethernet]))
    done = made.run("/usr/local/lib/gpufleet/infiniband-check", check=False)
    assert (done.returncode, says in done.stdout) == (1 if says else 0, True), done.stdout


GPUS = ["00000000:1B:00.0", "00000000:9D:00.0"]


def tree(root: Path, acs: int = 0) -> None:
    """Two NUMA nodes of 4 cores with 2 threads, a GPU and a network device at each, one bridge."""

    def write(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    for node, own in enumerate(("0-3,8-11", "4-7,12-15")):
        write(f"sys/devices/system/node/node{node}/cpulist", own)
    for cpu in range(16):
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
              f"{cpu % 8},{cpu % 8 + 8}")  # fmt: skip
    for node, (gpu, nic) in enumerate((("1b", "1c"), ("9d", "9e"))):
        write(f"sys/bus/pci/devices/0000:{gpu}:00.0/numa_node", str(node))
        write(f"sys/bus/pci/devices/0000:{nic}:00.0/numa_node", str(node))
        (root / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True, exist_ok=True)
        (root / f"sys/bus/pci/devices/0000:{nic}:00.0/driver").symlink_to("../../drivers/mlx5_core")
        for irq in range(8):
            number = 100 * (node + 1) + irq
            write(f"sys/bus/pci/devices/0000:{nic}:00.0/msi_irqs/{number}", "msix\n")
            write(f"proc/irq/{number}/smp_affinity_list", "0-15\n")
    space = bytearray(4096)
    # Advanced error reporting first, and access control behind it.
    space[0x100:0x104] = struct.pack("<I", 0x0001 | 1 << 16 | 0x148 << 20)
    space[0x148:0x14C] = struct.pack("<I", 0x000D | 1 << 16)
    space[0x14E:0x150] = struct.pack("<H", acs)
    write("sys/bus/pci/devices/0000:10:00.0/class", "0x060400\n")
    (root / "sys/bus/pci/devices/0000:10:00.0/config").write_bytes(space)


@pytest.fixture(scope="module")
def numa(made: Machine) -> Played:
    gpus = [{"index": n, "pci_bus_id": x} for n, x in enumerate(GPUS)]
    played = made.play(
        ["numa"],
        {
            "metal": host(gpus=gpus, provider="baremetal"),
            "small": host({"cpus": 7}, gpus=gpus),
            "simulated": host(gpus=gpus, simulated=True),
        },
        "--skip-tags", "install,verify",
    )  # fmt: skip
    made.verify("/etc/systemd/system/gpufleet-numa.service")
    return played


def tune(made: Machine, *words: str) -> str:
    return made.run("env", "GPUFLEET_ROOT=/srv/tree", "/usr/local/lib/gpufleet/numa", *words).stdout


def test_c22_interrupts_are_near_and_off_the_gpus_cores(numa: Played, made: Machine) -> None:
    assert numa.failed == {"small"}
    root = made.root / "srv/tree"
    tree(root)
    (root / "etc/gpufleet").mkdir(parents=True)
    (root / "etc/gpufleet/numa.json").write_text(made.read("/etc/gpufleet/numa.json"))
    assert "interrupts 100, 101" in tune(made, "check")
    assert tune(made, "apply") == ""
    assert json.loads((root / "run/gpufleet/gpu-cpus.json").read_text()) == {
        GPUS[0]: [3, 11], GPUS[1]: [7, 15]}  # fmt: skip
    placed = [(root / f"proc/irq/{n}/smp_affinity_list").read_text() for n in range(200, 208)]
    assert placed == ["4", "5", "6", "12", "13", "14", "4", "5"]
    assert tune(made, "check", "acs") == ""


def test_c22_bridge_that_sends_peers_to_the_root_is_warned_of(numa: Played, made: Machine) -> None:
    root = made.root / "srv/tree"
    path = root / "sys/bus/pci/devices/0000:10:00.0/config"
    before = path.read_bytes()
    changed = bytearray(before)
    changed[0x14E] = 0x1D
    path.write_bytes(changed)
    assert "ACS is on in the bridges 0000:10:00.0" in tune(made, "check", "acs")
    assert path.read_bytes() == changed


def test_c22_facts_name_kernels_and_installer(tmp_path: Path, made: Machine) -> None:
    for name in ("vmlinuz-6.8.0-1018-aws", "vmlinuz-6.8.0-999-aws", "initrd.img-6.8.0-1018-aws"):
        (tmp_path / "boot").mkdir(exist_ok=True)
        (tmp_path / "boot" / name).touch()
    (tmp_path / "opt/amazon").mkdir(parents=True)
    (tmp_path / "opt/amazon/efa_installed_packages").write_text("# EFA installer version: 1.51.0\n")
    done = made.run(
        "env", f"PYTHONPATH={CHECKOUT}/collections", "python3", "-c",
        "import sys\nfrom ansible_collections.gpufleet.node.plugins.modules import facts\n"
        "tree = facts.Tree(sys.argv[1])\nprint(facts.kernels(tree), facts.efa_installer(tree))",
        str(tmp_path),
    )  # fmt: skip
    assert done.stdout == "['6.8.0-999-aws', '6.8.0-1018-aws'] 1.51.0\n"
