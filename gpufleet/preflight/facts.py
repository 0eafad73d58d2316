"""Facts: what was found out about the world before a rule judges it.

Facts come in groups; a group is there whole, or absent with the reason. Gathering has a deadline,
so a hanging tool costs one group and not the whole check.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar


class FactGroup:
    """Base of the frozen dataclasses that hold facts; `name` is what reports call the group."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Clock(FactGroup):
    """When the check runs; given by the caller, so that rules need no clock of their own."""

    name: ClassVar[str] = "clock"
    now: datetime


@dataclass(frozen=True)
class RuleNames(FactGroup):
    """Which rules exist, and which of them may be suppressed."""

    name: ClassVar[str] = "rule names"
    known: frozenset[str]
    suppressible: frozenset[str]


class FactError(Exception):
    """A fact could not be found out; the text is one sentence that says why."""


@dataclass(frozen=True)
class Facts:
    """The groups that are there, and why the others are not."""

    groups: Mapping[type[FactGroup], FactGroup] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, *groups: FactGroup, absent: Mapping[str, str] | None = None) -> "Facts":
        """Facts made of these groups."""
        return cls({type(group): group for group in groups}, dict(absent or {}))

    def with_groups(self, *groups: FactGroup) -> "Facts":
        """The same facts and these."""
        return Facts({**self.groups, **{type(group): group for group in groups}}, self.absent)

    def get[T: FactGroup](self, kind: type[T]) -> T:
        """The group; raises FactError with the reason where it is absent."""
        found = self.groups.get(kind)
        if not isinstance(found, kind):
            raise FactError(self.why_absent(kind) or f"{kind.name} facts have the wrong type")
        return found

    def why_absent(self, kind: type[FactGroup]) -> str | None:
        """Why the group is not there, or None where it is."""
        if kind in self.groups:
            return None
        return self.absent.get(kind.name, f"no {kind.name} facts were gathered")


@dataclass
class _Answer:
    group: FactGroup | None = None
    failure: str | None = None


def gather(gatherers: Mapping[type[FactGroup], Callable[[], FactGroup]], deadline: float) -> Facts:
    """Run every gatherer at once and wait at most `deadline` seconds for all of them.

    One that fails or is late leaves its group absent with the reason. Late ones run in daemon
    threads: they keep neither this call nor the end of the process waiting.
    """
    end = time.monotonic() + deadline
    pending: list[tuple[type[FactGroup], threading.Thread, _Answer]] = []
    for kind, gatherer in gatherers.items():
        answer = _Answer()
        thread = threading.Thread(
            target=_ask, args=(gatherer, answer), name=f"facts: {kind.name}", daemon=True
        )
        thread.start()
        pending.append((kind, thread, answer))
    groups: list[FactGroup] = []
    absent: dict[str, str] = {}
    for kind, thread, answer in pending:
        thread.join(max(0.0, end - time.monotonic()))
        if answer.group is not None:
            groups.append(answer.group)
        elif answer.failure is not None:
            absent[kind.name] = answer.failure
        else:
            absent[kind.name] = f"{kind.name} facts were not there within {deadline:g} s"
    return Facts.of(*groups, absent=absent)


def _ask(gatherer: Callable[[], FactGroup], answer: _Answer) -> None:
    try:
        answer.group = gatherer()
    except FactError as error:
        answer.failure = str(error)
    except Exception as error:  # becomes the reason why the group is absent
        answer.failure = f"{type(error).__name__}: {error}"
