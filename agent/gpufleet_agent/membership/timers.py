"""Deadlines of the core, kept in one heap so that its host needs a single timer."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

type Key = tuple[str, Any]


class Timers:
    """Deadlines by key (a kind and what it is about). Setting a key again moves it."""

    def __init__(self) -> None:
        self._due: dict[Key, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._sequence = 0

    def set(self, key: Key, at: float) -> None:
        """Set or move a deadline."""
        self._sequence += 1
        self._due[key] = (at, self._sequence)
        heappush(self._heap, (at, self._sequence, key))

    def cancel(self, key: Key) -> None:
        """Drop a deadline, if there is one."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Drop them all."""
        self._due.clear()
        self._heap.clear()

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    @property
    def next_at(self) -> float | None:
        """The earliest deadline."""
        heap = self._heap
        while heap:
            at, sequence, key = heap[0]
            if self._due.get(key) == (at, sequence):
                return at
            heappop(heap)
        return None

    def pop(self, now: float) -> Key | None:
        """Take the earliest key that is due."""
        at = self.next_at
        if at is None or at > now:
            return None
        key = heappop(self._heap)[2]
        del self._due[key]
        return key

    def delay(self, seconds: float, concerns: Callable[[Key], bool]) -> None:
        """Move the deadlines of some keys into the future."""
        for key, (at, sequence) in self._due.items():
            if concerns(key):
                self._due[key] = (at + seconds, sequence)
        self._heap = [(at, sequence, key) for key, (at, sequence) in self._due.items()]
        heapify(self._heap)
