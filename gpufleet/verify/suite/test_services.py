"""Slurm, etcd, Ray and the engine."""

from collections.abc import Callable

import pytest
from testinfra.host import Host

Examine = Callable[[Host], None]


@pytest.mark.check("slurm.munge")
def test_munge_credential_goes_round(host: Host, examine: Examine) -> None:
    """A munge credential goes round."""
    examine(host)


@pytest.mark.check("slurm.slurmd")
def test_slurmd_runs(host: Host, examine: Examine) -> None:
    """Slurmd runs."""
    examine(host)


@pytest.mark.check("slurm.state")
def test_slurm_has_the_node_in_service(host: Host, examine: Examine) -> None:
    """Slurm has the node in service."""
    examine(host)


@pytest.mark.check("slurm.memlock")
def test_jobs_may_lock_memory(host: Host, examine: Examine) -> None:
    """Jobs may lock memory, as RDMA needs."""
    examine(host)


@pytest.mark.check("slurm.controller")
def test_slurm_controllers_answer(host: Host, examine: Examine) -> None:
    """Slurm's controllers answer."""
    examine(host)


@pytest.mark.check("etcd.health")
def test_etcd_member_is_healthy(host: Host, examine: Examine) -> None:
    """The etcd member is healthy, and no alarm is raised."""
    examine(host)


@pytest.mark.check("ray.service")
def test_ray_runs(host: Host, examine: Examine) -> None:
    """Ray runs."""
    examine(host)


@pytest.mark.check("ray.joined")
def test_ray_has_the_node(host: Host, examine: Examine) -> None:
    """Ray's head has the node, with all its GPUs."""
    examine(host)


@pytest.mark.check("engine.ray")
def test_engine_has_the_pinned_ray(host: Host, examine: Examine) -> None:
    """The engine's environment has the pinned Ray."""
    examine(host)
