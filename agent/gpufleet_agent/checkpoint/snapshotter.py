"""When a snapshot is written, and what follows when it cannot be."""

import asyncio
import time
from collections.abc import Callable

from gpufleet_agent.checkpoint.backoff import wait_seconds
from gpufleet_agent.checkpoint.errors import CheckpointError, Fenced
from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.place import Settings, space_warning
from gpufleet_agent.checkpoint.sessions import Sessions
from gpufleet_agent.checkpoint.worker import Worker


class Snapshotter:
    """Writes a snapshot every so many records, on a thread of its own, one at a time.

    A failed snapshot loses nothing: the journal keeps growing, and it is tried again with
    back-off. `last_at` is the monotonic time of the last good one (of the opening before it).
    """

    def __init__(
        self,
        line: Line,
        sessions: Sessions,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[CheckpointError | None], None],
    ) -> None:
        self._line, self._sessions, self._settings = line, sessions, settings
        self._loop, self._told = loop, told
        self._worker = Worker("checkpoint-snapshot", loop)
        self._due = settings.first_snapshot(line.place.agent)
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._closed = False
        self.since = 0
        self.last_at = time.monotonic()
        self.warnings: tuple[str, ...] = ()

    def advance(self, records: int) -> None:
        """Count records that became durable; begins a snapshot when one is due."""
        self.since += records
        if self.since >= self._due and self._task is None and not self._closed:
            self._task = self._loop.create_task(self._until_written())

    async def _until_written(self) -> None:
        settings = self._settings
        try:
            while True:
                try:
                    await self.write()
                    return
                except Fenced:
                    return
                except CheckpointError:
                    self._failures += 1
                await asyncio.sleep(
                    wait_seconds(
                        self._failures, settings.backoff_seconds, settings.longest_backoff_seconds
                    )
                )
        finally:
            self._task = None

    async def write(self) -> None:
        """Write one now; raises the typed error when it fails."""
        view, counted = self._sessions.view(), self.since
        try:
            size = await self._worker.call(lambda: self._line.snapshot(view))
        except CheckpointError as error:
            self._told(error)
            raise
        self.last_at = time.monotonic()
        self.since -= counted
        self._due, self._failures = self._settings.every, 0
        try:
            free = await self._worker.call(self._tidy)
        except CheckpointError as error:
            # The snapshot is good; what is superfluous is removed with the next one.
            self._told(error)
            if isinstance(error, Fenced):
                raise
            return
        warning = space_warning(size, self._settings.keep, free)
        self.warnings = () if warning is None else (warning,)
        self._told(None)

    def _tidy(self) -> int:
        self._line.prune()
        return self._line.free()

    async def close(self) -> None:
        """Give up waiting to try again, and end after what is being written."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._worker.call(lambda: None)
        self._worker.stop()
