"""The simulated network: who reaches whom, how late, how often, how damaged."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass
class Network:
    """Faults of the network; every field may be changed while a simulation runs.

    Times are seconds, chances are 0..1 a datagram. Reordering comes from the spread of the
    latency and, for datagrams drawn by `straggle`, from up to `straggle_by` on top of it.
    """

    latency: tuple[float, float] = (0.0002, 0.002)
    loss: float = 0.0
    duplicate: float = 0.0
    straggle: float = 0.0
    straggle_by: float = 0.05
    damage: float = 0.0
    damaged: Callable[[Any, Random], Any] | None = None
    blocked: set[tuple[str, str]] = field(default_factory=set)

    def block(self, source: str, target: str) -> None:
        """Lose everything from source to target; the other way stays open."""
        self.blocked.add((source, target))

    def partition(self, *groups: Iterable[str]) -> None:
        """Lose everything between different groups, both ways."""
        sides = [list(group) for group in groups]
        for i, side in enumerate(sides):
            for other in sides[i + 1 :]:
                for a in side:
                    for b in other:
                        self.blocked.add((a, b))
                        self.blocked.add((b, a))

    def heal(self) -> None:
        """Open every way that was blocked."""
        self.blocked.clear()

    def arrivals(
        self, source: str, target: str, payload: Any, random: Random
    ) -> list[tuple[float, Any]]:
        """What arrives of one datagram: (delay in seconds, payload) for every copy."""
        if self.blocked and (source, target) in self.blocked:
            return []
        draw = random.random
        if self.loss and draw() < self.loss:
            return []
        low, high = self.latency
        delay = low + (high - low) * draw()
        if self.straggle and draw() < self.straggle:
            delay += self.straggle_by * draw()
        if self.damage and self.damaged is not None and draw() < self.damage:
            payload = self.damaged(payload, random)
        copies = [(delay, payload)]
        if self.duplicate and draw() < self.duplicate:
            copies.append((low + (high - low) * draw() + self.straggle_by * draw(), payload))
        return copies
