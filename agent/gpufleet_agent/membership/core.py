"""The membership of one process, as a pure core: events and the time in, effects out.

It opens no socket, reads no clock and writes no file. Its host hands every event to `handle`
with its own monotonic clock, carries out the effects in order, and hands in `Wake` at `wake_at`.
Times of different members are never compared.
"""

from collections.abc import Iterator
from random import Random

from gpufleet_agent.membership.codec import Kind, Malformed, Message, decode, encode_row
from gpufleet_agent.membership.constants import GOSSIP_PERIOD, LEAVE_TIME, OVERSLEPT, PROBE_PERIOD
from gpufleet_agent.membership.events import (
    Effect,
    Event,
    FactsChanged,
    Finished,
    Leave,
    Persist,
    Persisted,
    Received,
    Start,
    Wake,
)
from gpufleet_agent.membership.gossip import Gossip
from gpufleet_agent.membership.judge import Judge
from gpufleet_agent.membership.local import Config, Local
from gpufleet_agent.membership.prober import Prober
from gpufleet_agent.membership.records import Facts, Row, Status
from gpufleet_agent.membership.timers import Key

WAITS_FOR_OTHERS = frozenset({"probe", "relay", "suspect"})  # kinds of timers
FRESH = frozenset({Kind.PING, Kind.PING_REQ, Kind.ACK, Kind.NACK, Kind.EVENTS})


class Membership:
    """One member. Raises Malformed when its own name, address or facts are out of bounds."""

    def __init__(self, config: Config, facts: Facts, random: Random) -> None:
        self._local = Local(config, facts, random)
        encode_row(self._local.row)
        self._judge = Judge(self._local, self._check)
        self._prober = Prober(self._local, self._judge.accuse)
        self._gossip = Gossip(self._local)
        self._life = 0  # the one in use; 0 while none is durable
        self._ended = False

    @property
    def wake_at(self) -> float | None:
        """When to hand in `Wake`, in the host's clock; None for never."""
        return self._local.timers.next_at

    @property
    def joined(self) -> bool:
        """Whether a seed's table was read (at once true for a member without other seeds)."""
        return self._life > 0 and self._gossip.joined

    @property
    def row(self) -> Row:
        """The own row."""
        return self._local.row

    @property
    def health_score(self) -> int:
        """How badly this process itself does: 0 (well) to AWARENESS_MAX."""
        return self._local.awareness.score

    @property
    def revision(self) -> int:
        """Grows with every change of what `members` yields."""
        return self._local.table.revision

    @property
    def malformed(self) -> int:
        """How many datagrams were refused."""
        return self._local.malformed

    def members(self) -> Iterator[tuple[Row, Status]]:
        """Rows and status of all that have a row: tombstones too, and this member itself."""
        for record in self._local.table:
            if record.row is not None:
                yield record.row, record.status

    def status(self, name: str) -> Status | None:
        """What is believed of a member; None for one never met or forgotten."""
        return self._local.table.status(name)

    def row_of(self, name: str) -> Row | None:
        """The newest row of a member, if it has one."""
        record = self._local.table.get(name)
        return record.row if record is not None else None

    def incarnation(self, name: str) -> int | None:
        """The newest incarnation heard of, of a forgotten member, too."""
        record = self._local.table.get(name)
        return record.incarnation if record is not None else None

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event in; what has to be done about it, in order. Never raises for datagrams."""
        local = self._local
        local.now = max(local.now, now) if self._life else now
        if self._ended:
            return []
        if self._life:
            self._notice_sleep()
        match event:
            case Received():
                if self._life:
                    self._receive(event)
            case Wake():
                self._wake()
            case FactsChanged():
                self._gossip.set_facts(event.facts)
            case Leave():
                self._leave()
            case Start():
                local.effects.append(Persist(event.former_life + 1))
            case Persisted():
                self._persisted(event.life)
        if self._life and not self._ended:
            local.flush()
        effects, local.effects = local.effects, []
        return effects

    def _persisted(self, life: int) -> None:
        first = self._life == 0
        if life <= self._life:
            return
        self._life = life
        self._judge.start_life(life)
        if first:
            local = self._local
            now = local.now
            local.timers.set(("tick", None), now + local.random.random() * PROBE_PERIOD)
            local.timers.set(("gossip", None), now + local.random.random() * GOSSIP_PERIOD)
            self._gossip.reconnect()
            self._gossip.tidy()
            self._gossip.join()

    def _leave(self) -> None:
        if self._life == 0:
            self._end()
            return
        self._judge.leave()
        self._local.timers.set(("end", None), self._local.now + LEAVE_TIME)

    def _end(self) -> None:
        self._ended = True
        self._local.timers.clear()
        self._local.effects.append(Finished())

    def _notice_sleep(self) -> None:
        """After a pause of this process, give the others the time that we slept.

        Their answers may lie unread in our socket; deadlines that passed meanwhile say nothing.
        """
        local = self._local
        due = local.timers.next_at
        if due is None or due >= local.now:
            return
        slept = local.now - due
        local.awareness.ran_late(slept, local.now)
        if slept <= OVERSLEPT:
            return
        local.awareness.add(1)
        local.timers.delay(slept, lambda key: key[0] in WAITS_FOR_OTHERS)

    def _wake(self) -> None:
        now = self._local.now
        while (key := self._local.timers.pop(now)) is not None:
            self._due(key)
            if self._ended:
                return

    def _due(self, key: Key) -> None:
        kind, about = key
        if kind == "tick":
            self._prober.tick()
        elif kind == "probe":
            self._prober.timeout(about)
        elif kind == "relay":
            self._prober.relay_timeout(about)
        elif kind == "gossip":
            self._gossip.tick()
        elif kind == "suspect":
            self._judge.expire(about)
        elif kind == "reconnect":
            self._gossip.reconnect()
        elif kind == "tidy":
            self._gossip.tidy()
        elif kind == "join":
            self._gossip.join()
        elif kind == "end":
            self._end()
        # "flush": due flushes are sent at the end of every event.

    def _receive(self, event: Received) -> None:
        try:
            message = decode(self._local.config.cluster, event.datagram)
        except Malformed:
            self._local.malformed += 1
            return
        local = self._local
        if message.lag and message.sender in local.roster:
            local.lags[message.sender] = message.lag
        else:
            local.lags.pop(message.sender, None)
        kind = message.kind
        spread = kind != Kind.CHUNK
        for row in message.rows:
            self._judge.take_row(row, spread)
        if message.verdicts:
            settled = kind not in FRESH
            for verdict in message.verdicts:
                self._judge.take_verdict(verdict, message.sender, settled)
        if message.sender != self._local.name:
            self._answer(kind, message, event.source)

    def _answer(self, kind: Kind, message: Message, source: str) -> None:
        if kind == Kind.PING:
            self._prober.ping(message, source)
        elif kind == Kind.ACK:
            self._prober.ack(message)
        elif kind == Kind.PUSH:
            self._gossip.push(message, source)
        elif kind == Kind.PING_REQ:
            self._prober.ping_req(message, source)
        elif kind == Kind.NACK:
            self._prober.nack(message)
        elif kind == Kind.SYNC:
            self._gossip.sync(message, source)
        elif kind == Kind.CHUNK:
            self._gossip.chunk(message, source)

    def _check(self, name: str) -> None:
        self._prober.check_suspect(name)
