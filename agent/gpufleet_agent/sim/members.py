"""Simulated members: the membership core on hosts of the kernel, and what must always hold."""

from collections.abc import Hashable, Iterable
from typing import Any

from gpufleet_agent.membership import (
    Changed,
    Config,
    Event,
    Facts,
    FactsChanged,
    Finished,
    Leave,
    Membership,
    Persist,
    Persisted,
    Received,
    Send,
    Start,
    Status,
    Wake,
)
from gpufleet_agent.membership.records import life_of
from gpufleet_agent.sim.kernel import Host, Kernel

CLUSTER = "simulated"
LIFE_KEY = "life"


class SimulatedMember:
    """Carries out the effects of one core on a simulated host. A name is its own address."""

    def __init__(self, host: Host, seeds: tuple[str, ...], facts: Facts) -> None:
        self.host = host
        self.core = Membership(Config(host.name, host.name, CLUSTER, seeds), facts, host.random)
        self.changes: list[Changed] = []  # since the last check
        self.checked = -1  # revision of the table at the last check
        self.seen: dict[str, tuple[int, int]] = {}  # rows at the last check
        self.gone: dict[str, int] = {}  # incarnations given up
        self.finished = False
        self.sent = 0
        self.sent_bytes = 0
        self.largest = 0
        self._wake_at: float | None = None

    def start(self) -> None:
        """A life begins with what the disk says of the former one."""
        self.handle(Start(self.host.disk.get(LIFE_KEY, 0)))

    def receive(self, source: str, payload: Any) -> None:
        """A datagram."""
        self.handle(Received(source, payload))

    def wake(self, key: Hashable) -> None:  # noqa: ARG002 - there is one timer
        """The core's timer."""
        self._wake_at = None
        self.handle(Wake())

    def written(self, key: str, ok: bool) -> None:
        """A life is durable, or is written again."""
        if ok:
            self.handle(Persisted(self.host.disk[key]))
        else:
            self.host.write(LIFE_KEY, self._life)

    def handle(self, event: Event) -> None:
        """Hand an event in, carry out what comes out."""
        core, host = self.core, self.host
        for effect in core.handle(event, host.clock()):
            if isinstance(effect, Send):
                size = len(effect.datagram)
                self.sent += 1
                self.sent_bytes += size
                self.largest = max(self.largest, size)
                host.send(effect.address, effect.datagram)
            elif isinstance(effect, Changed):
                self.changes.append(effect)
            elif isinstance(effect, Persist):
                self._life = effect.life
                host.write(LIFE_KEY, effect.life)
            elif isinstance(effect, Finished):
                self.finished = True
        wake_at = core.wake_at
        if wake_at != self._wake_at:
            self._wake_at = wake_at
            if wake_at is None:
                host.cancel_timer("wake")
            else:
                host.set_timer("wake", wake_at)


class SimulatedCluster:
    """Members n0, n1, ... with n0 and n1 as seeds, and the invariants checked at every step:

    - a member given up (dead or left) comes back with a later incarnation only;
    - a row never falls back to an earlier (incarnation, version);
    - a life begins above all that its name has said in former lives, if its disk is whole.

    `check_tables=False` leaves out the first two, which read a table whenever it changes.
    """

    def __init__(self, kernel: Kernel, count: int, check_tables: bool = True) -> None:
        self.kernel = kernel
        self.names = [f"n{i}" for i in range(count)]
        self.deaths: list[tuple[float, str, str]] = []  # when, who believes, of whom
        self._check_tables = check_tables
        self._told: dict[str, int] = {}  # last own incarnation
        self._lives: dict[str, int] = {}
        kernel.checks.append(self._check)
        for name in self.names:
            kernel.add(name, self.boot)

    def boot(self, host: Host) -> SimulatedMember:
        """The process of a host."""
        return SimulatedMember(host, ("n0", "n1"), Facts(free=2, total=8, credits=4, model="sim"))

    def member(self, name: str) -> SimulatedMember:
        """The process that runs under a name."""
        node = self.kernel.hosts[name].node
        assert isinstance(node, SimulatedMember)
        return node

    def running(self) -> list[str]:
        """Names of the processes that run and have not left."""
        return [
            name
            for name in self.names
            if self.kernel.hosts[name].up and not self.member(name).finished
        ]

    def know(self, status: Status, of: str, by: Iterable[str]) -> bool:
        """Whether all of these believe the same of one."""
        return all(self.member(name).core.status(of) == status for name in by if name != of)

    def agree(self) -> bool:
        """Whether all that run hold all that run, and nobody else, for alive, with equal rows."""
        running = self.running()
        rows = {name: self.member(name).core.row for name in running}
        for name in running:
            present = {
                row.name: row
                for row, status in self.member(name).core.members()
                if status in (Status.ALIVE, Status.SUSPECT)
            }
            if present != rows or not self.know(Status.ALIVE, name, running):
                return False
        return True

    def change_facts(self, name: str, credits_: int) -> None:
        """The owner writes its row."""
        self.member(name).handle(FactsChanged(Facts(2, 8, credits_, "sim")))

    def leave(self, name: str) -> None:
        """One says goodbye."""
        self.member(name).handle(Leave())

    def forget_life(self, name: str) -> None:
        """Expect nothing of the next life: the disk of this host was wiped."""
        del self._told[name], self._lives[name]

    def _check(self, name: str) -> str | None:
        if name == "":
            return None
        member = self.member(name)
        for change in member.changes:
            if change.status == Status.DEAD:
                self.deaths.append((self.kernel.now, name, change.name))
        member.changes.clear()
        return self._check_lives(name, member) or (
            self._check_table(member) if self._check_tables else None
        )

    def _check_lives(self, name: str, member: SimulatedMember) -> str | None:
        own = member.core.row.incarnation
        life = life_of(own)
        if life and life != self._lives.get(name):
            if own <= self._told.get(name, 0):
                return f"{name}: life {life} begins at {own}, it said {self._told[name]} before"
            self._lives[name] = life
        self._told[name] = own
        return None

    @staticmethod
    def _check_table(member: SimulatedMember) -> str | None:
        if member.checked == member.core.revision:
            return None
        member.checked = member.core.revision
        seen, gone = member.seen, member.gone
        for row, status in member.core.members():
            name = row.name
            version = (row.incarnation, row.version)
            if version < seen.get(name, version):
                return f"{member.host.name}: row of {name} fell from {seen[name]} to {version}"
            seen[name] = version
            believed = member.core.incarnation(name) or 0
            if status >= Status.DEAD:
                gone[name] = max(gone.get(name, 0), believed)
            elif believed <= gone.get(name, -1):
                return f"{member.host.name}: {name} came back with incarnation {believed}"
        return None
