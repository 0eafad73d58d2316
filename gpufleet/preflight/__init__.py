"""Preflight: rules that judge a cluster spec against facts before anything is touched.

facts = gather_facts(spec)
report = run(spec, facts, datetime.now(UTC))
print("\\n".join(lines(report)))
"""

from typing import TYPE_CHECKING

from .facts import Facts
from .localfacts import gather_local_facts
from .registry import RULES, UnknownRule, explain, find_rule
from .report import Report, lines, run
from .rule import Finding, Outcome, Rule, Status

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec

__all__ = [
    "RULES",
    "Facts",
    "Finding",
    "Outcome",
    "Report",
    "Rule",
    "Status",
    "UnknownRule",
    "explain",
    "find_rule",
    "gather_facts",
    "gather_local_facts",
    "lines",
    "run",
]

GATHERERS = {"local": gather_local_facts}


def gather_facts(spec: "ClusterSpec") -> Facts:
    """Facts for the spec's provider; none for a provider that has no gatherer."""
    gatherer = GATHERERS.get(spec.provider)
    return gatherer(spec) if gatherer else Facts()
