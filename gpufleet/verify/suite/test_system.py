"""The system, its memory and its storage."""

from collections.abc import Callable

import pytest
from testinfra.host import Host

Examine = Callable[[Host], None]


@pytest.mark.check("system.identity")
def test_node_was_configured_as_what_it_is(host: Host, examine: Examine) -> None:
    """The node was configured as what it is."""
    examine(host)


@pytest.mark.check("system.units")
def test_no_unit_has_failed(host: Host, examine: Examine) -> None:
    """No unit of systemd has failed."""
    examine(host)


@pytest.mark.check("system.reboot")
def test_no_reboot_is_asked_for(host: Host, examine: Examine) -> None:
    """No reboot is asked for."""
    examine(host)


@pytest.mark.check("system.guard")
def test_upgrades_leave_the_stack_alone(host: Host, examine: Examine) -> None:
    """Unattended upgrades leave driver, kernel and services alone."""
    examine(host)


@pytest.mark.check("system.clock")
def test_clock_is_right(host: Host, examine: Examine) -> None:
    """The clock is right."""
    examine(host)


@pytest.mark.check("memory.shm")
def test_shared_memory_is_large_enough(host: Host, examine: Examine) -> None:
    """Shared memory (/dev/shm) is large enough."""
    examine(host)


@pytest.mark.check("storage.shared")
def test_shared_storage_is_mounted(host: Host, examine: Examine) -> None:
    """Shared storage is mounted, for writing."""
    examine(host)


@pytest.mark.check("storage.writable")
def test_agents_may_write_checkpoints(host: Host, examine: Examine) -> None:
    """Agents may write their checkpoints."""
    examine(host)
