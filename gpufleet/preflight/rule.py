"""One preflight rule: a small pure object that judges a spec against facts.

A rule does no I/O. It says by `needs` which fact groups it looks at; where one of them is
absent the rule is skipped with the reason, for "not known" must never read as "passed".
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from textwrap import indent
from typing import TYPE_CHECKING, ClassVar, Literal

from .facts import FactGroup, Facts

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec

Level = Literal["error", "warning"]
EVERY_PROVIDER = frozenset({"local", "aws", "baremetal"})
DOC_PAGE = "docs/preflight.md"


class Status(StrEnum):
    """What came of a rule."""

    PASSED = "passed"
    FAILED = "failed"
    WARNED = "warned"
    SKIPPED = "skipped"
    SUPPRESSED = "suppressed"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it has to be.

    `path` is a field of the spec ("network.cidr") or "host"; `seen` and `allowed` are what was
    found and what would have been fine; `fix` is one sentence that says what to do.
    """

    path: str
    message: str
    seen: str
    allowed: str
    fix: str

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.path}: {self.message} "
            f"(seen {self.seen}; allowed {self.allowed}; fix: {self.fix})"
        )


@dataclass(frozen=True)
class Outcome:
    """What came of one rule: never silent about a rule that could not judge.

    `why` says why a rule was skipped, or how it broke; `reason` and `expires` are those of the
    suppression that holds. A suppressed rule keeps what it found in `findings`.
    """

    rule: str
    level: Level
    title: str
    doc: str
    status: Status
    findings: tuple[Finding, ...] = ()
    why: str | None = None
    reason: str | None = None
    expires: date | None = None

    @property
    def blocks(self) -> bool:
        """Whether this outcome alone makes the whole check fail."""
        return self.status in (Status.FAILED, Status.ERROR)


class CannotJudge(Exception):
    """Raised by a rule whose facts are there but leave open what it asks; the text says why."""


class Rule(ABC):
    """Base of every rule. Class attributes are its identity; `check` is its judgement."""

    id: ClassVar[str]
    level: ClassVar[Level]
    title: ClassVar[str]
    why: ClassVar[str]
    """Why the rule exists: what goes wrong without it."""
    look: ClassVar[str]
    """Shell commands, one a line, that show the facts by hand and change nothing."""
    fix: ClassVar[str]
    """How to make it pass."""
    providers: ClassVar[frozenset[str]] = EVERY_PROVIDER
    needs: ClassVar[tuple[type[FactGroup], ...]] = ()
    suppressible: ClassVar[bool] = True

    @abstractmethod
    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterable[Finding]:
        """Everything that is wrong; empty when the rule passes. Raises CannotJudge."""

    @property
    def anchor(self) -> str:
        """Anchor of the rule's section in the documentation."""
        return self.id.replace(".", "-").replace("_", "-")

    @property
    def doc(self) -> str:
        """Link to the rule's section in the documentation."""
        return f"{DOC_PAGE}#{self.anchor}"

    @property
    def explain(self) -> str:
        """The text behind `gpufleet explain RULE`."""
        providers = ", ".join(sorted(self.providers))
        facts = ", ".join(group.name for group in self.needs) or "none, the spec is enough"
        return (
            f"{self.id} ({self.level}): {self.title}\n\n"
            f"Why: {self.why}\n\n"
            f"See it by hand:\n{indent(self.look, '    ')}\n\n"
            f"Fix: {self.fix}\n\n"
            f"Providers: {providers}\nFacts: {facts}\nMore: {self.doc}\n"
        )
