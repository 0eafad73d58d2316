"""Datagrams: what is written is read, whatever is received is refused or read, never worse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet_agent.membership import Facts, Health, Malformed, Row, Status, Verdict
from gpufleet_agent.membership.codec import (
    MAX_COUNT,
    MAX_NUMBER,
    Kind,
    decode,
    encode,
    encode_row,
    encode_verdict,
    room,
)
from gpufleet_agent.membership.constants import MAX_BODY, MAX_DATAGRAM, SEAL_ROOM
from gpufleet_agent.membership.records import MAX_INCARNATION


def text(most: int, least: int = 0) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=most).filter(
        lambda made: len(made.encode()) <= most
    )


totals = st.integers(0, MAX_COUNT)
facts = totals.flatmap(
    lambda total: st.builds(
        Facts,
        free=st.integers(0, total),
        total=st.just(total),
        credits=totals,
        model=text(96),
        health=st.sampled_from(Health),
        checkpoint_revision=st.integers(0, MAX_NUMBER),
    )
)
rows = st.builds(
    Row,
    incarnation=st.integers(0, MAX_INCARNATION),
    version=st.integers(0, MAX_NUMBER),
    name=text(63, 1),
    address=text(63),
    facts=facts,
)
verdicts = st.builds(
    Verdict,
    incarnation=st.integers(0, MAX_INCARNATION),
    status=st.sampled_from([Status.SUSPECT, Status.DEAD, Status.LEFT]),
    accuser=text(63, 1),
    name=text(63, 1),
)


@given(
    st.sampled_from(Kind),
    text(63, 1),
    st.integers(0, 2**32 - 1),
    text(63),
    text(63),
    st.lists(rows, max_size=2),
    st.lists(verdicts, max_size=3),
)
def test_what_is_written_is_read(kind, sender, seq, subject, address, some_rows, some_verdicts):
    items = [encode_row(row) for row in some_rows]
    items += [encode_verdict(verdict) for verdict in some_verdicts]
    datagram = encode("c", kind, sender, seq, subject, address, items)
    assert decode("c", datagram) == (
        kind,
        sender,
        seq,
        subject,
        address,
        tuple(some_rows),
        tuple(some_verdicts),
        0.0,
    )
    late = encode("c", kind, sender, lag=0.12)
    assert decode("c", late).lag == pytest.approx(0.12)


@given(st.binary(max_size=MAX_BODY + 50))
def test_any_bytes_are_read_or_refused(received):
    try:
        decode("c", received)
    except Malformed:
        return


@settings(max_examples=150)
@given(rows, verdicts, st.data())
def test_damage_behind_a_right_checksum_is_read_or_refused(row, verdict, data):
    """As a forger or a later version would send it: only the checksum is right."""
    body = b"".join((encode_row(row), encode_verdict(verdict)))
    at = data.draw(st.integers(0, len(body) - 1))
    more = data.draw(st.binary(max_size=3))
    body = body[:at] + more + body[at + data.draw(st.integers(0, 4)) :]
    try:
        message = decode("c", encode("c", Kind.PUSH, "a", items=[body]))
    except Malformed:
        return
    for read in message.rows:
        assert encode_row(read)  # whatever is read could be sent on
    for said in message.verdicts:
        assert encode_verdict(said)


def test_every_single_damaged_byte_is_noticed():
    datagram = encode("c", Kind.PUSH, "a", items=[encode_row(Row(1, 1, "a", "x", Facts()))])
    for at in range(len(datagram)):
        with pytest.raises(Malformed):
            decode("c", datagram[:at] + bytes((datagram[at] ^ 1,)) + datagram[at + 1 :])


def test_datagram_of_another_cluster_or_version_is_refused():
    datagram = encode("blue", Kind.PING, "a")
    with pytest.raises(Malformed, match="another cluster"):
        decode("green", datagram)
    with pytest.raises(Malformed, match="version: 2, known is 1"):
        decode("blue", b"\x02" + datagram[1:])


def test_later_versions_may_add_items_and_bytes():
    row = Row(1, 2, "a", "x", Facts())
    item = encode_row(row)
    longer = item[:1] + (len(item) - 3 + 2).to_bytes(2, "big") + item[3:] + b"\x07\x08"
    unknown = b"\x63\x00\x03abc"
    assert decode("c", encode("c", Kind.PUSH, "a", items=[unknown, longer])).rows == (row,)


def test_nobody_says_of_another_that_it_is_alive():
    with pytest.raises(Malformed, match="ALIVE"):
        encode_verdict(Verdict(1, Status.ALIVE, "a", "b"))
    forged = bytearray(encode_verdict(Verdict(1, Status.DEAD, "a", "b")))
    forged[forged.index(bytes((Status.DEAD,)), 5)] = 0
    with pytest.raises(Malformed):
        decode("c", encode("c", Kind.PUSH, "a", items=[bytes(forged)]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"free": 2, "total": 1}, "free: 2, allowed are 0..1"),
        ({"credits": -1}, "credits: -1"),
        ({"credits": 2**32}, "credits: 4294967296"),
        ({"model": "m" * 97}, "model: 97 bytes, allowed are 96"),
        ({"health": 9}, "health: 9"),
    ],
)
def test_facts_out_of_bounds_are_refused_with_the_bound(change, told):
    with pytest.raises(Malformed, match=told):
        encode_row(Row(1, 1, "a", "x", Facts(**change)))


def test_full_datagram_leaves_room_for_the_seal():
    item = b"\x63" + (room("abc") - 3).to_bytes(2, "big") + bytes(room("abc") - 3)
    assert len(encode("c", Kind.PUSH, "abc", items=[item])) == MAX_BODY == MAX_DATAGRAM - SEAL_ROOM
    with pytest.raises(Malformed, match="allowed are 1368"):
        encode("c", Kind.PUSH, "abc", items=[item, b"x"])
