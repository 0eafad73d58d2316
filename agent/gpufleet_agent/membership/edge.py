"""The edge of a member: carries out the core's effects, and encrypts on the way.

`seal` makes of a datagram's plain bytes the ones that are sent, at most SEAL_ROOM longer; `open`
gives the plain bytes back, or None for what no holder of the key has sealed. The core never sees
either, so that any authenticated cipher fits (a nonce of 12 bytes and a tag of 16 leave 4 for the
number of the key, which is what lets keys be rolled).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet_agent.membership.constants import MAX_DATAGRAM
from gpufleet_agent.membership.core import Membership
from gpufleet_agent.membership.events import (
    Changed,
    Conflict,
    Event,
    Finished,
    Persist,
    Persisted,
    Received,
    Send,
    Start,
    Wake,
)

type Seal = Callable[[bytes], bytes]
type Open = Callable[[bytes], bytes | None]
type News = Changed | Conflict | Finished


def unsealed(datagram: bytes) -> bytes:
    """Neither sealed nor opened: for tests, and for networks that are private already."""
    return datagram


@dataclass(frozen=True)
class Disk:
    """Where the life of a member outlasts its process.

    `read` gives the last life that was written, 0 for none; `write` returns once it is durable.
    Both are called rarely and shall take no longer than an fsync.
    """

    read: Callable[[], int]
    write: Callable[[int], None]


class UdpMember(asyncio.DatagramProtocol):
    """Runs a core on a UDP socket of an event loop.

    Addresses of the core are "host:port" (IPv6 in brackets). `tell` is called with every Changed,
    Conflict and Finished, and must not block.
    """

    def __init__(
        self,
        core: Membership,
        disk: Disk,
        tell: Callable[[News], None],
        seal: Seal = unsealed,
        open_: Open = unsealed,
    ) -> None:
        self.core = core
        self.refused = 0  # datagrams that `open` did not accept
        self.send_errors = 0
        self._disk = disk
        self._tell = tell
        self._seal = seal
        self._open = open_
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open: the member starts."""
        assert isinstance(transport, asyncio.DatagramTransport)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self.handle(Start(self._disk.read()))

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """A datagram came; what is not sealed for us is counted and dropped."""
        plain = self._open(data) if len(data) <= MAX_DATAGRAM else None
        if plain is None:
            self.refused += 1
            return
        self.handle(Received(join_address(addr[0], addr[1]), plain))

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 - counted, not told apart
        """The network refused a datagram; the protocol finds out by itself who is gone."""
        self.send_errors += 1

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - nothing is left
        """The socket is closed."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def handle(self, event: Event) -> None:
        """Hand an event to the core and carry out what it asks for."""
        if self._loop is None or self._transport is None:
            return
        for effect in self.core.handle(event, self._loop.time()):
            match effect:
                case Send():
                    self._transport.sendto(
                        self._seal(effect.datagram), split_address(effect.address)
                    )
                case Persist():
                    self._disk.write(effect.life)
                    self.handle(Persisted(effect.life))
                case Finished():
                    self._tell(effect)
                    self._transport.close()
                case _:
                    self._tell(effect)
        self._set_timer(self._loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        wake_at = self.core.wake_at
        if self._timer is not None:
            if self._timer.when() == wake_at and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = loop.call_at(wake_at, self._wake) if wake_at is not None else None

    def _wake(self) -> None:
        self._timer = None
        self.handle(Wake())


def join_address(host: str, port: int) -> str:
    """The core's form of a socket address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """The socket address of the core's form. Raises ValueError for anything else."""
    host, _, port = address.rpartition(":")
    if not host:
        raise ValueError(f"address {address!r}: expected host:port")
    return host.strip("[]"), int(port)
