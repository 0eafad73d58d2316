"""Versions and ranges of versions, each component by its own scheme.

A scheme turns text into something that has an order, and raises BadVersion for text that is not one
whole version. Nothing here reads a version as a decimal number: 24.11 is the eleventh month of
2024, newer than 24.5 and no fraction.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .debversion import DebVersion

DOTTED = re.compile(r"[0-9]+(\.[0-9]+)*")
CLAUSE = re.compile(r"\s*(===?|!=|>=|<=|~=|>|<)?\s*([^\s=<>!~][^\s,]*)\s*")


class BadVersion(ValueError):
    """Text that is not one whole version of its scheme."""


class BadRange(ValueError):
    """Text that is not a range of versions."""


def _dotted(text: str) -> tuple[int, ...]:
    if not DOTTED.fullmatch(text):
        raise BadVersion(text)
    return tuple(int(part) for part in text.split("."))


def _deb(text: str) -> DebVersion:
    try:
        return DebVersion(text)
    except ValueError as error:
        raise BadVersion(text) from error


def _pep440(text: str) -> Any:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion as error:
        raise BadVersion(text) from error


def _choice(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", text):
        raise BadVersion(text)
    return text


SCHEMES: dict[str, Callable[[str], Any]] = {
    "dotted": _dotted,  # numbers with dots between: drivers, CUDA
    "deb": _deb,  # deb-version(7): Slurm, DCGM, all that comes as a package
    "pep440": _pep440,  # Python distributions
    "choice": _choice,  # names without an order, such as an operating system
}


@lru_cache(maxsize=8192)
def parse(scheme: str, text: str) -> Any:
    """The version as something comparable; raises BadVersion."""
    return SCHEMES[scheme](text)


def is_version(scheme: str, text: str) -> bool:
    """Whether the text is one whole version."""
    try:
        parse(scheme, text)
    except BadVersion:
        return False
    return True


def head(text: str, parts: int) -> str:
    """The first parts of a version as text: head("13.0.2", 1) is "13"."""
    return ".".join(re.split(r"[.+~-]", text)[:parts])


def has_prefix(text: str, prefix: str) -> bool:
    """Whether a version is the prefix, or continues it at a boundary: 24.1 is none of 24.11."""
    if not text.startswith(prefix):
        return False
    rest = text[len(prefix) :]
    return not rest or not (rest[0].isalnum() and prefix[-1].isalnum())


@dataclass(frozen=True)
class Range:
    """Versions that a comma-separated list of clauses allows, such as `>=2.43,!=2.44.*`.

    A clause without an operator, and `==` with a star, means versions that begin so.
    """

    scheme: str
    text: str
    clauses: tuple[tuple[str, str], ...]

    def allows(self, version: str) -> bool:
        """Whether a version is in the range; raises BadVersion for text that is none."""
        return _allows(self, version)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=65536)
def _allows(wanted: Range, version: str) -> bool:
    return all(_holds(wanted.scheme, clause, version) for clause in wanted.clauses)


@lru_cache(maxsize=4096)
def parse_range(scheme: str, text: str) -> Range:
    """A range from its text; raises BadRange with a sentence."""
    clauses = []
    for part in text.split(","):
        found = CLAUSE.fullmatch(part)
        if found is None:
            raise BadRange(f"{part.strip()!r} is not a clause such as >=1.2, ==1.2.* or 1.2")
        operator, value = found[1] or "", found[2]
        prefix = value.removesuffix(".*")
        starred = prefix != value
        if "*" in prefix or (starred and operator not in ("", "==", "!=")):
            raise BadRange(f"{part.strip()!r}: a star stands at the end, after == or !=")
        if operator == "~=":
            if scheme != "pep440" or not is_version(scheme, value):
                raise BadRange(f"{part.strip()!r}: ~= is for whole versions of Python packages")
        elif operator not in ("", "==", "!=") or not (starred or operator == ""):
            if scheme == "choice" and operator not in ("==", "===", "!="):
                raise BadRange(f"{part.strip()!r}: these have no order, name one")
            if not is_version(scheme, value):
                raise BadRange(f"{value!r} is not a whole version")
        if operator == "" or starred:
            operator = "!=*" if operator == "!=" else "=*"
        clauses.append((operator, prefix))
    return Range(scheme, text, tuple(clauses))


def _holds(scheme: str, clause: tuple[str, str], version: str) -> bool:
    operator, value = clause
    seen = parse(scheme, version)
    if operator in ("=*", "!=*"):
        inside = has_prefix(version, value) or (
            is_version(scheme, value) and seen == parse(scheme, value)
        )
        return inside == (operator == "=*")
    if scheme == "pep440":
        from packaging.specifiers import SpecifierSet

        return bool(SpecifierSet(operator + value).contains(seen, prereleases=True))
    return COMPARE[operator](seen, parse(scheme, value))


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "===": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}
