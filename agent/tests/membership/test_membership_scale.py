"""What a member sends does not grow with the cluster; news reaches all in a few rounds."""

import pytest

from gpufleet_agent.membership.constants import MAX_BODY
from gpufleet_agent.sim import Kernel
from gpufleet_agent.sim.spread import KnownCluster, spread_rounds, traffic


def quiet_cluster(count: int, warm_up: float = 0.4) -> KnownCluster:
    cluster = KnownCluster(Kernel(5), count)
    cluster.kernel.run(warm_up)
    return cluster


def test_messages_of_a_member_are_as_many_among_1000_as_among_16_and_news_spread_in_6_rounds():
    small = quiet_cluster(16)
    few = traffic(small, lambda: small.kernel.run(3))
    large = quiet_cluster(1000, warm_up=0.1)
    rounds: list[float] = []
    sent = traffic(large, lambda: rounds.append(spread_rounds(large, "n500")))
    assert sent.messages == pytest.approx(few.messages, rel=0.1)
    assert sent.bytes == pytest.approx(few.bytes, rel=0.25)
    assert sent.messages < 30
    assert rounds[0] <= 6
    assert large.deaths == []


def test_news_spread_in_4_rounds_among_128():
    cluster = quiet_cluster(128)
    assert max(spread_rounds(cluster, name) for name in ("n1", "n64", "n100")) <= 4


def test_when_every_row_changes_messages_stay_bounded_and_all_rows_arrive():
    cluster = quiet_cluster(64)
    for index, name in enumerate(cluster.names):
        cluster.change_facts(name, 100 + index)
    sent = traffic(cluster, lambda: cluster.kernel.run(cluster.kernel.now + 1))
    assert sent.messages < 26 + 3 * 2 * 4  # three more datagrams a push and a pull, some more pulls
    assert sent.largest <= MAX_BODY
    cluster.kernel.run_until(cluster.agree, cluster.kernel.now + 4, step=0.25)


def test_table_that_does_not_fit_a_datagram_is_joined_in_parts():
    cluster = quiet_cluster(100)
    kernel = cluster.kernel
    kernel.hosts["n7"].disk.clear()
    cluster.names.append("late")
    kernel.add("late", lambda host: super(KnownCluster, cluster).boot(host))
    kernel.run(kernel.now + 0.2)
    member = cluster.member("late")
    assert member.core.joined
    assert len(list(member.core.members())) == 101
    assert member.largest <= MAX_BODY
