"""Pins that follow another one, and the Debian packages that pins stand for.

Fabric manager, NSCQ and IMEX follow the driver; three packages of the container toolkit follow the
first. Followers that a set leaves out get the leader's version, so one pin moves all of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .rules import Rule, rules
from .sets import StackSet
from .universe import Universe, universe
from .versions import BadVersion, head, parse


def lock_steps() -> tuple[Rule, ...]:
    """Rules that hold whole versions together; those about a first part alone are none."""
    return tuple(rule for rule in rules() if rule.kind == "equal" and "parts" not in rule.options)


def complete(pinned: StackSet, *, only: Collection[str] | None = None) -> StackSet:
    """The set with the followers that it leaves out; what it pins itself is never changed.

    `only` limits which followers are added, such as to those that a kind of node has.
    """
    pins = dict(pinned.pins)
    for rule in lock_steps():
        leader = pins.get(rule.options["leader"])
        if leader is None:
            continue
        for follower in rule.options["followers"]:
            if only is None or follower in only:
                pins.setdefault(follower, leader)
    ordered = {name: pins[name] for name in universe().components if name in pins}
    return replace(pinned, pins=ordered)


def packages(pinned: StackSet, known: Universe | None = None) -> dict[str, str]:
    """Debian packages of a set with their versions; suffixes differ from package to package.

    Pins without a Debian package, or of a version whose package names are not known, give none.
    """
    world = known or universe()
    found = {}
    for name, version in pinned.pins.items():
        templates: Mapping[str, str] = world[name].facts(version).get("packages", {})
        words = {
            "version": version,
            "branch": head(version, 1),
            "dashed": head(version, 2).replace(".", "-"),
        }
        for package, wanted in templates.items():
            found[package.format_map(words)] = wanted.format_map(words)
    return found


@dataclass(frozen=True)
class Unavailable:
    """A package version that a repository lacks, and the pins' versions that it has for all.

    `common` lists versions of the leader for which the repository has every package of the lock
    step, the newest first.
    """

    package: str
    wanted: str
    present: tuple[str, ...]
    leader: str
    common: tuple[str, ...]

    def __str__(self) -> str:
        has = ", ".join(self.present) or "no version of it"
        ways = ", ".join(self.common) or "none"
        return (
            f"{self.package} {self.wanted} is not in the repository, which has {has}; "
            f"versions of {self.leader} for which it has all packages: {ways}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "package": self.package,
            "wanted": self.wanted,
            "present": list(self.present),
            "leader": self.leader,
            "common": list(self.common),
        }


def missing_from(
    pinned: StackSet, repository: Mapping[str, Collection[str]], known: Universe | None = None
) -> list[Unavailable]:
    """Packages of a set's lock steps that a repository (package -> versions) does not have."""
    world = known or universe()
    found = []
    for rule in lock_steps():
        leader = rule.options["leader"]
        members = [x for x in (leader, *rule.options["followers"]) if x in pinned.pins]
        if leader not in pinned.pins:
            continue
        wanted = packages(replace(pinned, pins={x: pinned.pins[x] for x in members}), world)
        lacking = [p for p, version in wanted.items() if version not in repository.get(p, ())]
        if not lacking:
            continue
        common = _common(pinned, members, repository, world)
        for package in lacking:
            present = tuple(sorted(repository.get(package, ())))
            found.append(Unavailable(package, wanted[package], present, leader, common))
    return found


def _common(
    pinned: StackSet,
    members: list[str],
    repository: Mapping[str, Collection[str]],
    known: Universe,
) -> tuple[str, ...]:
    """Versions for which every package of these pins is there, the newest first."""
    scheme = known[members[0]].scheme
    candidates = set()
    for versions in repository.values():
        for text in versions:
            try:
                parse(scheme, head_of(text))
            except BadVersion:
                continue
            candidates.add(head_of(text))

    def whole(version: str) -> bool:
        wanted = packages(replace(pinned, pins=dict.fromkeys(members, version)), known)
        return bool(wanted) and all(v in repository.get(p, ()) for p, v in wanted.items())

    fitting = [version for version in candidates if whole(version)]
    return tuple(sorted(fitting, key=lambda x: parse(scheme, x), reverse=True))


def head_of(version: str) -> str:
    """The upstream part of a Debian version: no epoch, no revision."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]
