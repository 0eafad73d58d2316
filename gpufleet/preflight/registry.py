"""Every rule there is, in the order in which reports show them. A rule not listed does not run."""

from .local_capacity import DiskRoom, MemoryRoom
from .local_host import (
    HostTools,
    KernelFeatures,
    NoRealGpus,
    Root,
    StateFilesystem,
    UnifiedCgroups,
)
from .local_network import ForwardingAllowed, FrontPortFree, NamesResolve, RangeFree
from .rule import Rule
from .suppressions import SuppressionNames, SuppressionsCurrent, nearest

RULES: tuple[Rule, ...] = (
    SuppressionNames(),
    SuppressionsCurrent(),
    Root(),
    KernelFeatures(),
    UnifiedCgroups(),
    HostTools(),
    StateFilesystem(),
    DiskRoom(),
    MemoryRoom(),
    RangeFree(),
    FrontPortFree(),
    ForwardingAllowed(),
    NamesResolve(),
    NoRealGpus(),
)


class UnknownRule(LookupError):
    """No rule has that id; the text names the nearest one."""


def find_rule(rule_id: str) -> Rule:
    """The rule of that id; raises UnknownRule."""
    by_id = {rule.id: rule for rule in RULES}
    if rule_id in by_id:
        return by_id[rule_id]
    near = nearest(rule_id, frozenset(by_id))
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(sorted(by_id))}"
    raise UnknownRule(f"no rule is called {rule_id!r}; {hint}")


def explain(rule_id: str) -> str:
    """What a rule is about, why it exists and how to make it pass; raises UnknownRule."""
    return find_rule(rule_id).explain
