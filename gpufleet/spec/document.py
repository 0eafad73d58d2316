"""YAML with positions: plain data, and for every value where it stands and how it was written.

Scalars stay what the author wrote. YAML 1.1 reads `no` as false, `12.10` as 12.1, `10:30` as 630
and `012345` as 5349; here a plain scalar becomes another type than text only in the forms that
mean the same to everybody, and what is left is told apart by `Written`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path as FilePath
from typing import Any

import yaml

from .errors import Path, Problem, SpecError

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Aliases let a small file stand for a huge one; no cluster needs as many values as this.
MOST_VALUES = 200_000

PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]*)")
PLAIN_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Written:
    """How a scalar stands in the file."""

    text: str
    quoted: bool
    reading: str = ""
    """What YAML 1.1 makes of it where that is not the text, such as "the number 12.1"."""


@dataclass
class Document:
    """A parsed file: data, and by path the place and the writing of each value."""

    file: str
    data: Any = None
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    written: dict[Path, Written] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> tuple[int, int]:
        """Line and column of a value, or of the nearest thing around it that is there."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))


def read_document(path: FilePath) -> Document:
    """Read and parse a file; raises SpecError where there is nothing to go on with."""
    name = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _unreadable(name, "there is no such file") from error
    except IsADirectoryError as error:
        raise _unreadable(name, "this is a folder, not a file") from error
    except PermissionError as error:
        raise _unreadable(name, "this file may not be read") from error
    except UnicodeDecodeError as error:
        raise _unreadable(name, "this file is not UTF-8 text") from error
    return parse_document(text, name)


def parse_document(text: str, file: str) -> Document:
    """Parse YAML text; raises SpecError where its syntax cannot be followed."""
    try:
        node = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"not valid YAML: {error.problem or error.context}"
        raise SpecError([Problem(file, line, column, "", message)]) from error
    except yaml.YAMLError as error:
        raise SpecError([Problem(file, 1, 1, "", f"not valid YAML: {error}")]) from error
    except RecursionError as error:
        message = "not valid YAML: nested too deep"
        raise SpecError([Problem(file, 1, 1, "", message)]) from error
    if node is None:
        raise _unreadable(file, "the file is empty")
    document = Document(file)
    _Builder(document).build(node)
    return document


def _unreadable(file: str, message: str) -> SpecError:
    fix = "a cluster spec begins with `name:` and `provider:`"
    return SpecError([Problem(file, 1, 1, "", message, fix=fix)])


class _Builder:
    """Turns YAML nodes into data, noting places and problems on the way."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0
        self._open: set[int] = set()

    def build(self, node: Any) -> None:
        self._document.data = self._value(node, ())

    def _value(self, node: Any, path: Path) -> Any:
        self._values += 1
        here = (node.start_mark.line + 1, node.start_mark.column + 1)
        self._document.places[path] = here
        if self._values > MOST_VALUES or id(node) in self._open:
            self._fault(here, path, "aliases that repeat without end", "write the values out")
            raise SpecError(self._document.problems)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, here)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._value(x, (*path, n)) for n, x in enumerate(node.value)]
            return dict(self._pairs(node, path))
        finally:
            self._open.discard(id(node))

    def _pairs(self, node: Any, path: Path) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            at = (key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                self._fault(at, path, "a key has to be a word", "write `name: value`")
                continue
            if key.tag == "tag:yaml.org,2002:merge":
                self._fault(at, path, "merge keys (<<) are not supported", "write the values out")
                continue
            name = str(key.value)
            if name in seen:
                message = f"given twice, first in line {seen[name]}"
                self._fault(at, (*path, name), message, "keep one of them")
                continue
            seen[name] = at[0]
            self._document.keys[(*path, name)] = at
            yield name, self._value(value, (*path, name))

    def _scalar(self, node: Any, path: Path, here: tuple[int, int]) -> Any:
        text, quoted = str(node.value), node.style in ("'", '"', "|", ">")
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in READERS:
            self._fault(here, path, f"tag {node.tag} is not supported", "leave the tag out")
            return text
        if quoted or kind == "str":
            self._document.written[path] = Written(text, quoted)
            return text
        value, reading = READERS[kind](text)
        self._document.written[path] = Written(text, quoted=False, reading=reading)
        return value

    def _fault(self, at: tuple[int, int], path: Path, message: str, fix: str) -> None:
        from .errors import dotted

        problem = Problem(self._document.file, *at, dotted(path), message, fix=fix)
        self._document.problems.append(problem)


@dataclass(frozen=True)
class Odd:
    """A plain scalar in a form that YAML 1.1 reads in its own way; no field takes it."""

    text: str
    reading: str


def _read_int(text: str) -> tuple[Any, str]:
    if PLAIN_INT.fullmatch(text):
        return int(text), f"the number {text}"
    value = yaml.safe_load(text)
    return Odd(text, f"the number {value}"), f"the number {value}"


def _read_float(text: str) -> tuple[Any, str]:
    value = yaml.safe_load(text)
    reading = f"the number {value}"
    return (float(text) if PLAIN_FLOAT.fullmatch(text) else Odd(text, reading)), reading


def _read_bool(text: str) -> tuple[Any, str]:
    value = yaml.safe_load(text)
    reading = str(value).lower()
    return (value if text in ("true", "false") else Odd(text, reading)), reading


def _read_date(text: str) -> tuple[Any, str]:
    if PLAIN_DATE.fullmatch(text):
        try:
            return date.fromisoformat(text), f"the date {text}"
        except ValueError:
            return Odd(text, "a date that does not exist"), "a date that does not exist"
    return Odd(text, "a point in time"), "a point in time"


def _read_null(_: str) -> tuple[Any, str]:
    return None, "nothing"


READERS: dict[str, Any] = {
    "str": None,
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "timestamp": _read_date,
    "null": _read_null,
    "value": lambda text: (text, ""),
}
