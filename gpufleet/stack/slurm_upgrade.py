"""The order of a Slurm upgrade as steps, or why it cannot be made. Pure; nothing is run.

slurmdbd goes first, then slurmctld, then slurmd, since a daemon understands older ones and no newer
ones. How many releases it understands is data (`upgrade_from` in versions.yaml).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .check import span
from .debversion import DebVersion
from .universe import Universe
from .versions import head

ORDER = "slurmdbd first, then slurmctld, then slurmd: each may be newer than the next, never older"


@dataclass(frozen=True)
class Installed:
    """Versions of the daemons; slurmd by node."""

    dbd: str
    ctld: str
    slurmd: Mapping[str, str]


@dataclass(frozen=True)
class Target:
    """Versions to come to."""

    dbd: str
    ctld: str
    slurmd: str


@dataclass(frozen=True)
class Step:
    """One thing to do. `nodes` is empty where it is done once, on the daemon's own host."""

    action: str
    daemon: str
    version: str
    why: str
    nodes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "action": self.action,
            "daemon": self.daemon,
            "version": self.version,
            "why": self.why,
            "nodes": list(self.nodes),
        }


@dataclass(frozen=True)
class Refusal:
    """Why an upgrade cannot be made as asked."""

    daemon: str
    message: str
    allowed: str
    fix: str

    def __str__(self) -> str:
        return f"{self.daemon}: {self.message} (allowed: {self.allowed}; fix: {self.fix})"


class CannotUpgrade(ValueError):
    """All reasons against an upgrade."""

    def __init__(self, refusals: list[Refusal]) -> None:
        self.refusals = refusals
        super().__init__("\n".join(str(x) for x in refusals))


def plan(
    installed: Installed, target: Target, *, batch: int = 10, known: Universe | None = None
) -> list[Step]:
    """Steps in the order in which they are done; empty where nothing changes.

    `batch` nodes are upgraded at a time. Raises CannotUpgrade with every reason, and ValueError for
    text that is no version or a batch below 1.
    """
    if batch < 1:
        raise ValueError(f"a batch of {batch} nodes is none")
    refusals = _refusals(installed, target, known)
    if refusals:
        raise CannotUpgrade(refusals)
    steps = []
    if installed.dbd != target.dbd:
        steps += _database(installed.dbd, target.dbd)
    if installed.ctld != target.ctld:
        steps += _controller(target.ctld)
    waiting = sorted(node for node, seen in installed.slurmd.items() if seen != target.slurmd)
    for first in range(0, len(waiting), batch):
        nodes = tuple(waiting[first : first + batch])
        steps += _nodes(nodes, target.slurmd, first == 0 and _moves(installed, target))
    return steps


def release(version: str) -> tuple[int, int]:
    """Year and month of a version: (24, 11) for 24.11.5. Numbers of their own, no fraction."""
    year, _, month = head(DebVersion(version).upstream, 2).partition(".")
    if not (year.isdigit() and month.isdigit()):
        raise ValueError(f"{version!r} is not a Slurm version such as 24.11.5")
    return int(year), int(month)


def _name(version: str) -> str:
    return head(DebVersion(version).upstream, 2)


def _refusals(installed: Installed, target: Target, known: Universe | None) -> list[Refusal]:
    found = []
    oldest = min(installed.slurmd.values(), key=release, default=target.slurmd)
    newest = max(installed.slurmd.values(), key=release, default=target.slurmd)
    for daemon, version, leader, above in (
        ("slurmctld", target.ctld, "slurmdbd", target.dbd),
        ("slurmd", target.slurmd, "slurmctld", target.ctld),
    ):
        if release(version) > release(above):
            message = f"{version} would be newer than {leader} {above}"
            fix = f"set {leader} to {version} or newer"
            found.append(Refusal(daemon, message, ORDER, fix))
    for daemon, old, new in (
        ("slurmdbd", installed.dbd, target.dbd),
        ("slurmctld", installed.ctld, target.ctld),
        ("slurmd", oldest, target.slurmd),
        ("slurmd", newest, target.slurmd),
    ):
        found += _too_far(daemon, old, new, known)
    # While the upgrade is under way, the new daemon talks to those that are still the old ones.
    for daemon, old, leader, new in (
        ("slurmctld", installed.ctld, "slurmdbd", target.dbd),
        ("slurmd", oldest, "slurmctld", target.ctld),
        ("slurmctld", target.ctld, "slurmdbd", target.dbd),
        ("slurmd", target.slurmd, "slurmctld", target.ctld),
    ):
        understood = span("slurm", new, known)
        if understood and release(old) <= release(new) and _name(old) not in understood:
            message = f"{old} is too old for {leader} {new}"
            fix = f"bring {daemon} to one of {', '.join(understood)} first"
            found.append(Refusal(daemon, message, ", ".join(understood), fix))
    return list(dict.fromkeys(found))


def _too_far(daemon: str, old: str, new: str, known: Universe | None) -> list[Refusal]:
    allowed = span("slurm", new, known)
    if allowed is None:
        message = f"nothing is known of release {_name(new)}"
        return [Refusal(daemon, message, "releases in versions.yaml", "add its row there")]
    if release(old) > release(new):
        message = f"{old} cannot go back to {new}: its state would be lost"
        fix = "restore the backup of the database and of the state folder"
        return [Refusal(daemon, message, f"{_name(old)} or newer", fix)]
    if _name(old) not in allowed:
        message = f"{old} cannot go to {new} at once"
        between = ", ".join(allowed[:-1])
        fix = f"go to one of {between} first"
        return [Refusal(daemon, message, f"from {', '.join(allowed)} to {_name(new)}", fix)]
    return []


def _moves(installed: Installed, target: Target) -> bool:
    """Whether any node changes its release, so that plugins have to be built anew."""
    return any(release(x) != release(target.slurmd) for x in installed.slurmd.values())


def _database(old: str, new: str) -> list[Step]:
    steps = [
        Step("back up the database", "slurmdbd", old, "a conversion cannot be undone"),
        Step("test the backup", "slurmdbd", old, "one that cannot be read back is none"),
        Step("stop", "slurmdbd", old, "nothing may write while the tables change"),
        Step("install", "slurmdbd", new, "the database daemon is never older than the others"),
    ]
    if release(old) >= (24, 11):
        steps.append(Step("check the conversion", "slurmdbd", new, "`slurmdbd -u` says if it runs"))
    if release(old) != release(new):
        why = "in the foreground and without a start time-out: killed half way it leaves a wreck"
        steps.append(Step("convert in the foreground", "slurmdbd", new, why))
    return [*steps, Step("start and wait until it answers", "slurmdbd", new, "others need it")]


def _controller(new: str) -> list[Step]:
    return [
        Step("back up the state folder", "slurmctld", new, "jobs are in it"),
        Step("stop", "slurmctld", new, "jobs go on without it"),
        Step("install", "slurmctld", new, "never older than slurmd"),
        Step("start and wait until it answers", "slurmctld", new, "it takes over the jobs"),
    ]


def _nodes(nodes: tuple[str, ...], new: str, rebuild: bool) -> list[Step]:
    steps = []
    if rebuild:
        why = "SPANK plugins are compiled for one release"
        steps.append(Step("build SPANK plugins anew", "slurmd", new, why))
    return [
        *steps,
        Step("install and restart", "slurmd", new, "steps of jobs go on meanwhile", nodes),
        Step("wait until nodes are back", "slurmd", new, "the next batch comes after it", nodes),
    ]
