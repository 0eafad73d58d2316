"""State of another version is migrated, or refused by name; never dropped in silence."""

import shutil
from pathlib import Path

import pytest
from checkpoint_scripts import PLACE, fresh_disk, turns_of

from gpufleet_agent.checkpoint import (
    CheckpointStore,
    Damaged,
    Fenced,
    Format,
    Line,
    Place,
    PosixFiles,
    Turn,
    VersionRefused,
)
from gpufleet_agent.checkpoint.records import decode_turn, turn_record

FIXTURE = Path(__file__).parent / "fixtures" / "v1"
ADDED = b"\x01tools=none"


def add_field(payload: bytes) -> bytes:
    """Version 2 of this test: a field with a default behind every turn."""
    return payload + ADDED


NEXT = Format(2, {1: add_field})
THIRD = Format(3, {1: add_field, 2: lambda payload: payload})


def test_c76_the_kept_files_of_version_1_read_as_on_the_day_they_were_written(
    tmp_path: Path,
) -> None:
    shutil.copytree(FIXTURE, tmp_path / "root")
    line, recovered = Line.open(PosixFiles(), Place(str(tmp_path / "root"), "agent-1"))
    line.close()
    assert turns_of(recovered.sessions) == {"s0": ["0", "2", "4"], "s1": ["1", "3"]}
    assert recovered.snapshot is not None
    assert recovered.snapshot.sequence == 3
    first = recovered.sessions.get("s0")
    assert first is not None
    assert next(first.turns()) == Turn("0", b'{"n": 0}', 10, 20, 1_700_000_000_000)


def test_c76_older_state_is_migrated_and_told_of() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE)
    for key in ("1", "2"):
        record = turn_record("s", Turn(key, b"body"))
        line.commit([record])
        if key == "1":
            state.sessions.apply(record, "")
            line.snapshot(state.sessions.view())
    _, recovered = Line.open(disk, PLACE, versions=NEXT)
    found = recovered.sessions.get("s")
    assert found is not None
    assert [(turn.body, turn.extension) for turn in found.turns()] == [(b"body", ADDED)] * 2
    assert len([n for n in recovered.notes if "migrated from version 1 to 2" in n]) == 2


def test_c76_newer_state_is_refused_by_both_versions_and_left_as_it_is() -> None:
    disk = fresh_disk()
    line, _ = Line.open(disk, PLACE, versions=THIRD)
    line.commit([turn_record("s", Turn("1", b""))])
    before = {path: disk.read(path) for path in disk.walk()}
    with pytest.raises(VersionRefused, match="version 3 where this release reads versions 1 to 2"):
        Line.open(disk, PLACE, versions=NEXT)
    assert {path: disk.read(path) for path in disk.walk()} == before


def test_c76_fields_that_this_release_does_not_know_are_kept() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE)
    record = turn_record("s", Turn("1", b"body", extension=b"\x07from a newer release"))
    line.commit([record])
    line, state = Line.open(disk, PLACE)
    line.snapshot(state.sessions.view())
    _, recovered = Line.open(disk, PLACE)
    found = recovered.sessions.get("s")
    assert found is not None
    assert next(found.turns()).extension == b"\x07from a newer release"
    assert decode_turn(record.payload).extension == b"\x07from a newer release"


@pytest.mark.parametrize("content", [b'{"turns": []}', bytes(400)])
def test_c76_a_file_without_a_version_is_refused(content: bytes) -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE)
    record = turn_record("s", Turn("1", b""))
    line.commit([record])
    state.sessions.apply(record, "")
    line.snapshot(state.sessions.view())
    for path in list(disk.walk()):
        if path.endswith(".ckpt"):
            disk.wipe(path)
            disk.put(path, content)
        elif "journal" in path:
            disk.wipe(path)
    with pytest.raises(Damaged, match="no head|not b'GPFSNAPS'"):
        Line.open(disk, PLACE)


async def test_c76_a_canary_has_a_line_of_its_own_and_a_rollback_finds_the_old_one() -> None:
    disk = fresh_disk()
    old = await CheckpointStore.open(PLACE, files=disk)
    await old.append("s", Turn("1", b""))
    canary = await CheckpointStore.open(
        Place("/fsx", "agent-1", "canary", "GPU-1"), files=disk, versions=NEXT, fork_from="main"
    )
    assert turns_of(canary.sessions) == {"s": ["1"]}
    with pytest.raises(Fenced):
        await old.append("s", Turn("late", b""))
    await canary.append("s", Turn("2", b""))
    await canary.close()
    # The canary goes on with its own line, whatever it was forked from.
    canary = await CheckpointStore.open(
        Place("/fsx", "agent-1", "canary", "GPU-1"), files=disk, versions=NEXT, fork_from="main"
    )
    assert turns_of(canary.sessions) == {"s": ["1", "2"]}
    await canary.close()
    rolled_back = await CheckpointStore.open(PLACE, files=disk)
    assert turns_of(rolled_back.sessions) == {"s": ["1"]}
    await rolled_back.append("s", Turn("3", b""))
    await rolled_back.close()
    await old.close()


async def test_c76_a_fork_of_a_line_that_never_was_starts_afresh() -> None:
    disk = fresh_disk()
    place = Place("/fsx", "agent-1", "canary")
    store = await CheckpointStore.open(place, files=disk, fork_from="main")
    assert store.recovered.fresh
    await store.close()
