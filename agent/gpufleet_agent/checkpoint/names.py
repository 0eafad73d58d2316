"""The names of the files of a line. Numbers are compared as numbers, never as text."""

import re
from dataclasses import dataclass

from gpufleet_agent.checkpoint.errors import BadInput

MARKER = ".gpufleet-checkpoints"
"""In the root of the share: without it the share counts as not mounted."""
TEMPORARY = ".tmp"

_FENCE = re.compile(r"fence-(\d{20})")
_BORN = re.compile(r"born-([0-9a-f]{16})")
_JOURNAL = re.compile(r"journal-([0-9a-f]{16})-(\d{20})-(\d{10})\.log")
_SNAPSHOT = re.compile(r"snapshot-([0-9a-f]{16})-(\d{20})-(\d{20})\.ckpt")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """A journal segment: ordered by owner, then by the owner's own count."""

    fence: int
    ordinal: int
    run: bytes

    def __str__(self) -> str:
        return f"journal-{self.run.hex()}-{self.fence:020d}-{self.ordinal:010d}.log"


@dataclass(frozen=True, slots=True, order=True)
class SnapshotName:
    """A snapshot: ordered by the last record it covers, then by owner."""

    sequence: int
    fence: int
    run: bytes

    def __str__(self) -> str:
        return f"snapshot-{self.run.hex()}-{self.sequence:020d}-{self.fence:020d}.ckpt"


def fence_name(fence: int) -> str:
    """The file that says that this fence is taken."""
    return f"fence-{fence:020d}"


def born_name(run: bytes) -> str:
    """The file that says that a run has records: to find none of them is damage, not a start."""
    return f"born-{run.hex()}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a line, sorted into what they are."""

    fences: tuple[int, ...]
    born: frozenset[bytes]
    segments: tuple[SegmentName, ...]
    snapshots: tuple[SnapshotName, ...]
    temporary: tuple[str, ...]
    other: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Nothing of a line is here: no fence, no record."""
        return not (self.fences or self.born or self.segments or self.snapshots)


def sort_names(names: list[str]) -> Listing:
    """What the files of a folder are, by their names."""
    fences, born, segments, snapshots = [], set(), [], []
    temporary, other = [], []
    for name in names:
        if name.endswith(TEMPORARY):
            temporary.append(name)
        elif match := _FENCE.fullmatch(name):
            fences.append(int(match[1]))
        elif match := _BORN.fullmatch(name):
            born.add(bytes.fromhex(match[1]))
        elif match := _JOURNAL.fullmatch(name):
            segments.append(SegmentName(int(match[2]), int(match[3]), bytes.fromhex(match[1])))
        elif match := _SNAPSHOT.fullmatch(name):
            snapshots.append(SnapshotName(int(match[2]), int(match[3]), bytes.fromhex(match[1])))
        else:
            other.append(name)
    return Listing(
        tuple(sorted(fences)),
        frozenset(born),
        tuple(sorted(segments)),
        tuple(sorted(snapshots)),
        tuple(sorted(temporary)),
        tuple(sorted(other)),
    )


def plain_name(field: str, name: str) -> str:
    """A name fit for a folder; raises `BadInput`."""
    if not _PLAIN.fullmatch(name):
        raise BadInput(
            field, repr(name), "use 1 to 63 of A-Z a-z 0-9 . _ -, a letter or digit first"
        )
    return name
