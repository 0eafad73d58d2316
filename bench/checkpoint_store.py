"""What checkpoints cost, on the disk under a folder: `python bench/checkpoint_store.py [FOLDER]`.

Prints the time that one turn waits to be durable at 1 and 64 clients beside the disk's own
fdatasync of as many bytes, measured in the same minute; the restore of 1,000 sessions of 20 turns;
and the acknowledged turns lost over 200 SIGKILLs (`--kills`). About a minute.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AGENT = Path(__file__).resolve().parent.parent / "agent"
sys.path.insert(0, str(AGENT))

from gpufleet_agent.checkpoint import (  # noqa: E402
    CheckpointStore,
    Place,
    PosixFiles,
    Turn,
    prepare_root,
)

BODY = os.urandom(900)
TURNS = 2000
SESSIONS, LENGTH = 1000, 20
RESTORE_BAR, ADDED_BAR = 1.0, 0.2e-3


def figures(times: list[float]) -> str:
    """Median and 99th percentile in milliseconds."""
    ordered = sorted(times)
    return (
        f"p50 {statistics.median(ordered) * 1e3:.3f} ms  "
        f"p99 {ordered[int(len(ordered) * 0.99)] * 1e3:.3f} ms"
    )


def raw_sync(folder: Path) -> list[float]:
    """Seconds of each write and fdatasync of one turn's bytes, as C programs would do it."""
    times = []
    path = folder / "raw"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for _ in range(TURNS):
            began = time.perf_counter()
            os.write(descriptor, BODY)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return times


async def appends(folder: Path, clients: int) -> tuple[list[float], float]:
    """Seconds that each turn waited, and turns a second."""
    place = Place(str(folder), f"clients-{clients}")
    store = await CheckpointStore.open(place)
    times: list[float] = []

    async def client(number: int) -> None:
        for turn in range(TURNS // clients if clients == 1 else TURNS * 4 // clients):
            began = time.perf_counter()
            await store.append(f"s{number}", Turn(f"{number}-{turn}", BODY))
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    took = time.perf_counter() - began
    await store.close()
    return times, len(times) / took


async def raw_sync_on_a_thread(folder: Path) -> list[float]:
    """The same, waited for by an event loop that is not to stand still meanwhile."""
    loop = asyncio.get_running_loop()
    times = []
    path = folder / "raw"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write() -> None:
        os.write(descriptor, BODY)
        os.fdatasync(descriptor)

    try:
        with ThreadPoolExecutor(1) as thread:
            for _ in range(TURNS):
                began = time.perf_counter()
                await loop.run_in_executor(thread, write)
                times.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return times


async def restore(folder: Path) -> tuple[float, int]:
    """Seconds from the opening of a line to its sessions, and how many turns they have."""
    place = Place(str(folder), "restored", gpu="GPU-1")
    store = await CheckpointStore.open(place)
    for turn in range(LENGTH):
        await asyncio.gather(
            *(store.append(f"s{n}", Turn(f"{n}-{turn}", BODY)) for n in range(SESSIONS))
        )
    await store.close()
    began = time.perf_counter()
    store = await CheckpointStore.open(Place(str(folder), "restored", gpu="GPU-2"))
    took = time.perf_counter() - began
    turns = store.sessions.turns
    await store.close()
    return took, turns


async def write_until_killed(folder: str, life: int) -> None:
    """Append from 8 clients for ever; a line on stdout for each acknowledged turn."""
    store = await CheckpointStore.open(Place(folder, "killed"))

    async def client(number: int) -> None:
        turn = 0
        while True:
            key = f"{life}-{number}-{turn}"
            await store.append(f"s{number}", Turn(key, BODY))
            os.write(1, f"{key}\n".encode())
            turn += 1

    await asyncio.gather(*map(client, range(8)))


async def kills(folder: Path, count: int) -> tuple[int, int, int]:
    """Acknowledged turns, those of them that were lost, and kept ones that nobody sent."""
    acknowledged: set[str] = set()
    chance = random.Random(7)
    for life in range(count):
        arguments = [sys.executable, __file__, str(folder), "--life", str(life)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as told:
            lines = [told.readline()]
            await asyncio.sleep(chance.uniform(0, 0.06))
            process.kill()
            lines += told.readlines()
        process.wait()
        acknowledged.update(line.decode().strip() for line in lines if line.endswith(b"\n"))
    store = await CheckpointStore.open(Place(str(folder), "killed"))
    kept = [turn.key for session in store.sessions for turn in session.turns()]
    await store.close()
    assert len(kept) == len(set(kept))
    strange = [key for key in kept if int(key.split("-")[0]) >= count]
    return len(acknowledged), len(acknowledged - set(kept)), len(strange)


async def main(folder: Path, count: int) -> None:
    prepare_root(PosixFiles(), str(folder))
    print(f"disk of {folder}, turns of {len(BODY)} bytes")
    own = raw_sync(folder)
    print(f"the disk's own write + fdatasync      {figures(own)}")
    floor = await raw_sync_on_a_thread(folder)
    print(f"the same from an event loop, a thread {figures(floor)}")
    one, _ = await appends(folder, 1)
    again = raw_sync(folder)
    print(f"append, 1 client                      {figures(one)}")
    print(f"the disk's own, again                 {figures(again)}")
    disk = statistics.median(own + again)
    added = statistics.median(one)
    print(
        f"  turn waits p50 {added * 1e3:.3f} ms (bar {ADDED_BAR * 1e3} ms: "
        f"{'held' if added <= ADDED_BAR else 'not held'}), of it the disk {disk * 1e3:.3f} ms, "
        f"the thread {(statistics.median(floor) - disk) * 1e3:.3f} ms, "
        f"the store {(added - statistics.median(floor)) * 1e3:.3f} ms"
    )
    many, rate = await appends(folder, 64)
    print(f"append, 64 clients                    {figures(many)}  {rate:.0f} turns/s")
    took, turns = await restore(folder)
    print(
        f"restore of {turns} turns of {SESSIONS} sessions on another GPU: {took:.3f} s "
        f"(bar {RESTORE_BAR} s: {'held' if took <= RESTORE_BAR else 'not held'})"
    )
    sent, lost, strange = await kills(folder, count)
    print(f"{count} SIGKILLs: {sent} acknowledged turns, {lost} lost, {strange} invented")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="where to measure (a temporary folder)")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--life", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.life is not None:
        asyncio.run(write_until_killed(chosen.folder, chosen.life))
    else:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as made:
            asyncio.run(main(Path(made), chosen.kills))
