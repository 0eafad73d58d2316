"""Rules about what a host must be able to do before it carries a local fleet."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from .facts import Facts
from .localgroups import Cgroups, Disk, Identity, Kernel, RealGpus, Tools
from .needs import local_needs
from .rule import CannotJudge, Finding, Level, Rule

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec

LOCAL = frozenset({"local"})


class Root(Rule):
    """Nodes are made by root only."""

    id = "local.root"
    level: ClassVar[Level] = "error"
    title = "gpufleet runs as root"
    why = "Network namespaces, overlay mounts and machines can be made by root only."
    look = "id -u"
    fix = "Run the same command with sudo."
    providers = LOCAL
    needs = (Identity,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Fails for every effective user id but 0."""
        euid = facts.get(Identity).euid
        if euid != 0:
            yield Finding(
                "host",
                "a local fleet can be made by root only",
                f"user id {euid}",
                "user id 0",
                "run the same command with sudo",
            )


class KernelFeatures(Rule):
    """The kernel features that a node is built from."""

    id = "local.kernel"
    level: ClassVar[Level] = "error"
    title = "the kernel has what nodes are built from"
    why = (
        "Each node is an overlay over one image, in a network namespace of its own, cabled to a "
        "bridge by a veth pair, with its traffic masqueraded by nft. Kernels of small virtual "
        "machines and containers often lack one of these. Each is tried out in a namespace that "
        "vanishes with the trial, so what is judged is what works, not what is configured."
    )
    look = (
        "unshare --mount --propagation private sh -c 'mount -t tmpfs none /tmp && cd /tmp && "
        "mkdir l u w m && mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m'\n"
        "unshare --net ip link add gfprobe0 type veth peer name gfprobe1\n"
        "unshare --net ip link add gfprobe0 type bridge\n"
        "unshare --net nft 'add table ip t; "
        "add chain ip t c { type nat hook postrouting priority 100; }; "
        "add rule ip t c masquerade'"
    )
    fix = (
        "Use a distribution kernel; inside a container, run on the host itself or give the "
        "container CAP_SYS_ADMIN and CAP_NET_ADMIN."
    )
    providers = LOCAL
    needs = (Kernel,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding a feature that does not work; cannot judge one that was not tried."""
        kernel = facts.get(Kernel)
        found = False
        for feature, probe in kernel.probes.items():
            if probe.works is False:
                found = True
                yield Finding(
                    "host",
                    f"the kernel does not offer {feature}",
                    f"kernel {kernel.release}: {probe.detail}",
                    f"a kernel with {feature}",
                    "load the module, use a distribution kernel, or leave the container that "
                    "forbids it",
                )
        untried = [
            f"{feature} ({probe.detail})"
            for feature, probe in kernel.probes.items()
            if probe.works is None
        ]
        if untried and not found:
            raise CannotJudge(f"could not try {', '.join(untried)}")


class UnifiedCgroups(Rule):
    """A cgroup v2 hierarchy that can be written."""

    id = "local.cgroup2"
    level: ClassVar[Level] = "error"
    title = "a cgroup v2 hierarchy is there and can be written"
    why = (
        "What belongs to a node is decided by its control group in the v2 hierarchy; systemd "
        "inside the node needs that hierarchy too. It may stand alone or beside v1 hierarchies."
    )
    look = "grep cgroup2 /proc/mounts"
    fix = (
        "Mount cgroup2 at /sys/fs/cgroup (boot with systemd.unified_cgroup_hierarchy=1) or at "
        "/sys/fs/cgroup/unified; in a container, mount it writable."
    )
    providers = LOCAL
    needs = (Cgroups,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Fails without v2, and where it is read-only."""
        cgroups = facts.get(Cgroups)
        allowed = "cgroup2 at /sys/fs/cgroup or /sys/fs/cgroup/unified, writable"
        fix = f"mount it so; {self.doc} says how"
        if cgroups.layout not in ("unified", "hybrid"):
            seen = "cgroup v1 only" if cgroups.layout == "v1" else "no cgroup hierarchy"
            yield Finding("host", "there is no cgroup v2 hierarchy", seen, allowed, fix)
        elif not cgroups.writable:
            seen = f"{cgroups.path} is read-only"
            yield Finding("host", "the cgroup v2 hierarchy cannot be written", seen, allowed, fix)


class HostTools(Rule):
    """The tools of the host that make and reach nodes."""

    id = "local.tools"
    level: ClassVar[Level] = "error"
    title = "the tools that make and reach nodes are installed"
    why = "A tool that is missing would be noticed half way, with a fleet half made."
    look = "command -v systemd-nspawn debootstrap nft ip ssh ssh-keygen nsenter unshare"
    fix = "Run `make up`, which installs what is missing, or install the packages it names."
    providers = LOCAL
    needs = (Tools,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding a missing tool."""
        found = facts.get(Tools).found
        for tool in local_needs().tools:
            if found.get(tool.name) is None:
                yield Finding(
                    "host",
                    f"{tool.name} is missing; it {tool.use}",
                    "not on PATH",
                    f"{tool.name} on PATH",
                    f"install the package {tool.package}, or run `make up`, which does",
                )


class StateFilesystem(Rule):
    """The state folder lies where overlays can keep their changes."""

    id = "local.filesystem"
    level: ClassVar[Level] = "error"
    title = "the state folder lies on a file system that can hold nodes"
    why = (
        "The changes of every node lie in the state folder as the upper layer of an overlay. "
        "Network file systems, FAT and another overlay (the root of most containers) cannot be one."
    )
    look = "findmnt --target /var/lib --output TARGET,FSTYPE,OPTIONS"
    fix = "Set GPUFLEET_STATE to a folder on a local ext4, xfs or btrfs file system."
    providers = LOCAL
    needs = (Disk,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Fails for a file system that the data file lists as unfit, and for a read-only one."""
        disk = facts.get(Disk)
        for what, place in (("GPUFLEET_STATE", disk.state), ("GPUFLEET_CACHE", disk.cache)):
            if place.read_only:
                yield Finding(
                    "host",
                    f"the folder of {what} lies on a read-only file system",
                    f"{place.path} on {place.filesystem}",
                    "a file system that can be written",
                    f"set {what} to a folder that can be written, or remount it",
                )
        place = disk.state
        kind = place.filesystem.split(".")[0]  # "fuse.sshfs" is a fuse
        if kind in local_needs().unfit_filesystems:
            yield Finding(
                "host",
                "the state folder lies on a file system that cannot hold the changes of nodes",
                f"{place.path} on {place.filesystem}",
                "a local file system such as ext4, xfs or btrfs",
                "set GPUFLEET_STATE to a folder on such a file system",
            )


class NoRealGpus(Rule):
    """Real GPUs are not used by local nodes; say so before anyone wonders."""

    id = "local.real-gpus"
    level: ClassVar[Level] = "warning"
    title = "no real GPU is expected to be used"
    why = (
        "GPUs of local nodes are simulated. On a host with real ones it is easy to believe that "
        "they are at work; they are neither used nor touched."
    )
    look = "find /dev -maxdepth 1 -name 'nvidia[0-9]*'"
    fix = "Use provider baremetal for real GPUs, or suppress this rule with a reason."
    providers = LOCAL
    needs = (RealGpus,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Warns where the host has NVIDIA device files."""
        devices = facts.get(RealGpus).devices
        if devices:
            yield Finding(
                "provider",
                "this host has real GPUs, and a local fleet does not use them: its GPUs are "
                "simulated",
                ", ".join(devices),
                "a host without GPUs, or provider baremetal",
                "set provider: baremetal to use them, or suppress local.real-gpus with a reason",
            )
