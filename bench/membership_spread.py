"""What membership costs and how fast it is, simulated: `python bench/membership_spread.py`.

Two to three minutes on one core. Network: 0.2 to 2 ms, no loss unless a row says otherwise. A round
is a gossip period of 0.5 s. Times are simulated; only the last two rows are of this machine.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agent"))

from gpufleet_agent.sim import Kernel, Network
from gpufleet_agent.sim.spread import (
    KnownCluster,
    all_rows_spread_rounds,
    detection_seconds,
    spread_rounds,
    traffic,
)

WARM_UP = 1.0  # seconds, until nothing of the start is on its way


def cluster(seed: int, count: int, loss: float = 0.0) -> KnownCluster:
    made = KnownCluster(Kernel(seed, Network(loss=loss)), count)
    made.kernel.run(WARM_UP)
    return made


def row(what: str, members: int, figure: str) -> None:
    print(f"{what:<44} {members:>5}  {figure}", flush=True)


def spread(count: int, runs: int, loss: float = 0.0) -> None:
    made = cluster(1, count, loss)
    rounds = [spread_rounds(made, f"n{i * count // runs}") for i in range(runs)]
    row(
        f"one row changes, {loss:.0%} loss: all know (rounds)",
        count,
        f"median {statistics.median(rounds):.1f}, max {max(rounds):.1f}",
    )


def quiet_and_busy(count: int, seconds: float, limit: float) -> None:
    made = cluster(2, count)
    kernel = made.kernel
    quiet = traffic(made, lambda: kernel.run(kernel.now + seconds))
    row(
        "nothing changes: sent a member and 0.5 s",
        count,
        f"{quiet.messages:.1f} datagrams (most {quiet.most_messages:.0f}), "
        f"{quiet.bytes / 1024:.1f} KiB",
    )
    rounds: list[float] = []
    busy = traffic(made, lambda: rounds.append(all_rows_spread_rounds(made, limit)))
    row("every row changes at once: all know all (rounds)", count, f"{rounds[0]:.1f}")
    row(
        "every row changes at once: sent a member and 0.5 s",
        count,
        f"{busy.messages:.1f} datagrams (most {busy.most_messages:.0f}), "
        f"{busy.bytes / 1024:.1f} KiB, largest {busy.largest} B",
    )


def detection(count: int, runs: int, loss: float = 0.0) -> None:
    seconds = []
    for seed in range(runs):
        made = cluster(seed, count, loss)
        seconds.append(detection_seconds(made, f"n{seed % count}"))
        others = {of for _, _, of in made.deaths} - {f"n{seed % count}"}
        assert not others, others
    row(
        f"kill -9, {loss:.0%} loss: all know (s)",
        count,
        f"median {statistics.median(seconds):.3f}, max {max(seconds):.3f} of {runs}",
    )


def speed() -> None:
    class Echo:
        def __init__(self, host):
            self.start = self.wake = self.written = lambda *_: None
            self.receive = host.send

    kernel = Kernel(1)
    for i in range(16):
        kernel.add(f"n{i}", Echo)
    for i in range(64):
        kernel.hosts[f"n{i % 16}"].send(f"n{(i + 1) % 16}", "x")
    began = time.process_time()
    kernel.run(2)
    row("kernel alone", 16, f"{kernel.steps / (time.process_time() - began):,.0f} events/s")
    made = cluster(1, 16)
    steps, began = made.kernel.steps, time.process_time()
    made.kernel.run(6)
    row(
        "kernel with membership",
        16,
        f"{(made.kernel.steps - steps) / (time.process_time() - began):,.0f} events/s",
    )


def main() -> None:
    for count, runs in ((16, 20), (128, 12), (1000, 3)):
        spread(count, runs)
    spread(128, 8, loss=0.1)
    for count, seconds in ((16, 4), (128, 2), (1000, 0.5)):
        quiet_and_busy(count, seconds, limit=30)
    detection(16, 100)
    detection(16, 30, loss=0.05)
    detection(128, 3)
    speed()


if __name__ == "__main__":
    main()
