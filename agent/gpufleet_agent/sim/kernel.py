"""The simulation kernel: one seed decides every time, order and fault of a run.

Nodes are the same pure cores that run in production, behind a thin adapter (`Node`) that turns
their effects into calls of a `Host`. Nothing here sleeps, reads a clock or opens a socket. Two
runs with the same seed and the same calls take the same steps.
"""

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

from gpufleet_agent.sim.network import Network

RECEIVE_BUFFER = 512  # datagrams kept for a paused node; a socket buffer drops the rest, too
TRACE_LENGTH = 40  # last steps told when an invariant breaks
CLOCK_SPREAD = 1_000_000.0  # seconds; clocks of different lives must never be comparable
NEVER_EARLY = 1e-9  # seconds; no timer fires before its time because of rounding
CLOCK_DRIFT = 100e-6  # quartz clocks differ by up to about 100 ppm

MESSAGE, TIMER, WRITTEN, ACTION = "message", "timer", "written", "action"


class Node(Protocol):
    """What the kernel asks of a simulated process. Times are the host's own monotonic clock."""

    def start(self) -> None:
        """The process starts; `host.disk` holds what earlier lives wrote."""

    def receive(self, source: str, payload: Any) -> None:
        """A datagram arrived."""

    def wake(self, key: Hashable) -> None:
        """A timer that was set is due (or overdue, after a pause)."""

    def written(self, key: str, ok: bool) -> None:
        """A write is durable, or has failed."""


class InvariantBroken(AssertionError):
    """A check failed after a step; the message has the seed, the step and the last steps."""


class Host:
    """A simulated machine for one node: its clock, timers, disk and way to the network."""

    def __init__(self, kernel: "Kernel", name: str, boot: Callable[["Host"], Node]) -> None:
        self.name = name
        self.life = 0
        self.up = False
        self.paused = False
        self.node: Node
        self.disk: dict[str, Any] = {}
        self.write_delay = (0.0001, 0.003)
        self.write_fails = 0.0  # chance a write
        self.random = Random(f"{kernel.seed}/{name}")  # noqa: S311 - a simulation, no secret
        self._kernel = kernel
        self._boot = boot
        self._timers: dict[Hashable, int] = {}
        self._backlog: list[tuple[str, Any, Any]] = []
        self._rate = 1.0
        self._offset = 0.0

    def clock(self) -> float:
        """This life's monotonic clock in seconds; means nothing to other nodes or lives."""
        return self._kernel.now * self._rate + self._offset

    def send(self, target: str, payload: Any) -> None:
        """Send a datagram; it may be lost, late, doubled or damaged."""
        kernel = self._kernel
        kernel.sent += 1
        receiver = kernel.hosts.get(target)
        if receiver is None:
            return
        for delay, what in kernel.network.arrivals(self.name, target, payload, kernel.random):
            kernel.push(kernel.now + delay, receiver, MESSAGE, self.name, what)

    def set_timer(self, key: Hashable, at: float) -> None:
        """Wake the node at a time of `clock()`; replaces an earlier timer of that key."""
        kernel = self._kernel
        due = (at - self._offset) / self._rate + NEVER_EARLY
        self._timers[key] = kernel.push(max(due, kernel.now), self, TIMER, key, None)

    def cancel_timer(self, key: Hashable) -> None:
        """Forget a timer; nothing happens when there is none."""
        self._timers.pop(key, None)

    def write(self, key: str, value: Any) -> None:
        """Write durably; `written` is called once it is. A crash before that loses it."""
        kernel = self._kernel
        low, high = self.write_delay
        kernel.push(kernel.now + kernel.random.uniform(low, high), self, WRITTEN, key, value)

    def boot(self) -> None:
        """Start a new life with the disk of the last one."""
        random = self._kernel.random
        self.life += 1
        self.up, self.paused = True, False
        self._timers.clear()
        self._backlog.clear()
        self._rate = 1 + random.uniform(-CLOCK_DRIFT, CLOCK_DRIFT)
        self._offset = random.uniform(0, CLOCK_SPREAD)
        self.node = self._boot(self)
        self.node.start()

    def handle(self, sequence: int, kind: str, a: Any, b: Any) -> bool:
        """Give one event to the node; false when it no longer concerns it."""
        if self.paused:
            if kind != MESSAGE or len(self._backlog) < RECEIVE_BUFFER:
                if kind == TIMER and self._timers.get(a) != sequence:
                    return False
                self._backlog.append((kind, a, b))
            return False
        if kind == MESSAGE:
            self.node.receive(a, b)
        elif kind == TIMER:
            if self._timers.get(a) != sequence:
                return False
            del self._timers[a]
            self.node.wake(a)
        else:
            ok = not (self.write_fails and self._kernel.random.random() < self.write_fails)
            if ok:
                self.disk[a] = b
            self.node.written(a, ok)
        return True

    def resume(self) -> None:
        """Go on after a pause: what came meanwhile is handled now, in the order it came."""
        kernel = self._kernel
        self.paused = False
        for kind, a, b in self._backlog:
            sequence = kernel.push(kernel.now, self, kind, a, b)
            if kind == TIMER:
                self._timers[a] = sequence
        self._backlog.clear()


class Kernel:
    """The virtual world of one run.

    `command` is told with a broken invariant so that a reader can repeat the run. Checks are
    called after every step with the name of the node that was touched ("" for scripted actions)
    and return None or a sentence that says what is broken.
    """

    def __init__(self, seed: int, network: Network | None = None, command: str = "") -> None:
        self.seed = seed
        self.now = 0.0
        self.steps = 0
        self.sent = 0
        self.random = Random(seed)  # noqa: S311 - a simulation, no secret
        self.network = network or Network()
        self.hosts: dict[str, Host] = {}
        self.checks: list[Callable[[str], str | None]] = []
        self._command = command
        self._queue: list[tuple[float, int, Host | None, int, str, Any, Any]] = []
        self._sequence = 0
        self._trace: deque[tuple[float, str, str, Any]] = deque(maxlen=TRACE_LENGTH)

    def add(self, name: str, boot: Callable[[Host], Node], at: float | None = None) -> Host:
        """Add a machine; its node boots now, or at a time of the kernel's clock."""
        host = self.hosts[name] = Host(self, name, boot)
        if at is None:
            host.boot()
        else:
            self.at(at, host.boot)
        return host

    def push(self, at: float, host: Host | None, kind: str, a: Any, b: Any) -> int:
        """Queue an event; events of one time are taken in the order they were queued."""
        self._sequence += 1
        life = host.life if host is not None else 0
        heappush(self._queue, (at, self._sequence, host, life, kind, a, b))
        return self._sequence

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Do something at a time of the kernel's clock (seconds, not before now)."""
        self.push(max(time, self.now), None, ACTION, action, None)

    def crash(self, name: str) -> None:
        """Kill a node at once: only what is on its disk stays."""
        host = self.hosts[name]
        host.up = False
        host.life += 1

    def restart(self, name: str) -> None:
        """Start a crashed node again from its disk (a running one is crashed first)."""
        self.crash(name)
        self.hosts[name].boot()

    def pause(self, name: str) -> None:
        """Stop a node as SIGSTOP does: its clock runs on, it does nothing."""
        self.hosts[name].paused = True

    def resume(self, name: str) -> None:
        """Let a paused node go on; nothing when it is down or runs."""
        host = self.hosts[name]
        if host.up and host.paused:
            host.resume()

    def run(self, until: float) -> None:
        """Take every step up to a time. Raises InvariantBroken at the first step that breaks."""
        queue, checks, trace = self._queue, self.checks, self._trace
        while queue and queue[0][0] <= until:
            at, sequence, host, life, kind, a, b = heappop(queue)
            self.now = at
            if host is None:
                a()
            elif host.life != life or not host.up or not host.handle(sequence, kind, a, b):
                continue
            self.steps += 1
            name = "" if host is None else host.name
            trace.append((at, name, kind, a))
            for check in checks:
                broken = check(name)
                if broken is not None:
                    raise InvariantBroken(self._told(broken))
        self.now = max(self.now, until)

    def run_until(self, done: Callable[[], bool], limit: float, step: float = 0.01) -> float:
        """Run until a condition holds, looked at every `step` seconds; the time it held.

        Raises InvariantBroken when it does not hold at the time `limit`.
        """
        while not done():
            if self.now >= limit:
                raise InvariantBroken(self._told(f"not reached by {limit:.3f} s"))
            self.run(min(limit, self.now + step))
        return self.now

    def _told(self, broken: str) -> str:
        last = "\n".join(
            f"  {at:.6f} {name or 'script'} {kind} {a}" for at, name, kind, a in self._trace
        )
        repeat = f"\nrepeat with: {self._command.format(seed=self.seed)}" if self._command else ""
        return (
            f"{broken}\nseed {self.seed}, step {self.steps}, {self.now:.6f} s; "
            f"last steps:\n{last}{repeat}"
        )
