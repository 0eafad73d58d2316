"""Rules about the suppressions of a spec themselves. They cannot be suppressed."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

from .facts import Clock, Facts, RuleNames
from .rule import Finding, Level, Rule

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec


class SuppressionNames(Rule):
    """Each suppression names a rule that exists and may be suppressed, and says why."""

    id = "suppression.known"
    level: ClassVar[Level] = "error"
    title = "every suppression names a rule and a reason"
    why = "A misspelt suppression suppresses nothing, and nobody notices."
    look = "sed -n '/^preflight:/,$p' inventories/local/cluster.yaml"
    fix = "Write the id as reports show it, with a reason that a colleague understands."
    needs = (RuleNames,)
    suppressible = False

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding for an unknown id, a rule that stands always, or an empty reason."""
        names = facts.get(RuleNames)
        for index, entry in enumerate(spec.preflight.suppress):
            path = f"preflight.suppress[{index}]"
            if entry.rule not in names.known:
                near = nearest(entry.rule, names.known)
                yield Finding(
                    f"{path}.rule",
                    "there is no such rule",
                    repr(entry.rule),
                    f"{near!r} or another rule id" if near else "a rule id",
                    f"write {near}" if near else "take the id of a rule from `gpufleet check`",
                )
            elif entry.rule not in names.suppressible:
                yield Finding(
                    f"{path}.rule",
                    "this rule cannot be suppressed",
                    repr(entry.rule),
                    "a rule about the cluster or its host",
                    "remove the entry and fix what the rule found",
                )
            elif not entry.reason.strip():
                yield Finding(
                    f"{path}.reason",
                    "a suppression without a reason does not hold",
                    repr(entry.reason),
                    "a sentence that says why the rule does not matter here",
                    "write the reason",
                )


class SuppressionsCurrent(Rule):
    """No suppression is past its last day."""

    id = "suppression.current"
    level: ClassVar[Level] = "warning"
    title = "no suppression has expired"
    why = (
        "A suppression holds to the end of its last day, UTC. After it the rule counts again, and "
        "the dead entry would only mislead its reader."
    )
    look = "sed -n '/^preflight:/,$p' inventories/local/cluster.yaml\ndate -u +%F"
    fix = "Remove the entry, or set a new date after looking at the rule again."
    needs = (Clock, RuleNames)
    suppressible = False

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding an expired entry of a known rule."""
        today = facts.get(Clock).now.date()
        known = facts.get(RuleNames).known
        for index, entry in enumerate(spec.preflight.suppress):
            if entry.rule in known and entry.expires < today:
                yield Finding(
                    f"preflight.suppress[{index}].expires",
                    f"the suppression of {entry.rule} has expired and does not hold",
                    entry.expires.isoformat(),
                    f"a date from {today.isoformat()} on",
                    "remove the entry, or look at the rule again and set a new date",
                )


def nearest(name: str, known: frozenset[str]) -> str | None:
    """The known id that is spelt most like `name`, or None where none is near."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None
