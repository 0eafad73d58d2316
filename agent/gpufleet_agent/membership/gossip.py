"""Gossip of rows: push and pull with a few members a round, the whole table when joining."""

from bisect import bisect_right
from collections.abc import Collection, Hashable

from gpufleet_agent.membership.codec import Kind, Message, encode_row, room
from gpufleet_agent.membership.constants import (
    COLD_ROWS,
    EXCHANGE_DATAGRAMS,
    FANOUT,
    GOSSIP_PERIOD,
    JOIN_RETRY,
    RECONNECT_PERIOD,
    TIDY_PERIOD,
    TOMBSTONE_TIME,
)
from gpufleet_agent.membership.local import Local
from gpufleet_agent.membership.records import Facts, Status


class Gossip:
    """Exchanges rows; the number and size of datagrams a round does not grow with the members."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._facts = local.row.facts
        self._old: list[str] = []  # names still to be sent along in this turn
        self.joined = not self._seeds()

    def set_facts(self, facts: Facts) -> None:
        """Tell these facts from the next round on. Raises Malformed for values out of bounds."""
        encode_row(self._local.row._replace(facts=facts))
        self._facts = facts

    def tick(self) -> None:
        """One round: a new version of the own row if it changed, then push to FANOUT members."""
        local = self._local
        local.timers.set(("gossip", None), local.now + local.jittered(GOSSIP_PERIOD))
        if self._facts != local.row.facts:
            local.announce(local.row._replace(version=local.row.version + 1, facts=self._facts))
            if ("row", local.name) not in local.urgent:
                local.rows.put(("row", local.name), encode_row(local.row))
            else:
                local.urgent.put(("row", local.name), encode_row(local.row))
        for peer in local.roster.sample(FANOUT):
            address = local.address_of(peer)
            if address is not None:
                self._exchange(peer, address, Kind.PUSH, [])

    def push(self, message: Message, source: str) -> None:
        """Answer a push (its rows are merged already) with what the sender lacks."""
        local = self._local
        newer: list[str] = []
        same: set[Hashable] = set()
        for row in message.rows:
            record = local.table.get(row.name)
            if record is None or record.row is None:
                continue
            if record.row == row:
                same.add(("row", row.name))
            elif row.name != local.name:
                newer.append(row.name)
        self._exchange(message.sender, source, Kind.PULL, newer, same)

    def reconnect(self) -> None:
        """Push to one dead member or silent seed, so that a partition does not last."""
        local = self._local
        local.timers.set(("reconnect", None), local.now + local.jittered(RECONNECT_PERIOD))
        lost = [
            (name, address)
            for name in local.tombstones
            if local.table.status(name) == Status.DEAD
            and (address := local.address_of(name)) is not None
        ]
        lost += [("", seed) for seed in self._silent_seeds()]
        if lost:
            peer, address = local.random.choice(lost)
            self._exchange(peer, address, Kind.PUSH, [])

    def tidy(self) -> None:
        """Drop the tombstones that were told long enough."""
        local = self._local
        local.timers.set(("tidy", None), local.now + TIDY_PERIOD)
        for name, since in list(local.tombstones.items()):
            if local.now - since >= TOMBSTONE_TIME:
                del local.tombstones[name]
                local.urgent.discard(("verdict", name))
                local.table.drop(name)

    def join(self) -> None:
        """Ask every seed for its table until one has sent it."""
        local = self._local
        if self.joined:
            return
        local.timers.set(("join", None), local.now + JOIN_RETRY)
        for seed in self._seeds():
            local.send(seed, Kind.SYNC, [encode_row(local.row)])

    def sync(self, message: Message, source: str) -> None:
        """Send a part of the table: what follows a name in the order of names."""
        local = self._local
        names = sorted(record.row.name for record in local.table if record.row is not None)
        left = room(local.name, "n" * 63)
        items: list[bytes] = []
        following = ""
        for name in names[bisect_right(names, message.subject) :]:
            more = local.items_of(name)
            size = sum(map(len, more))
            if size > left:
                break
            items += more
            left -= size
            following = name
        if following == names[-1]:
            following = ""
        local.send(source, Kind.CHUNK, items, subject=following)

    def chunk(self, message: Message, source: str) -> None:
        """Go on with the table where this part of it ended."""
        if self.joined:
            return
        if message.subject:
            self._local.timers.set(("join", None), self._local.now + JOIN_RETRY)
            self._local.send(
                source, Kind.SYNC, [encode_row(self._local.row)], subject=message.subject
            )
        else:
            self.joined = True
            self._local.timers.cancel(("join", None))

    def _exchange(
        self,
        peer: str,
        address: str,
        kind: Kind,
        first: list[str],
        without: Collection[Hashable] = (),
    ) -> None:
        """Send one push or pull: own row, what the peer must know, new rows, a few old ones."""
        local = self._local
        members = local.members
        own = ("row", local.name)
        without = {own, *without}
        items = [*local.verdict_on(peer), encode_row(local.row)]
        left = room(local.name) - sum(map(len, items))
        for name in first:
            left = self._append(items, local.items_of(name), left)
        for news in (local.urgent, local.rows):
            picked = news.pick(left, members, without)
            left -= sum(map(len, picked))
            items += picked
        for _ in range(COLD_ROWS):
            old = self._next_old()
            if old is not None:
                left = self._append(items, local.items_of(old), left)
        local.send(address, kind, items)
        for _ in range(EXCHANGE_DATAGRAMS - 1):
            if not local.rows.unsent(FANOUT):
                break
            more = local.rows.pick(room(local.name), members, without)
            if not more:
                break
            local.send(address, Kind.EVENTS, more)

    @staticmethod
    def _append(items: list[bytes], more: list[bytes], left: int) -> int:
        size = sum(map(len, more))
        if size > left:
            return left
        items += more
        return left - size

    def _next_old(self) -> str | None:
        """A name of the table, each in turn; the own row is sent anyway."""
        local = self._local
        while self._old:
            name = self._old.pop()
            record = local.table.get(name)
            if record is not None and record.row is not None:
                return name
        self._old = [*local.roster, *local.tombstones]
        local.random.shuffle(self._old)
        return self._old.pop() if self._old else None

    def _seeds(self) -> list[str]:
        config = self._local.config
        return [seed for seed in config.seeds if seed != config.address]

    def _silent_seeds(self) -> list[str]:
        seeds = self._seeds()
        if not seeds:
            return []
        present = {self._local.address_of(name) for name in self._local.roster}
        return [seed for seed in seeds if seed not in present]
