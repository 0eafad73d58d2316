"""Ansible sees the nodes of the contract, in the groups that switch roles on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import contracts
import pytest

from gpufleet import groups
from gpufleet.fleet import FleetError, UnknownNodeError, validate, write_fleet

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def run(tool: str, *args: str, home: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """One of Ansible's tools with the product's configuration and a home of its own."""
    environment = {
        key: x for key, x in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHONPATH"))
    }
    environment |= {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(home / "ansible-home"),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [str(BIN / tool), *args],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def inventory(tmp_path: Path, contract: dict[str, Any] | None, extra: str = "") -> Path:
    """An inventory folder with all that one holds in use."""
    folder = tmp_path / "inventories/demo"
    (folder / "agents").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "group_vars/training").mkdir(parents=True)
    (folder / "agents/reader.yaml").write_text("kind: AIAgent\n")
    (folder / "files/munge.key").write_bytes(b"\x00\xff")
    (folder / "group_vars/training/main.yml").write_text("from_group_vars: 7\n")
    (folder / "notes.md").write_text("# notes\n")
    shutil.copy(ROOT / "inventories/local/cluster.yaml", folder / "cluster.yaml")
    (folder / "gpufleet.yml").write_text(f"plugin: gpufleet\n{extra}")
    if contract is not None:
        write_fleet(folder / ".fleet.json", validate(contract))
    return folder


def listing(tmp_path: Path, folder: Path) -> dict[str, Any]:
    """What `ansible-inventory --list` says, without a word of warning."""
    done = run("ansible-inventory", "-i", str(folder), "--list", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout, object_hook=plain)
    return found


def plain(value: dict[str, Any]) -> Any:
    """Ansible marks text from an inventory as never to be evaluated; the text itself."""
    return value.get("__ansible_unsafe", value)


def test_groups_and_variables_of_a_fleet(tmp_path: Path) -> None:
    found = listing(tmp_path, inventory(tmp_path, contracts.contract()))
    everyone = ["infer-001", "infer-002", "train-001"]
    members = {name: group["hosts"] for name, group in found.items() if "hosts" in group}
    assert members == {
        "etcd": everyone,
        "fabric_ethernet": everyone,
        "gpu_h200": everyone,
        "gpu_nodes": everyone,
        "inference": ["infer-001", "infer-002"],
        "nvswitch": everyone,
        "pool_infer": ["infer-001", "infer-002"],
        "pool_train": ["train-001"],
        "provider_local": everyone,
        "simulated_gpus": everyone,
        "slurm_compute": everyone,
        "slurm_controller": ["train-001"],
        "training": ["train-001"],
    }
    host = found["_meta"]["hostvars"]["train-001"]
    assert host["ansible_host"] == "10.42.9.4"
    assert host["ansible_user"] == "fleet"
    assert host["ansible_host_key_checking"] is True
    assert host["ansible_ssh_common_args"].startswith("-F /srv/demo/ssh/ssh_config ")
    assert host["from_group_vars"] == 7
    assert host["gpufleet_cluster"] == "demo"
    assert host["gpufleet_gpus"] == contracts.contract()["nodes"][2]["gpus"]
    assert host["gpufleet_vcpus"] == contracts.contract()["nodes"][2]["vcpus"]
    assert host["gpufleet_memory_mib"] == contracts.contract()["nodes"][2]["memory_mib"]
    for fact in ("nics", "mounts", "scratch", "partition", "pool", "failure_domain", "provider_id"):
        assert host[f"gpufleet_{fact}"] == contracts.contract()["nodes"][2][fact]


def test_graph_needs_no_python_path_and_no_working_folder(tmp_path: Path) -> None:
    folder = inventory(tmp_path, contracts.contract())
    done = run("ansible-inventory", "-i", str(folder), "--graph", home=tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "|--@slurm_controller:\n  |  |--train-001" in done.stdout


def test_no_fleet_yet_is_said_with_the_command_and_stops_a_play(tmp_path: Path) -> None:
    folder = inventory(tmp_path, None)
    for tool, *args in (
        ("ansible-inventory", "--graph"),
        ("ansible", "all", "-m", "ping"),
    ):
        done = run(tool, "-i", str(folder), *args, home=tmp_path)
        assert done.returncode != 0
        wanted = f"no fleet yet at {folder}/.fleet.json: run `gpufleet up demo`"
        assert wanted in done.stderr
        assert "Traceback" not in done.stderr


def test_every_problem_of_a_contract_is_shown(tmp_path: Path) -> None:
    folder = inventory(tmp_path, None)
    broken = contracts.contract()
    broken["nodes"][0]["partition"] = "batch"
    broken["nodes"][1]["adress"] = broken["nodes"][1].pop("address")
    (folder / ".fleet.json").write_text(json.dumps(broken))
    done = run("ansible-inventory", "-i", str(folder), "--graph", home=tmp_path)
    assert done.returncode != 0
    for text in ("nodes[0].partition", "did you mean address?", "nodes[1].address: is missing"):
        assert text in done.stderr


def test_contract_may_lie_elsewhere_and_controllers_be_named(tmp_path: Path) -> None:
    folder = inventory(
        tmp_path, None, "fleet: ../shared.json\ncontrollers: [infer-002, train-001]\n"
    )
    write_fleet(folder.parent / "shared.json", contracts.fleet())
    found = listing(tmp_path, folder)
    assert found["slurm_controller"]["hosts"] == ["infer-002", "train-001"]


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ("controllers: [train-01]\n", "did you mean train-001?"),
        ("controllers: [train-001, train-001]\n", "a node stands twice"),
        ("controler: [train-001]\n", "did you mean controllers?"),
    ],
)
def test_mistake_in_the_configuration_is_said(tmp_path: Path, extra: str, text: str) -> None:
    done = run(
        "ansible-inventory",
        "-i",
        str(inventory(tmp_path, contracts.contract(), extra)),
        "--graph",
        home=tmp_path,
    )
    assert done.returncode != 0
    assert text in done.stderr


def test_plugin_is_documented(tmp_path: Path) -> None:
    done = run("ansible-doc", "-t", "inventory", "--json", "gpufleet", home=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)["gpufleet"]
    assert sorted(document["doc"]["options"]) == ["controllers", "fleet", "plugin"]
    assert "plugin: gpufleet" in document["examples"]


def test_configuration_is_valid_and_uses_nothing_deprecated(tmp_path: Path) -> None:
    done = run("ansible-config", "validate", "-t", "all", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deprecat" not in (done.stdout + done.stderr).lower()


def test_local_inventory_says_that_it_is_ours(tmp_path: Path) -> None:
    text = (ROOT / "inventories/local/gpufleet.yml").read_text()
    assert "plugin: gpufleet" in text.splitlines()


def test_host_key_checking_is_never_switched_off() -> None:
    fleet = contracts.fleet()
    args = str(groups.variables(fleet, fleet.nodes[0])["ansible_ssh_common_args"])
    assert "StrictHostKeyChecking=yes" in args
    assert 'UserKnownHostsFile="/srv/demo/ssh/known_hosts"' in args
    assert "HostKeyAlias=infer-001" in args
    assert "host_key_checking = true" in (ROOT / "ansible.cfg").read_text()


def test_rebuilt_machine_never_gets_the_shared_connection_of_the_old() -> None:
    old = contracts.fleet(contracts.node("a-001", 2))
    new = contracts.fleet(contracts.node("a-001", 2, provider_id="i-2"))
    other = contracts.fleet(contracts.node("a-001", 2), cluster="other")
    paths = {groups.variables(x, x.nodes[0])["ansible_control_path"] for x in (old, new, other)}
    assert len(paths) == 3
    # A path of a Unix socket holds about a hundred characters.
    assert all(len(str(path) % {"directory": "/root/.ansible/cp"}) < 60 for path in paths)


@pytest.mark.parametrize(
    ("model", "group"),
    [
        ("NVIDIA H200 (simulated)", "gpu_h200"),
        ("NVIDIA H100 80GB HBM3", "gpu_h100"),
        ("NVIDIA A100-SXM4-80GB", "gpu_a100"),
        ("NVIDIA GH200 480GB", "gpu_gh200"),
        ("NVIDIA L40S", "gpu_l40s"),
        ("Tesla V100-SXM2-16GB", "gpu_v100"),
        ("Some Thing", "gpu_some_thing"),
    ],
)
def test_group_of_a_gpu_model(model: str, group: str) -> None:
    assert groups.gpu_group(model) == group


def test_fleet_without_gpus_or_training_nodes() -> None:
    found = groups.groups(contracts.fleet(contracts.node("web-1-a", 2, gpus=0)))
    assert found["slurm_controller"] == ["web-1-a"]
    assert found["pool_web_1"] == ["web-1-a"]
    assert not {"gpu_nodes", "simulated_gpus", "nvswitch"} & set(found)
    assert groups.groups(contracts.fleet(contracts.node("x-1", 2), nodes=[])) == {}


@pytest.mark.parametrize(("count", "members"), [(1, 1), (2, 1), (3, 3), (4, 3)])
def test_etcd_has_an_odd_number_of_members(count: int, members: int) -> None:
    fleet = contracts.fleet(*(contracts.node(f"a-{i:03}", i + 2) for i in range(count)))
    assert len(groups.groups(fleet)["etcd"]) == members


def test_switched_and_direct_links_are_told_apart() -> None:
    row = contracts.node("a-001", 2)
    for link, switched in (("NV18", True), ("NV4-direct", False), ("PCIe", False)):
        row["gpus"] = [contracts.gpu("a-001", 0, link_class=link)]
        assert ("nvswitch" in groups.groups(contracts.fleet(row))) is switched


def test_controllers_must_be_names_of_nodes() -> None:
    with pytest.raises(FleetError, match="a list of node names"):
        groups.parse_controllers("train-001")
    with pytest.raises(UnknownNodeError):
        groups.groups(contracts.fleet(), ["nobody"])
