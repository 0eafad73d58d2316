"""Rules between pins as data: `rules/*.yaml`, one row a rule.

The kinds of rules are code (kinds.py); which pins a rule is about, its limits, its words and its
source are rows. A rule is silent about pins that a set does not have.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .universe import Source, Universe, load_yaml, universe
from .versions import Range, is_version

FOLDER = Path(__file__).with_name("rules")
Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Clash:
    """Pins that cannot be together, by one rule. `pins` has the values that clash."""

    rule: str
    level: Level
    pins: Mapping[str, str]
    message: str
    source: Source
    fix: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message} (fix: {self.fix}; source: {self.source})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "rule": self.rule,
            "level": self.level,
            "pins": dict(self.pins),
            "message": self.message,
            "fix": self.fix,
            "source": {
                "title": self.source.title,
                "url": self.source.url,
                "date": self.source.date.isoformat(),
            },
        }


@dataclass(frozen=True)
class Rule:
    """One row: what it is about, its words, and by `options` what its kind needs."""

    id: str
    kind: str
    level: Level
    explanation: str
    message: str
    fix: str
    source: Source
    when: Mapping[str, Range]
    options: Mapping[str, Any]

    def clash(self, pins: Mapping[str, str], level: Level | None = None, **words: str) -> Clash:
        """A clash in the rule's words; pins' values and `words` fill the templates."""
        named = {**pins, **words}
        return Clash(
            self.id,
            level or self.level,
            pins,
            self.message.format_map(named),
            self.source,
            self.fix.format_map(named),
        )


COMMON = frozenset(
    {"id", "kind", "level", "explanation", "message", "fix", "source", "date", "when"}
)


def read_rules(rows: list[Mapping[str, Any]], known: Universe) -> tuple[Rule, ...]:
    """Rules from parsed YAML; raises KeyError or ValueError for a bad row."""
    return tuple(
        Rule(
            id=row["id"],
            kind=row["kind"],
            level=row.get("level", "error"),
            explanation=row["explanation"],
            message=row["message"],
            fix=row["fix"],
            source=Source.of(row),
            when={name: known.range(name, text) for name, text in row.get("when", {}).items()},
            options={key: value for key, value in row.items() if key not in COMMON},
        )
        for row in rows
    )


@cache
def rules() -> tuple[Rule, ...]:
    """The shipped rules, in the order of their files."""
    rows = [row for path in sorted(FOLDER.glob("*.yaml")) for row in load_yaml(path)["rules"]]
    found = read_rules(rows, universe())
    twice = {rule.id for rule in found if sum(x.id == rule.id for x in found) > 1}
    if twice:
        raise ValueError(f"rules with one id: {', '.join(sorted(twice))}")
    return found


def rule(name: str) -> Rule:
    """A shipped rule by its id; raises LookupError."""
    for found in rules():
        if found.id == name:
            return found
    raise LookupError(f"no rule {name!r}")


@dataclass(frozen=True)
class Pins:
    """What is pinned, as rules see it on a day: name -> values; several only for targets."""

    values: Mapping[str, tuple[str, ...]]
    known: Universe
    now: date

    def each(self, *names: str) -> Iterator[dict[str, str]]:
        """Every combination of values of these pins; none where one of them is not pinned."""
        combinations: list[dict[str, str]] = [{}]
        for name in names:
            values = self.values.get(name, ())
            combinations = [{**x, name: value} for x in combinations for value in values]
        yield from combinations

    def holds(self, when: Mapping[str, Range]) -> bool:
        """Whether for each named pin a value is in the range."""
        return all(
            any(self.is_whole(name, x) and wanted.allows(x) for x in self.values.get(name, ()))
            for name, wanted in when.items()
        )

    def is_whole(self, name: str, value: str) -> bool:
        """Whether a value is one whole version; the rule `pins.exact` names those that are not."""
        return is_version(self.known[name].scheme, value)
