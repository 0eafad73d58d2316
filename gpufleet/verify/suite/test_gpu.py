"""Driver, fabric, GPUs and containers."""

from collections.abc import Callable

import pytest
from testinfra.host import Host

Examine = Callable[[Host], None]


@pytest.mark.check("driver.packages")
def test_driver_packages_are_those_of_the_lock(host: Host, examine: Examine) -> None:
    """Driver packages are those of the lock, and held."""
    examine(host)


@pytest.mark.check("driver.loaded")
def test_loaded_driver_is_the_installed_one(host: Host, examine: Examine) -> None:
    """The loaded driver is the installed one."""
    examine(host)


@pytest.mark.check("fabric.manager")
def test_fabric_manager_is_of_the_drivers_version(host: Host, examine: Examine) -> None:
    """The fabric manager runs and is of the driver's version."""
    examine(host)


@pytest.mark.check("gpu.present")
def test_gpus_of_the_contract_answer(host: Host, examine: Examine) -> None:
    """The GPUs of the contract answer, and no others."""
    examine(host)


@pytest.mark.check("gpu.errors")
def test_gpus_have_no_errors(host: Host, examine: Examine) -> None:
    """No memory errors, remaps, broken fabric or slowed clocks."""
    examine(host)


@pytest.mark.check("gpu.xid")
def test_driver_reported_no_errors(host: Host, examine: Examine) -> None:
    """The driver reported no errors since boot."""
    examine(host)


@pytest.mark.check("container.toolkit")
def test_toolkit_is_that_of_the_lock(host: Host, examine: Examine) -> None:
    """Container toolkit packages are those of the lock, and held."""
    examine(host)


@pytest.mark.check("container.cdi")
def test_cdi_names_every_gpu(host: Host, examine: Examine) -> None:
    """The CDI specification names every GPU."""
    examine(host)


@pytest.mark.check("container.docker")
def test_docker_is_the_pinned_one(host: Host, examine: Examine) -> None:
    """Docker runs and is of the pinned version."""
    examine(host)


@pytest.mark.check("container.daemon")
def test_docker_gives_containers_their_gpus(host: Host, examine: Examine) -> None:
    """Docker's configuration gives containers their GPUs."""
    examine(host)
