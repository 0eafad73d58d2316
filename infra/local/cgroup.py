"""A control group a machine: what is in it is the machine's, and nothing else is.

Membership is decided by the kernel before a machine's first process runs, so "is it running"
and "end all of it" need no process table searches and no guesses after a crash.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
GROUP = "gpufleet"


def unified_root() -> Path:
    """Mount point of the cgroup v2 hierarchy: of its own, or beside v1 hierarchies (hybrid)."""
    for candidate in (ROOT, ROOT / "unified"):
        if (candidate / "cgroup.controllers").exists():
            return candidate
    raise FileNotFoundError("no cgroup v2 hierarchy at /sys/fs/cgroup or /sys/fs/cgroup/unified")


def legacy_roots() -> list[Path]:
    """Mount points of cgroup v1 controllers of a hybrid host that are joined as well."""
    names = ("memory", "cpu", "cpuacct", "cpuset", "pids", "freezer", "devices", "systemd")
    return [ROOT / name for name in names if (ROOT / name / "cgroup.procs").exists()]


@dataclass(frozen=True)
class MachineGroup:
    """The control group of one machine of one cluster."""

    cluster: str
    node: str

    @property
    def path(self) -> Path:
        """Folder of the group in the cgroup v2 hierarchy."""
        return unified_root() / GROUP / self.cluster / self.node

    def legacy_paths(self) -> list[Path]:
        """Folders of the group in the v1 hierarchies of a hybrid host."""
        return [root / GROUP / self.cluster / self.node for root in legacy_roots()]

    def create(self) -> None:
        """Make the group, with every controller the host offers handed down to it."""
        root = unified_root()
        self.path.mkdir(parents=True, exist_ok=True)
        parent = root
        for part in (GROUP, self.cluster, self.node):
            _hand_down_controllers(parent)
            parent = parent / part
        for path in self.legacy_paths():
            path.mkdir(parents=True, exist_ok=True)
            _copy_cpuset(path)

    def enter(self) -> None:
        """Move the calling process into the group; children are born there."""
        for path in (*self.legacy_paths(), self.path):
            (path / "cgroup.procs").write_text("0")

    def pids(self) -> list[int]:
        """Processes in the group and below, as the host numbers them."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            try:
                found.extend(int(x) for x in (Path(folder) / "cgroup.procs").read_text().split())
            except (FileNotFoundError, OSError):
                # A group that vanished, or a threaded one, whose processes its parent lists.
                continue
        return found

    def populated(self) -> bool:
        """Whether any process of the machine is alive."""
        try:
            events = (self.path / "cgroup.events").read_text()
        except FileNotFoundError:
            return False
        return "populated 1" in events

    def memory_bytes(self) -> int:
        """Memory of the machine's processes: the sum of their proportional set sizes."""
        total = 0
        for pid in self.pids():
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            total += sum(int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:"))
        return total * 1024

    def kill(self, timeout: float = 15.0) -> None:
        """End every process of the machine at once; returns when the kernel says all are gone."""
        deadline = time.monotonic() + timeout
        switch = self.path / "cgroup.kill"
        while self.populated():
            if switch.exists():
                switch.write_text("1")
            else:
                self._signal_all()
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes of {self.cluster}/{self.node} outlive SIGKILL")
            time.sleep(0.02)

    def _signal_all(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue

    def remove(self) -> None:
        """Remove the empty group and, with the last machine, the groups of cluster and product."""
        for top in (self.path, *self.legacy_paths()):
            if top.exists():
                for folder, _, _ in os.walk(top, topdown=False):
                    Path(folder).rmdir()
            for parent in (top.parent, top.parent.parent):
                try:
                    parent.rmdir()
                except OSError:
                    break  # other machines are in it, or it is gone: both are fine


def machines(cluster: str) -> list[str]:
    """Names of the machines that have a group, running or not."""
    folder = unified_root() / GROUP / cluster
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def _hand_down_controllers(parent: Path) -> None:
    offered = (parent / "cgroup.controllers").read_text().split()
    enabled = (parent / "cgroup.subtree_control").read_text().split()
    missing = [name for name in offered if name not in enabled]
    if missing:
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))


def _copy_cpuset(path: Path) -> None:
    # A v1 cpuset group refuses members until it has CPUs and memory nodes; inherit the parent's.
    if not (path / "cpuset.cpus").exists():
        return
    chain = [path, *path.parents]
    root = next(p for p in chain if p.name == GROUP).parent
    for folder in reversed(chain[: chain.index(root)]):
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (folder / name).read_text().strip():
                (folder / name).write_text((folder.parent / name).read_text())
