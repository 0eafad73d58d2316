"""Frames: what one group commit writes to a journal segment.

A frame holds the records that were waiting when the last fsync ended. The next frame is written
only after this one is durable, so a sound frame *behind* a broken one proves that the broken one
was durable once; a broken frame at the end of a segment is the torn tail of a crash.
Every checksum is seeded with the one before it, the first with the segment head's: bytes of
another segment, or moved bytes, are never taken for records.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from gpufleet_agent.checkpoint.records import LARGEST_RECORD, Record

MAGIC = b"GFRM"
_FRAME = struct.Struct("<4sIQI")
_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<IBI")
_RECORD_START = struct.Struct("<IB")


@dataclass(frozen=True, slots=True)
class Frame:
    """The records of one group commit; `first` is the sequence number of the first."""

    first: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that are no sound frame; `sound_after` says that sound frames follow them."""

    offset: int
    length: int
    sound_after: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in a segment, in order."""

    frames: tuple[Frame, ...]
    broken: tuple[Broken, ...]


def encode_frame(seed: int, first: int, records: Sequence[Record]) -> bytes:
    """The bytes of one frame in a segment whose head has the checksum `seed`."""
    body = sum(_RECORD.size + len(record.payload) for record in records)
    start = _FRAME.pack(MAGIC, len(records), first, body)
    crc = zlib.crc32(start, seed)
    parts = [start, _CRC.pack(crc)]
    for record in records:
        size = len(record.payload)
        crc = zlib.crc32(record.payload, zlib.crc32(_RECORD_START.pack(size, record.kind), crc))
        parts.append(_RECORD.pack(size, record.kind, crc))
        parts.append(record.payload)
    return b"".join(parts)


def _frame_at(data: bytes, offset: int, seed: int) -> tuple[Frame, int] | None:
    """The sound frame at `offset` and where it ends."""
    at = offset + _FRAME.size + _CRC.size
    if at > len(data):
        return None
    magic, count, first, body = _FRAME.unpack_from(data, offset)
    crc = zlib.crc32(data[offset : offset + _FRAME.size], seed)
    end = at + body
    if magic != MAGIC or _CRC.unpack_from(data, at - _CRC.size)[0] != crc or end > len(data):
        return None
    records = []
    for _ in range(count):
        if at + _RECORD.size > end:
            return None
        size, kind, told = _RECORD.unpack_from(data, at)
        start = data[at : at + _RECORD_START.size]
        at += _RECORD.size
        if size > LARGEST_RECORD or at + size > end:
            return None
        payload = data[at : at + size]
        crc = zlib.crc32(payload, zlib.crc32(start, crc))
        if crc != told:
            return None
        records.append(Record(kind, payload))
        at += size
    return (Frame(first, tuple(records)), end) if at == end else None


def scan(data: bytes, offset: int, seed: int) -> Scan:
    """All sound frames from `offset` on, and the broken stretches between and behind them."""
    frames: list[Frame] = []
    broken: list[Broken] = []
    while offset < len(data):
        found = _frame_at(data, offset, seed)
        start = offset
        while found is None:
            offset = data.find(MAGIC, offset + 1)
            if offset < 0:
                broken.append(Broken(start, len(data) - start, sound_after=False))
                return Scan(tuple(frames), tuple(broken))
            found = _frame_at(data, offset, seed)
        if offset > start:
            broken.append(Broken(start, offset - start, sound_after=True))
        frame, offset = found
        frames.append(frame)
    return Scan(tuple(frames), tuple(broken))
