"""Probing: is that member there? Asked directly, then through helpers."""

from collections.abc import Callable
from dataclasses import dataclass

from gpufleet_agent.membership.codec import Kind, Message
from gpufleet_agent.membership.constants import (
    CONFIRMERS,
    INDIRECT_PROBES,
    NACK_SHARE,
    PROBE_PERIOD,
    PROBE_TIMEOUT,
)
from gpufleet_agent.membership.local import Local
from gpufleet_agent.membership.records import Status

SEQ_SPACE = 2**32


@dataclass(slots=True)
class Probe:
    """A question that waits for its answer."""

    target: str
    helpers: int = -1  # asked so far; -1 while only the target was asked
    nacks: int = 0


@dataclass(frozen=True, slots=True)
class Relay:
    """A question asked for another member."""

    target: str
    asker: str
    asker_address: str
    asker_seq: int


class Prober:
    """Two probes a period, half a period apart: the ring successor, then one of the round.

    `failed` is called with the name of a member that did not answer.
    """

    def __init__(self, local: Local, failed: Callable[[str], None]) -> None:
        self._local = local
        self._failed = failed
        self._probes: dict[int, Probe] = {}
        self._targets: set[str] = set()
        self._relays: dict[int, Relay] = {}
        self._seq = local.random.randrange(SEQ_SPACE)  # answers to a former life never match
        self._ring_next = local.random.random() < 0.5

    def tick(self) -> None:
        """Probe the next one and set the timer for the one after."""
        local = self._local
        period = local.awareness.scaled(PROBE_PERIOD) / 2
        local.timers.set(("tick", None), local.now + local.jittered(period))
        target = self._successor() if self._ring_next else local.roster.next_in_round()
        self._ring_next = not self._ring_next
        if target is not None:
            self.probe(target)

    def probe(self, target: str) -> None:
        """Ask a member, unless an answer is awaited already."""
        address = self._local.address_of(target)
        if address is None or target in self._targets:
            return
        seq = self._next_seq()
        self._probes[seq] = Probe(target)
        self._targets.add(target)
        self._wait(seq)
        self._local.tell(target, address, Kind.PING, seq, target)

    def check_suspect(self, name: str) -> None:
        """Form an own opinion of a suspect, if this is one of its CONFIRMERS."""
        if self._local.roster.precedes(name, CONFIRMERS):
            self.probe(name)

    def timeout(self, seq: int) -> None:
        """No answer: ask helpers, or give up."""
        local = self._local
        probe = self._probes[seq]
        if probe.helpers < 0:
            helpers = local.roster.sample(INDIRECT_PROBES, without=probe.target)
            address = local.address_of(probe.target)
            probe.helpers = len(helpers)
            self._wait(seq)
            for helper in helpers:
                at = local.address_of(helper)
                if at is not None and address is not None:
                    local.tell(helper, at, Kind.PING_REQ, seq, probe.target, address)
            return
        self._end(seq)
        # Helpers that are silent as well point to us; without helpers we cannot tell.
        local.awareness.add(probe.helpers - probe.nacks if probe.helpers else 1)
        self._failed(probe.target)

    def relay_timeout(self, seq: int) -> None:
        """Tell the asker that its target did not answer us either."""
        relay = self._relays.pop(seq)
        self._local.tell(relay.asker, relay.asker_address, Kind.NACK, relay.asker_seq)

    def ping(self, message: Message, source: str) -> None:
        """Answer, unless another member was meant that had our address before."""
        if message.subject == self._local.name:
            self._local.tell(message.sender, source, Kind.ACK, message.seq)

    def ping_req(self, message: Message, source: str) -> None:
        """Probe for another member."""
        seq = self._next_seq()
        self._relays[seq] = Relay(message.subject, message.sender, source, message.seq)
        self._local.timers.set(("relay", seq), self._local.now + PROBE_TIMEOUT * NACK_SHARE)
        self._local.tell(message.subject, message.address, Kind.PING, seq, message.subject)

    def ack(self, message: Message) -> None:
        """An answer to us, or to one who asked us, directly or through a helper."""
        probe = self._probes.get(message.seq)
        if probe is not None and (message.sender == probe.target or probe.helpers >= 0):
            self._end(message.seq)
            self._local.awareness.add(-1)
            return
        relay = self._relays.get(message.seq)
        if relay is not None and message.sender == relay.target:
            del self._relays[message.seq]
            self._local.timers.cancel(("relay", message.seq))
            self._local.tell(relay.asker, relay.asker_address, Kind.ACK, relay.asker_seq)

    def nack(self, message: Message) -> None:
        """A helper is there but got no answer."""
        probe = self._probes.get(message.seq)
        if probe is not None and probe.nacks < probe.helpers:
            probe.nacks += 1

    def _successor(self) -> str | None:
        """The next on the ring; suspects are probed by their confirmers already."""
        for name in self._local.roster.successors():
            if self._local.table.status(name) == Status.ALIVE:
                return name
        return None

    def _wait(self, seq: int) -> None:
        local = self._local
        patience = local.awareness.scaled(PROBE_TIMEOUT)
        patience += local.lag_with(self._probes[seq].target)
        local.timers.set(("probe", seq), local.now + patience)

    def _end(self, seq: int) -> None:
        self._targets.discard(self._probes.pop(seq).target)
        self._local.timers.cancel(("probe", seq))

    def _next_seq(self) -> int:
        self._seq = (self._seq + 1) % SEQ_SPACE
        return self._seq
