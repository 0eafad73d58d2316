"""The parts of the core, each alone."""

from random import Random

import pytest

from gpufleet_agent.membership.awareness import Awareness
from gpufleet_agent.membership.broadcast import Broadcasts, retransmits
from gpufleet_agent.membership.constants import AWARENESS_MAX, PROBE_PERIOD
from gpufleet_agent.membership.records import MAX_LIFE, first_incarnation, life_of
from gpufleet_agent.membership.roster import Roster
from gpufleet_agent.membership.suspicion import Suspicion, shortest_suspicion
from gpufleet_agent.membership.timers import Timers


def test_suspicion_shrinks_with_each_independent_accuser_down_to_its_minimum():
    suspicion = Suspicion(1, "a", members=16, began=10)
    lasts = [suspicion.deadline - 10]
    for accuser in ("b", "c", "d"):
        assert suspicion.confirm(accuser)
        lasts.append(suspicion.deadline - 10)
    assert lasts[0] == pytest.approx(6 * shortest_suspicion(16))
    assert lasts == sorted(lasts, reverse=True)
    assert lasts[-1] == pytest.approx(shortest_suspicion(16)) == pytest.approx(0.2408, abs=1e-4)


def test_suspicion_counts_nobody_twice_and_no_more_than_wanted():
    suspicion = Suspicion(1, "a", members=16, began=0)
    assert not suspicion.confirm("a")
    assert suspicion.confirm("b")
    assert not suspicion.confirm("b")
    assert suspicion.confirm("c")
    assert suspicion.confirm("d")
    assert not suspicion.confirm("e")
    assert suspicion.accusers == {"b", "c", "d"}


@pytest.mark.parametrize(("members", "wanted"), [(2, 0), (3, 0), (4, 1), (5, 2), (6, 3), (99, 3)])
def test_suspicion_waits_only_for_accusers_that_exist(members, wanted):
    suspicion = Suspicion(1, "a", members, began=0)
    assert suspicion.wanted == wanted
    if not wanted:
        assert suspicion.deadline == pytest.approx(2 * PROBE_PERIOD)


def test_awareness_stays_in_its_bounds_and_stretches_times():
    awareness = Awareness()
    awareness.add(-3)
    assert awareness.scaled(0.05) == 0.05
    awareness.add(100)
    assert awareness.scaled(0.05) == pytest.approx(0.05 * (AWARENESS_MAX + 1))


def test_update_is_sent_a_bounded_number_of_times_least_sent_first():
    news = Broadcasts()
    news.put("old", b"old")
    news.pick(100, 16)
    news.put("new", b"new")
    assert news.pick(3, 16) == [b"new"]
    sent = [update for _ in range(100) for update in news.pick(100, 16)]
    assert sent.count(b"old") == sent.count(b"new") == retransmits(16) - 1 == 7
    assert len(news) == 0


def test_newer_update_takes_the_place_of_the_older_one():
    news = Broadcasts()
    news.put("n", b"1")
    news.put("n", b"2")
    assert news.pick(100, 16) == [b"2"]


def test_pick_keeps_to_its_room_and_leaves_out_what_the_peer_has():
    news = Broadcasts()
    for i in range(10):
        news.put(i, bytes(10))
    assert len(news.pick(35, 16)) == 3
    assert len(news.pick(1000, 16, without={0, 1})) == 8
    assert news.unsent(2)


def test_timers_move_cancel_delay_and_come_in_order():
    timers = Timers()
    timers.set(("probe", 1), 5)
    timers.set(("probe", 1), 2)
    timers.set(("tick", None), 1)
    timers.set(("gone", None), 0)
    timers.cancel(("gone", None))
    timers.delay(10, lambda key: key[0] == "probe")
    assert timers.next_at == 1
    assert timers.pop(0.5) is None
    assert timers.pop(20) == ("tick", None)
    assert timers.next_at == 12
    assert timers.pop(20) == ("probe", 1)
    assert timers.pop(20) is None
    assert timers.next_at is None


def test_every_member_is_the_successor_of_exactly_one_other():
    names = [f"n{i}" for i in range(40)]
    first = []
    for own in names:
        roster = Roster(own, Random(1))
        for name in names:
            if name != own:
                roster.add(name)
        first.append(next(roster.successors()))
    assert sorted(first) == sorted(names)


def test_six_members_check_a_suspect_whoever_asks():
    names = [f"n{i}" for i in range(40)]
    checking = 0
    for own in names[1:]:
        roster = Roster(own, Random(1))
        for name in names:
            if name != own:
                roster.add(name)
        checking += roster.precedes("n0", 6)
    assert checking == 6


def test_round_visits_every_member_once_and_forgets_who_left():
    roster = Roster("me", Random(3))
    for i in range(10):
        roster.add(f"n{i}")
        roster.add(f"n{i}")
    seen = [roster.next_in_round() for _ in range(10)]
    assert len(set(seen)) == 10
    roster.remove("n3")
    roster.remove("n3")
    assert "n3" not in {roster.next_in_round() for _ in range(27)}
    assert "n3" not in roster.sample(9)
    assert len(roster.sample(3, without="n1")) == 3


def test_later_life_is_above_every_refutation_of_an_earlier_one():
    assert first_incarnation(2) > first_incarnation(1) + 2**32 - 1
    assert life_of(first_incarnation(7) + 5) == 7
    with pytest.raises(ValueError, match=f"allowed are 1..{MAX_LIFE}"):
        first_incarnation(MAX_LIFE + 1)


def test_member_whose_timers_run_late_is_patient_for_a_while():
    awareness = Awareness()
    awareness.ran_late(0.005, now=100)
    assert awareness.lag(100) == 0
    awareness.ran_late(0.110, now=100)
    awareness.ran_late(0.030, now=101)
    assert awareness.lag(101) == pytest.approx(0.1, rel=0.1)
    assert awareness.lag(110) == pytest.approx(0.05, rel=0.1)
    awareness.ran_late(600, now=111)
    assert awareness.lag(111) <= 1
    patient = Suspicion(1, "a", members=3, began=0, more=0.4)
    assert patient.deadline == pytest.approx(0.2 + 0.4)
