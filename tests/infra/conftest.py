"""Local clusters for tests; each is taken down again, and nothing of it may be left."""

import os
import re
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from harness import Cluster
from infra.local import cgroup
from infra.local.sweep import NAMESPACES, sweep

_numbers = count(os.getpid() % 97)


def _make(folder: Path) -> Cluster:
    number = next(_numbers)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Cluster(
        name=f"t{os.getpid()}x{number}",
        cidr=f"10.213.{number % 250}.0/24",
        port=port,
        folder=folder,
    )


def _owner_alive(pid: str) -> bool:
    try:
        return b"pytest" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="session", autouse=True)
def _debris_of_killed_runs() -> None:
    """Remove clusters of test runs that were killed: their names tell who made them."""
    spaces = [path.name for path in NAMESPACES.iterdir()] if NAMESPACES.is_dir() else []
    groups = cgroup.unified_root() / cgroup.GROUP
    names = {x.split(".")[1] for x in spaces if x.startswith("gf.")}
    names |= {x.name for x in groups.iterdir() if x.is_dir()} if groups.is_dir() else set()
    for name in names:
        made_by = re.fullmatch(r"t(\d+)x\d+", name)
        if made_by and not _owner_alive(made_by[1]):
            sweep(name, [])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster for one test."""
    made = _make(tmp_path)
    yield made
    made.down()


@pytest.fixture
def other_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A second cluster beside the first."""
    made = _make(tmp_path)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster of three nodes that a module's tests look at."""
    made = _make(tmp_path_factory.mktemp("fleet"))
    made.write_spec(infer=2, train=1)
    made.up()
    yield made
    made.down()
