"""The core alone: one member, its events and its effects."""

from random import Random

import pytest

from gpufleet_agent.membership import (
    Changed,
    Config,
    Conflict,
    Facts,
    FactsChanged,
    Finished,
    Leave,
    Malformed,
    Membership,
    Persist,
    Persisted,
    Received,
    Row,
    Send,
    Start,
    Status,
    Verdict,
    Wake,
)
from gpufleet_agent.membership.codec import Kind, decode, encode, encode_row, encode_verdict
from gpufleet_agent.membership.records import first_incarnation

ONE = first_incarnation(1)
PEERS = ("b", "c", "d", "e", "f")


def core(*peers: str, seeds: tuple[str, ...] = (), life: int = 1) -> Membership:
    made = Membership(Config("a", "at-a", "c", seeds), Facts(), Random(1))
    made.handle(Start(life - 1), 0)
    made.handle(Persisted(life), 0)
    if peers:
        made.handle(said("b", *(Row(ONE, 1, peer, f"at-{peer}", Facts()) for peer in peers)), 0)
    return made


def said(
    sender: str, *items: Row | Verdict, kind: Kind = Kind.EVENTS, seq: int = 0, subject: str = ""
) -> Received:
    encoded = [encode_row(i) if isinstance(i, Row) else encode_verdict(i) for i in items]
    return Received(f"at-{sender}", encode("c", kind, sender, seq, subject, items=encoded))


def sent(effects, *kinds: Kind):
    """Messages among the effects, with where they go."""
    messages = [
        (effect.address, decode("c", effect.datagram))
        for effect in effects
        if isinstance(effect, Send)
    ]
    return [
        (address, message) for address, message in messages if not kinds or message.kind in kinds
    ]


def run(member: Membership, start: float, seconds: float):
    """Wake the member whenever it wants, exactly in time; all its effects."""
    effects = []
    while (at := member.wake_at) is not None and at <= start + seconds:
        effects += member.handle(Wake(), at)
    return effects


def test_nothing_is_said_before_the_life_is_durable():
    member = Membership(Config("a", "at-a", "c", ("at-s",)), Facts(), Random(1))
    assert member.handle(Start(4), 0) == [Persist(5)]
    assert member.wake_at is None
    assert member.handle(said("b", kind=Kind.PING, subject="a"), 0) == []
    effects = member.handle(Persisted(5), 0)
    assert {message.kind for _, message in sent(effects)} == {Kind.SYNC, Kind.PUSH}
    assert member.row.incarnation == first_incarnation(5)


def test_ping_is_answered_only_by_the_one_who_was_meant():
    member = core("b")
    [(address, answer)] = sent(
        member.handle(said("b", kind=Kind.PING, seq=9, subject="a"), 1e-3), Kind.ACK
    )
    assert (address, answer.seq) == ("at-b", 9)
    assert not sent(member.handle(said("b", kind=Kind.PING, seq=9, subject="z"), 2e-3), Kind.ACK)


def test_accusation_is_refuted_with_a_later_incarnation_and_an_old_one_is_ignored():
    member = core("b")
    effects = member.handle(said("b", Verdict(ONE, Status.SUSPECT, "b", "a")), 0.01)
    effects += run(member, 0.01, 0.02)
    assert member.row.incarnation == ONE + 1
    assert any(
        row.name == "a" and row.incarnation == ONE + 1
        for _, message in sent(effects)
        for row in message.rows
    )
    assert member.health_score == 1
    member.handle(said("b", Verdict(ONE, Status.DEAD, "b", "a")), 0.04)
    assert member.row.incarnation == ONE + 1


def test_suspect_hears_of_it_with_whatever_is_sent_to_it():
    member = core(*PEERS)
    member.handle(said("c", Verdict(ONE, Status.SUSPECT, "c", "b")), 0.01)
    [(_, answer)] = sent(member.handle(said("b", kind=Kind.PING, subject="a"), 0.02), Kind.ACK)
    assert answer.verdicts[0] == Verdict(ONE, Status.SUSPECT, "c", "b")


def test_silent_member_is_asked_through_three_others_then_suspected_then_dead():
    member = core("b", "c", "d", "e")
    effects = run(member, 0, 0.09)
    [(_, ping), *_] = sent(effects, Kind.PING)
    first = ping.subject
    effects += run(member, 0.09, 0.3)
    helpers = {
        address for address, message in sent(effects, Kind.PING_REQ) if message.seq == ping.seq
    }
    assert len(helpers) == 3
    assert f"at-{first}" not in helpers
    suspected = [effect for effect in effects if isinstance(effect, Changed)]
    assert (suspected[0].name, suspected[0].status) == (first, Status.SUSPECT)
    assert member.health_score >= 3, "no helper answered either: the fault may be ours"


def test_confirmations_by_others_end_the_suspicion_early_and_repetition_does_not():
    def dead_after(*accusers: str) -> float:
        member = core(*(f"p{i}" for i in range(15)), "b")
        for accuser in accusers:
            member.handle(said("b", Verdict(ONE, Status.SUSPECT, accuser, "p0")), 0.001)
        while member.status("p0") != Status.DEAD:
            at = member.wake_at
            assert at is not None
            for _, message in sent(member.handle(Wake(), at), Kind.PING):
                if message.subject != "p0":  # all others answer
                    member.handle(said(message.subject, kind=Kind.ACK, seq=message.seq), at)
        return at

    four = dead_after("p1", "p2", "p3", "p4")
    same = dead_after("p1", "p1", "p1", "p1")
    assert four < 0.3 < 0.8 < same


def test_after_a_pause_nobody_is_judged_by_the_time_that_was_slept():
    member = core(*PEERS)
    member.handle(said("c", Verdict(ONE, Status.SUSPECT, "c", "b")), 0.01)
    effects = member.handle(Wake(), 60)
    assert member.status("b") == Status.SUSPECT
    assert not [e for e in effects if isinstance(e, Changed) and e.status == Status.DEAD]
    assert member.health_score >= 1
    member.handle(said("b", Row(ONE + 1, 1, "b", "at-b", Facts())), 60.01)
    assert member.status("b") == Status.ALIVE


def test_settled_death_of_one_we_hold_for_alive_is_only_a_suspicion():
    member = core(*PEERS)
    member.handle(said("c", Verdict(ONE, Status.DEAD, "c", "b"), kind=Kind.PUSH), 0.01)
    assert member.status("b") == Status.SUSPECT
    member.handle(said("c", Verdict(ONE, Status.DEAD, "c", "b")), 0.02)
    assert member.status("b") == Status.DEAD


def test_only_the_owner_writes_its_row():
    member = core("b")
    forged = Row(ONE, 50, "a", "at-a", Facts(free=9, total=9))
    member.handle(said("b", forged), 0.1)
    assert member.row.facts == Facts()
    assert member.row.version > 50, "the own row has to win everywhere"


def test_facts_become_one_new_version_a_round_and_none_when_equal():
    member = core("b")
    for count in range(5):
        member.handle(FactsChanged(Facts(credits=count)), 0)
    run(member, 0, 0.6)
    assert (member.row.version, member.row.facts.credits) == (2, 4)
    run(member, 0.6, 1)
    assert member.row.version == 2
    with pytest.raises(Malformed, match="free: 2, allowed are 0..1"):
        member.handle(FactsChanged(Facts(free=2, total=1)), 2)


def test_two_processes_of_one_name_are_told():
    member = core("b")
    effects = member.handle(said("b", Row(ONE, 1, "a", "at-other", Facts())), 0.1)
    assert Conflict("at-other") in effects


def test_leaver_says_so_and_then_nothing_more():
    member = core("b", "c")
    effects = member.handle(Leave(), 0.01) + run(member, 0.01, 0.02)
    assert any(
        verdict == Verdict(ONE, Status.LEFT, "a", "a")
        for _, message in sent(effects)
        for verdict in message.verdicts
    )
    assert Finished() in run(member, 0.03, 1)
    assert member.wake_at is None
    assert member.handle(said("b", kind=Kind.PING, subject="a"), 2) == []


def test_malformed_datagrams_are_counted_and_harmless():
    member = core("b")
    for junk in (b"", b"\0" * 2000, b"\x01junk", b"\xff" * 40):
        assert member.handle(Received("at-b", junk), 0.001) == []
    assert member.malformed == 4


def test_helper_probes_for_another_and_says_when_there_is_no_answer():
    member = core("b", "c")
    ask = Received("at-b", encode("c", Kind.PING_REQ, "b", 5, "c", "at-c"))
    [(address, ping)] = sent(member.handle(ask, 0.001), Kind.PING)
    assert (address, ping.subject) == ("at-c", "c")
    [(back, ack)] = sent(member.handle(said("c", kind=Kind.ACK, seq=ping.seq), 0.002), Kind.ACK)
    assert (back, ack.seq) == ("at-b", 5)
    member.handle(ask, 0.003)
    [(_, nack)] = sent(run(member, 0.003, 0.045), Kind.NACK)
    assert nack.seq == 5
