"""A full share ruins nothing that was there, is told of, and is got over without a restart."""

import asyncio
import errno
from collections.abc import Callable

import pytest
from checkpoint_scripts import PLACE, fresh_disk, turns_of

from gpufleet_agent.checkpoint import (
    CheckpointStore,
    Condition,
    Line,
    Settings,
    StorageFailed,
    StorageFull,
    Turn,
)
from gpufleet_agent.checkpoint.place import space_warning
from gpufleet_agent.checkpoint.records import turn_record

QUICK = Settings(backoff_seconds=0.001, longest_backoff_seconds=0.002, every=10**9)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def used(disk) -> int:  # type: ignore[no-untyped-def]
    return sum(len(disk._file(path).now) for path in disk.walk())


def test_c74_a_snapshot_that_does_not_fit_leaves_the_two_old_ones_and_no_half_file() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE)
    for number in range(3):
        record = turn_record("s", Turn(f"{number}", bytes(40_000)))
        line.commit([record])
        state.sessions.apply(record, "")
        if number < 2:
            line.snapshot(state.sessions.view())
            line.prune()
    before = [path for path in disk.walk() if path.endswith(".ckpt")]
    disk.capacity = used(disk) + 10_000
    with pytest.raises(StorageFull) as caught:
        line.snapshot(state.sessions.view())
    assert caught.value.needed > 120_000
    assert caught.value.free == 10_000
    assert "agent-1/main" in caught.value.path
    assert [path for path in disk.walk() if path.endswith((".ckpt", ".tmp"))] == before
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["0", "1", "2"]}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "sync", "create", "sync_folder"])
async def test_c74_a_turn_that_does_not_fit_is_refused_and_the_next_one_kept(
    number: int, call: str
) -> None:
    disk = fresh_disk()
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    await store.append("s", Turn("1", b"x"))
    if call in ("create", "sync_folder"):
        store._line._leave_segment()
    disk.fault = lambda _n, name, _p: OSError(number, "full") if name == call else None
    with pytest.raises(StorageFull):
        await store.append("s", Turn("2", b"x"))
    assert store.sessions.turns == 1
    assert store.health().condition is Condition.DEGRADED
    assert "no space" in store.health().reason
    disk.fault = None
    await until(lambda: store._loop.time() >= store._retry_at)
    assert await store.append("s", Turn("3", b"x")) == 1
    assert store.health().condition is Condition.READY
    await store.close()
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["1", "3"]}


async def test_c74_short_writes_are_gone_on_with() -> None:
    disk = fresh_disk()
    disk.fault = lambda _n, name, _p: 7 if name == "write" else None
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    await store.append("s", Turn("1", bytes(300)))
    await store.snapshot()
    await store.close()
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["1"]}


async def test_c74_a_failed_snapshot_is_tried_again_while_turns_go_on() -> None:
    disk = fresh_disk()
    settings = Settings(every=5, backoff_seconds=0.001, longest_backoff_seconds=0.002)
    store = await CheckpointStore.open(PLACE, settings, files=disk)
    failures = 0

    def fault(_number: int, name: str, path: str) -> OSError | None:
        nonlocal failures
        if ".ckpt" in path and name == "sync":
            failures += 1
            return OSError(errno.ENOSPC, "full")
        return None

    disk.fault = fault
    for number in range(20):
        await store.append("s", Turn(f"{number}", b""))
    await until(lambda: failures >= 3)
    health = store.health()
    assert health.condition is Condition.DEGRADED
    assert "no snapshot" in health.reason
    assert health.records_since_snapshot == 20
    assert health.snapshot_age > 0
    disk.fault = None
    await until(lambda: store.health().condition is Condition.READY)
    assert store.health().records_since_snapshot < 5
    assert store.health().metrics()["gpufleet_checkpoint_ready"] == 1
    await store.close()


async def test_c74_after_a_failed_sync_nothing_of_the_old_segment_is_counted_on() -> None:
    """The system may have dropped the pages: the turn is written again, elsewhere."""
    disk = fresh_disk()
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    left = 1

    def fault(_number: int, name: str, path: str) -> OSError | None:
        nonlocal left
        if name == "sync" and "journal" in path and left:
            left -= 1
            return OSError(errno.EIO, "lost")
        return None

    disk.fault = fault
    assert await store.append("s", Turn("1", b"x")) == 0
    segments = [path for path in disk.walk() if "journal" in path]
    assert len(segments) == 2
    for seed in range(8):
        _, recovered = Line.open(disk.after_crash(seed), PLACE)
        assert turns_of(recovered.sessions) == {"s": ["1"]}
    await store.close()


async def test_c74_a_fault_that_stays_fails_loudly() -> None:
    disk = fresh_disk()
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    disk.fault = lambda _n, name, _p: OSError(errno.EIO, "bad") if name == "sync" else None
    with pytest.raises(StorageFailed, match="3 times in a row"):
        await store.append("s", Turn("1", b"x"))
    await store.close()


async def test_c74_a_share_too_small_for_one_more_generation_is_warned_of() -> None:
    assert space_warning(40, 2, 40) is None
    warning = space_warning(40, 2, 39)
    assert warning is not None
    assert "need 120 bytes of 40 each, 119 are there" in warning
    disk = fresh_disk()
    store = await CheckpointStore.open(PLACE, files=disk)
    await store.append("s", Turn("1", bytes(5000)))
    disk.capacity = used(disk) + 6000
    await store.snapshot()
    assert store.health().warnings
    await store.close()
