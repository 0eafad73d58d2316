"""The limit of locked memory, which services do not take from limits.conf."""

import json

from rolefleet import RoleFleet

DROP_INS = {
    "slurmd": "/etc/systemd/system/slurmd.service.d/10-gpufleet.conf",
    "docker": "/etc/systemd/system/docker.service.d/10-gpufleet.conf",
    "ray": "/etc/systemd/system/gpufleet-ray.service",
}


def section(text: str, name: str) -> list[str]:
    return text.split(f"[{name}]\n", 1)[1].split("\n[", 1)[0].splitlines()


def test_c45_units_that_start_jobs_and_engines_lock_what_they_like(laid: RoleFleet) -> None:
    for name, path in DROP_INS.items():
        assert "LimitMEMLOCK=infinity" in section(laid.read(path), "Service"), name


def test_c45_a_job_has_the_limit_of_the_daemon_not_of_who_submits(laid: RoleFleet) -> None:
    rows = laid.read("/etc/slurm/slurm.conf").splitlines()
    assert "PropagateResourceLimitsExcept=MEMLOCK" in rows


def test_c45_containers_lock_what_they_like(laid: RoleFleet) -> None:
    limits = json.loads(laid.read("/etc/docker/daemon.json"))["default-ulimits"]
    assert limits == {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}}


def test_c45_people_who_log_in_have_it_too(laid: RoleFleet) -> None:
    rows = laid.read("/etc/security/limits.d/90-gpufleet.conf").splitlines()
    assert {"* soft memlock unlimited", "* hard memlock unlimited"} <= set(rows)
