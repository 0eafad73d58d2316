"""File modes as people write them, and those that would not mean what they look like.

YAML reads an unquoted 0600 as the number 384 and 400 as four hundred; both would end up as some
other mode. So a mode is text: octal with its leading zero, or symbolic.
"""

import re
from functools import cache
from pathlib import Path

import yaml

OCTAL = re.compile(r"0[0-7]{3,4}")
CLAUSE = re.compile(r"([ugoa]+)=([rwx]*)")
BITS = {"r": 4, "w": 2, "x": 1}
SHIFT = {"u": 6, "g": 3, "o": 0}
PRIVATE = 0o600


def parse_mode(text: str) -> int:
    """The mode as a number; raises ValueError with what is allowed.

    Symbolic modes set all bits: "u=rw" is 0600, "u=rwx,go=rx" is 0755.
    """
    if OCTAL.fullmatch(text):
        return int(text, 8)
    mode = 0
    for clause in text.split(","):
        match = CLAUSE.fullmatch(clause)
        if match is None:
            raise ValueError('octal with its leading zero ("0640"), or symbolic ("u=rw,g=r")')
        who, what = match[1].replace("a", "ugo"), match[2]
        bits = sum(BITS[letter] for letter in set(what))
        for letter in set(who):
            mode |= bits << SHIFT[letter]
    return mode


def wider_than_private(mode: int) -> bool:
    """Whether anybody but the owner is let in, or the owner may run it."""
    return bool(mode & ~PRIVATE)


def known_secret(path: str) -> bool:
    """Whether a path is known to hold a secret."""
    return any(pattern.fullmatch(path) for pattern in _patterns("paths"))


def kept_for_gpufleet(path: str) -> bool:
    """Whether gpufleet lays a file of its own at a path of a node."""
    return any(pattern.fullmatch(path) for pattern in _patterns("kept"))


@cache
def _patterns(kind: str) -> tuple[re.Pattern[str], ...]:
    text = Path(__file__).with_name("node_paths.yaml").read_text(encoding="utf-8")
    return tuple(re.compile(row["pattern"]) for row in yaml.safe_load(text)[kind])
