"""The newest coherent set under wants: an exact search with back-jumping.

Pins are chosen in the order of versions.yaml, each the newest version first, so the first solution
is the newest set in that order: no other set that meets the wants has a newer version of the first
pin in which they differ. Where a choice fails, the search goes back to the latest pin that had a
part in it; what is skipped cannot hold a solution. The same input gives the same answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from .kinds import judge, scope, scopes
from .rules import Pins, Rule, rules
from .sets import StackSet
from .universe import Component, Universe, universe
from .wants import Want


@dataclass(frozen=True)
class Solution:
    """A set that meets all wants, and how many choices were looked at."""

    found: StackSet
    choices: int


class Unsolvable(Exception):
    """No set meets the wants. Without any one of these wants and rules there would be one.

    `targets` are those that these rules look at; `notes` say why wants leave nothing to choose.
    """

    def __init__(
        self,
        wants: tuple[Want, ...],
        rules: tuple[Rule, ...],
        targets: Mapping[str, tuple[str, ...]],
        notes: tuple[str, ...],
    ) -> None:
        self.wants, self.rules, self.targets, self.notes = wants, rules, targets, notes
        super().__init__("\n  ".join(["no set meets all of these:", *self.lines()]))

    def lines(self) -> list[str]:
        """The parts of the reason, one a line."""
        return [
            *(f"want {want}" for want in self.wants),
            *(f"target {name}: {', '.join(values)}" for name, values in self.targets.items()),
            *(f"rule {rule.id}: {rule.explanation}" for rule in self.rules),
            *(f"note: {note}" for note in self.notes),
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "wants": [str(want) for want in self.wants],
            "targets": {name: list(values) for name, values in self.targets.items()},
            "notes": list(self.notes),
            "rules": [
                {"rule": rule.id, "explanation": rule.explanation, "source": rule.source.url}
                for rule in self.rules
            ],
        }


def solve(
    like: StackSet,
    wants: Sequence[Want],
    now: date,
    *,
    by: Iterable[Rule] | None = None,
    known: Universe | None = None,
) -> Solution:
    """The newest set with the pins and targets of `like` that meets all wants on a day.

    Wants of a target replace its values. Settings of `like` (pins that are configured, not
    installed) stay as they are. Raises Unsolvable.
    """
    world = known or universe()
    judged = tuple(rules() if by is None else by)
    problem = _Problem(like, world, now)
    search = _Search(problem, tuple(wants), judged)
    chosen = search.run()
    if chosen is None:
        raise _explain(problem, tuple(wants), judged)
    pins = {**problem.fixed_pins, **{name: values[0] for name, values in chosen.items()}}
    ordered = {name: pins[name] for name in world.components if name in pins}
    targets = problem.targets(wants)
    found = StackSet("solved", f"Like {like.name}, under wants", ordered, targets, like.simulated)
    return Solution(found, search.choices)


@dataclass(frozen=True)
class _Problem:
    """What is to be chosen, and what stands already."""

    like: StackSet
    known: Universe
    now: date

    @property
    def variables(self) -> list[Component]:
        components = self.known.components.values()
        return [x for x in components if x.name in self.like.pins and not x.setting]

    @property
    def fixed_pins(self) -> dict[str, str]:
        return {n: v for n, v in self.like.pins.items() if self.known[n].setting}

    def targets(self, wants: Iterable[Want]) -> dict[str, tuple[str, ...]]:
        found = dict(self.like.targets)
        for want in wants:
            if self.known[want.pin].target:
                listed = self.known[want.pin].by_version
                found[want.pin] = tuple(x for x in listed if want.range.allows(x))
        return found


@dataclass
class _Search:
    """One search under given wants and rules."""

    problem: _Problem
    wants: tuple[Want, ...]
    rules: tuple[Rule, ...]
    choices: int = 0
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    met: list[Rule] = field(default_factory=list)
    """Rules that a choice broke."""

    def run(self) -> dict[str, tuple[str, ...]] | None:
        """Chosen versions by name, or None."""
        problem = self.problem
        variables = problem.variables
        fixed = {name: (value,) for name, value in problem.fixed_pins.items()}
        self.values = {**fixed, **problem.targets(self.wants)}
        if not all(self.values.get(want.pin, ("",)) for want in self.wants):
            return None
        place = {x.name: index for index, x in enumerate(variables)}
        self._domains = [self._domain(x) for x in variables]
        self._names = [x.name for x in variables]
        # A rule is judged as soon as the last of its pins is chosen.
        self._due: list[list[tuple[Rule, frozenset[int]]]] = [[] for _ in variables]
        for rule in self.rules:
            for about in scopes(rule):
                if not all(name in place or name in self.values for name in about):
                    continue
                indices = frozenset(place[name] for name in about if name in place)
                if indices:
                    self._due[max(indices)].append((rule, indices))
                elif self._broken(rule):
                    return None
        outcome = self._descend(0)
        return None if outcome is not None else {n: self.values[n] for n in self._names}

    def _domain(self, component: Component) -> list[str]:
        wants = [want for want in self.wants if want.pin == component.name]
        return [
            release.version
            for release in component.newest_first
            if not release.unproved and all(x.range.allows(release.version) for x in wants)
        ]

    def _descend(self, index: int) -> frozenset[int] | None:
        """None where all from here on is chosen; else the earlier pins that had a part in it."""
        if index == len(self._names):
            return None
        blame: frozenset[int] = frozenset()
        name = self._names[index]
        for version in self._domains[index]:
            self.choices += 1
            self.values[name] = (version,)
            broken = self._first_broken(index)
            if broken is None:
                broken = self._descend(index + 1)
                if broken is None:
                    return None
                if index not in broken:
                    del self.values[name]
                    return broken
            blame |= broken - {index}
        self.values.pop(name, None)
        return blame

    def _first_broken(self, index: int) -> frozenset[int] | None:
        for rule, indices in self._due[index]:
            if self._broken(rule):
                return indices
        return None

    def _broken(self, rule: Rule) -> bool:
        pins = Pins(self.values, self.problem.known, self.problem.now)
        broken = any(x.level == "error" for x in judge(rule, pins))
        if broken and rule not in self.met:
            self.met.append(rule)
        return broken


def _explain(problem: _Problem, wants: tuple[Want, ...], judged: tuple[Rule, ...]) -> Unsolvable:
    """Leave out whatever can be left out without there being a solution; the rest is the reason."""

    def needed(some: tuple[Want, ...], others: tuple[Rule, ...]) -> tuple[Rule, ...] | None:
        """Rules that a failing search met: with them alone it goes the same way. None: solvable."""
        search = _Search(problem, some, others)
        return None if search.run() is not None else tuple(x for x in others if x in search.met)

    judged = needed(wants, judged) or ()
    for rule in judged:
        fewer = needed(wants, tuple(x for x in judged if x is not rule))
        if fewer is not None:
            judged = fewer
    for want in wants:
        less = tuple(x for x in wants if x is not want)
        if needed(less, judged) is not None:
            wants = less
    about = {name for rule in judged for name in scope(rule)}
    targets = {n: v for n, v in problem.targets(wants).items() if n in about}
    notes = [_note(want, problem.known) for want in wants]
    return Unsolvable(wants, judged, targets, tuple(note for note in notes if note))


def _note(want: Want, known: Universe) -> str:
    """Why a want alone leaves nothing to choose; empty where it leaves something."""
    component = known[want.pin]
    inside = [x for x in component.releases if want.range.allows(x.version)]
    if not inside:
        newest = ", ".join(x.version for x in component.newest_first[:5])
        return f"no known {want.pin} is in {want.range}; the newest known are {newest}"
    if all(x.unproved for x in inside):
        return "; ".join(f"{want.pin} {x.version} is not chosen: {x.unproved}" for x in inside)
    return ""


def newness(found: StackSet | Mapping[str, str], known: Universe | None = None) -> tuple[int, ...]:
    """Places of a set's versions, in the order of the components; less is newer.

    Of two solutions under the same pins, the one with the lesser tuple is the newer one.
    """
    world = known or universe()
    pins = found.pins if isinstance(found, StackSet) else found
    return tuple(
        [x.version for x in component.newest_first].index(pins[name])
        for name, component in world.components.items()
        if name in pins and not component.setting
    )
