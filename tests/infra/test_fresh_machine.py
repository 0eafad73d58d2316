"""From a fresh machine to a fleet: a Debian 13 node, with systemd, plays the machine.

It has neither compiler nor debootstrap nor a Python 3.12, only a Pulumi on PATH (building one takes
minutes, and is what setup does on the host itself). The fleet it makes lives inside it.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet.paths import repo_root
from harness import Cluster

pytestmark = pytest.mark.fleet

ENVIRONMENT = "export GPUFLEET_STATE=/scratch/state GPUFLEET_CACHE=/scratch/cache"


@pytest.mark.timeout(900)
def test_fresh_machine_gets_a_fleet_and_is_clean_after_it(cluster: Cluster) -> None:
    cluster.write_spec(infer=1)
    cluster.up()
    _bring_checkout(cluster)

    def machine(script: str) -> str:
        return cluster.run(
            "ssh", cluster.name, "infer-001", f"{ENVIRONMENT}; cd /scratch/repo; {script}",
            timeout=800,
        )  # fmt: skip

    machine("sudo apt-get -q update > /dev/null; sudo apt-get -q install -y make 2> /dev/null")
    said = machine("sudo -E make up 2>&1")
    assert "gpufleet setup, into /scratch/cache:" in said
    assert "local is up" in said
    report = json.loads(machine("sudo -E bin/gpufleet status local --json"))
    assert report["ok"]
    assert len(report["nodes"]) == 3

    machine("sudo -E make down 2>&1")
    assert (
        machine("ip netns; sudo nft list tables; ls -A /scratch/state 2> /dev/null || true") == ""
    )
    assert machine("find /sys/fs/cgroup -name '*gpufleet*'; systemctl is-system-running") == (
        "running\n"
    )


def _bring_checkout(cluster: Cluster) -> None:
    """Put what a clone would hold onto the machine, on a disk that can carry nodes."""
    scratch = cluster.state / "nodes/infer-001/scratch"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repo_root(),
        capture_output=True,
        check=True,
    ).stdout
    for name in listed.decode().rstrip("\0").split("\0"):
        target = scratch / "repo" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(repo_root() / name, target)
    engine = shutil.which("pulumi")
    assert engine is not None
    shutil.copy2(Path(engine).resolve(), scratch / "pulumi")
    cluster.ssh("infer-001", "sudo install /scratch/pulumi /usr/local/bin/pulumi")
    # An address range of its own, though the two fleets cannot see each other.
    spec = scratch / "repo/inventories/local/cluster.yaml"
    spec.write_text(spec.read_text().replace("10.42.1.0/24", "10.42.2.0/24"))
