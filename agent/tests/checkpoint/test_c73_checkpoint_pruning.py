"""Pruning keeps the newest by number, apart by run, and never the last good one is removed."""

import pytest
from checkpoint_scripts import PLACE, fresh_disk, turns_of

from gpufleet_agent.checkpoint import BadInput, Damaged, Line, Settings, Turn
from gpufleet_agent.checkpoint.names import SegmentName, SnapshotName
from gpufleet_agent.checkpoint.records import turn_record
from gpufleet_agent.checkpoint.retention import (
    expired_segments,
    expired_snapshots,
    kept_snapshots,
)

RUN, FORMER = b"runrunru", b"formerru"


def names(*numbers: int, run: bytes = RUN) -> list[SnapshotName]:
    return [SnapshotName(number, 1, run) for number in numbers]


@pytest.mark.parametrize(
    ("keep", "kept"), [(2, [9900, 10000]), (1, [10000]), (3, [9800, 9900, 10000]), (4, None)]
)
def test_c73_the_newest_generations_by_number_are_kept(keep: int, kept: list[int] | None) -> None:
    there = names(10000, 9800, 9900)
    expired = {name.sequence for name in expired_snapshots(there, RUN, keep, ())}
    assert expired == {9800, 9900, 10000} - set(kept or [9800, 9900, 10000])


def test_c73_another_run_with_greater_numbers_pushes_nothing_out() -> None:
    there = [*names(50000, 49000, 48000, run=FORMER), *names(10)]
    assert expired_snapshots(there, RUN, 1, ()) == ()
    assert kept_snapshots(there, RUN, 1, ()) == tuple(names(10))


def test_c73_a_broken_generation_does_not_count_as_one_that_is_kept() -> None:
    there = names(10, 20, 30)
    assert expired_snapshots(there, RUN, 2, names(30)) == ()
    assert kept_snapshots(there, RUN, 2, names(30)) == tuple(names(10, 20))
    assert expired_snapshots(there, RUN, 1, names(30)) == tuple(names(10))


def test_c73_keep_nothing_is_an_error_on_the_field() -> None:
    with pytest.raises(BadInput, match=r"checkpoint\.keep is 0, allowed is 1 and more"):
        Settings(keep=0)


def test_c73_the_segment_that_is_written_is_never_removed() -> None:
    segments = [(SegmentName(1, n, RUN), first) for n, first in ((1, 1), (2, 11), (3, 21))]
    assert expired_segments(segments, 10) == (segments[0][0],)
    assert expired_segments(segments, 9) == ()
    assert expired_segments(segments, 99) == (segments[0][0], segments[1][0])


def test_c73_a_new_run_starts_beside_the_former_one_and_leaves_it() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE, Settings(keep=1))
    record = turn_record("s", Turn("old", b""))
    for _ in range(5):
        line.commit([record])
        state.sessions.apply(record, "")
    line.snapshot(state.sessions.view())
    former = line.run
    line, state = Line.open(disk, PLACE, Settings(keep=1), new_run=True)
    assert state.fresh
    new = turn_record("s", Turn("new", b""))
    line.commit([new])
    state.sessions.apply(new, "")
    line.snapshot(state.sessions.view())
    line.prune()
    snapshots = [path for path in disk.walk() if path.endswith(".ckpt")]
    assert {former.hex() in path for path in snapshots} == {True, False}
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["new"]}


def test_c73_nothing_is_pruned_before_the_new_snapshot_reads_back_sound() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE, Settings(keep=1))
    for number in (1, 2):
        record = turn_record("s", Turn(f"{number}", b"body"))
        line.commit([record])
        state.sessions.apply(record, "")
        if number == 2:

            def rot(call: int, name: str, path: str) -> None:
                if name == "read" and path.endswith(".ckpt"):
                    disk.flip(path, 250)

            disk.fault = rot
            with pytest.raises(Damaged, match="reads back wrong"):
                line.snapshot(state.sessions.view())
            disk.fault = None
            line.prune()
        else:
            line.snapshot(state.sessions.view())
            line.prune()
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["1", "2"]}
    assert recovered.snapshot is not None
    assert recovered.snapshot.sequence == 1
