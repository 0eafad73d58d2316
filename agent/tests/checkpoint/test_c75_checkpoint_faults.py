"""A fault of the share is never taken for an empty one."""

import asyncio
import errno

import pytest
from checkpoint_scripts import PLACE, ROOT, fresh_disk, turns_of

from gpufleet_agent.checkpoint import (
    PERMANENT,
    CheckpointStore,
    Condition,
    Damaged,
    Line,
    Settings,
    StorageDenied,
    StorageFailed,
    Turn,
)
from gpufleet_agent.checkpoint.errors import CheckpointError, StorageError
from gpufleet_agent.checkpoint.names import MARKER
from gpufleet_agent.checkpoint.records import turn_record
from gpufleet_agent.checkpoint.simulated_disk import SimulatedDisk

QUICK = Settings(backoff_seconds=0.001, longest_backoff_seconds=0.002)


def with_a_turn() -> SimulatedDisk:
    disk = fresh_disk()
    line, _ = Line.open(disk, PLACE)
    line.commit([turn_record("s", Turn("1", b""))])
    line.close()
    disk.calls = 0
    return disk


def failing(number: int, times: float, calls: tuple[str, ...] = ("read", "list", "exists")):  # type: ignore[no-untyped-def]
    left = times

    def fault(_call: int, name: str, _path: str) -> OSError | None:
        nonlocal left
        if name in calls and left > 0:
            left -= 1
            return OSError(number, "injected")
        return None

    return fault


@pytest.mark.parametrize(("number", "times"), [(errno.ESTALE, 1), (errno.EIO, 2)])
async def test_c75_a_fault_that_passes_is_got_over(number: int, times: int) -> None:
    for skip in range(12):
        disk = with_a_turn()
        fault = failing(number, times)
        disk.fault = lambda call, name, path, fault=fault, skip=skip: (
            fault(call, name, path) if call >= skip else None
        )
        store = await CheckpointStore.open(PLACE, QUICK, files=disk)
        assert turns_of(store.sessions) == {"s": ["1"]}
        assert not store.recovered.fresh
        await store.close()


async def test_c75_a_fault_that_stays_fails_loudly_and_starts_nothing_afresh() -> None:
    disk = with_a_turn()
    before = list(disk.walk())
    disk.fault = failing(errno.EIO, float("inf"))
    with pytest.raises(StorageFailed, match="nothing was started afresh") as caught:
        await CheckpointStore.open(PLACE, QUICK, files=disk)
    assert caught.value.exit_status == 74
    disk.fault = None
    assert list(disk.walk()) == before


async def test_c75_a_share_that_is_away_is_waited_for() -> None:
    disk = with_a_turn()
    disk.fault = failing(errno.ENOTCONN, float("inf"))
    heard: list[tuple[Condition, str]] = []
    opening = asyncio.create_task(
        CheckpointStore.open(PLACE, QUICK, files=disk, tell=lambda *what: heard.append(what))
    )
    async with asyncio.timeout(10):
        while len(heard) < 12:
            await asyncio.sleep(0.001)
    assert not opening.done()
    assert {condition for condition, _ in heard} == {Condition.WAITING}
    assert "waiting for storage" in heard[0][1]
    disk.fault = None
    store = await opening
    assert turns_of(store.sessions) == {"s": ["1"]}
    await store.close()


async def test_c75_an_unmounted_share_is_waited_for_not_begun_on() -> None:
    disk = with_a_turn()
    text = disk.read(f"{ROOT}/{MARKER}")
    disk.wipe(f"{ROOT}/{MARKER}")
    opening = asyncio.create_task(CheckpointStore.open(PLACE, QUICK, files=disk))
    await asyncio.sleep(0.02)
    assert not opening.done()
    disk.put(f"{ROOT}/{MARKER}", text)
    store = await opening
    assert not store.recovered.fresh
    await store.close()


async def test_c75_only_an_empty_line_on_a_verified_share_starts_afresh_and_says_so() -> None:
    heard: list[tuple[Condition, str]] = []
    store = await CheckpointStore.open(
        PLACE, files=fresh_disk(), tell=lambda *what: heard.append(what)
    )
    assert store.recovered.fresh
    assert heard == [(Condition.READY, "a fresh line")]
    await store.close()


def test_c75_a_line_whose_files_were_removed_does_not_start_afresh() -> None:
    disk = with_a_turn()
    for path in list(disk.walk()):
        if "journal" in path:
            disk.wipe(path)
    with pytest.raises(Damaged, match="none of its files is there"):
        Line.open(disk, PLACE)
    for path in list(disk.walk()):
        if "fence" in path:
            disk.wipe(path)
    with pytest.raises(Damaged, match="records but no fence"):
        Line.open(disk, PLACE)


async def test_c75_a_refusal_is_not_tried_again_and_names_user_and_path() -> None:
    disk = with_a_turn()
    tries = 0

    def fault(_call: int, name: str, _path: str) -> OSError | None:
        nonlocal tries
        if name == "list":
            tries += 1
            return OSError(errno.EACCES, "denied")
        return None

    disk.fault = fault
    with pytest.raises(StorageDenied, match=r"^/fsx/agent-1/main: uid \d+ may not do this"):
        await CheckpointStore.open(PLACE, QUICK, files=disk)
    assert tries == 1


async def test_c75_a_turn_waits_for_a_share_that_comes_back() -> None:
    disk = with_a_turn()
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    disk.fault = failing(errno.ENOTCONN, 8, ("sync",))
    assert await store.append("s", Turn("2", b"")) == 1
    assert store.health().condition is Condition.READY
    await store.close()
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["1", "2"]}


async def test_c75_a_share_unmounted_under_an_owner_is_waited_for_and_fences_nobody_off() -> None:
    disk = with_a_turn()
    store = await CheckpointStore.open(PLACE, QUICK, files=disk)
    mounted, disk._root = disk._root, SimulatedDisk()._root
    disk.make_folder(ROOT)
    append = asyncio.create_task(store.append("s", Turn("2", b"")))
    async with asyncio.timeout(10):
        while store.health().condition is not Condition.DEGRADED:
            await asyncio.sleep(0.001)
    assert "the marker is missing" in store.health().reason
    disk._root = mounted
    assert await append == 1
    await store.close()


def test_c58_a_restart_helps_or_the_exit_status_says_that_it_does_not() -> None:
    def kinds(kind: type[CheckpointError]) -> set[type[CheckpointError]]:
        return {kind}.union(*(kinds(below) for below in kind.__subclasses__()))

    permanent = {kind.__name__ for kind in kinds(CheckpointError) if kind.exit_status in PERMANENT}
    assert permanent == {"StorageDenied", "Damaged", "VersionRefused", "BadInput", "Fenced"}
    assert issubclass(StorageDenied, StorageError)
