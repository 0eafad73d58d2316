"""The body of a snapshot: all sessions, their turns as they are in the journal."""

import struct
import zlib

from gpufleet_agent.checkpoint.header import (
    SIZE,
    SNAPSHOT,
    BrokenHead,
    Header,
    decode,
    read_version,
)
from gpufleet_agent.checkpoint.records import LENGTH_SIZE, Format, measured
from gpufleet_agent.checkpoint.sessions import SessionView, View

_SESSION = struct.Struct("<HHIQQ")
_LENGTH = struct.Struct("<I")


class BrokenSnapshot(ValueError):
    """The bytes are not a whole snapshot."""


def encode_body(view: View) -> bytes:
    """The body for a view."""
    parts: list[bytes] = []
    for session in view.sessions:
        name, gpu = session.id.encode(), session.gpu.encode()
        parts.append(
            _SESSION.pack(
                len(name),
                len(gpu),
                len(session.turns),
                session.prompt_tokens,
                session.completion_tokens,
            )
        )
        parts += (name, gpu)
        parts += session.turns
    return b"".join(parts)


def decode_snapshot(path: str, data: bytes, versions: Format) -> tuple[Header, View]:
    """The head and the sessions of a snapshot file.

    Raises `BrokenSnapshot` for damage and `VersionRefused` for a version that is not known.
    """
    try:
        head = decode_known(path, data, SNAPSHOT, versions)
    except BrokenHead as error:
        raise BrokenSnapshot(str(error)) from error
    body = memoryview(data)[SIZE:]
    if len(body) != head.ordinal_or_length:
        raise BrokenSnapshot(f"a body of {len(body)} bytes instead of {head.ordinal_or_length}")
    if zlib.crc32(body) != head.body_crc:
        raise BrokenSnapshot("the checksum of the body is wrong")
    try:
        sessions = _sessions(bytes(body), head, versions)
    except (struct.error, UnicodeDecodeError) as error:
        raise BrokenSnapshot(f"the body does not decode: {error}") from error
    return head, View(head.sequence, sessions)


def decode_known(path: str, data: bytes, magic: bytes, versions: Format) -> Header:
    """The head of a file, its version checked first; raises `BrokenHead`, `VersionRefused`."""
    versions.check(path, read_version(data, magic))
    return decode(data, magic)


def _sessions(body: bytes, head: Header, versions: Format) -> tuple[SessionView, ...]:
    sessions = []
    at = 0
    current = head.version == versions.version
    for _ in range(head.count):
        names, gpus, count, prompt, completion = _SESSION.unpack_from(body, at)
        at += _SESSION.size
        name, gpu = body[at : at + names].decode(), body[at + names : at + names + gpus].decode()
        at += names + gpus
        turns = []
        for _ in range(count):
            end = at + LENGTH_SIZE + _LENGTH.unpack_from(body, at)[0]
            turn = body[at:end]
            if not current:
                turn = measured(versions.upgrade(head.version, turn[LENGTH_SIZE:]))
            turns.append(turn)
            at = end
        sessions.append(SessionView(name, gpu, prompt, completion, tuple(turns)))
    if at != len(body):
        raise BrokenSnapshot(f"{len(body) - at} bytes behind the last session")
    return tuple(sessions)
