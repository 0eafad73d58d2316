"""Run the rules over a spec and facts, and report one outcome a rule."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .facts import Clock, Facts, RuleNames
from .registry import RULES
from .rule import CannotJudge, Finding, Outcome, Rule, Status

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec, Suppression

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Report:
    """What the rules said about one cluster, in the order of the registry."""

    cluster: str
    provider: str
    checked_at: datetime
    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing blocks. Warnings, skipped and suppressed rules do not block."""
        return not any(outcome.blocks for outcome in self.outcomes)

    def count(self, status: Status) -> int:
        """How many rules came out that way."""
        return sum(outcome.status is status for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """The report for machines: plain JSON values; dates and times as ISO 8601 text."""
        return {
            "schema_version": SCHEMA_VERSION,
            "cluster": self.cluster,
            "provider": self.provider,
            "checked_at": self.checked_at.isoformat(),
            "ok": self.ok,
            "counts": {status.value: self.count(status) for status in Status},
            "outcomes": [
                {
                    **asdict(outcome),
                    "status": outcome.status.value,
                    "expires": outcome.expires.isoformat() if outcome.expires else None,
                    "findings": [asdict(finding) for finding in outcome.findings],
                }
                for outcome in self.outcomes
            ],
        }


def run(spec: "ClusterSpec", facts: Facts, now: datetime, rules: Sequence[Rule] = RULES) -> Report:
    """Judge the spec by every rule of its provider.

    Raises ValueError for a `now` without a time zone, and nothing for what a rule does: a rule
    that breaks is an outcome of its own.
    """
    if now.tzinfo is None:
        raise ValueError("the time of a check needs its time zone")
    now = now.astimezone(UTC)
    names = RuleNames(
        frozenset(rule.id for rule in rules),
        frozenset(rule.id for rule in rules if rule.suppressible),
    )
    known = facts.with_groups(Clock(now), names)
    outcomes = tuple(
        _suppressed(_judge(rule, spec, known), rule, spec, now)
        for rule in rules
        if spec.provider in rule.providers
    )
    return Report(spec.name, spec.provider, now, outcomes)


def lines(report: Report) -> list[str]:
    """The report as plain text: one line a rule, its findings below it, the sum last."""
    width = max((len(outcome.rule) for outcome in report.outcomes), default=0)
    text = []
    for outcome in report.outcomes:
        text.append(f"{outcome.status.value:<10} {outcome.rule:<{width}}  {_said(outcome)}")
        text.extend(f"           {finding}" for finding in outcome.findings)
    counts = [f"{report.count(status)} {status.value}" for status in Status if report.count(status)]
    verdict = "ok" if report.ok else "not ok"
    text.append(f"{report.cluster}: {verdict} ({', '.join(counts) or 'no rules'})")
    return text


def _said(outcome: Outcome) -> str:
    if outcome.status is Status.SUPPRESSED:
        return f"{outcome.title} (until {outcome.expires}: {outcome.reason})"
    if outcome.status is Status.SKIPPED:
        return str(outcome.why)
    if outcome.status is Status.ERROR:
        return f"the rule itself broke: {outcome.why}"
    return outcome.title


def _judge(rule: Rule, spec: "ClusterSpec", facts: Facts) -> Outcome:
    missing = [why for group in rule.needs if (why := facts.why_absent(group)) is not None]
    if missing:
        return _outcome(rule, Status.SKIPPED, why="; ".join(missing))
    try:
        findings = tuple(rule.check(spec, facts))
    except CannotJudge as error:
        return _outcome(rule, Status.SKIPPED, why=str(error))
    except Exception as error:  # a broken rule is reported by name; the others still count
        return _outcome(rule, Status.ERROR, why=f"{rule.id}: {type(error).__name__}: {error}")
    if not findings:
        return _outcome(rule, Status.PASSED)
    return _outcome(rule, Status.FAILED if rule.level == "error" else Status.WARNED, findings)


def _outcome(
    rule: Rule, status: Status, findings: tuple[Finding, ...] = (), why: str | None = None
) -> Outcome:
    return Outcome(rule.id, rule.level, rule.title, rule.doc, status, findings, why)


def _suppressed(outcome: Outcome, rule: Rule, spec: "ClusterSpec", now: datetime) -> Outcome:
    entry = _holding(rule, spec, now)
    if entry is None:
        return outcome
    return Outcome(
        outcome.rule,
        outcome.level,
        outcome.title,
        outcome.doc,
        Status.SUPPRESSED,
        outcome.findings,
        outcome.why,
        entry.reason.strip(),
        entry.expires,
    )


def _holding(rule: Rule, spec: "ClusterSpec", now: datetime) -> "Suppression | None":
    """The suppression that holds for a rule: known, with a reason, not past its last day."""
    if not rule.suppressible:
        return None
    for entry in spec.preflight.suppress:
        if entry.rule == rule.id and entry.reason.strip() and entry.expires >= now.date():
            return entry
    return None
