"""How well this member itself is doing (Lifeguard's local health multiplier)."""

from gpufleet_agent.membership.constants import (
    AWARENESS_MAX,
    LAG_HALF_LIFE,
    LAG_IGNORED,
    LAG_MAX,
)


class Awareness:
    """A score of 0 (well) to AWARENESS_MAX - an overloaded member must be slow to judge others.

    Up: a probe failed and helpers were silent, too; somebody suspects us; our timers ran late.
    Down: a probe was answered. Besides, the lag: the worst lateness of our timers, slowly
    forgotten. Where processes starve, our own lateness tells how late the others may be.
    """

    def __init__(self) -> None:
        self.score = 0
        self._lag = 0.0
        self._lag_at = 0.0

    def add(self, change: int) -> None:
        """Change the score within its bounds."""
        self.score = min(AWARENESS_MAX, max(0, self.score + change))

    def scaled(self, seconds: float) -> float:
        """A time of our own, longer the worse we do."""
        return seconds * (self.score + 1)

    def ran_late(self, seconds: float, now: float) -> None:
        """A timer of ours came so late."""
        if seconds > LAG_IGNORED:
            self._lag = max(min(seconds, LAG_MAX) - LAG_IGNORED, self.lag(now))
            self._lag_at = now

    def lag(self, now: float) -> float:
        """The worst lateness in seconds, half as much after each LAG_HALF_LIFE."""
        if self._lag == 0.0:
            return 0.0
        return float(self._lag * 0.5 ** ((now - self._lag_at) / LAG_HALF_LIFE))
