"""Figures of the membership protocol, measured on simulated clusters."""

import gc
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet_agent.membership import Facts, Persisted, Received, Row, Status
from gpufleet_agent.membership.codec import Kind, encode, encode_row, room
from gpufleet_agent.membership.constants import GOSSIP_PERIOD
from gpufleet_agent.membership.records import first_incarnation
from gpufleet_agent.sim.kernel import Host, Kernel
from gpufleet_agent.sim.members import CLUSTER, LIFE_KEY, SimulatedCluster, SimulatedMember

FACTS = Facts(2, 8, 4, "sim")


@dataclass(frozen=True)
class Traffic:
    """What one member sends in one gossip period of 0.5 s, on average and at most."""

    messages: float
    most_messages: float
    bytes: float
    largest: int  # bytes of the largest datagram so far


class KnownCluster(SimulatedCluster):
    """A cluster whose members know one another from the start, as after a long quiet time."""

    def __init__(self, kernel: Kernel, count: int) -> None:
        self._tables = self._chunks([f"n{i}" for i in range(count)])
        collects = gc.isenabled()
        gc.disable()  # a million records are made and none is garbage
        try:
            super().__init__(kernel, count, check_tables=False)
        finally:
            if collects:
                gc.enable()

    def boot(self, host: Host) -> SimulatedMember:
        """A member that has just read the whole table."""
        member = _KnowingMember(host, ("n0", "n1"), FACTS)
        member.tables = self._tables
        return member

    @staticmethod
    def _chunks(names: list[str]) -> list[bytes]:
        rows = [encode_row(Row(first_incarnation(1), 1, name, name, FACTS)) for name in names]
        per_datagram = room("table") // max(map(len, rows))
        return [
            encode(CLUSTER, Kind.CHUNK, "table", items=rows[i : i + per_datagram])
            for i in range(0, len(rows), per_datagram)
        ]


class _KnowingMember(SimulatedMember):
    tables: list[bytes]

    def start(self) -> None:
        self.host.disk[LIFE_KEY] = 1
        self.handle(Persisted(1))
        for datagram in self.tables:
            self.handle(Received("table", datagram))
        self.changes.clear()


def spread_rounds(cluster: SimulatedCluster, owner: str) -> float:
    """Rounds of GOSSIP_PERIOD from the owner's new version until every row agrees."""
    kernel = cluster.kernel
    before = cluster.member(owner).core.row.version
    cluster.change_facts(owner, before + 100)
    told = kernel.run_until(
        lambda: cluster.member(owner).core.row.version > before, kernel.now + 2 * GOSSIP_PERIOD
    )
    version = cluster.member(owner).core.row.version
    waiting = set(cluster.running())

    def known() -> bool:
        waiting.difference_update(
            [
                name
                for name in waiting
                if (row := cluster.member(name).core.row_of(owner)) and row.version >= version
            ]
        )
        return not waiting

    return (kernel.run_until(known, told + 20 * GOSSIP_PERIOD) - told) / GOSSIP_PERIOD


def traffic(cluster: SimulatedCluster, run: Callable[[], object]) -> Traffic:
    """What the members send while the simulation runs, a gossip period."""
    members = [cluster.member(name) for name in cluster.running()]
    before = [(member.sent, member.sent_bytes) for member in members]
    began = cluster.kernel.now
    run()
    periods = (cluster.kernel.now - began) / GOSSIP_PERIOD
    sent = [member.sent - old for member, (old, _) in zip(members, before, strict=True)]
    size = sum(member.sent_bytes - old for member, (_, old) in zip(members, before, strict=True))
    return Traffic(
        sum(sent) / len(members) / periods,
        max(sent) / periods,
        size / len(members) / periods,
        max(member.largest for member in members),
    )


def all_rows_spread_rounds(cluster: SimulatedCluster, limit: float = 60.0) -> float:
    """Rounds of GOSSIP_PERIOD from a change of every row until all members have all of them."""
    kernel = cluster.kernel
    began = kernel.now
    names = cluster.running()
    wanted = {name: cluster.member(name).core.row.version + 1 for name in names}
    for name in names:
        cluster.change_facts(name, wanted[name] + 1000)
    missing = {name: set(names) for name in names}

    def known() -> bool:
        for name, owners in list(missing.items()):
            core = cluster.member(name).core
            owners -= {
                owner
                for owner in owners
                if (row := core.row_of(owner)) and row.version >= wanted[owner]
            }
            if not owners:
                del missing[name]
        return not missing

    return (kernel.run_until(known, began + limit, step=0.05) - began) / GOSSIP_PERIOD


def detection_seconds(cluster: SimulatedCluster, victim: str, limit: float = 10.0) -> float:
    """Seconds from a kill until every other member takes the victim for dead."""
    kernel = cluster.kernel
    kernel.crash(victim)
    killed = kernel.now
    waiting = set(cluster.running())

    def known() -> bool:
        waiting.difference_update(
            [name for name in waiting if cluster.member(name).core.status(victim) == Status.DEAD]
        )
        return not waiting

    return kernel.run_until(known, killed + limit) - killed
