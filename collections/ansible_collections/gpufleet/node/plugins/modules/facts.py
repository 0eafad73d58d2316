"""Module `gpufleet.node.facts`: what roles decide on, read from /proc and /sys."""

from __future__ import annotations

import os
import platform
import re
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: facts
short_description: The facts of a node that gpufleet's roles decide on
description:
  - Reads files only; starts no program. Registered as C(node), roles read C(node.kernel) and so on.
  - With C(root) the same is read from a copy of a file tree, as tests do.
options:
  root:
    description: Folder in which C(proc), C(sys), C(etc) and C(dev) are looked for.
    type: path
    default: /
"""

MODULES = (
    "nouveau",
    "nvidia",
    "nvidia_uvm",
    "nvidia_peermem",
    "lustre",
    "efa",
    "mlx5_ib",
    "ib_umad",
)
VENDORS = {"0x10de": "nvidia", "0x15b3": "mellanox", "0x1d0f": "amazon"}
SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Tree:
    """Files below a root."""

    def __init__(self, root):
        self.root = root

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name, default=""):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return default

    def bytes(self, name):
        try:
            with open(self.path(name), "rb") as stream:
                return stream.read()
        except OSError:
            return None

    def names(self, name):
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def exists(self, name):
        return os.path.exists(self.path(name))


def os_release(tree):
    rows = (line.split("=", 1) for line in tree.read("/etc/os-release").splitlines() if "=" in line)
    values = {key: value.strip('"') for key, value in rows}
    return {
        "id": values.get("ID", ""),
        "version": values.get("VERSION_ID", ""),
        "codename": values.get("VERSION_CODENAME", ""),
    }


def cgroup(tree):
    """`v2`, `v1` or `hybrid` (both at once, which Slurm's v2 plugin refuses), and controllers."""
    lines = [line for line in tree.read("/proc/1/cgroup").splitlines() if line]
    controllers = tree.read("/sys/fs/cgroup/cgroup.controllers").split()
    unified = tree.exists("/sys/fs/cgroup/cgroup.controllers")
    older = [line for line in lines if not line.startswith("0::")]
    mode = ("hybrid" if older else "v2") if unified else ("v1" if older else "none")
    return {"mode": mode, "controllers": controllers}


def container(tree):
    """Kind of container that the node is, or an empty text."""
    found = tree.read("/run/systemd/container").strip()
    if found:
        return found
    environment = (tree.bytes("/proc/1/environ") or b"").split(b"\0")
    return next((x[10:].decode() for x in environment if x.startswith(b"container=")), "")


def secure_boot(tree):
    value = tree.bytes(f"/sys/firmware/efi/efivars/{SECURE_BOOT}")
    return bool(value and value[-1] == 1)


def numa(tree):
    nodes = [
        name for name in tree.names("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)
    ]
    return {
        name[4:]: tree.read(f"/sys/devices/system/node/{name}/cpulist").strip() for name in nodes
    }


def pci(tree):
    """Devices of the vendors that matter here."""
    found = []
    for address in tree.names("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}"
        vendor = tree.read(f"{folder}/vendor").strip()
        if vendor in VENDORS:
            found.append(
                {
                    "address": address,
                    "vendor": VENDORS[vendor],
                    "device": tree.read(f"{folder}/device").strip(),
                    "class": tree.read(f"{folder}/class").strip()[:6],
                    "numa_node": int(tree.read(f"{folder}/numa_node", "-1").strip() or -1),
                }
            )
    return found


def loaded_driver(tree):
    """Version of the loaded NVIDIA module; of a simulated one from its description."""
    match = re.search(
        r"Kernel Module\s+(?:for \S+\s+)?(\d+\.[\d.]+)", tree.read("/proc/driver/nvidia/version")
    )
    if match:
        return match.group(1)
    match = re.search(r"^driver = (\S+)", tree.read("/etc/gpufleet/simgpu.conf"), re.MULTILINE)
    return match.group(1) if match else ""


def kernel_headers(tree):
    """Kernel releases whose modules can be built here."""
    return [x for x in tree.names("/lib/modules") if tree.exists(f"/lib/modules/{x}/build")]


def kernels(tree):
    """Releases of the kernels that can be booted, the oldest first."""
    releases = [x[8:] for x in tree.names("/boot") if x.startswith("vmlinuz-")]
    return sorted(releases, key=lambda x: [int(y) for y in re.findall(r"\d+", x)])


def efa_installer(tree):
    """Version of the EFA installer that was run here."""
    match = re.search(
        r"EFA installer version: (\S+)", tree.read("/opt/amazon/efa_installed_packages")
    )
    return match.group(1) if match else ""


def memory_mib(tree):
    match = re.search(r"^MemTotal:\s+(\d+) kB", tree.read("/proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) // 1024 if match else 0


def free_mib(tree):
    found = os.statvfs(tree.root)
    return found.f_bavail * found.f_frsize // 1024**2


def mounts(tree):
    rows = (line.split() for line in tree.read("/proc/1/mounts").splitlines())
    return {
        row[1]: row[2]
        for row in rows
        if len(row) > 2 and not row[1].startswith(("/proc", "/sys", "/dev", "/run"))
    }


def slurm_nodes(tree):
    """Host lists of the nodes that the Slurm configuration here has."""
    text = tree.read("/etc/slurm/slurm.conf")
    return re.findall(r"^NodeName=(\S+)", text, re.MULTILINE)


def gather(tree):
    loaded = {line.split()[0] for line in tree.read("/proc/modules").splitlines() if line}
    slurm = [
        name
        for folder in ("/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm")
        for name in tree.names(folder)
    ]
    return {
        "os": os_release(tree),
        "kernel": tree.read("/proc/sys/kernel/osrelease").strip() or platform.release(),
        "architecture": platform.machine(),
        "container": container(tree),
        "cgroup": cgroup(tree),
        "dbus": tree.exists("/run/dbus/system_bus_socket"),
        "loaded_modules": sorted(loaded & set(MODULES)),
        "secure_boot": secure_boot(tree),
        "interfaces": tree.names("/sys/class/net"),
        "numa": numa(tree),
        "pci": pci(tree),
        "instance_store": [
            f"/dev/disk/by-id/{name}"
            for name in tree.names("/dev/disk/by-id")
            if re.fullmatch(r"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS[0-9A-Za-z]+", name)
        ],
        "driver_loaded": loaded_driver(tree),
        "kernel_headers": kernel_headers(tree),
        "kernels": kernels(tree),
        "efa_installer": efa_installer(tree),
        "cpus": len(re.findall(r"^processor\s*:", tree.read("/proc/cpuinfo"), re.MULTILINE)),
        "memory_mib": memory_mib(tree),
        "mounts": mounts(tree),
        "free_mib": free_mib(tree),
        "slurm_plugins": sorted(x[:-3] for x in slurm if x.startswith(("cgroup_v", "gpu_"))),
        "slurm_nodes": slurm_nodes(tree),
        "etcd_data": tree.exists("/var/lib/etcd/gpufleet/member"),
        "time": time.time(),
    }


def main():
    module = AnsibleModule(
        argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True
    )
    module.exit_json(changed=False, **gather(Tree(module.params["root"])))


if __name__ == "__main__":
    main()
