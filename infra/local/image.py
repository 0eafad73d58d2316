"""The node image: one Debian root file system in the cache, shared read-only by all nodes.

An image is named by the digest of all that goes into it, so a change of its recipe is a new
image and the nodes made from the old one are seen to be stale. It is built under a temporary
name and renamed: a killed build leaves no half image.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufleet.atomic import write_atomic
from gpufleet.paths import cache_dir

from .command import run
from .files import locked, remove_tree, write_json

# Raised when the recipe below changes in a way that its data does not show.
RECIPE = 1

BASE_PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "nftables",
    "sudo",
    "procps",
    "ca-certificates",
    "gpg",
)

# Units that cannot work in a namespaced machine, or that would wake an idle one.
MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "systemd-modules-load.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-networkd.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
)

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
PermitRootLogin no
UseDNS no
MaxSessions 64
MaxStartups 64:30:128
"""


@dataclass(frozen=True)
class ImageRecipe:
    """All that decides what is in an image."""

    suite: str = "trixie"
    packages: tuple[str, ...] = BASE_PACKAGES
    extra_packages: tuple[str, ...] = ()
    user: str = "fleet"
    recipe: int = RECIPE

    @property
    def digest(self) -> str:
        """Name of the image: the first 16 hex digits of SHA-256 over the recipe."""
        text = json.dumps(
            [asdict(self), MASKED_UNITS, SSHD_CONFIG, _host_authorities()], sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where the finished image lies in the cache."""
        return cache_dir() / "images" / self.digest

    @property
    def rootfs(self) -> Path:
        """Root file system of the finished image; nodes mount it as their lower layer."""
        return self.folder / "rootfs"

    @property
    def ready(self) -> bool:
        """Whether the image was built to its end."""
        return (self.folder / "image.json").exists()


def ensure_image(recipe: ImageRecipe) -> Path:
    """Build the image unless it is in the cache; return its root file system.

    Takes about 20 to 60 s and 350 MB when it has to be built. Two callers at once build one image.
    """
    folder = recipe.folder
    if recipe.ready:
        return recipe.rootfs
    with locked(folder.with_suffix(".lock")):
        if recipe.ready:
            return recipe.rootfs
        building = folder.with_suffix(".building")
        remove_tree(building)
        remove_tree(folder)
        building.mkdir(parents=True)
        _bootstrap(recipe, building / "rootfs")
        _configure(recipe, building / "rootfs")
        write_json(building / "image.json", asdict(recipe), 0o644)
        building.rename(folder)
    return recipe.rootfs


def _bootstrap(recipe: ImageRecipe, rootfs: Path) -> None:
    packages = ",".join((*recipe.packages, *recipe.extra_packages))
    args = ["debootstrap", "--variant=minbase", f"--include={packages}", recipe.suite, str(rootfs)]
    mirror = _host_mirror()
    if mirror:
        args.append(mirror)
    run(args, timeout=1200)


def _configure(recipe: ImageRecipe, rootfs: Path) -> None:
    def inside(*args: str) -> None:
        run(["chroot", str(rootfs), *args], timeout=120)

    inside("useradd", "--create-home", "--shell", "/bin/bash", "--uid", "1000", recipe.user)
    sudoers = rootfs / "etc/sudoers.d/gpufleet"
    write_atomic(sudoers, f"{recipe.user} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    write_atomic(rootfs / "etc/ssh/sshd_config.d/10-gpufleet.conf", SSHD_CONFIG)
    # Every node gets a key of its own at birth; a shared one in the image would be a hole.
    for key in (rootfs / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    inside("systemctl", "mask", *MASKED_UNITS)
    inside("systemctl", "disable", "ssh.socket")
    inside("systemctl", "enable", "ssh.service")
    journald = rootfs / "etc/systemd/journald.conf.d"
    journald.mkdir(parents=True, exist_ok=True)
    write_atomic(journald / "10-gpufleet.conf", "[Journal]\nSystemMaxUse=64M\nRuntimeMaxUse=16M\n")
    write_atomic(rootfs / "etc/machine-id", "")
    for name, content in _host_authorities().items():
        target = rootfs / "usr/local/share/ca-certificates" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)
    inside("update-ca-certificates")
    for archive in (rootfs / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    for name in ("fsx", "scratch", "etc/gpufleet"):
        (rootfs / name).mkdir(exist_ok=True)


def _host_authorities() -> dict[str, str]:
    """Certificate authorities that the host's owner added; nodes must trust the same ones."""
    folder = Path("/usr/local/share/ca-certificates")
    return {path.name: path.read_text() for path in sorted(folder.glob("*.crt"))}


def _host_mirror() -> str | None:
    """The package mirror that this host itself uses, where it is a Debian."""
    if "ID=debian" not in Path("/etc/os-release").read_text().splitlines():
        return None
    folder = Path("/etc/apt/sources.list.d")
    for path in [*sorted(folder.glob("*.sources")), Path("/etc/apt/sources.list")]:
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            found = None
            if len(words) > 1 and words[0] == "URIs:":
                found = words[1]
            elif len(words) > 2 and words[0] == "deb":
                found = next((word for word in words[1:] if "://" in word), None)
            if found and found.rstrip("/").endswith("/debian"):
                return found
    return None
