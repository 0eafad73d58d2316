"""Nodes are replaced one by one, and not at all once one of them failed to come back."""

import threading


class RollingStopped(RuntimeError):
    """A replacement was not begun since an earlier one failed or the run was cancelled."""


class RollingGate:
    """Lets only one resource be in the middle of a replacement at a time.

    The engine replaces independent resources side by side. Here a replacement is announced by its
    diff, begins with the delete of the old resource and ends with the create of the new one, all
    within one run of the engine.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._announced: set[str] = set()
        self._rolling: str | None = None
        self._stopped: str | None = None

    def announce(self, urn: str) -> None:
        """Note that this resource is about to be replaced."""
        with self._changed:
            self._announced.add(urn)

    def begin(self, urn: str) -> None:
        """Wait for the turn of a replacement; returns at once for a plain delete.

        Raises RollingStopped where the turn will not come.
        """
        with self._changed:
            if urn not in self._announced:
                return
            self._changed.wait_for(lambda: self._rolling is None or self._stopped is not None)
            if self._stopped is not None:
                raise RollingStopped(f"kept as it was: {self._stopped}")
            self._rolling = urn

    def end(self, urn: str, *, failed: bool) -> None:
        """Give the turn on, if it was this resource's; after a failure nobody gets it."""
        with self._changed:
            self._announced.discard(urn)
            if self._rolling != urn:
                return
            self._rolling = None
            if failed:
                name = urn.rsplit("::", 1)[-1]
                self._stopped = f"the replacement of {name} failed"
            self._changed.notify_all()

    def stop(self, reason: str) -> None:
        """Begin no further replacement."""
        with self._changed:
            self._stopped = self._stopped or reason
            self._changed.notify_all()
