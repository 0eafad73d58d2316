"""Slurm's host lists: `gpu[001-003],login` and back, without ever expanding more than allowed.

Grammar: items between commas or white space; an item is name characters (letters, digits, `.`,
`_`, `-`) and brackets in any order; a bracket holds numbers and ranges between commas. Zero padding
of a range follows its lower end, empty items are skipped, repeated names stay repeated, all as
`scontrol show hostnames` does. Two differences, both on purpose: text after the last bracket
(`n[1-2]-ib`) is understood here and refused by Slurm; an unfinished range (`n[1-`, `n[1-]`) is an
error here and silently becomes another name in Slurm.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

LIMIT = 65536
"""Most names that one list may stand for unless the caller says otherwise; Slurm's own limit."""

_SEPARATORS = ", \t\r\n"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_DIGITS = re.compile(r"[0-9]+")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]*)", re.DOTALL)
_LONGEST_NUMBER = 18  # digits; Slurm counts in 64 bits and quietly saturates beyond
_EXCERPT = 72


@dataclass(frozen=True)
class Problem:
    """One mistake: `position` counts characters of the text from 0."""

    position: int
    message: str


class HostlistError(ValueError):
    """A text is no host list; `problems` has every mistake, the message shows where each is."""

    def __init__(self, text: str, problems: Iterable[Problem]) -> None:
        self.text = text
        self.problems = tuple(problems)
        super().__init__("\n".join(_show(text, problem) for problem in self.problems))


@dataclass(frozen=True)
class _Range:
    low: int
    high: int
    width: int

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __iter__(self) -> Iterator[str]:
        return (str(number).zfill(self.width) for number in range(self.low, self.high + 1))


_Part = str | list[_Range]


class _StopError(Exception):
    """Ends the reading of one item."""

    def __init__(self, position: int, message: str, *, inside: bool = True) -> None:
        """`inside` a bracket, commas do not end the item."""
        super().__init__(message)
        self.problem = Problem(position, message)
        self.inside = inside


def expand(text: str, limit: int = LIMIT) -> list[str]:
    """The names that a host list stands for, in Slurm's order, repeated where it repeats them.

    An empty list is a legal list. Raises HostlistError for a text that is none, and for one with
    more than `limit` names; those are counted, never made.
    """
    items, problems = _read(text)
    if problems:
        raise HostlistError(text, problems)
    total = 0
    for position, parts in items:
        total += prod(sum(len(r) for r in part) for part in parts if not isinstance(part, str))
        if total > limit:
            message = f"more than {limit} names, the most that one list may stand for"
            raise HostlistError(text, [Problem(position, message)])
    return [name for _, parts in items for name in _names(parts)]


def compress(names: Iterable[str]) -> str:
    """A short list that stands for exactly these names, each once, and that Slurm understands.

    Only a number at the end of a name is folded, since Slurm knows no text after a bracket.
    Raises HostlistError for a name that no host list can hold.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        if not _NAME.fullmatch(name):
            bad = next((i for i, c in enumerate(name) if not _NAME.match(c)), 0)
            message = "a host name has letters, digits, '.', '_' and '-' only, at least one"
            raise HostlistError(name, [Problem(bad, message)])
        head, digits = _split(name)
        groups.setdefault(head, []).append(digits)
    items = []
    for head, numbers in groups.items():
        runs = _runs(number for number in numbers if number)
        if "" in numbers:
            items.append(head)
        if len(runs) == 1 and runs[0][0] == runs[0][1]:
            items.append(head + runs[0][0])
        elif runs:
            folded = ",".join(low if low == high else f"{low}-{high}" for low, high in runs)
            items.append(f"{head}[{folded}]")
    return ",".join(items)


def _split(name: str) -> tuple[str, str]:
    found = _LAST_NUMBER.fullmatch(name)
    if found is None or len(found[2]) > _LONGEST_NUMBER:
        return name, ""
    return found[1], found[2]


def _runs(numbers: Iterable[str]) -> list[tuple[str, str]]:
    """Fold numbers, as written, into ranges; padding is part of what must come out again."""
    found: list[tuple[str, str]] = []
    awaited: dict[str, int] = {}
    for text in sorted(numbers, key=lambda x: (int(x), len(x))):
        index = awaited.pop(text, None)
        if index is None:
            index = len(found)
            found.append((text, text))
        else:
            found[index] = (found[index][0], text)
        awaited[str(int(text) + 1).zfill(len(found[index][0]))] = index
    return found


def _names(parts: list[_Part]) -> Iterator[str]:
    choices: list[list[str]] = []
    for part in parts:
        choices.append([part] if isinstance(part, str) else [name for r in part for name in r])
    return ("".join(chosen) for chosen in product(*choices))


def _read(text: str) -> tuple[list[tuple[int, list[_Part]]], list[Problem]]:
    items: list[tuple[int, list[_Part]]] = []
    problems: list[Problem] = []
    position = 0
    while position < len(text):
        if text[position] in _SEPARATORS:
            position += 1
            continue
        begin = position
        try:
            parts, position = _read_item(text, position)
            items.append((begin, parts))
        except _StopError as stop:
            problems.append(stop.problem)
            position = _next_item(text, stop)
    return items, problems


def _read_item(text: str, position: int) -> tuple[list[_Part], int]:
    parts: list[_Part] = []
    while position < len(text) and text[position] not in _SEPARATORS:
        if text[position] == "[":
            ranges, position = _read_bracket(text, position)
            parts.append(ranges)
        elif name := _NAME.match(text, position):
            parts.append(name[0])
            position = name.end()
        elif text[position] == "]":
            raise _StopError(position, "']' without a '[' before it", inside=False)
        else:
            message = f"{text[position]!r} cannot stand in a host name"
            raise _StopError(position, message, inside=False)
    return parts, position


def _read_bracket(text: str, opened: int) -> tuple[list[_Range], int]:
    ranges = []
    position = opened
    while True:
        found, position = _read_range(text, position + 1, opened)
        ranges.append(found)
        if position >= len(text):
            raise _StopError(position, f"'[' at {opened + 1} is never closed")
        if text[position] == "]":
            return ranges, position + 1
        if text[position] != ",":
            raise _StopError(position, f"{text[position]!r} where ',', '-' or ']' belongs")


def _read_range(text: str, begin: int, opened: int) -> tuple[_Range, int]:
    low = _number(text, begin, opened)
    position = begin + len(low)
    high = low
    if text.startswith("-", position):
        high = _number(text, position + 1, opened)
        position += 1 + len(high)
        if int(high) < int(low):
            raise _StopError(
                begin, f"range {low}-{high} runs backwards; did you mean {high}-{low}?"
            )
    return _Range(int(low), int(high), len(low)), position


def _number(text: str, position: int, opened: int) -> str:
    found = _DIGITS.match(text, position)
    if found is None:
        if position >= len(text):
            raise _StopError(
                position, f"a number is missing, and '[' at {opened + 1} is never closed"
            )
        raise _StopError(position, f"{text[position]!r} where a number belongs")
    if len(found[0]) > _LONGEST_NUMBER:
        raise _StopError(position, f"a number of more than {_LONGEST_NUMBER} digits")
    return found[0]


def _next_item(text: str, stop: _StopError) -> int:
    """Where the item after a mistake begins."""
    position = stop.problem.position
    if stop.inside:
        closed = text.find("]", position)
        position = len(text) if closed < 0 else closed
    while position < len(text) and text[position] not in _SEPARATORS:
        position += 1
    return position


def _show(text: str, problem: Problem) -> str:
    """The message, the text and a caret under the mistake, cut to what fits a line."""
    begin = max(0, min(problem.position - _EXCERPT // 2, len(text) - _EXCERPT))
    line = "".join(c if c.isprintable() else " " for c in text[begin : begin + _EXCERPT])
    caret = " " * (problem.position - begin) + "^"
    return f"host list, character {problem.position + 1}: {problem.message}\n  {line}\n  {caret}"
