"""Membership with 16 real processes over UDP on loopback: `python bench/membership_processes.py`.

Prints how long after kill -9 all others know, and how many live members are given up in a while
with 8 processes that use up the cores (seconds: the first argument, 60 by default). Two minutes.
"""

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agent"))

from gpufleet_agent.membership import Changed, Config, Facts, Membership, Status
from gpufleet_agent.membership.edge import Disk, UdpMember

MEMBERS, HOGS, KILLS, PORT = 16, 8, 5, 29400
DEADLINE = 20.0


def child(index: int) -> None:
    """One member; tells every change of status with the machine's monotonic time."""
    address = f"127.0.0.1:{PORT + index}"
    core = Membership(
        Config(f"p{index}", address, "bench", (f"127.0.0.1:{PORT}",)), Facts(), random.Random(index)
    )

    def tell(news: object) -> None:
        if isinstance(news, Changed):
            print(f"{time.monotonic():.4f} {news.name} {news.status.name}", flush=True)

    async def main() -> None:
        await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpMember(core, Disk(lambda: 0, lambda _life: None), tell),
            local_addr=("127.0.0.1", PORT + index),
        )
        await asyncio.Event().wait()

    asyncio.run(main())


class Group:
    """The processes and what they told."""

    def __init__(self, folder: Path) -> None:
        self.logs = [folder / f"p{i}" for i in range(MEMBERS)]
        self.members = []
        for index, log in enumerate(self.logs):
            with log.open("w") as out:
                self.members.append(
                    subprocess.Popen([sys.executable, __file__, "--child", str(index)], stdout=out)
                )

    def told(self, status: Status, since: float) -> list[tuple[float, str, str]]:
        """(time, who, of whom) of each change to a status."""
        found = []
        for index, log in enumerate(self.logs):
            for line in log.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    at, name, what = line.split()
                    if what == status.name and float(at) >= since:
                        found.append((float(at), f"p{index}", name))
        return found

    def kill(self, index: int) -> float:
        """Seconds from kill -9 until all that run know."""
        killed = time.monotonic()
        self.members[index].send_signal(signal.SIGKILL)
        self.members[index].wait()
        running = sum(member.poll() is None for member in self.members)

        def knowing() -> list[float]:
            return [at for at, _, name in self.told(Status.DEAD, killed) if name == f"p{index}"]

        wait(lambda: len(knowing()) == running)
        return max(knowing()) - killed


def wait(done: Callable[[], bool]) -> None:
    limit = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > limit:
            raise TimeoutError("not reached")
        time.sleep(0.1)


def measure(folder: Path, seconds: float) -> None:
    group = Group(folder)
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        wait(lambda: len(group.told(Status.ALIVE, 0)) == MEMBERS * (MEMBERS - 1))
        detected = [group.kill(3 + i) for i in range(KILLS)]
        print(
            f"kill -9, idle machine: all know after {min(detected):.3f} to {max(detected):.3f} s "
            f"({KILLS} kills)"
        )
        hogs += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]
        began = time.monotonic()
        time.sleep(seconds)  # the time that is measured
        print(
            f"{HOGS} hogs for {seconds:.0f} s: {len(group.told(Status.SUSPECT, began))} "
            f"suspicions, {len(group.told(Status.DEAD, began))} false deaths"
        )
        print(f"kill -9 beside {HOGS} hogs: all know after {group.kill(3 + KILLS):.3f} s")
    finally:
        for process in (*group.members, *hogs):
            process.kill()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            measure(Path(made), float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
