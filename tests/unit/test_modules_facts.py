"""`gpufleet.node.facts`: what is read of a node, from copies of the files of several kinds."""

from pathlib import Path
from typing import Any

import pytest
from nodebox import NodeBox


def facts(box: NodeBox, tree: Path, **files: str | bytes) -> dict[str, Any]:
    """Facts of a tree with these files; two underscores stand for a slash."""
    for name, content in files.items():
        write(tree, name.replace("__", "/"), content)
    return box.module("facts", root=str(tree))


def write(tree: Path, name: str, content: str | bytes = "") -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def test_of_an_empty_tree_nothing_is_made_up(box: NodeBox, tree: Path) -> None:
    found = facts(box, tree)
    assert not found["changed"]
    assert found["os"] == {"id": "", "version": "", "codename": ""}
    assert found["cgroup"] == {"mode": "none", "controllers": []}
    assert (found["driver_loaded"], found["container"], found["memory_mib"]) == ("", "", 0)
    for name in ("loaded_modules", "interfaces", "pci", "instance_store", "kernel_headers",
                 "slurm_plugins", "slurm_nodes"):  # fmt: skip
        assert found[name] == []
    assert not any(found[name] for name in ("secure_boot", "dbus", "etcd_data"))
    assert list(tree.iterdir()) == []


V1 = "12:devices:/init.scope\n1:name=systemd:/init.scope\n0::/init.scope\n"


@pytest.mark.parametrize(
    ("lines", "controllers", "mode"),
    [
        ("0::/init.scope\n", "cpuset cpu memory\n", "v2"),
        (V1, None, "v1"),
        (V1, "cpu memory\n", "hybrid"),
    ],
)
def test_the_version_of_cgroups(
    box: NodeBox, tree: Path, lines: str, controllers: str | None, mode: str
) -> None:
    write(tree, "proc/1/cgroup", lines)
    if controllers is not None:
        write(tree, "sys/fs/cgroup/cgroup.controllers", controllers)
    found = facts(box, tree)["cgroup"]
    assert found == {"mode": mode, "controllers": (controllers or "").split()}


CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build\n"


@pytest.mark.parametrize(
    ("text", "simulated", "version"),
    [
        (CLOSED, None, "550.90.07"),
        (OPEN, None, "580.126.20"),
        (OPEN, "driver = 1.2.3\n", "580.126.20"),
        ("", "node = x\ndriver = 580.105.08\n", "580.105.08"),
        ("", None, ""),
    ],
)
def test_the_loaded_driver_is_the_kernels_before_any_description(
    box: NodeBox, tree: Path, text: str, simulated: str | None, version: str
) -> None:
    if simulated is not None:
        write(tree, "etc/gpufleet/simgpu.conf", simulated)
    assert facts(box, tree, proc__driver__nvidia__version=text)["driver_loaded"] == version


def test_devices_of_the_vendors_that_matter(box: NodeBox, tree: Path) -> None:
    for address, vendor, device, kind, numa in (
        ("0000:1b:00.0", "0x10de", "0x2335", "0x030200", "1"),
        ("0000:1c:00.0", "0x1d0f", "0xefa2", "0x020000", "-1"),
        ("0000:00:1f.0", "0x8086", "0x7a04", "0x060100", "0"),
    ):
        folder = f"sys/bus/pci/devices/{address}"
        for name, text in (
            ("vendor", vendor), ("device", device), ("class", kind), ("numa_node", numa)
        ):  # fmt: skip
            write(tree, f"{folder}/{name}", f"{text}\n")
    gpu, nic = facts(box, tree)["pci"]
    assert gpu == {
        "address": "0000:1b:00.0", "vendor": "nvidia", "device": "0x2335", "class": "0x0302",
        "numa_node": 1,
    }  # fmt: skip
    assert (nic["vendor"], nic["numa_node"]) == ("amazon", -1)


def test_headers_count_only_where_modules_can_be_built(box: NodeBox, tree: Path) -> None:
    write(tree, "lib/modules/6.1.0-1/build/Makefile")
    write(tree, "lib/modules/6.1.0-2/modules.dep")
    found = facts(box, tree, proc__sys__kernel__osrelease="6.1.0-2\n")
    assert (found["kernel"], found["kernel_headers"]) == ("6.1.0-2", ["6.1.0-1"])


def test_secure_boot_is_the_last_byte(box: NodeBox, tree: Path) -> None:
    name = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    for content, on in ((b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False)):
        write(tree, name, content)
        assert facts(box, tree)["secure_boot"] is on


def test_what_the_disks_and_the_configuration_say(box: NodeBox, tree: Path) -> None:
    store = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1A2B"
    for name in (store, f"{store}-part1", "nvme-Amazon_Elastic_Block_Store_vol1"):
        write(tree, f"dev/disk/by-id/{name}")
    write(
        tree, "etc/slurm/slurm.conf", "#NodeName=old\nNodeName=a-[1-2] CPUs=1\nNodeName=b CPUs=2\n"
    )
    write(tree, "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n')
    write(tree, "proc/modules", "nvidia 1 2 - Live\nnvidia_uvm 1 2 - Live\next4 1 2 - Live\n")
    write(tree, "proc/1/mounts", "/dev/a / ext4 rw 0 0\nx /proc proc rw 0 0\nf:/x /fsx lustre rw\n")
    write(tree, "proc/1/environ", b"TERM=x\0container=systemd-nspawn\0")
    for name in ("cgroup_v2.so", "gpu_nvml.so", "auth_munge.so"):
        write(tree, f"usr/lib/x86_64-linux-gnu/slurm-wlm/{name}")
    (tree / "var/lib/etcd/gpufleet/member").mkdir(parents=True)
    found = facts(box, tree, proc__meminfo="MemTotal:       2097152 kB\n")
    assert found["instance_store"] == [f"/dev/disk/by-id/{store}"]
    assert found["slurm_nodes"] == ["a-[1-2]", "b"]
    assert found["os"] == {"id": "ubuntu", "version": "24.04", "codename": "noble"}
    assert found["loaded_modules"] == ["nvidia", "nvidia_uvm"]
    assert found["mounts"] == {"/": "ext4", "/fsx": "lustre"}
    assert found["container"] == "systemd-nspawn"
    assert found["slurm_plugins"] == ["cgroup_v2", "gpu_nvml"]
    assert found["memory_mib"] == 2048
    assert found["etcd_data"]


def test_no_program_is_started(box: NodeBox) -> None:
    for name in ("nvidia-smi", "lsmod", "uname", "systemctl", "dpkg", "sh"):
        box.stub(name, "exit 1")
    assert box.module("facts")["memory_mib"] > 0
    assert box.calls() == []
