"""What may be removed. Pure: from names and numbers to names."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from gpufleet_agent.checkpoint.names import SegmentName, SnapshotName


def kept_snapshots(
    snapshots: Collection[SnapshotName], run: bytes, keep: int, broken: Collection[SnapshotName]
) -> tuple[SnapshotName, ...]:
    """The newest `keep` sound generations of this run, oldest first."""
    sound = sorted(name for name in snapshots if name.run == run and name not in broken)
    return tuple(sound[-keep:])


def expired_snapshots(
    snapshots: Collection[SnapshotName], run: bytes, keep: int, broken: Collection[SnapshotName]
) -> tuple[SnapshotName, ...]:
    """Snapshots older than all kept generations. Other runs are not this run's to remove."""
    kept = kept_snapshots(snapshots, run, keep, broken)
    if len(kept) < keep:
        return ()
    return tuple(sorted(name for name in snapshots if name.run == run and name < kept[0]))


def expired_segments(
    segments: Sequence[tuple[SegmentName, int]], covered: int
) -> tuple[SegmentName, ...]:
    """Segments whose records are all covered by the oldest kept snapshot.

    `segments` are (name, number of the first record) in order; `covered` is the last record of
    that snapshot. The newest segment is never removed: it is being written.
    """
    expired = []
    for (name, _), (_, next_first) in pairwise(segments):
        if next_first - 1 > covered:
            break
        expired.append(name)
    return tuple(expired)
