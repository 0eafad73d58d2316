"""Verdicts, checks and findings: the terms in which a node is judged. Pure."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpufleet.fleet import FleetNode, Mount


class Verdict(StrEnum):
    """What to do with a node; the later in this order, the worse."""

    OK = "ok"
    """It may take work."""
    DEGRADED = "degraded"
    """It may go on, and needs a look."""
    REBOOT = "reboot"
    """Drain it, then reboot it."""
    ISOLATE = "isolate"
    """Keep work away from it: what runs there fails, or ends up wrong."""

    @property
    def rank(self) -> int:
        """0 for ok, more for worse."""
        return list(Verdict).index(self)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them; ok where there is none."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.OK)


@dataclass(frozen=True)
class Output:
    """What a command gave on a node; `code` 124 is one that did not end in time."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """Its own words about what went wrong: last line of its errors, or else of its output."""
        for text in (self.err, self.out):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:200]
        return "it said nothing"


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be; without a verdict of its own it has the check's."""

    reason: str
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Want:
    """What a node should be: its place in the fleet, and versions from the lock.

    `packages` are Debian packages with versions by pin, such as `driver`; `ray_head` is the address
    of the node whose Ray all others join.
    """

    cluster: str
    stack: str
    node: FleetNode
    groups: frozenset[str]
    pins: Mapping[str, str]
    packages: Mapping[str, Mapping[str, str]]
    shared_mounts: tuple[Mount, ...]
    ray_head: str

    def packages_of(self, *pins: str) -> dict[str, str]:
        """Packages of these pins with their versions; pins that the set lacks have none."""
        return {k: v for pin in pins for k, v in sorted(self.packages.get(pin, {}).items())}


Judge = Callable[[Output, Want], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """One question to a node. `groups`: it concerns members of any of them; empty: every node.

    `command` makes the shell command, which changes nothing on the node, or an empty text where
    there is nothing to ask. `judge` reads its output; what it finds has `verdict` unless it says
    otherwise.
    """

    name: str
    title: str
    verdict: Verdict
    hint: str
    command: Callable[[Want], str]
    judge: Judge
    groups: frozenset[str] = frozenset()

    def applies(self, want: Want) -> bool:
        """Whether the node is asked this at all."""
        return bool((not self.groups or self.groups & want.groups) and self.command(want))

    def examine(self, output: Output, want: Want) -> list[Finding]:
        """What is wrong, each with its verdict; empty when all is well."""
        return [
            Finding(found.reason, found.verdict or self.verdict)
            for found in self.judge(output, want)
        ]


@dataclass(frozen=True)
class Row:
    """The outcome of one check on one node; ok has no reasons."""

    check: str
    title: str
    verdict: Verdict
    reasons: tuple[str, ...]
    command: str
    """What was run on the node."""
    hint: str
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "check": self.check,
            "title": self.title,
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "command": self.command,
            "hint": self.hint if self.reasons else "",
        }


@dataclass(frozen=True)
class NodeReport:
    """All rows of one node; `seconds` is how long it took to answer."""

    node: str
    rows: tuple[Row, ...]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """The worst of its checks. A node that nothing is known of cannot be trusted."""
        return worst(row.verdict for row in self.rows) if self.rows else Verdict.ISOLATE

    @property
    def bad(self) -> tuple[Row, ...]:
        """Rows that are not ok, the worst first."""
        rows = (row for row in self.rows if row.verdict is not Verdict.OK)
        return tuple(sorted(rows, key=lambda row: -row.verdict.rank))


def by_hand(cluster: str, node: str, command: str) -> str:
    """The line with which an operator runs a check's command again."""
    return f"bin/gpufleet ssh {cluster} {node} {shlex.quote(command)}"
