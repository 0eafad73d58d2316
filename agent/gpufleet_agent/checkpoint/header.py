"""The head of every file of a line: fence, journal segment and snapshot.

For ever, in all versions: 8 bytes of magic, the version, the length of the whole head, and in the
head's last four bytes the CRC-32 of what is before them. So an old release can tell a file of a
newer version from a damaged one.
"""

import struct
import zlib
from dataclasses import dataclass

from gpufleet_agent.checkpoint.errors import BadInput

FENCE = b"GPFFENCE"
JOURNAL = b"GPFJRNAL"
SNAPSHOT = b"GPFSNAPS"

_START = struct.Struct("<8sII")
_FIXED = struct.Struct("<8sII8s16sQQQQII64s64s")
_CRC = struct.Struct("<I")
SIZE = _FIXED.size + _CRC.size
"""Bytes of a head of version 1."""
_LONGEST_HEAD = 4096
_LONGEST_OWNER = 64


class BrokenHead(ValueError):
    """The bytes are not a whole head: cut off, flipped, or of another kind of file."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes: the agent, its GPU's UUID, and a random token of the process."""

    agent: str
    gpu: str
    token: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a head.

    `sequence`: journal: number of its first record; snapshot: of the last record it covers.
    `ordinal`: journal: counts one owner's segments. `length`: snapshot: bytes of the body.
    `count`: snapshot: sessions. `body_crc`: snapshot: CRC-32 of the body.
    """

    magic: bytes
    run: bytes
    owner: Owner
    fence: int
    epoch: int
    sequence: int = 0
    ordinal_or_length: int = 0
    count: int = 0
    body_crc: int = 0
    version: int = 1

    def encode(self) -> bytes:
        """The head's bytes; raises `BadInput` when the owner's names are too long."""
        names = []
        for field, text in (("agent", self.owner.agent), ("gpu", self.owner.gpu)):
            name = text.encode()
            if len(name) > _LONGEST_OWNER or b"\0" in name:
                raise BadInput(field, repr(text), f"use at most {_LONGEST_OWNER} bytes, none zero")
            names.append(name)
        fixed = _FIXED.pack(
            self.magic,
            self.version,
            SIZE,
            self.run,
            self.owner.token,
            self.fence,
            self.epoch,
            self.sequence,
            self.ordinal_or_length,
            self.count,
            self.body_crc,
            *names,
        )
        return fixed + _CRC.pack(zlib.crc32(fixed))


def read_version(data: bytes, magic: bytes) -> int:
    """The version of a file with a sound head of any version; raises `BrokenHead`."""
    if len(data) < _START.size + _CRC.size:
        raise BrokenHead(f"{len(data)} bytes are no head")
    found, version, length = _START.unpack_from(data)
    if found != magic:
        raise BrokenHead(f"begins with {bytes(found)!r}, not {magic!r}")
    if not _START.size + _CRC.size <= length <= min(len(data), _LONGEST_HEAD):
        raise BrokenHead(f"a head of {length} bytes in a file of {len(data)}")
    if _CRC.unpack_from(data, length - _CRC.size)[0] != zlib.crc32(data[: length - _CRC.size]):
        raise BrokenHead("the checksum of the head is wrong")
    return int(version)


def decode(data: bytes, magic: bytes) -> Header:
    """The head at the start of `data`, of a version that is known; raises `BrokenHead`."""
    version = read_version(data, magic)
    fields = _FIXED.unpack_from(data) if len(data) >= SIZE else ()
    if not fields or fields[2] != SIZE:
        raise BrokenHead(f"version {version} has heads of {SIZE} bytes")
    _, _, _, run, token, fence, epoch, sequence, other, count, crc, agent, gpu = fields
    owner = Owner(agent.rstrip(b"\0").decode(), gpu.rstrip(b"\0").decode(), token)
    return Header(magic, run, owner, fence, epoch, sequence, other, count, crc, version)


def checksum(data: bytes) -> int:
    """The CRC-32 in a head: the seed of the checksums of a segment's frames."""
    return int(_CRC.unpack_from(data, SIZE - _CRC.size)[0])
