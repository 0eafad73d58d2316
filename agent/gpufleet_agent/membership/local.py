"""What the parts of one member share: its identity, its tables, what it is about to do."""

from dataclasses import dataclass
from random import Random

from gpufleet_agent.membership.awareness import Awareness
from gpufleet_agent.membership.broadcast import Broadcasts
from gpufleet_agent.membership.codec import Kind, encode, encode_row, encode_verdict, room
from gpufleet_agent.membership.constants import FANOUT, FLUSH_INTERVAL, FLUSHES, JITTER
from gpufleet_agent.membership.events import Effect, Send
from gpufleet_agent.membership.records import Facts, Row, Status
from gpufleet_agent.membership.roster import Roster
from gpufleet_agent.membership.table import Table
from gpufleet_agent.membership.timers import Timers


@dataclass(frozen=True)
class Config:
    """Who a member is. Addresses are opaque to the core: whatever its host can send to."""

    name: str
    address: str
    cluster: str
    seeds: tuple[str, ...] = ()


class Local:
    """The state of one member that more than one part needs."""

    def __init__(self, config: Config, facts: Facts, random: Random) -> None:
        self.config = config
        self.name = config.name
        self.random = random
        self.now = 0.0
        self.row = Row(0, 1, config.name, config.address, facts)
        self.table = Table()
        self.roster = Roster(config.name, random)
        self.tombstones: dict[str, float] = {}  # dead or left members with a row: since when
        self.timers = Timers()
        self.awareness = Awareness()
        self.urgent = Broadcasts()  # verdicts and new incarnations: flushed and piggybacked
        self.rows = Broadcasts()  # new versions of rows: for rounds of gossip
        self.effects: list[Effect] = []
        self.lags: dict[str, float] = {}  # seconds that others said their timers run late
        self.malformed = 0  # datagrams that were none
        self._flushed = float("-inf")

    @property
    def members(self) -> int:
        """Members that are present, this one included."""
        return len(self.roster) + 1

    def jittered(self, seconds: float) -> float:
        """A period, a little longer or shorter each time."""
        return seconds * (1 + JITTER * (2 * self.random.random() - 1))

    def address_of(self, name: str) -> str | None:
        """Where a member with a row is."""
        record = self.table.get(name)
        return record.row.address if record is not None and record.row is not None else None

    def lag_with(self, name: str) -> float:
        """Seconds that an answer of this member may be late: by its own lag, or by ours."""
        return max(self.awareness.lag(self.now), self.lags.get(name, 0.0))

    def announce(self, row: Row) -> None:
        """Replace the own row."""
        self.row = row
        self.table.merge_row(row)

    def send(
        self,
        address: str,
        kind: Kind,
        items: list[bytes],
        seq: int = 0,
        subject: str = "",
        about: str = "",
    ) -> None:
        """Send a datagram of just these items."""
        self.effects.append(
            Send(
                address,
                encode(
                    self.config.cluster,
                    kind,
                    self.name,
                    seq,
                    subject,
                    about,
                    items,
                    self.awareness.lag(self.now),
                ),
            )
        )

    def tell(
        self, peer: str, address: str, kind: Kind, seq: int = 0, subject: str = "", about: str = ""
    ) -> None:
        """Send a datagram, with the news that fit."""
        left = room(self.name, subject, about)
        items = self.verdict_on(peer)
        left -= sum(map(len, items))
        items += self.urgent.pick(left, self.members)
        self.send(address, kind, items, seq, subject, about)

    def verdict_on(self, peer: str) -> list[bytes]:
        """What the peer must hear first: that it is suspected or given up (buddy system)."""
        record = self.table.get(peer)
        if record is None or record.status == Status.ALIVE or record.verdict is None:
            return []
        return [encode_verdict(record.verdict)]

    def items_of(self, name: str) -> list[bytes]:
        """A record with a row as items."""
        record = self.table.records[name]
        items = [encode_row(record.row)] if record.row is not None else []
        if record.status != Status.ALIVE and record.verdict is not None:
            items.append(encode_verdict(record.verdict))
        return items

    def flush(self) -> None:
        """Tell fresh news to FANOUT members at once, or as soon as FLUSH_INTERVAL allows."""
        while self.roster and self.urgent.unsent(FLUSHES * FANOUT):
            if ("flush", None) in self.timers:
                return
            due = self._flushed + FLUSH_INTERVAL
            if due > self.now:
                self.timers.set(("flush", None), due)
                return
            self._flushed = self.now
            for peer in self.roster.sample(FANOUT):
                address = self.address_of(peer)
                if address is not None:
                    self.tell(peer, address, Kind.EVENTS)
