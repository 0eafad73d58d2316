"""How a store is, for the agent's health page and its metrics."""

from dataclasses import dataclass
from enum import StrEnum


class Condition(StrEnum):
    """What a store can do now."""

    WAITING = "waiting"
    READY = "ready"
    DEGRADED = "degraded"
    DENIED = "denied"
    FENCED = "fenced"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Health:
    """A store at a moment.

    `reason` says why it is not ready ("" when it is). Ages are seconds; the age of the snapshot
    counts from the opening until the first one is written. `warnings` do not stop anything.
    """

    condition: Condition
    reason: str
    snapshot_age: float
    records_since_snapshot: int
    waiting: int
    warnings: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """Gauges by their Prometheus names."""
        return {
            "gpufleet_checkpoint_ready": float(self.condition is Condition.READY),
            "gpufleet_checkpoint_snapshot_age_seconds": self.snapshot_age,
            "gpufleet_checkpoint_records_since_snapshot": float(self.records_since_snapshot),
            "gpufleet_checkpoint_waiting_appends": float(self.waiting),
        }
