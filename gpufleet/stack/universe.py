"""The components that a stack is made of, and what is known of their versions: versions.yaml.

Facts stand with one version, or with a whole series (`match: 24.11.*`), and are merged from the
general to the particular. What is asked of a version that is not listed is answered by its series.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from .versions import Range, is_version, parse, parse_range

DATA = Path(__file__).with_name("versions.yaml")
# The C loader where PyYAML has it: ten times as fast.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Source:
    """Where a fact is from; the date is the day on which it was looked at."""

    title: str
    url: str
    date: date

    def __str__(self) -> str:
        return f"{self.title}, {self.url}, seen {self.date}"

    @staticmethod
    def of(row: Mapping[str, Any]) -> "Source":
        """From a row with `source: {title, url}` and `date`."""
        return Source(row["source"]["title"], row["source"]["url"], row["date"])


@dataclass(frozen=True)
class Release:
    """One version: when it came out, and why the solver must not choose it, if so."""

    version: str
    released: date | None
    unproved: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """Facts of all versions in a range."""

    match: Range
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Component:
    """One thing that a set pins. `weight` is the trouble that a change of it makes, 1 to 10.

    `target` components say what a set is for (GPUs, fabrics) and may have several values at once.
    `complete` says that every version up to the newest listed one is listed. `scope` is `cluster`
    where all nodes need the same one. `setting` marks what is not installed but configured.
    `distribution` is the name of the Python package.
    """

    name: str
    title: str
    scheme: str
    weight: int
    source: Source
    target: bool = False
    complete: bool = False
    setting: bool = False
    scope: str = "node"
    distribution: str = ""
    series: tuple[Series, ...] = ()
    releases: tuple[Release, ...] = ()

    @cached_property
    def by_version(self) -> dict[str, Release]:
        """Listed versions."""
        return {release.version: release for release in self.releases}

    @cached_property
    def newest_first(self) -> tuple[Release, ...]:
        """Listed versions, the newest first; names without order as the file lists them."""
        if self.scheme == "choice":
            return self.releases
        key = self.scheme
        return tuple(sorted(self.releases, key=lambda x: parse(key, x.version), reverse=True))

    def facts(self, version: str) -> dict[str, Any]:
        """All that is known of a version; empty where nothing is, or where it is no version."""
        found: dict[str, Any] = {}
        if is_version(self.scheme, version):
            for series in self.series:
                if series.match.allows(version):
                    _merge(found, series.facts)
        if version in self.by_version:
            _merge(found, self.by_version[version].facts)
        return found


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping):
            into[name] = {**into.get(name, {}), **value}
        else:
            into[name] = value


@dataclass(frozen=True)
class Universe:
    """All components by name, in the order in which the solver chooses."""

    components: Mapping[str, Component]

    def __getitem__(self, name: str) -> Component:
        return self.components[name]

    def __contains__(self, name: object) -> bool:
        return name in self.components

    @cached_property
    def order(self) -> dict[str, int]:
        """Place of each component in the solver's order, from 0."""
        return {name: place for place, name in enumerate(self.components)}

    def range(self, name: str, text: str) -> Range:
        """A range of a component's versions; raises BadRange."""
        return parse_range(self[name].scheme, text)


ROW = frozenset({"version", "released", "unproved"})
COMPONENT = frozenset(
    {"title", "scheme", "weight", "target", "complete", "setting", "scope", "distribution"}
)


def read_universe(data: Mapping[str, Any]) -> Universe:
    """A universe from parsed YAML; raises KeyError, TypeError or ValueError for a bad one."""
    components = {}
    for name, row in data["components"].items():
        unknown = set(row) - COMPONENT - {"series", "versions", "source", "date"}
        if unknown:
            raise ValueError(f"{name}: unknown keys {', '.join(sorted(unknown))}")
        components[name] = Component(
            name=name,
            source=Source.of(row),
            series=tuple(
                Series(
                    parse_range(row["scheme"], item["match"]),
                    {key: value for key, value in item.items() if key != "match"},
                )
                for item in row.get("series", ())
            ),
            releases=tuple(
                Release(
                    item["version"],
                    item.get("released"),
                    item.get("unproved", ""),
                    {key: value for key, value in item.items() if key not in ROW},
                )
                for item in row.get("versions", ())
            ),
            **{key: row[key] for key in COMPONENT & set(row)},
        )
    return Universe(components)


@cache
def universe() -> Universe:
    """The shipped data, read once."""
    return read_universe(load_yaml(DATA))


def load_yaml(path: Path) -> Any:
    """Plain data of a YAML file of ours."""
    loader = Loader(path.read_text(encoding="utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
