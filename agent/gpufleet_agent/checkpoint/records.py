"""Turns and their encoding: what is in one record of a journal or a snapshot.

All numbers are little-endian. A turn is a fixed part of 24 bytes, then the session's id, the key,
the body, and whatever a newer release put behind it, which is kept as it is.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from gpufleet_agent.checkpoint.errors import BadInput, VersionRefused

_TURN = struct.Struct("<HHIIQI")
LONGEST_NAME = 512
"""Bytes of UTF-8 in a session's id or a turn's key."""
LARGEST_RECORD = 64 << 20
"""Bytes of one encoded record."""


class Kind(IntEnum):
    """What a record says."""

    TURN = 1
    END = 2


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a journal: its kind and its encoded payload."""

    kind: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a session.

    `key` is the request's idempotency key ("" for none): a key is kept once a session. `body` is
    the application's own encoding of the messages. `at_ms` is milliseconds since 1970 (for people;
    nothing is ordered by it). `extension` is what a newer release added and this one does not know.
    """

    key: str
    body: bytes
    prompt_tokens: int = 0
    completion_tokens: int = 0
    at_ms: int = 0
    extension: bytes = b""


def turn_record(session: str, turn: Turn) -> Record:
    """The record of a turn; raises `BadInput` on a name or a size out of bounds."""
    name, key = session_name(session), turn.key.encode()
    if len(key) > LONGEST_NAME:
        raise BadInput("turn.key", f"{len(key)} bytes", f"use at most {LONGEST_NAME}")
    for field, value in (
        ("prompt_tokens", turn.prompt_tokens),
        ("completion_tokens", turn.completion_tokens),
    ):
        if not 0 <= value < 1 << 32:
            raise BadInput(f"turn.{field}", str(value), "use 0 to 4294967295")
    if not 0 <= turn.at_ms < 1 << 64:
        raise BadInput("turn.at_ms", str(turn.at_ms), "use milliseconds since 1970")
    size = _TURN.size + len(name) + len(key) + len(turn.body) + len(turn.extension)
    if size > LARGEST_RECORD:
        raise BadInput("turn.body", f"a record of {size} bytes", f"use at most {LARGEST_RECORD}")
    fixed = _TURN.pack(
        len(name),
        len(key),
        turn.prompt_tokens,
        turn.completion_tokens,
        turn.at_ms,
        len(turn.body),
    )
    return Record(Kind.TURN, b"".join((fixed, name, key, turn.body, turn.extension)))


def end_record(session: str) -> Record:
    """The record that a session is over and its turns are to be forgotten."""
    return Record(Kind.END, session_name(session))


def session_name(session: str) -> bytes:
    """A session's id in UTF-8; raises `BadInput` when it is empty or too long."""
    name = session.encode()
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadInput("session", f"{len(name)} bytes", f"use 1 to {LONGEST_NAME}")
    return name


@dataclass(frozen=True, slots=True)
class TurnHead:
    """What is read of a turn without touching its body."""

    session: str
    key: str
    prompt_tokens: int
    completion_tokens: int


def turn_head(payload: bytes, at: int = 0) -> TurnHead:
    """The head of a turn encoded from `at` on; raises `ValueError` when its lengths do not fit."""
    if len(payload) < at + _TURN.size:
        raise ValueError(f"a turn of {len(payload) - at} bytes")
    names, keys, prompt, completion, _, bodies = _TURN.unpack_from(payload, at)
    name_at = at + _TURN.size
    key_at = name_at + names
    if key_at + keys + bodies > len(payload):
        raise ValueError("the lengths of a turn go beyond its end")
    return TurnHead(
        payload[name_at:key_at].decode(),
        payload[key_at : key_at + keys].decode(),
        prompt,
        completion,
    )


_LENGTH = struct.Struct("<I")
LENGTH_SIZE = _LENGTH.size


def measured(payload: bytes) -> bytes:
    """An encoded turn with its length before it, as a snapshot has it."""
    return _LENGTH.pack(len(payload)) + payload


def decode_turn(payload: bytes) -> Turn:
    """The turn of an encoded payload; raises `ValueError` when its lengths do not fit."""
    head = turn_head(payload)
    names, keys, _, _, at_ms, bodies = _TURN.unpack_from(payload)
    start = _TURN.size + names + keys
    return Turn(
        head.key,
        payload[start : start + bodies],
        head.prompt_tokens,
        head.completion_tokens,
        at_ms,
        payload[start + bodies :],
    )


@dataclass(frozen=True, slots=True)
class Format:
    """The version this release writes, and how the turns of older ones are brought up to it.

    `migrations[v]` turns an encoded turn of version `v` into one of version `v + 1`.
    """

    version: int
    migrations: Mapping[int, Callable[[bytes], bytes]]

    def check(self, path: str, version: int) -> None:
        """Raise `VersionRefused` for a version that cannot be read."""
        if version == 0:
            raise VersionRefused(path, None, self.version)
        if version > self.version:
            raise VersionRefused(path, version, self.version)

    def upgrade(self, version: int, payload: bytes) -> bytes:
        """An encoded turn of `version` as one of the current version."""
        for step in range(version, self.version):
            payload = self.migrations[step](payload)
        return payload


FORMAT = Format(1, {})
