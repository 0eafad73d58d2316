"""Find out what the rules for local fleets want to know about this host. Changes nothing."""

import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.paths import cache_dir, state_dir

from .facts import FactError, Facts, gather
from .firewall import forwarding
from .hostport import front_port
from .hostranges import ranges
from .kernelprobe import kernel
from .local_network import uplink_name, usable_nameserver
from .localgroups import (
    Cgroups,
    Disk,
    Forwarding,
    FrontPort,
    Identity,
    Kernel,
    Memory,
    OwnFleet,
    Place,
    Ranges,
    RealGpus,
    Resolver,
    Tools,
)
from .needs import local_needs

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec

DEADLINE = 5.0
CGROUP = Path("/sys/fs/cgroup")
# The kernel writes blanks and backslashes of mount points this way.
OCTAL = re.compile(r"\\([0-7]{3})")


def gather_local_facts(spec: "ClusterSpec", deadline: float = DEADLINE) -> Facts:
    """All facts for the rules of a local cluster, within `deadline` seconds (usually 0.1 s)."""
    return gather(
        {
            Identity: lambda: Identity(os.geteuid()),
            Kernel: kernel,
            Cgroups: cgroups,
            Tools: tools,
            Disk: partial(disk, spec.name),
            Memory: memory,
            OwnFleet: partial(own_fleet, spec.name),
            Ranges: ranges,
            FrontPort: partial(front_port, spec.access.front_port, spec.name),
            Forwarding: partial(forwarding, uplink_name(spec.name)),
            Resolver: resolver,
            RealGpus: real_gpus,
        },
        deadline,
    )


def cgroups(root: Path = CGROUP) -> Cgroups:
    """The layout of control groups below their usual mount point."""
    if (root / "cgroup.controllers").exists():
        return Cgroups("unified", str(root), not _read_only(root))
    if (root / "unified/cgroup.controllers").exists():
        return Cgroups("hybrid", str(root / "unified"), not _read_only(root / "unified"))
    if any(root.glob("*/cgroup.procs")):
        return Cgroups("v1", str(root), False)
    return Cgroups("none", str(root), False)


def _read_only(path: Path) -> bool:
    """Whether the file system is mounted read-only, whoever asks."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def tools() -> Tools:
    """Where the tools that the data file names are found on PATH."""
    return Tools({tool.name: shutil.which(tool.name) for tool in local_needs().tools})


def disk(cluster: str) -> Disk:
    """The places of the cluster's state and of the cache, made already or not."""
    return Disk(place(state_dir(cluster)), place(cache_dir()))


def place(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Place:
    """The file system that a folder lies on, or would lie on once it is made."""
    present = path.absolute()
    while not present.exists():
        present = present.parent
    numbers = os.statvfs(present)
    return Place(
        str(path),
        filesystem_of(present.resolve(), mountinfo.read_text()),
        present.stat().st_dev,
        numbers.f_bavail * numbers.f_frsize // 2**20,
        _read_only(present),
    )


def filesystem_of(path: Path, mountinfo: str) -> str:
    """The type of the file system at an absolute path; of mounts at one place the last holds."""
    best, kind = -1, "unknown"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mounted = Path(OCTAL.sub(lambda x: chr(int(x[1], 8)), before.split()[4]))
        if path.is_relative_to(mounted) and len(mounted.parts) >= best:
            best, kind = len(mounted.parts), after.split()[0]
    return kind


def memory(meminfo: Path = Path("/proc/meminfo")) -> Memory:
    """What the kernel says is available without swapping."""
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return Memory(int(line.split()[1]) // 1024)
    raise FactError(f"{meminfo} does not say what memory is available")


def own_fleet(cluster: str, root: Path = CGROUP) -> OwnFleet:
    """The nodes that this cluster has on disk here, and those of them that run."""
    laid = {path.parent.name for path in state_dir(cluster).glob("nodes/*/machine.json")}
    running = set()
    for base in (root, root / "unified"):
        for events in base.glob(f"gpufleet/{cluster}/*/cgroup.events"):
            try:
                populated = "populated 1" in events.read_text().splitlines()
            except (FileNotFoundError, OSError):
                continue  # the machine ended while it was looked at
            if populated:
                running.add(events.parent.name)
    return OwnFleet(frozenset(laid), frozenset(running))


def resolver(root: Path = Path("/")) -> Resolver:
    """The host's name servers; where a local cache stands in front, those behind it."""
    answer = Resolver(str(root / "etc/resolv.conf"), ())
    for name in ("run/systemd/resolve/resolv.conf", "etc/resolv.conf"):
        path = root / name
        if path.exists():
            lines = (line.split() for line in path.read_text().splitlines())
            servers = tuple(x[1] for x in lines if len(x) > 1 and x[0] == "nameserver")
            answer = Resolver(str(path), servers)
            if any(usable_nameserver(server) for server in servers):
                return answer
    return answer


def real_gpus(devices: Path = Path("/dev")) -> RealGpus:
    """Device files of NVIDIA GPUs: nvidia0, nvidia1 and so on."""
    found = (path for path in devices.glob("nvidia[0-9]*"))
    return RealGpus(tuple(str(path) for path in sorted(found)))
