"""Debian version numbers in their own order, without dpkg.

The order is that of deb-version(7): epoch as a number, then upstream version, then revision; within
those, runs of non-digits and runs of digits by turns, `~` before everything, even the end, and
letters before other characters.
"""

import re
from functools import total_ordering

FORM = re.compile(
    r"(?:(?P<epoch>[0-9]+):)?(?P<upstream>[0-9][A-Za-z0-9.+~:-]*?)(?:-(?P<revision>[A-Za-z0-9+.~]+))?"
)
RUNS = re.compile(r"([^0-9]*)([0-9]*)")


@total_ordering
class DebVersion:
    """One version; raises ValueError for text that is none."""

    def __init__(self, text: str) -> None:
        found = FORM.fullmatch(text)
        bare = found is not None and not found["revision"]
        if (
            found is None
            or (":" in found["upstream"] and not found["epoch"])
            or ("-" in found["upstream"] and bare)
        ):
            raise ValueError(f"{text!r} is not a Debian version")
        self.text = text
        self.epoch = int(found["epoch"] or 0)
        self.upstream = found["upstream"]
        self.revision = found["revision"] or "0"
        self._key = (self.epoch, _key(self.upstream), _key(self.revision))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DebVersion) and self._key == other._key

    def __lt__(self, other: "DebVersion") -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"DebVersion({self.text!r})"


def _key(part: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Runs of a part as comparable pairs; text is compared character by character."""
    pairs = []
    for letters, digits in RUNS.findall(part):
        if letters or digits:
            pairs.append(((*map(_weight, letters), 0), int(digits or 0)))
    # The end counts like an empty run: after `~`, before anything else.
    return (*pairs, ((0,), 0))


def _weight(character: str) -> int:
    """`~` below the end (0), letters above it, the rest above letters."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
