"""What a local fleet costs: `python bench/local_fleet.py` as root; about two minutes.

Makes clusters of its own (state and inventory in a temporary folder, addresses in 10.214.0.0/16)
and prints one row a figure. Ratios are of runs made right after one another on this host.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/infra")]

from harness import Cluster  # noqa: E402
from infra.local.cgroup import MachineGroup, machines  # noqa: E402


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def cluster(folder: Path, number: int) -> Cluster:
    """A cluster of the benchmark's own."""
    name = f"b{os.getpid() % 100000}x{number}"
    return Cluster(name, f"10.214.{number}.0/24", 18400 + number, folder)


def check_seconds(folder: Path, nodes: int) -> float:
    """Whole-process time of `gpufleet check` on a spec of that many nodes; median of five."""
    made = cluster(folder, 200)
    made.cidr = "10.214.128.0/20"
    made.write_spec(infer=nodes - nodes // 2, train=nodes // 2)
    command = [sys.executable, "-m", "gpufleet.cli", "check", made.name, "--json"]

    def once() -> None:
        done = subprocess.run(
            command, cwd=ROOT, env=made.environment, capture_output=True, check=False
        )
        report = json.loads(done.stdout)
        assert report["nodes"] == nodes, report

    return statistics.median(timed(once) for _ in range(5))


def main() -> None:
    """Measure and print."""
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as temporary:
        folder = Path(temporary)
        small, large = cluster(folder, 1), cluster(folder, 2)
        try:
            ratios = []
            for _ in range(3):
                small.write_spec(infer=2, train=1)
                large.write_spec(infer=4, train=2)
                three, six = timed(small.up), timed(large.up)
                ratios.append(six / three)
                rows["up of 3 nodes, warm caches, s"] = three
                rows["up of 6 nodes, warm caches, s"] = six
                large.down()
                if len(ratios) < 3:
                    small.down()
            rows["6 nodes : 3 nodes, median of 3 pairs"] = statistics.median(ratios)
            rows["preview without changes, s, median of 5"] = statistics.median(
                timed(lambda: small.json("plan")) for _ in range(5)
            )
            rows["up with nothing to do, s"] = timed(small.up)
            MachineGroup(small.name, "infer-001").kill()
            rows["up after a node was killed, s"] = timed(small.up)
            small.nodes()
            rows["idle memory a node (PSS), MB, largest"] = max(
                MachineGroup(small.name, node).memory_bytes() / 1e6 for node in machines(small.name)
            )
            rows["down of 3 nodes, s"] = timed(small.down)
        finally:
            small.down()
            large.down()
        rows["check of 1,000 nodes, s, median of 5"] = check_seconds(folder, 1000)
    for name, value in rows.items():
        print(f"{name:<45} {value:8.2f}")


if __name__ == "__main__":
    main()
