"""The kinds of rules: what each looks at, and how it judges. The facts are all data.

A kind is silent where a pin is missing, is not one whole version, or nothing is known of it: what
is not known is not a clash.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, override

from .rules import Clash, Pins, Rule
from .versions import head, parse, parse_range


class Kind(ABC):
    """One way to judge pins by a rule."""

    options: ClassVar[frozenset[str]]
    """Keys of a row of this kind, beside those that all rows have."""
    words: ClassVar[frozenset[str]] = frozenset()
    """What fills a rule's templates beside the values of its pins."""

    def about(self, rule: Rule) -> tuple[str, ...]:
        """Names of the pins that the rule judges; those of `when` not counted."""
        return tuple(rule.options[key] for key in ("pin", "of") if key in rule.options)

    def shares(self, rule: Rule) -> tuple[frozenset[str], ...]:
        """Groups of pins that the rule judges apart from one another, all of them together."""
        return (frozenset(self.about(rule)),)

    @abstractmethod
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        """Every clash; the rule's `when` holds already."""


class Exact(Kind):
    """Each of the pins is one whole version, no range and no star."""

    options = frozenset({"pins"})
    words = frozenset({"pin", "value"})

    @override
    def about(self, rule: Rule) -> tuple[str, ...]:
        return tuple(rule.options["pins"])

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        for name in self.about(rule):
            for seen in pins.each(name):
                if not pins.is_whole(name, seen[name]):
                    yield rule.clash(seen, pin=name, value=seen[name])

    @override
    def shares(self, rule: Rule) -> tuple[frozenset[str], ...]:
        return tuple(frozenset({name}) for name in self.about(rule))


class Released(Kind):
    """The version was released, by a list that is complete up to its newest entry.

    A version newer than all that are listed is a warning: the list is a stored one.
    """

    options = frozenset({"pin"})
    words = frozenset({"value", "near", "what"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        (name,) = self.about(rule)
        component = pins.known[name]
        listed = component.newest_first
        for seen in pins.each(name):
            value = seen[name]
            if not pins.is_whole(name, value) or not listed:
                continue
            place = parse(component.scheme, value)
            if any(parse(component.scheme, x.version) == place for x in listed):
                continue
            newer = [x.version for x in listed if parse(component.scheme, x.version) > place]
            older = [x.version for x in listed if parse(component.scheme, x.version) < place]
            near = " and ".join([*older[:1], *newer[-1:]])
            if newer:
                yield rule.clash(seen, value=value, near=near, what="was never released")
            else:
                what = f"is newer than what was known on {component.source.date}"
                yield rule.clash(seen, level="warning", value=value, near=near, what=what)


class Minimum(Kind):
    """`pin` is not below the limit that `fact` of each value of `of` states."""

    options = frozenset({"pin", "of", "fact"})
    words = frozenset({"limit"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        name, of = self.about(rule)
        scheme = pins.known[name].scheme
        for seen in pins.each(name, of):
            limit = pins.known[of].facts(seen[of]).get(rule.options["fact"])
            if limit is None or not pins.is_whole(name, seen[name]):
                continue
            if parse(scheme, seen[name]) < parse(scheme, limit):
                yield rule.clash(seen, limit=limit)


class InRange(Kind):
    """`pin` is in the range `allowed`."""

    options = frozenset({"pin", "allowed"})
    words = frozenset({"allowed"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        (name,) = self.about(rule)
        allowed = pins.known.range(name, rule.options["allowed"])
        for seen in pins.each(name):
            if pins.is_whole(name, seen[name]) and not allowed.allows(seen[name]):
                yield rule.clash(seen, allowed=str(allowed))


class Affected(Kind):
    """`pin` is none of the versions that are known to be bad, or have open advisories.

    `unless` lists ranges with the fix in them, such as a distribution's backport.
    """

    options = frozenset({"pin", "affected", "unless"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        (name,) = self.about(rule)
        affected = pins.known.range(name, rule.options["affected"])
        mended = [pins.known.range(name, text) for text in rule.options.get("unless", ())]
        for seen in pins.each(name):
            value = seen[name]
            if not pins.is_whole(name, value) or not affected.allows(value):
                continue
            if not any(x.allows(value) for x in mended):
                yield rule.clash(seen)


class Equal(Kind):
    """Each of `followers` is what `leader` is; by `parts`, only the first parts of both."""

    options = frozenset({"leader", "followers", "parts"})
    words = frozenset({"wanted", "follower", "value"})

    @override
    def about(self, rule: Rule) -> tuple[str, ...]:
        return (rule.options["leader"], *rule.options["followers"])

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        leader, *followers = self.about(rule)
        parts = rule.options.get("parts")
        for follower in followers:
            for seen in pins.each(leader, follower):
                if not all(pins.is_whole(name, value) for name, value in seen.items()):
                    continue
                wanted, value = seen[leader], seen[follower]
                if parts:
                    wanted, value = head(wanted, parts), head(value, parts)
                if wanted != value:
                    yield rule.clash(seen, wanted=wanted, follower=follower, value=seen[follower])

    @override
    def shares(self, rule: Rule) -> tuple[frozenset[str], ...]:
        leader, *followers = self.about(rule)
        return tuple(frozenset({leader, follower}) for follower in followers)


class Requires(Kind):
    """What `pin` requires of the pin `of`, by the fact `requires`, is met."""

    options = frozenset({"pin", "of"})
    words = frozenset({"allowed"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        name, of = self.about(rule)
        for seen in pins.each(name, of):
            text = pins.known[name].facts(seen[name]).get("requires", {}).get(of)
            if text is None or not pins.is_whole(of, seen[of]):
                continue
            if not parse_range(pins.known[of].scheme, text).allows(seen[of]):
                yield rule.clash(seen, allowed=text)


class OneOf(Kind):
    """`of`, cut to `parts` parts where given, is one of those that `fact` of `pin` lists."""

    options = frozenset({"pin", "of", "fact", "parts"})
    words = frozenset({"allowed"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        name, of = self.about(rule)
        for seen in pins.each(name, of):
            allowed = pins.known[name].facts(seen[name]).get(rule.options["fact"])
            if allowed is None or not pins.is_whole(of, seen[of]):
                continue
            value = head(seen[of], rule.options["parts"]) if "parts" in rule.options else seen[of]
            if value not in allowed:
                yield rule.clash(seen, allowed=", ".join(allowed) or "none")


class FactIs(Kind):
    """`fact` of `pin` is one of `allowed`."""

    options = frozenset({"pin", "fact", "allowed"})
    words = frozenset({"seen", "allowed"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        (name,) = self.about(rule)
        for seen in pins.each(name):
            fact = pins.known[name].facts(seen[name]).get(rule.options["fact"])
            if fact is not None and fact not in rule.options["allowed"]:
                yield rule.clash(seen, seen=fact, allowed=", ".join(rule.options["allowed"]))


class EndOfLife(Kind):
    """`pin` is supported on the day; in its last `warn_days` days that is a warning."""

    options = frozenset({"pin", "warn_days"})
    words = frozenset({"end", "ends"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        (name,) = self.about(rule)
        for seen in pins.each(name):
            end = pins.known[name].facts(seen[name]).get("eol")
            if end is None:
                continue
            if end < pins.now:
                yield rule.clash(seen, end=str(end), ends="ended")
            elif end < pins.now + timedelta(days=rule.options["warn_days"]):
                yield rule.clash(seen, level="warning", end=str(end), ends="ends")


class Unset(Kind):
    """`pin` is not set; a rule of this kind has a `when`."""

    options = frozenset({"pin"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        for seen in pins.each(rule.options["pin"]):
            yield rule.clash(seen)


class Span(Kind):
    """A change of `pin` goes no further than its new version can follow: see check_change."""

    options = frozenset({"pin"})
    words = frozenset({"old", "new", "allowed"})

    @override
    def judge(self, rule: Rule, pins: Pins) -> Iterator[Clash]:
        del rule, pins  # one set alone changes nothing
        yield from ()


KINDS: dict[str, Kind] = {
    "exact": Exact(),
    "released": Released(),
    "minimum": Minimum(),
    "range": InRange(),
    "advisory": Affected(),
    "known-bad": Affected(),
    "equal": Equal(),
    "exact-requirement": Requires(),
    "one-of": OneOf(),
    "fact": FactIs(),
    "eol-date": EndOfLife(),
    "unset": Unset(),
    "upgrade-span": Span(),
}


def judge(rule: Rule, pins: Pins) -> list[Clash]:
    """Every clash of the pins by one rule."""
    if not pins.holds(rule.when):
        return []
    return list(KINDS[rule.kind].judge(rule, pins))


def scope(rule: Rule) -> frozenset[str]:
    """Names of all pins on which the rule's judgement depends."""
    return frozenset(KINDS[rule.kind].about(rule)) | frozenset(rule.when)


def scopes(rule: Rule) -> tuple[frozenset[str], ...]:
    """The same, in groups that can be judged as soon as all pins of one are known."""
    return tuple(share | frozenset(rule.when) for share in KINDS[rule.kind].shares(rule))
