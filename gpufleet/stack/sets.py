"""Named sets of pins, and sets from files of the user's own, read with positions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet.spec.document import Document, parse_document, read_document
from gpufleet.spec.errors import Path as FieldPath
from gpufleet.spec.errors import Problem, SpecError, dotted

from .rules import Pins
from .universe import Universe, universe

FOLDER = Path(__file__).with_name("sets")
KEYS = ("name", "title", "note", "targets", "pins", "simulated")
NAME = "lower-case letters, digits and hyphens, beginning with a letter"


class UnknownSet(LookupError):
    """No set of that name is shipped; the text names the nearest."""


@dataclass(frozen=True)
class StackSet:
    """One set: what is pinned (name -> version), for which targets, and what is only simulated."""

    name: str
    title: str
    pins: Mapping[str, str]
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    simulated: tuple[str, ...] = ()
    note: str = ""

    def as_pins(self, known: Universe, now: date) -> Pins:
        """The set as rules see it on a day."""
        values = {name: (value,) for name, value in self.pins.items()}
        return Pins({**values, **self.targets}, known, now)

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "targets": {name: list(values) for name, values in self.targets.items()},
            "pins": dict(self.pins),
            "simulated": list(self.simulated),
        }


def names() -> tuple[str, ...]:
    """Names of the shipped sets, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def get(name: str) -> StackSet:
    """A shipped set; raises UnknownSet."""
    if name not in names():
        near = get_close_matches(name, names(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownSet(f"no stack set {name!r}{hint}; known: {', '.join(names())}")
    return load_set(FOLDER / f"{name}.yaml")


def load_set(path: Path, known: Universe | None = None) -> StackSet:
    """A set from a file; raises SpecError with every problem and its place."""
    return _build(read_document(path), known or universe())


def parse_set(text: str, file: str, known: Universe | None = None) -> StackSet:
    """A set from text; `file` is for messages. Raises SpecError."""
    return _build(parse_document(text, file), known or universe())


def _build(document: Document, known: Universe) -> StackSet:
    reader = _Reader(document, known)
    found = reader.read()
    if document.problems:
        raise SpecError(document.problems)
    return found


@dataclass
class _Reader:
    """Takes a parsed file apart and notes what is wrong with it."""

    document: Document
    known: Universe

    def read(self) -> StackSet:
        data = self.document.data
        if not isinstance(data, dict):
            self._fault((), "a stack set is a mapping", fix="begin with `name:` and `pins:`")
            return StackSet("", "", {})
        for key in data:
            if key not in KEYS:
                self._unknown((key,), key, KEYS)
        for key in ("name", "pins"):
            if key not in data:
                self._fault((), f"{key} is missing", fix=f"add `{key}:`")
        pins = self._pins(data.get("pins", {}))
        return StackSet(
            name=self._name(data.get("name", "")),
            title=self._text(("title",), data.get("title", "")),
            note=self._text(("note",), data.get("note", "")),
            pins=pins,
            targets=self._targets(data.get("targets", {})),
            simulated=self._simulated(data.get("simulated", []), pins),
        )

    def _name(self, value: Any) -> str:
        text = self._text(("name",), value)
        if text and not re.fullmatch(r"[a-z][a-z0-9-]*", text):
            self._fault(("name",), "not a name", seen=text, allowed=NAME)
        return text

    def _pins(self, value: Any) -> dict[str, str]:
        allowed = [x.name for x in self.known.components.values() if not x.target]
        pins = {}
        for name, version in self._mapping("pins", value).items():
            if name not in allowed:
                self._unknown(("pins", name), name, allowed)
            else:
                pins[name] = self._text(("pins", name), version, needed=True)
        return pins

    def _targets(self, value: Any) -> dict[str, tuple[str, ...]]:
        allowed = [x.name for x in self.known.components.values() if x.target]
        targets = {}
        for name, items in self._mapping("targets", value).items():
            if name not in allowed:
                self._unknown(("targets", name), name, allowed)
                continue
            values = self._list(("targets", name), items)
            listed = list(self.known[name].by_version)
            for place, item in enumerate(values):
                if item not in listed:
                    self._unknown(("targets", name, place), item, listed)
            targets[name] = values
        return targets

    def _simulated(self, value: Any, pins: Mapping[str, str]) -> tuple[str, ...]:
        values = self._list(("simulated",), value)
        for place, item in enumerate(values):
            if item not in pins:
                self._unknown(("simulated", place), item, list(pins))
        return values

    def _mapping(self, key: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self._fault((key,), "this has to be a mapping", fix=f"write `name: value` under {key}")
        return {}

    def _list(self, path: FieldPath, value: Any) -> tuple[str, ...]:
        if isinstance(value, list):
            return tuple(self._text((*path, place), x) for place, x in enumerate(value))
        self._fault(path, "this has to be a list", fix="write [first, second]")
        return ()

    def _text(self, path: FieldPath, value: Any, *, needed: bool = False) -> str:
        """A scalar as it stands in the file: 24.10 stays 24.10 and becomes no number."""
        written = self.document.written.get(path)
        if value == "" and written is None:
            return ""
        if written is None or written.reading == "nothing":
            self._fault(path, "this has to be one value", fix="write a version, such as 1.2.3")
            return ""
        if needed and not written.text.strip():
            self._fault(path, "no version is given", fix="write one, or leave the pin out")
        return written.text

    def _unknown(self, path: FieldPath, word: str, allowed: Any) -> None:
        near = get_close_matches(word, list(allowed), 1)
        fix = f"did you mean {near[0]}?" if near else "leave it out"
        self._fault(path, "unknown", seen=word, allowed=", ".join(allowed), fix=fix)

    def _fault(
        self, path: FieldPath, message: str, seen: str = "", allowed: str = "", fix: str = ""
    ) -> None:
        document = self.document
        line, column = document.keys.get(path) or document.place(path)
        problem = Problem(document.file, line, column, dotted(path), message, seen, allowed, fix)
        document.problems.append(problem)
