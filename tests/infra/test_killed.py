"""`gpufleet up` killed at any moment and run again ends in the same healthy fleet."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from harness import Cluster
from host import traces

pytestmark = pytest.mark.fleet

MOMENTS = 10


def killed_after(cluster: Cluster, seconds: float, *, everything: bool) -> None:
    """Start `up` and SIGKILL it after a while: alone, or with all its descendants."""
    process = cluster.start("up", cluster.name)
    deadline = time.monotonic() + seconds
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    victims = descendants(process.pid) if everything else []
    for pid in [process.pid, *victims]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def descendants(pid: int) -> list[int]:
    """Children of a process and theirs, as the kernel lists them now."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                for child in map(int, children.read().split()):
                    found += [child, *descendants(child)]
    return found


@pytest.mark.timeout(900)
def test_killed_at_random_moments_and_run_again(cluster: Cluster) -> None:
    seed = int(os.environ.get("GPUFLEET_SEED", random.SystemRandom().randrange(10**6)))
    print(f"reproduce with GPUFLEET_SEED={seed}")
    chosen = random.Random(seed)
    cluster.write_spec(infer=2, train=1)
    began = time.monotonic()
    cluster.up()
    whole = time.monotonic() - began
    for moment in range(MOMENTS):
        if moment % 3 == 2:
            cluster.down()
        else:
            counts = {"infer": chosen.randint(1, 3), "train": 1}
            cluster.write_spec(**counts)
        killed_after(cluster, chosen.uniform(0.1, whole), everything=moment % 2 == 0)
        cluster.write_spec(infer=2, train=1)
        cluster.up()
        rows = cluster.nodes()
        assert sorted(rows) == ["infer-001", "infer-002", "train-001"]
        assert all(row["ok"] for row in rows.values())
        assert machines_on_host(cluster) == sorted(rows)
        nodes = json.loads((cluster.inventory / ".fleet.json").read_text())["nodes"]
        assert len({node["address"] for node in nodes}) == 3
    cluster.down()
    assert traces(cluster) == []


@pytest.mark.timeout(300)
def test_down_killed_and_run_again_leaves_nothing(cluster: Cluster) -> None:
    cluster.write_spec(infer=2)
    cluster.up()
    process = cluster.start("down", cluster.name, "--yes")
    time.sleep(1.5)
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    cluster.down()
    assert traces(cluster) == []


def machines_on_host(cluster: Cluster) -> list[str]:
    """Machines that have anything on this host."""
    folders = sorted(os.listdir(cluster.state / "nodes"))
    prefix = f"gf.{cluster.name}."
    spaces = sorted(x.removeprefix(prefix) for x in os.listdir("/run/netns") if prefix in x)
    assert folders == spaces
    return folders
