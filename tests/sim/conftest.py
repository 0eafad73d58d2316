import subprocess
from pathlib import Path

import pytest

from gpufleet.simgpu import NodeDescription, describe
from simnode import SIM, SimNode, Type


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built as setup builds it."""
    out = tmp_path_factory.mktemp("nvml")
    subprocess.run(
        ["make", "-C", str(SIM / "nvml"), f"OUT={out}"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return out / "libnvidia-ml.so.1"


@pytest.fixture
def h200() -> NodeDescription:
    return describe("test", "gpu-001", Type())


@pytest.fixture
def node(library: Path, tmp_path: Path, h200: NodeDescription) -> SimNode:
    """A node of eight simulated H200."""
    node = SimNode(library, tmp_path / "simgpu.conf")
    node.write(h200)
    return node
