"""What tests of modules and roles have in common."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Example contracts are shared with the unit tests.
sys.path.append(str(Path(__file__).with_name("unit")))

from nodebox import NodeBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NodeBox]:
    """A node that is thrown away after the test."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace is made by root only")
    with NodeBox(tmp_path / "node") as made:
        yield made
