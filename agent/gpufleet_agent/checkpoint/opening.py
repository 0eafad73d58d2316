"""Opening a line on storage that may be away, faulty or slow."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet_agent.checkpoint.backoff import wait_seconds
from gpufleet_agent.checkpoint.errors import StorageAway, StorageFailed, StorageFault
from gpufleet_agent.checkpoint.files import Files
from gpufleet_agent.checkpoint.health import Condition
from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.place import Place, Settings
from gpufleet_agent.checkpoint.records import Format
from gpufleet_agent.checkpoint.recovery import Recovered
from gpufleet_agent.checkpoint.worker import Worker


@dataclass(frozen=True, slots=True)
class Opened:
    """A line, how its state was come by, and the thread that has it."""

    line: Line
    recovered: Recovered
    worker: Worker


def open_line(
    files: Files,
    place: Place,
    settings: Settings,
    epoch: int | None,
    versions: Format,
    fork_from: str | None,
) -> tuple[Line, Recovered]:
    """One try to open a line, with the state of another one when it is empty and to fork."""
    line, recovered = Line.open(files, place, settings, epoch=epoch, versions=versions)
    if fork_from is None or recovered.sessions.sequence:
        return line, recovered
    origin = Place(place.root, place.agent, fork_from, place.gpu)
    try:
        state = line.read_other(origin, epoch)
        if state is None:
            return line, recovered
        line.begin_with(state.sessions.view())
    except BaseException:
        line.close()
        raise
    state.notes.append(f"forked from {origin.folder}")
    return line, state


async def open_when_there(
    files: Files,
    place: Place,
    settings: Settings,
    epoch: int | None,
    versions: Format,
    fork_from: str | None,
    tell: Callable[[Condition, str], None],
) -> Opened:
    """Open a line: storage that is away is waited for, a fault is tried again a few times.

    A fault that stays raises `StorageFailed`; nothing is ever started afresh because of one.
    """
    worker = Worker("checkpoint-commit", asyncio.get_running_loop())
    faults = waits = 0
    try:
        while True:
            try:
                line, recovered = await worker.call(
                    lambda: open_line(files, place, settings, epoch, versions, fork_from)
                )
                return Opened(line, recovered, worker)
            except StorageAway as error:
                faults = 0
                tell(Condition.WAITING, str(error))
            except StorageFault as error:
                faults += 1
                if faults >= settings.attempts:
                    raise StorageFailed(error.path, error.number, faults) from error
                tell(Condition.WAITING, str(error))
            waits += 1
            await asyncio.sleep(
                wait_seconds(waits, settings.backoff_seconds, settings.longest_backoff_seconds)
            )
    except BaseException:
        worker.stop()
        raise
