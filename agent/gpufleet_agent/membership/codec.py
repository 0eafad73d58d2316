"""Datagrams: a versioned, bounded binary form of messages.

    datagram = version u8, check u32, kind u8, lag u8, sender str, seq u32, subject str,
               address str, item*
    item     = tag u8, length u16, body
    row      = name str, address str, incarnation num, version num, free num, total num,
               credits num, health u8, checkpoint revision num, model str
    verdict  = name str, incarnation num, status u8, accuser str
    str      = length u8, UTF-8        num = 7 bits a byte, low first, high bit: more follows

`check` is the CRC-32 of all after it, started from the CRC-32 of the cluster's name: it refuses
damaged datagrams and those of another cluster that uses the same addresses. It is no protection
against forgers; the edge's encryption is. Items with an unknown tag and bytes after a known body
are skipped, so that a later version may add to both.
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from gpufleet_agent.membership.constants import MAX_ADDRESS, MAX_BODY, MAX_MODEL, MAX_NAME
from gpufleet_agent.membership.records import MAX_INCARNATION, Facts, Health, Row, Status, Verdict

WIRE_VERSION = 1
MAX_COUNT = 2**32 - 1  # of GPUs, of credits
MAX_NUMBER = 2**63 - 1  # of versions and revisions
NUMBER_BYTES = 9  # 63 bits
LAG_UNIT = 0.01  # seconds
ROW_TAG, VERDICT_TAG = 1, 2
CACHED_ITEMS = 16384  # rows are sent far more often than they change

_HEAD = Struct("!BI")
_ITEM = Struct("!BH")
_U32 = Struct("!I")


class Malformed(ValueError):
    """A datagram or a value that the format does not allow; says what and where."""


class Kind(IntEnum):
    """What a datagram is for; `seq`, `subject` and `address` as each needs them."""

    PING = 1  # seq; subject: who is meant
    PING_REQ = 2  # seq; subject and address: who shall be probed for the sender
    ACK = 3  # seq of the ping or request
    NACK = 4  # seq of the request: no answer in time
    EVENTS = 5  # updates only
    PUSH = 6  # rows; asks for a PULL
    PULL = 7  # rows in return
    SYNC = 8  # subject: the name after which to go on with the whole table
    CHUNK = 9  # a part of the table; subject: where the next one starts, "" at the end


_KINDS = {int(kind): kind for kind in Kind}
_KIND = {kind: bytes((kind,)) for kind in Kind}


class Message(NamedTuple):
    """A datagram that was understood."""

    kind: Kind
    sender: str
    seq: int
    subject: str
    address: str
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    lag: float = 0.0  # seconds that the sender's timers run late


def encode(
    cluster: str,
    kind: Kind,
    sender: str,
    seq: int = 0,
    subject: str = "",
    address: str = "",
    items: Iterable[bytes] = (),
    lag: float = 0.0,
) -> bytes:
    """A datagram of encoded items. Raises Malformed above MAX_BODY bytes."""
    late = bytes((min(255, round(lag / LAG_UNIT)),))
    body = b"".join(
        (
            _KIND[kind],
            late,
            _string(sender, MAX_NAME, "sender"),
            _U32.pack(seq),
            _string(subject, MAX_NAME, "subject"),
            _string(address, MAX_ADDRESS, "address"),
            *items,
        )
    )
    if _HEAD.size + len(body) > MAX_BODY:
        raise Malformed(f"datagram: {_HEAD.size + len(body)} bytes, allowed are {MAX_BODY}")
    return _HEAD.pack(WIRE_VERSION, crc32(body, _cluster_check(cluster))) + body


def room(sender: str, subject: str = "", address: str = "") -> int:
    """Bytes that are left for items in a datagram of these."""
    fixed = _HEAD.size + _U32.size + 5
    return MAX_BODY - fixed - sum(len(text.encode()) for text in (sender, subject, address))


def decode(cluster: str, datagram: bytes) -> Message:
    """Read a datagram. Raises Malformed, and nothing else, for bytes that are none."""
    if not _HEAD.size + 1 < len(datagram) <= MAX_BODY:
        raise Malformed(f"datagram: {len(datagram)} bytes")
    version, check = _HEAD.unpack_from(datagram)
    if version != WIRE_VERSION:
        raise Malformed(f"version: {version}, known is {WIRE_VERSION}")
    if check != crc32(memoryview(datagram)[_HEAD.size :], _cluster_check(cluster)):
        raise Malformed("check: damaged, or of another cluster")
    kind = _KINDS.get(datagram[_HEAD.size])
    if kind is None:
        raise Malformed(f"kind: {datagram[_HEAD.size]}, allowed are {list(_KINDS)}")
    sender, at = _read_string(datagram, _HEAD.size + 2, MAX_NAME, "sender")
    if not sender:
        raise Malformed("sender: empty")
    if at + _U32.size > len(datagram):
        raise Malformed("seq: cut off")
    (seq,) = _U32.unpack_from(datagram, at)
    subject, at = _read_string(datagram, at + _U32.size, MAX_NAME, "subject")
    address, at = _read_string(datagram, at, MAX_ADDRESS, "address")
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    end = len(datagram)
    while at < end:
        if at + _ITEM.size > end:
            raise Malformed("item: cut off")
        tag, length = _ITEM.unpack_from(datagram, at)
        at += _ITEM.size
        if at + length > end:
            raise Malformed("item: longer than the datagram")
        if tag == ROW_TAG:
            rows.append(_decode_row(datagram[at : at + length]))
        elif tag == VERDICT_TAG:
            verdicts.append(_decode_verdict(datagram[at : at + length]))
        at += length
    return Message(
        kind,
        sender,
        seq,
        subject,
        address,
        tuple(rows),
        tuple(verdicts),
        datagram[_HEAD.size + 1] * LAG_UNIT,
    )


@lru_cache(maxsize=CACHED_ITEMS)
def encode_row(row: Row) -> bytes:
    """A row as an item. Raises Malformed for values outside their bounds."""
    facts = row.facts
    if facts.free > facts.total:
        raise Malformed(f"free: {facts.free}, allowed are 0..{facts.total} (total)")
    return _item(
        ROW_TAG,
        (
            _name(row.name),
            _string(row.address, MAX_ADDRESS, "address"),
            _number(row.incarnation, MAX_INCARNATION, "incarnation"),
            _number(row.version, MAX_NUMBER, "version"),
            _number(facts.free, MAX_COUNT, "free"),
            _number(facts.total, MAX_COUNT, "total"),
            _number(facts.credits, MAX_COUNT, "credits"),
            bytes((_member(Health, facts.health, "health"),)),
            _number(facts.checkpoint_revision, MAX_NUMBER, "checkpoint revision"),
            _string(facts.model, MAX_MODEL, "model"),
        ),
    )


@lru_cache(maxsize=CACHED_ITEMS)
def encode_verdict(verdict: Verdict) -> bytes:
    """A verdict as an item. Raises Malformed for values outside their bounds."""
    _refuse_alive(verdict.status)
    return _item(
        VERDICT_TAG,
        (
            _name(verdict.name),
            _number(verdict.incarnation, MAX_INCARNATION, "incarnation"),
            bytes((_member(Status, verdict.status, "status"),)),
            _name(verdict.accuser),
        ),
    )


@lru_cache(maxsize=CACHED_ITEMS)
def _decode_row(body: bytes) -> Row:
    name, at = _read_name(body, 0)
    address, at = _read_string(body, at, MAX_ADDRESS, "address")
    incarnation, at = _read_number(body, at, MAX_INCARNATION, "incarnation")
    version, at = _read_number(body, at, MAX_NUMBER, "version")
    free, at = _read_number(body, at, MAX_COUNT, "free")
    total, at = _read_number(body, at, MAX_COUNT, "total")
    credits_, at = _read_number(body, at, MAX_COUNT, "credits")
    health, at = _read_byte(body, at, "health")
    revision, at = _read_number(body, at, MAX_NUMBER, "checkpoint revision")
    model, at = _read_string(body, at, MAX_MODEL, "model")
    if free > total:
        raise Malformed(f"free: {free}, allowed are 0..{total} (total)")
    return Row(
        incarnation,
        version,
        name,
        address,
        Facts(free, total, credits_, model, _member(Health, health, "health"), revision),
    )


@lru_cache(maxsize=CACHED_ITEMS)
def _decode_verdict(body: bytes) -> Verdict:
    name, at = _read_name(body, 0)
    incarnation, at = _read_number(body, at, MAX_INCARNATION, "incarnation")
    status, at = _read_byte(body, at, "status")
    accuser, at = _read_name(body, at)
    _refuse_alive(status)
    return Verdict(incarnation, _member(Status, status, "status"), accuser, name)


def _refuse_alive(status: int) -> None:
    if status == Status.ALIVE:  # only a member itself, by its row, says that it is alive
        raise Malformed("status: ALIVE, allowed are SUSPECT, DEAD, LEFT")


@lru_cache(maxsize=64)
def _cluster_check(cluster: str) -> int:
    return crc32(cluster.encode())


def _item(tag: int, parts: tuple[bytes, ...]) -> bytes:
    body = b"".join(parts)
    return _ITEM.pack(tag, len(body)) + body


def _member[E: IntEnum](kinds: type[E], value: int, what: str) -> E:
    try:
        return kinds(value)
    except ValueError:
        raise Malformed(f"{what}: {value}, allowed are {[int(k) for k in kinds]}") from None


@lru_cache(maxsize=CACHED_ITEMS)
def _string(text: str, most: int, what: str) -> bytes:
    raw = text.encode()
    if len(raw) > most:
        raise Malformed(f"{what}: {len(raw)} bytes, allowed are {most}")
    return bytes((len(raw),)) + raw


def _name(text: str) -> bytes:
    if not text:
        raise Malformed("name: empty")
    return _string(text, MAX_NAME, "name")


def _number(value: int, most: int, what: str) -> bytes:
    if not 0 <= value <= most:
        raise Malformed(f"{what}: {value}, allowed are 0..{most}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_byte(raw: bytes, at: int, what: str) -> tuple[int, int]:
    if at >= len(raw):
        raise Malformed(f"{what}: cut off")
    return raw[at], at + 1


def _read_string(raw: bytes, at: int, most: int, what: str) -> tuple[str, int]:
    length, at = _read_byte(raw, at, what)
    if length == 0:
        return "", at
    if length > most:
        raise Malformed(f"{what}: {length} bytes, allowed are {most}")
    if at + length > len(raw):
        raise Malformed(f"{what}: cut off")
    try:
        return raw[at : at + length].decode(), at + length
    except UnicodeDecodeError:
        raise Malformed(f"{what}: no UTF-8") from None


def _read_name(raw: bytes, at: int) -> tuple[str, int]:
    name, at = _read_string(raw, at, MAX_NAME, "name")
    if not name:
        raise Malformed("name: empty")
    return name, at


def _read_number(raw: bytes, at: int, most: int, what: str) -> tuple[int, int]:
    value = 0
    for place in range(NUMBER_BYTES):
        byte, at = _read_byte(raw, at, what)
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value > most:
                raise Malformed(f"{what}: {value}, allowed are 0..{most}")
            return value, at
    raise Malformed(f"{what}: longer than {NUMBER_BYTES} bytes")
