"""The bytes: what is written is read back, and any flipped bit is noticed."""

import zlib

import pytest
from checkpoint_scripts import PLACE, SMALL, Script, by_session, fresh_disk, turns_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet_agent.checkpoint import BadInput, CheckpointError, Line, Turn, VersionRefused
from gpufleet_agent.checkpoint.frames import Frame, encode_frame, scan
from gpufleet_agent.checkpoint.header import (
    JOURNAL,
    SIZE,
    SNAPSHOT,
    BrokenHead,
    Header,
    Owner,
    decode,
)
from gpufleet_agent.checkpoint.records import (
    FORMAT,
    Record,
    decode_turn,
    session_name,
    turn_head,
    turn_record,
)
from gpufleet_agent.checkpoint.sessions import Sessions
from gpufleet_agent.checkpoint.snapshots import BrokenSnapshot, decode_snapshot, encode_body

COUNTS = st.integers(0, (1 << 32) - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
TURNS = st.builds(
    Turn,
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.binary(max_size=200),
    COUNTS,
    COUNTS,
    st.integers(0, (1 << 64) - 1),
    st.binary(max_size=20),
)
RECORDS = st.lists(st.builds(Record, st.integers(1, 255), st.binary(max_size=80)), max_size=6)


@given(NAMES, TURNS)
def test_a_turn_reads_back_as_it_was(session: str, turn: Turn) -> None:
    payload = turn_record(session, turn).payload
    assert decode_turn(payload) == turn
    assert turn_head(payload).session == session


@given(st.binary(max_size=64))
def test_bytes_that_are_no_turn_raise_a_value_error_at_most(payload: bytes) -> None:
    try:
        decode_turn(payload)
    except ValueError:
        return


@given(st.lists(RECORDS, max_size=5), COUNTS, st.data())
def test_frames_read_back_and_a_flipped_bit_is_noticed(
    commits: list[list[Record]], seed: int, data: st.DataObject
) -> None:
    expected, raw, first = [], b"", 1
    for records in commits:
        raw += encode_frame(seed, first, records)
        expected.append(Frame(first, tuple(records)))
        first += len(records)
    found = scan(raw, 0, seed)
    assert found.frames == tuple(expected)
    assert not found.broken
    if raw:
        at = data.draw(st.integers(0, len(raw) - 1))
        flipped = bytearray(raw)
        flipped[at] ^= 1 << data.draw(st.integers(0, 7))
        damaged = scan(bytes(flipped), 0, seed)
        assert damaged.broken
        assert set(damaged.frames) <= set(expected)
        cut = data.draw(st.integers(0, len(raw) - 1))
        assert (
            scan(raw[:cut], 0, seed).frames
            == tuple(expected)[: len(scan(raw[:cut], 0, seed).frames)]
        )
    assert not scan(raw, 0, seed ^ 1).frames


@given(st.lists(st.tuples(NAMES, TURNS), max_size=12), st.data())
@settings(max_examples=60)
def test_a_snapshot_reads_back_and_a_flipped_bit_is_noticed(
    entries: list[tuple[str, Turn]], data: st.DataObject
) -> None:
    sessions = Sessions()
    for session, turn in entries:
        sessions.apply(turn_record(session, turn), "GPU-9")
    view = sessions.view()
    body = encode_body(view)
    head = Header(
        SNAPSHOT,
        b"r" * 8,
        Owner("a", "GPU-9", b"t" * 16),
        3,
        4,
        view.sequence,
        len(body),
        len(view.sessions),
        zlib.crc32(body),
    )
    raw = head.encode() + body
    assert decode_snapshot("p", raw, FORMAT) == (head, view)
    again = Sessions()
    again.restore(view)
    assert again.view() == view
    flipped = bytearray(raw)
    flipped[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BrokenSnapshot):
        decode_snapshot("p", bytes(flipped), FORMAT)
    with pytest.raises(BrokenSnapshot):
        decode_snapshot("p", raw[: data.draw(st.integers(0, len(raw) - 1))], FORMAT)


def test_every_single_flipped_byte_of_a_line_is_noticed_or_harmless() -> None:
    """Damage anywhere ends in the whole state or in a typed refusal, never in a part of it.

    But for one place: the very last frame of the newest segment looks like a torn tail, which is
    told of.
    """
    script, disk = Script(5, 6), fresh_disk()
    line = script.live(disk)
    line.close()
    expected = by_session(script.acknowledged)
    files = {path: disk.read(path) for path in disk.walk()}
    refused = whole = torn = 0
    for path, raw in files.items():
        if ".gpufleet" in path:
            continue
        for at in range(0, len(raw), 1 if len(raw) < 2000 else 7):
            copy = fresh_disk()
            for part in ("/fsx/agent-1", "/fsx/agent-1/main"):
                copy.make_folder(part)
            for name, content in files.items():
                if not copy.exists(name):
                    copy.put(name, content)
            copy.flip(path, at)
            try:
                _, recovered = Line.open(copy, PLACE, SMALL)
            except CheckpointError:
                refused += 1
                continue
            if turns_of(recovered.sessions) == expected:
                whole += 1
            else:
                torn += 1
                assert recovered.torn_bytes
                assert any("the torn end, cut off" in note for note in recovered.notes)
                assert path == [name for name in files if "journal" in name][-1]
    assert refused > 100
    assert whole > 100


def test_the_head_of_another_kind_of_file_or_a_cut_head_is_broken() -> None:
    raw = Header(JOURNAL, b"r" * 8, Owner("a", "g", b"t" * 16), 1, 0).encode()
    assert len(raw) == SIZE
    with pytest.raises(BrokenHead, match="not b'GPFSNAPS'"):
        decode(raw, SNAPSHOT)
    with pytest.raises(BrokenHead):
        decode(raw[:-1], JOURNAL)


def test_names_and_sizes_out_of_bounds_are_refused_by_their_field() -> None:
    for session, turn, field in (
        ("", Turn("k", b""), "session"),
        ("s" * 513, Turn("k", b""), "session"),
        ("s", Turn("k" * 513, b""), "turn.key"),
        ("s", Turn("k", b"", -1), "turn.prompt_tokens"),
        ("s", Turn("k", b"", 0, 1 << 32), "turn.completion_tokens"),
        ("s", Turn("k", b"", at_ms=-1), "turn.at_ms"),
        ("s", Turn("k", bytes((64 << 20) + 1)), "turn.body"),
    ):
        with pytest.raises(BadInput) as caught:
            turn_record(session, turn)
        assert caught.value.path == field
    assert session_name("é") == b"\xc3\xa9"
    with pytest.raises(BadInput, match="gpu"):
        Header(JOURNAL, b"r" * 8, Owner("a", "g" * 65, b"t" * 16), 1, 0).encode()


def test_a_newer_version_is_refused_and_named() -> None:
    script, disk = Script(2, 4), fresh_disk()
    script.live(disk).close()
    segment = next(path for path in disk.walk() if "journal" in path)
    raw = disk.read(segment)
    newer = decode(raw, JOURNAL)
    head = Header(*[getattr(newer, field) for field in newer.__slots__[:-1]], version=3).encode()
    disk.wipe(segment)
    disk.put(segment, head + raw[SIZE:])
    with pytest.raises(
        VersionRefused, match="format version 3 where this release reads versions 1 to 1"
    ):
        Line.open(disk, PLACE)
    assert disk.read(segment) == head + raw[SIZE:]
