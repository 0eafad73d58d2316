"""A machine for a role: this one's files under an overlay, with programs that only real nodes have.

What a role writes goes to memory and is gone afterwards. dpkg and apt are real, with a repository
of empty packages; systemctl is a stub that takes everything for done, as nothing is booted here.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
PATH = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SYSTEMCTL = """#!/bin/sh
# STUB: every unit is there, enabled and runs since the future.
echo "$*" >> /run/systemctl.log
[ "$1" = show ] || exit 0
seen=
for name in "$@"; do
    if [ -n "$seen" ]; then
        printf '%s\\n' "Id=$name" LoadState=loaded ActiveState=active SubState=running \\
            Type=oneshot UnitFileState=enabled NeedDaemonReload=no Result=success \\
            RemainAfterExit=yes "InactiveExitTimestamp=Fri 2099-01-02 00:00:00.000000 UTC" ""
    fi
    [ "$name" != -- ] || seen=1
done
"""

# In a mount namespace that ends with the pipe to its shell: nothing stays mounted, not even where
# the test is killed.
MOUNTS = """
set -eu
mount -t tmpfs machine "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" machine "$2"
mount -t proc proc "$2/proc"
mount --bind -o ro /sys "$2/sys"
mount -t tmpfs -o mode=755 dev "$2/dev"
mount -t tmpfs -o mode=755 run "$2/run"
echo ready
read -r _ || true
"""

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
           "tty": (5, 0)}  # fmt: skip

NODE: dict[str, Any] = {
    "os": {"id": "ubuntu", "version": "24.04", "codename": "noble"},
    "kernel": "6.8.0-1018-aws",
    "kernels": ["6.8.0-1018-aws"],
    "kernel_headers": ["6.8.0-1018-aws"],
    "container": "",
    "secure_boot": False,
    "interfaces": ["lo", "ens32"],
    "instance_store": [],
    "mounts": {},
    "pci": [],
    "cpus": 192,
    "efa_installer": "",
}
HOST: dict[str, Any] = {
    "ansible_connection": "local",
    "gpufleet_stack": "a-set",
    "gpufleet_cluster": "c",
    "gpufleet_provider": "aws",
    "gpufleet_instance_type": "p5en.48xlarge",
    "gpufleet_simulated": False,
    "gpufleet_pins": {},
    "gpufleet_packages": {},
    "gpufleet_pin_packages": {},
    "gpufleet_gpus": [],
    "gpufleet_nics": [],
    "gpufleet_scratch": [],
    "gpufleet_mounts": [],
    "gpufleet_shared_mounts": [],
}


def host(node: Mapping[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    """Variables of a node: a contract and facts, with what is given in place of the usual."""
    contract = {f"gpufleet_{k}" if f"gpufleet_{k}" in HOST else k: v for k, v in variables.items()}
    return {**HOST, **contract, "node": {**NODE, **(node or {})}}


@dataclass(frozen=True)
class Played:
    """What a run of roles said."""

    text: str
    failed: frozenset[str]

    def said(self, name: str) -> str:
        """Messages of a host, in one line each without breaks."""
        rows, mine = [], False
        for line in self.text.splitlines():
            if line.startswith(("ok:", "fatal:", "changed:", "skipping:", "TASK", "PLAY")):
                mine = f"[{name}]" in line
            if mine:
                rows.append(line)
        return " ".join(" ".join(rows).split())


@dataclass(frozen=True)
class Machine:
    """Root of the machine, seen from here, and the words that run a command in it."""

    root: Path
    enter: tuple[str, ...]

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(mode)

    def program(self, path: str, text: str) -> None:
        self.write(path, text, 0o755)

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.enter, *words],
            env={**os.environ, "PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def play(
        self, roles: list[str], hosts: Mapping[str, Mapping[str, Any]], *options: str
    ) -> Played:
        """Run roles on hosts that all are this machine."""
        self.write(
            "/srv/hosts.yml", yaml.safe_dump({"all": {"hosts": json.loads(json.dumps(hosts))}})
        )
        self.write("/srv/play.yml", yaml.safe_dump(
            [{"hosts": "all", "gather_facts": False, "roles": roles}]))  # fmt: skip
        done = self.run(
            "env", f"ANSIBLE_CONFIG={CHECKOUT}/ansible.cfg", f"ANSIBLE_ROLES_PATH={CHECKOUT}/roles",
            "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ansible-playbook", "-i", "/srv/hosts.yml",
            "-e", f"ansible_python_interpreter={sys.executable}", *options, "/srv/play.yml",
            check=False,
        )  # fmt: skip
        text = done.stdout + done.stderr
        assert "PLAY RECAP" in text, text
        rows = text.split("PLAY RECAP")[1].splitlines()
        return Played(
            text,
            frozenset(row.split()[0] for row in rows if "failed=" in row and "failed=0" not in row),
        )

    def fstab_units(self, into: Path) -> Path:
        """Units that systemd makes of the table of mounts."""
        into.mkdir()
        subprocess.run(
            ["/usr/lib/systemd/system-generators/systemd-fstab-generator", *[str(into)] * 3],
            env={"SYSTEMD_FSTAB": str(self.root / "etc/fstab")}, check=True, timeout=20,
        )  # fmt: skip
        return into

    def verify(self, *units: str, generated: Path | None = None) -> None:
        """Demand that systemd has nothing to say of units."""
        if generated is not None:
            shutil.copytree(generated, self.root / "run/systemd/generator", dirs_exist_ok=True)
        done = self.run("systemd-analyze", "verify", "--man=no", *units, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def repository(self, packages: Mapping[str, str]) -> None:
        """The only source of packages: names with versions, empty but for a kernel's."""
        folder = self.root / "srv/repository"
        rows = []
        for name, version in packages.items():
            tree = self.root / "srv/build"
            shutil.rmtree(tree, ignore_errors=True)
            (tree / "DEBIAN").mkdir(parents=True)
            control = (
                f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
                "Maintainer: none <none@none>\nDescription: empty, for a test\n"
            )
            (tree / "DEBIAN/control").write_text(control)
            if name.startswith("linux-image-6"):
                (tree / "boot").mkdir()
                (tree / f"boot/vmlinuz-{name.removeprefix('linux-image-')}").write_text("")
            folder.mkdir(parents=True, exist_ok=True)
            deb = folder / f"{name}.deb"
            subprocess.run(["dpkg-deb", "-Znone", "--build", str(tree), str(deb)],
                           check=True, capture_output=True, timeout=20)  # fmt: skip
            data = deb.read_bytes()
            rows.append(
                f"{control}Filename: ./{name}.deb\nSize: {len(data)}\n"
                f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
            )
        (folder / "Packages").write_text("\n".join(rows))
        for path in (self.root / "etc/apt/sources.list.d").iterdir():
            path.unlink()
        self.write("/etc/apt/sources.list", "deb [trusted=yes] file:/srv/repository ./\n")
        self.run("apt-get", "-q", "update")


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine in a folder; needs root."""
    for name in ("over", "root"):
        (folder / name).mkdir()
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private",
         "sh", "-c", MOUNTS, "sh", str(folder / "over"), str(folder / "root")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n", "no mount namespace can be made here"
        root = Path(f"/proc/{holder.pid}/root{folder / 'root'}")
        for name, (major, minor) in DEVICES.items():
            os.mknod(root / "dev" / name, 0o020666, os.makedev(major, minor))
            (root / "dev" / name).chmod(0o666)
        (root / "dev/shm").mkdir()
        for name, target in {
            "fd": "fd",
            "stdin": "fd/0",
            "stdout": "fd/1",
            "stderr": "fd/2",
        }.items():
            (root / "dev" / name).symlink_to(f"/proc/self/{target}")
        enter = ("nsenter", f"--target={holder.pid}", "--mount", "chroot", str(folder / "root"))
        made = Machine(root, enter)
        made.program("/usr/local/bin/systemctl", SYSTEMCTL)
        made.write("/etc/fstab", "# the system's own\n")
        yield made
