"""YAML with positions: plain data, and for every value where it stands and how it was written.

Scalars stay what the author wrote. YAML 1.1 reads `no` as false, `12.10` as 12.1, `10:30` as 630
and `012345` as 5349; here a plain scalar becomes another type than text only in the forms that
mean the same to everybody, and what is left is told apart by `Written`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import yaml

from .errors import Path, Problem, SpecError, dotted

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Aliases let a small file stand for a huge one; no cluster needs as many values as this.
MOST_VALUES = 200_000

# Longer numbers are mistakes, and Python refuses to convert some of them.
PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
PLAIN_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
CONTROL = re.compile(
    r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
# What the parser says, and what to do about it; the first that fits counts.
REMEDIES = (
    ("another document", "keep one document: remove the line `---` and what follows it"),
    ("tab character", "indent with spaces"),
    ("undefined alias", "write the value itself"),
    ("mapping values are not allowed", "quote the value if it has a colon in it, or indent it"),
    ("cannot start any token", "indent with spaces, and quote values that begin with @, ` or %"),
    ("unexpected end of stream", "close the quotes"),
    ("did not find expected ',' or", "close the bracket"),
    ("exceeded maximum nesting depth", "no field is nested that deep"),
)
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
        content = path.read_bytes()
    except IsADirectoryError as error:
        fix = f"name the file in it, such as {path / 'cluster.yaml'}"
        raise _refused(name, (1, 1), "this is a folder, not a file", fix) from error
    except FileNotFoundError as error:
        raise _refused(name, (1, 1), "there is no such file", "check the path") from error
    except OSError as error:
        message = f"this file cannot be read: {error.strerror}"
        raise _refused(name, (1, 1), message, "check the path and its permissions") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place_of(content[: error.start].decode("utf-8", "replace"))
        message = f"not UTF-8 text: byte {error.object[error.start]:#04x}"
        raise _refused(name, place, message, "save the file as UTF-8") from error
    return parse_document(text, name)


def parse_document(text: str, file: str) -> Document:
    """Parse YAML text; raises SpecError where its syntax cannot be followed."""
    stray = CONTROL.search(text)
    if stray:
        message = f"not valid YAML: control character U+{ord(stray[0]):04X}"
        raise _refused(file, _place_of(text[: stray.start()]), message, "remove it")
    document = Document(file)
    try:
        node = yaml.compose(text, Loader=Loader)
        if node is not None:
            _Builder(document).build(node)
            return document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = error.problem or error.context or "it cannot be parsed"
        fix = next((remedy for words, remedy in REMEDIES if words in said), "")
        raise _refused(file, place, f"not valid YAML: {said}", fix) from error
    except yaml.YAMLError as error:
        raise _refused(file, (1, 1), f"not valid YAML: {error}", "") from error
    except RecursionError as error:
        message = "not valid YAML: nested too deep"
        raise _refused(file, (1, 1), message, "no field is nested that deep") from error
    fix = "a cluster spec begins with `name:` and `provider:`"
    raise _refused(file, (1, 1), "the file is empty", fix)


def _refused(file: str, place: tuple[int, int], message: str, fix: str) -> SpecError:
    return SpecError([Problem(file, *place, "", message, fix=fix)])


def _place_of(before: str) -> tuple[int, int]:
    """Line and column of what comes after this text."""
    lines = re.split(r"\r\n|[\r\n\x85\u2028\u2029]", before)
    return len(lines), len(lines[-1]) + 1


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
        if node.tag not in GROUP_TAGS:
            self._tag_fault(node.tag, path, here)
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
            self._tag_fault(node.tag, path, here)
            return text
        if quoted or kind == "str":
            self._document.written[path] = Written(text, quoted)
            return text
        value, reading = READERS[kind](text)
        self._document.written[path] = Written(text, quoted=False, reading=reading)
        return value

    def _tag_fault(self, tag: str, path: Path, here: tuple[int, int]) -> None:
        self._fault(here, path, f"tag {tag} is not supported", "leave the tag out")

    def _fault(self, at: tuple[int, int], path: Path, message: str, fix: str) -> None:
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
    reading = _number(text)
    return Odd(text, reading), reading


def _read_float(text: str) -> tuple[Any, str]:
    reading = _number(text)
    return (Decimal(text) if PLAIN_FLOAT.fullmatch(text) else Odd(text, reading)), reading


def _number(text: str) -> str:
    """What YAML makes of a number, in words; some forms it takes for numbers are none."""
    try:
        return f"the number {yaml.safe_load(text)}"
    except (ValueError, ArithmeticError):
        return "a number that nobody can read"


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


def _read_null(text: str) -> tuple[Any, str]:
    # A value that was forgotten must not pass for one that was left out on purpose.
    return (None if text == "null" else Odd(text, NOTHING)), NOTHING


NOTHING = "nothing"
GROUP_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
READERS: dict[str, Any] = {
    "str": None,
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "timestamp": _read_date,
    "null": _read_null,
    "value": lambda text: (text, ""),
}
