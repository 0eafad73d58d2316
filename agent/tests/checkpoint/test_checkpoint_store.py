"""The asyncio front: group commit, keys, deadlines, and what health says."""

import asyncio
import threading
from pathlib import Path

import pytest
from checkpoint_scripts import PLACE, fresh_disk

from gpufleet_agent.checkpoint import (
    BadInput,
    CheckpointStore,
    Closed,
    Condition,
    Fenced,
    Line,
    Place,
    PosixFiles,
    Settings,
    Turn,
    Unacknowledged,
    prepare_root,
)
from gpufleet_agent.checkpoint.records import turn_record
from gpufleet_agent.checkpoint.simulated_disk import SimulatedDisk


class Gate:
    """A fault that holds every sync of a journal while it is shut: a slow disk."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.syncs = 0

    def __call__(self, number: int, name: str, path: str) -> OSError | int | None:
        if name == "sync" and "journal" in path:
            self.syncs += 1
            assert self.open.wait(10)
        return None


def gated() -> tuple[SimulatedDisk, Gate]:
    disk, gate = fresh_disk(), Gate()
    disk.fault = gate
    return disk, gate


async def opened(disk: SimulatedDisk, settings: Settings | None = None) -> CheckpointStore:
    return await CheckpointStore.open(PLACE, settings, files=disk)


async def until(condition: object) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(10):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


async def test_turns_that_wait_share_one_sync() -> None:
    disk, gate = gated()
    store = await opened(disk)
    gate.syncs = 0
    gate.open.clear()
    first = asyncio.create_task(store.append("s", Turn("0", b"")))
    await until(lambda: gate.syncs == 1)
    others = [asyncio.create_task(store.append("s", Turn(f"{n}", b""))) for n in range(1, 41)]
    await asyncio.sleep(0)
    assert not first.done()
    gate.open.set()
    assert await asyncio.gather(first, *others) == list(range(41))
    assert gate.syncs == 2
    await store.close()


async def test_a_key_is_kept_once_while_under_way_and_after() -> None:
    disk, _ = gated()
    store = await opened(disk)
    same = [store.append("s", Turn("k", b"1")) for _ in range(5)]
    assert await asyncio.gather(*same) == [0] * 5
    assert await store.append("s", Turn("k", b"1")) == 0
    assert await store.append("other", Turn("k", b"1")) == 0
    assert await store.append("s", Turn("", b"2")) == 1
    assert await store.append("s", Turn("", b"2")) == 2
    await store.close()
    again = await opened(disk)
    assert await again.append("s", Turn("k", b"1")) == 0
    found = again.sessions.get("s")
    assert found is not None
    assert [turn.body for turn in found.turns()] == [b"1", b"2", b"2"]
    await again.close()


async def test_a_turn_past_its_deadline_may_be_kept_and_is_kept_once() -> None:
    disk, gate = gated()
    store = await opened(disk, Settings(append_seconds=0.05))
    gate.open.clear()
    with pytest.raises(Unacknowledged, match=r"within 0\.05 s and may be kept or not"):
        await store.append("s", Turn("k", b""))
    gate.open.set()
    assert await store.append("s", Turn("k", b"")) == 0
    assert store.sessions.turns == 1
    await store.close()
    again = await opened(disk)
    assert again.sessions.turns == 1
    await again.close()


async def test_a_session_that_ended_is_forgotten_for_good() -> None:
    disk, _ = gated()
    store = await opened(disk)
    await store.append("s", Turn("k", b"secret"))
    await store.append("t", Turn("k", b""))
    await store.end("s")
    assert store.sessions.get("s") is None
    await store.snapshot()
    await store.close()
    again = await opened(disk)
    assert [session.id for session in again.sessions] == ["t"]
    await again.close()


async def test_snapshots_come_every_so_many_turns_and_restore_alone() -> None:
    disk = fresh_disk()
    store = await opened(disk, Settings(every=10))
    for number in range(60):
        await store.append(f"s{number % 7}", Turn(f"{number}", b"x", 3, 4))
    await until(lambda: store.health().records_since_snapshot < 10)
    await store.close()
    again = await opened(disk)
    assert again.recovered.snapshot is not None
    assert again.recovered.snapshot.sequence >= 50
    assert again.recovered.replayed <= 10
    assert again.sessions.turns == 60
    first = again.sessions.get("s0")
    assert first is not None
    assert (first.prompt_tokens, first.completion_tokens) == (27, 36)
    await again.close()


async def test_the_first_snapshots_of_many_agents_are_spread() -> None:
    due = {Settings().first_snapshot(f"agent-{number}") for number in range(128)}
    assert len(due) > 35
    assert min(due) >= 1
    assert max(due) <= 50


async def test_a_fenced_owner_refuses_at_once_and_says_so() -> None:
    disk = fresh_disk()
    heard: list[Condition] = []
    store = await CheckpointStore.open(
        PLACE, files=disk, tell=lambda condition, _reason: heard.append(condition)
    )
    await store.append("s", Turn("1", b""))
    taker, _ = Line.open(disk, Place("/fsx", "agent-1", "main", "GPU-2"))
    with pytest.raises(Fenced):
        await store.append("s", Turn("2", b""))
    calls = disk.calls
    with pytest.raises(Fenced):
        await store.append("s", Turn("3", b""))
    assert disk.calls == calls
    assert store.health().condition is Condition.FENCED
    assert heard == [Condition.READY, Condition.FENCED]
    assert store.sessions.turns == 1
    taker.commit([turn_record("s", Turn("2", b""))])
    await store.close()


async def test_closing_waits_for_what_was_taken_and_refuses_the_rest() -> None:
    disk, gate = gated()
    store = await opened(disk)
    gate.open.clear()
    taken = asyncio.create_task(store.append("s", Turn("1", b"")))
    unkeyed = asyncio.create_task(store.append("s", Turn("", b"")))
    await until(lambda: gate.syncs >= 2)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    with pytest.raises(Closed):
        await store.append("s", Turn("2", b""))
    gate.open.set()
    await closing
    assert sorted(await asyncio.gather(taken, unkeyed)) == [0, 1]
    assert store.health().condition is Condition.CLOSED


async def test_a_real_folder_works_as_the_simulated_one(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "agent-1")
    prepare_root(PosixFiles(), str(tmp_path))
    for life in range(3):
        store = await CheckpointStore.open(place, Settings(every=5))
        assert store.sessions.turns == 20 * life
        assert store.fence == life + 1
        await asyncio.gather(
            *(store.append("s", Turn(f"{life}-{number}", b"x")) for number in range(20))
        )
        await store.snapshot()
        await store.close()
    folder = tmp_path / "agent-1/main"
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_settings_and_names_that_are_not_allowed_are_all_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        Settings(every=0, keep=0, append_seconds=0)
    for field in (
        "checkpoint.every is 0",
        "checkpoint.keep is 0",
        "checkpoint.append_seconds is 0",
    ):
        assert field in str(caught.value)
    for place in (("fsx", "a", "b"), ("/fsx", "../a", "b"), ("/fsx", "a", "")):
        with pytest.raises(BadInput):
            Place(*place)
