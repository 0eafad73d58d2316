"""What members say: rows about themselves, verdicts about one another.

Both are tuples whose order is the order of truth: of two rows (or verdicts) about one member the
greater one holds. An incarnation is `life << 32 | refutations`; a life is one start of the
process, counted on its disk, so that a new life is above everything said of the ones before.
"""

from enum import IntEnum
from typing import NamedTuple

LIFE_SHIFT = 32
MAX_LIFE = 2**31 - 1
MAX_INCARNATION = (MAX_LIFE << LIFE_SHIFT) | (2**LIFE_SHIFT - 1)


class Status(IntEnum):
    """What is believed of a member; of one incarnation the greater status holds."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class Health(IntEnum):
    """How a member says it is."""

    OK = 0
    DEGRADED = 1
    DRAINING = 2
    FAILED = 3


class Facts(NamedTuple):
    """What an owner writes in its row. A hint for the others: credits are granted elsewhere.

    free and total count GPUs; credits are requests that the owner would take now; model is the
    loaded model ("" for none); checkpoint_revision is the last durable checkpoint.
    """

    free: int = 0
    total: int = 0
    credits: int = 0
    model: str = ""
    health: Health = Health.OK
    checkpoint_revision: int = 0


class Row(NamedTuple):
    """A member's own row; only the owner writes it. Ordered by (incarnation, version)."""

    incarnation: int
    version: int
    name: str
    address: str
    facts: Facts


class Verdict(NamedTuple):
    """What `accuser` says of `name` in an incarnation; LEFT is said by the member itself."""

    incarnation: int
    status: Status
    accuser: str
    name: str


def first_incarnation(life: int) -> int:
    """The first incarnation of a life. Raises ValueError above MAX_LIFE."""
    if not 0 < life <= MAX_LIFE:
        raise ValueError(f"life {life}: allowed are 1..{MAX_LIFE}")
    return life << LIFE_SHIFT


def life_of(incarnation: int) -> int:
    """The life that an incarnation belongs to."""
    return incarnation >> LIFE_SHIFT
