"""The asyncio front of a line: appends that return once durable, and snapshots beside them.

Group commit without a fixed delay: while one fsync runs, appends gather, and the next commit takes
all of them. State changes only when a commit is known to be durable.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from gpufleet_agent.checkpoint.backoff import wait_seconds
from gpufleet_agent.checkpoint.errors import (
    CheckpointError,
    Closed,
    Fenced,
    StorageAway,
    StorageDenied,
    StorageError,
    StorageFailed,
    StorageFault,
    Unacknowledged,
)
from gpufleet_agent.checkpoint.files import Files, PosixFiles
from gpufleet_agent.checkpoint.header import Header
from gpufleet_agent.checkpoint.health import Condition, Health
from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.opening import Opened, open_when_there
from gpufleet_agent.checkpoint.place import Place, Settings
from gpufleet_agent.checkpoint.records import FORMAT, Format, Record, Turn, end_record, turn_record
from gpufleet_agent.checkpoint.recovery import Recovered
from gpufleet_agent.checkpoint.sessions import Sessions
from gpufleet_agent.checkpoint.snapshotter import Snapshotter
from gpufleet_agent.checkpoint.worker import Worker

type Tell = Callable[[Condition, str], None]


@dataclass(slots=True, eq=False)
class _Append:
    record: Record
    key: tuple[str, str] | None
    outcome: asyncio.Future[int]
    deadline: float


class CheckpointStore:
    """A line of checkpoints, opened. One event loop uses it; it has two threads of its own."""

    def __init__(self, opened: Opened, settings: Settings, tell: Tell) -> None:
        self._line: Line = opened.line
        self._recovered: Recovered = opened.recovered
        self._worker: Worker = opened.worker
        self._settings, self._tell = settings, tell
        self._sessions: Sessions = opened.recovered.sessions
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Append] = []
        self._open: deque[_Append] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._pending: dict[tuple[str, str], asyncio.Future[int]] = {}
        self._running = False
        self._failures = 0
        self._refusal: CheckpointError | None = None
        self._retry_at = 0.0
        self._closing = False
        self._condition, self._reason = Condition.READY, ""
        self._snapshotter = Snapshotter(
            opened.line, opened.recovered.sessions, settings, self._loop, self._snapshot_told
        )

    @classmethod
    async def open(
        cls,
        place: Place,
        settings: Settings | None = None,
        *,
        files: Files | None = None,
        epoch: int | None = None,
        versions: Format = FORMAT,
        fork_from: str | None = None,
        tell: Tell = lambda _condition, _reason: None,
    ) -> Self:
        """Take a line over and restore its sessions.

        Waits while the share is away, tries again what may pass, and raises the typed error of
        what does not. `epoch` is the number of the assignment that makes this agent the owner: an
        older one than the line has seen is refused with `Fenced`. `fork_from` names a line of the
        same agent whose state an empty line begins with; that line's owner is fenced off.
        `tell` hears of each change of the condition, with the reason.
        """
        chosen = settings or Settings()
        opened = await open_when_there(
            files or PosixFiles(), place, chosen, epoch, versions, fork_from, tell
        )
        store = cls(opened, chosen, tell)
        tell(Condition.READY, "a fresh line" if opened.recovered.fresh else "")
        return store

    @property
    def recovered(self) -> Recovered:
        """How the state was come by."""
        return self._recovered

    @property
    def former_owner(self) -> Header | None:
        """The fence before this one: which agent and GPU had the line, under which epoch."""
        return self._line.fence.former

    @property
    def sessions(self) -> Sessions:
        """The sessions with every acknowledged turn; not to be changed by the reader."""
        return self._sessions

    @property
    def fence(self) -> int:
        """The number under which this owner writes."""
        return self._line.fence.head.fence

    async def append(self, session: str, turn: Turn) -> int:
        """Keep a turn; returns its index in the session once it is durable.

        A turn whose key the session has already is not kept twice. Raises `BadInput`, `Fenced`,
        `Closed`, `Unacknowledged` when the deadline passed, or the typed error of the storage: then
        the turn was refused and is not in the session.
        """
        record = turn_record(session, turn)
        key = (session, turn.key) if turn.key else None
        if key is not None:
            known = self._sessions.get(session)
            index = None if known is None else known.index_of(turn.key)
            if index is not None:
                return index
            if key in self._pending and not self._pending[key].done():
                return await asyncio.shield(self._pending[key])
        return await self._enqueue(record, key)

    async def end(self, session: str) -> None:
        """Forget a session and its turns; returns once that is durable."""
        await self._enqueue(end_record(session), None)

    def _enqueue(self, record: Record, key: tuple[str, str] | None) -> asyncio.Future[int]:
        outcome: asyncio.Future[int] = self._loop.create_future()
        now = self._loop.time()
        if self._refusal is not None and now < self._retry_at:
            outcome.set_exception(self._refusal)
            return outcome
        append = _Append(record, key, outcome, now + self._settings.append_seconds)
        self._waiting.append(append)
        self._open.append(append)
        if self._timer is None:
            self._timer = self._loop.call_at(append.deadline, self._expire)
        if key is not None:
            self._pending[key] = outcome
        if not self._running:
            self._commit()
        return outcome

    def _expire(self) -> None:
        """Give up the appends whose deadline has passed; they are in the order of deadlines."""
        self._timer = None
        now = self._loop.time()
        while self._open and (self._open[0].outcome.done() or self._open[0].deadline <= now):
            append = self._open.popleft()
            if not append.outcome.done():
                self._fail(append, Unacknowledged(self._line.folder, self._settings.append_seconds))
        if self._open:
            self._timer = self._loop.call_at(self._open[0].deadline, self._expire)

    def _finish(self, append: _Append) -> None:
        if append.key is not None and self._pending.get(append.key) is append.outcome:
            del self._pending[append.key]

    def _fail(self, append: _Append, error: BaseException) -> None:
        self._finish(append)
        if not append.outcome.done():
            append.outcome.set_exception(error)

    def _commit(self) -> None:
        """Begin to write all that waits; those that gave up meanwhile are left out."""
        batch = []
        for append in self._waiting:
            if append.outcome.done():
                self._finish(append)
            else:
                batch.append(append)
        self._waiting.clear()
        self._running = bool(batch)
        if batch:
            records = [append.record for append in batch]
            self._worker.submit(
                lambda: self._line.commit(records),
                lambda _first, error: self._committed(batch, error),
            )

    def _committed(self, batch: list[_Append], error: Exception | None) -> None:
        if error is not None:
            self._not_committed(batch, error)
            return
        for append in batch:
            index = self._sessions.apply(append.record, self._line.place.gpu)
            self._finish(append)
            if not append.outcome.done():
                append.outcome.set_result(index)
        while self._open and self._open[0].outcome.done():
            self._open.popleft()
        if self._failures and not self._closing:
            self._failures, self._refusal = 0, None
            self._become(Condition.READY, "")
        self._snapshotter.advance(len(batch))
        self._commit()

    def _not_committed(self, batch: list[_Append], error: Exception) -> None:
        settings = self._settings
        self._failures += 1
        wait = wait_seconds(
            self._failures, settings.backoff_seconds, settings.longest_backoff_seconds
        )
        if isinstance(error, StorageAway) or (
            isinstance(error, StorageFault) and self._failures < settings.attempts
        ):
            self._become(Condition.DEGRADED, str(error))
            self._waiting[:0] = batch
            self._loop.call_later(wait, self._commit)
            return
        if isinstance(error, StorageFault):
            failed = StorageFailed(error.path, error.number, self._failures)
            failed.__cause__ = error
            error = failed
        self._retry_at = self._loop.time() + wait
        if isinstance(error, StorageError) and not isinstance(error, StorageDenied):
            self._become(Condition.DEGRADED, str(error))
        else:
            self._retry_at = float("inf")
            self._become(
                Condition.FENCED if isinstance(error, Fenced) else Condition.DENIED, str(error)
            )
        self._refusal = error if isinstance(error, CheckpointError) else None
        self._refuse(batch + self._waiting, error)
        self._running = False

    def _refuse(self, appends: list[_Append], error: BaseException) -> None:
        for append in appends:
            self._fail(append, error)
        self._waiting.clear()
        while self._open and self._open[0].outcome.done():
            self._open.popleft()

    def _become(self, condition: Condition, reason: str) -> None:
        if (condition, reason) != (self._condition, self._reason):
            self._condition, self._reason = condition, reason
            self._tell(condition, reason)

    def _snapshot_told(self, error: CheckpointError | None) -> None:
        if isinstance(error, Fenced):
            self._refusal, self._retry_at = error, float("inf")
            self._become(Condition.FENCED, str(error))
        elif self._condition in (Condition.READY, Condition.DEGRADED) and not self._failures:
            condition = Condition.READY if error is None else Condition.DEGRADED
            self._become(condition, "" if error is None else f"no snapshot: {error}")

    def health(self) -> Health:
        """How the store is now."""
        return Health(
            self._condition,
            self._reason,
            time.monotonic() - self._snapshotter.last_at,
            self._snapshotter.since,
            len(self._open),
            self._snapshotter.warnings,
        )

    async def snapshot(self) -> None:
        """Write a snapshot now; raises the typed error when it fails."""
        await self._snapshotter.write()

    async def close(self) -> None:
        """Refuse further appends, wait for those that were taken, and let go of the files."""
        self._closing = True
        self._refusal, self._retry_at = Closed(self._line.folder), float("inf")
        taken = [append.outcome for append in self._open if not append.outcome.done()]
        await asyncio.gather(*taken, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        await self._snapshotter.close()
        await self._worker.call(self._line.close)
        self._worker.stop()
        self._become(Condition.CLOSED, "")
