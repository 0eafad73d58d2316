"""Fixtures of field cases that look at what roles lay on a node."""

import os
from collections.abc import Iterator

import pytest
import rolefleet


@pytest.fixture(scope="session")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rolefleet.RoleFleet]:
    """Every role on one node, twice; only looked at, as many tests share it."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace is made by root only")
    with rolefleet.made(tmp_path_factory.mktemp("laid")) as made:
        yield made
