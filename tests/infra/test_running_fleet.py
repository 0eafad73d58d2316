"""A running local fleet is what its spec and contract say."""

import json
import stat
import subprocess
import time
from pathlib import Path

import pytest

from harness import Cluster

pytestmark = pytest.mark.fleet


def contract(cluster: Cluster) -> dict:
    return json.loads((cluster.inventory / ".fleet.json").read_text())


def test_every_node_is_a_booted_machine_of_its_own(fleet: Cluster) -> None:
    rows = fleet.nodes()
    assert list(rows) == ["infer-001", "infer-002", "train-001"]
    assert all(row["ok"] for row in rows.values())
    assert len({row["boot_id"] for row in rows.values()}) == 3
    identities = {
        fleet.ssh(name, "hostname; cat /etc/machine-id; cat /etc/gpufleet/provider-id")
        for name in rows
    }
    assert len(identities) == 3


def test_contract_states_what_the_stack_exports(fleet: Cluster) -> None:
    text = subprocess.run(
        ["pulumi", "stack", "output", "fleet", "--json", "--stack", fleet.name],
        cwd=Path(__file__).resolve().parents[2] / "infra",
        env=fleet.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(text) == contract(fleet)


def test_nodes_find_each_other_by_name(fleet: Cluster) -> None:
    for node in contract(fleet)["nodes"]:
        answer = fleet.ssh("train-001", f"getent hosts {node['name']}")
        assert answer.split()[0] == node["address"]
    script = "exec 3<>/dev/tcp/infer-002/22 && head -c 4 <&3"
    assert fleet.ssh("infer-001", f"timeout 5 bash -c '{script}'").startswith("SSH-")


def test_shared_mount_is_seen_by_all_and_scratch_by_one(fleet: Cluster) -> None:
    fleet.ssh("infer-001", "echo hello > /fsx/greeting; echo mine > /scratch/own")
    assert fleet.ssh("train-001", "cat /fsx/greeting") == "hello\n"
    assert fleet.ssh("train-001", "ls /scratch") == ""


def test_user_is_unprivileged_and_may_become_root(fleet: Cluster) -> None:
    assert fleet.ssh("infer-001", "id -un; sudo -n id -un").split() == ["fleet", "root"]


def test_key_of_the_fleet_is_private(fleet: Cluster) -> None:
    key = fleet.state / "ssh/id_ed25519"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert "PRIVATE KEY" not in json.dumps(contract(fleet))


def test_host_key_is_known_in_advance_and_checked(fleet: Cluster) -> None:
    config = fleet.state / "ssh/ssh_config"
    assert "StrictHostKeyChecking yes" in config.read_text()
    for node in contract(fleet)["nodes"]:
        seen = fleet.ssh(node["name"], "cat /etc/ssh/ssh_host_ed25519_key.pub")
        assert seen.split()[:2] == node["host_key"].split()


def test_node_sees_its_simulated_gpus_and_they_say_so(fleet: Cluster) -> None:
    for node in contract(fleet)["nodes"]:
        text = fleet.ssh(node["name"], "nvidia-smi -L")
        for gpu in node["gpus"]:
            assert gpu["uuid"] in text
        assert "simulated" in text.lower()
        assert all("simulated" in gpu["model"].lower() for gpu in node["gpus"])
    devices = fleet.ssh("infer-001", "ls -l /dev/nvidia0 /dev/nvidia1 /dev/nvidiactl")
    assert devices.count("crw-rw-rw-") == 3


def test_gpu_fault_is_injected_by_editing_the_description(fleet: Cluster) -> None:
    path = "/etc/gpufleet/simgpu.conf"
    fleet.ssh("infer-002", f"sudo cp {path} /tmp/keep")
    fleet.ssh("infer-002", f"sudo sed -i '/^\\[gpu 0\\]/a fault = lost' {path}")
    row = fleet.json("status", expect=1)["nodes"][1]
    assert not row["ok"]
    assert "GPUs not seen" in row["problem"]
    fleet.ssh("infer-002", f"sudo cp /tmp/keep {path}")
    assert fleet.nodes()["infer-002"]["ok"]


def test_preview_without_changes_says_so(fleet: Cluster) -> None:
    assert fleet.json("plan")["changes"] == []


def test_second_up_changes_nothing(fleet: Cluster) -> None:
    before = fleet.nodes()
    assert fleet.up()["done"] == []
    assert {x: y["boot_id"] for x, y in fleet.nodes().items()} == {
        x: y["boot_id"] for x, y in before.items()
    }


def test_ansible_reaches_every_node_through_the_contract(fleet: Cluster) -> None:
    root = Path(__file__).resolve().parents[2]
    (fleet.inventory / "gpufleet.yml").write_text("plugin: gpufleet\n")
    done = subprocess.run(
        ["ansible", "-i", str(fleet.inventory), "all", "-m", "ping"],
        cwd=root,
        env=fleet.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == 3


def test_nodes_have_a_way_to_web_ports_only(fleet: Cluster) -> None:
    rules = subprocess.run(
        ["nft", "list", "ruleset"], capture_output=True, text=True, check=True
    ).stdout
    assert "masquerade" in rules
    blocked = fleet.ssh(
        "infer-001",
        "timeout 2 bash -c '</dev/tcp/$(ip route | cut -d\" \" -f3 | head -1)/9' || echo no",
    )
    assert blocked.strip().endswith("no")


def test_status_is_quick(fleet: Cluster) -> None:
    began = time.monotonic()
    fleet.nodes()
    assert time.monotonic() - began < 20
