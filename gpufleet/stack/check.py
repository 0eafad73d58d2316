"""Judging a set by every rule, and naming the nearest shipped set that has no clash."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache

from .kinds import Span, judge
from .rules import Clash, Rule, rules
from .sets import StackSet, get, names
from .universe import Universe, universe
from .versions import head


def check(
    pinned: StackSet,
    now: date,
    *,
    by: Iterable[Rule] | None = None,
    known: Universe | None = None,
) -> list[Clash]:
    """Every clash of a set on a day: errors before warnings, in the order of the components."""
    world = known or universe()
    pins = pinned.as_pins(world, now)
    found = [x for rule in (rules() if by is None else by) for x in judge(rule, pins)]

    def place(clash: Clash) -> int:
        return min((world.order[x] for x in clash.pins if not world[x].target), default=0)

    return sorted(found, key=lambda x: (x.level != "error", place(x)))


def is_coherent(clashes: Iterable[Clash]) -> bool:
    """Whether nothing but warnings was found."""
    return all(clash.level != "error" for clash in clashes)


@dataclass(frozen=True)
class Difference:
    """One pin that two sets do not share; None where it is not pinned."""

    pin: str
    before: str | None
    after: str | None

    def to_dict(self) -> dict[str, str | None]:
        """For JSON output."""
        return {"pin": self.pin, "before": self.before, "after": self.after}


def differences(before: StackSet, after: StackSet) -> list[Difference]:
    """Pins and targets that differ, in the order of the components."""
    first, second = _flat(before), _flat(after)
    return [
        Difference(name, first.get(name), second.get(name))
        for name in universe().components
        if first.get(name) != second.get(name)
    ]


def _flat(pinned: StackSet) -> dict[str, str]:
    targets = {name: ", ".join(values) for name, values in pinned.targets.items()}
    return {**pinned.pins, **targets}


def distance(before: StackSet, after: StackSet) -> int:
    """Trouble of going from one set to another: weights of the pins that change or go.

    A change within a series (the first two parts stay) counts once, any other one twice. A pin that
    only the second set has costs nothing: completing a set takes nothing from anybody.
    """
    total = 0
    for change in differences(before, after):
        if change.before is None:
            continue
        within = change.after is not None and head(change.before, 2) == head(change.after, 2)
        total += universe()[change.pin].weight * (1 if within else 2)
    return total


@cache
def coherent_names(now: date) -> tuple[str, ...]:
    """Shipped sets without a clash on a day."""
    return tuple(name for name in names() if is_coherent(check(get(name), now)))


def nearest(pinned: StackSet, now: date) -> StackSet | None:
    """The shipped coherent set with the least distance, then fewest changes, then by name."""
    candidates = [get(name) for name in coherent_names(now) if name != pinned.name]
    return min(
        candidates,
        key=lambda x: (distance(pinned, x), len(differences(pinned, x)), x.name),
        default=None,
    )


def check_change(before: StackSet, after: StackSet) -> list[Clash]:
    """Changes between two sets that cannot be made in one go, by rules of kind `upgrade-span`."""
    found = []
    for rule in rules():
        if rule.kind != "upgrade-span":
            continue
        (name,) = Span().about(rule)
        old, new = before.pins.get(name), after.pins.get(name)
        if old is None or new is None:
            continue
        allowed = span(name, new)
        if allowed is not None and head(old, 2) not in allowed:
            text = ", ".join(allowed)
            found.append(rule.clash({name: new}, old=old, new=new, allowed=text))
    return found


def span(name: str, version: str, known: Universe | None = None) -> tuple[str, ...] | None:
    """Series (first two parts) from which a version can take over; None where nothing is known.

    Its own series is the last of them.
    """
    older = (known or universe())[name].facts(version).get("upgrade_from")
    return None if older is None else (*older, head(version, 2))
