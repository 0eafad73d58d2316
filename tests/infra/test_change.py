"""A change of the spec, or of the world, costs just the nodes it is about."""

import json
from pathlib import Path

import pytest

from harness import Cluster
from host import forwarding, traces

pytestmark = pytest.mark.fleet


def boots(cluster: Cluster) -> dict[str, str]:
    return {name: row["boot_id"] for name, row in cluster.nodes().items()}


def addresses(cluster: Cluster) -> dict[str, str]:
    rows = json.loads((cluster.inventory / ".fleet.json").read_text())["nodes"]
    return {row["name"]: row["address"] for row in rows}


def test_pools_grow_and_shrink_without_touching_other_nodes(cluster: Cluster) -> None:
    cluster.write_spec(infer=1, train=1)
    cluster.up()
    before, placed = boots(cluster), addresses(cluster)

    cluster.write_spec(infer=3, train=1)
    changes = cluster.json("plan")["changes"]
    made = {row["name"] for row in changes if row["operation"] == "create"}
    assert made == {"infer-002", "infer-003"}
    cluster.up()
    grown = boots(cluster)
    assert {name: grown[name] for name in before} == before
    assert {name: addresses(cluster)[name] for name in placed} == placed
    assert cluster.ssh("train-001", "getent hosts infer-003").split()[1] == "infer-003"

    cluster.write_spec(infer=1, train=1)
    cluster.up()
    assert boots(cluster) == before


def test_killed_node_is_seen_and_made_anew_others_untouched(cluster: Cluster) -> None:
    cluster.write_spec(infer=2, train=1)
    cluster.up()
    before = boots(cluster)
    kill_machine(cluster, "infer-002")
    rows = {row["name"]: row for row in cluster.json("status", expect=1)["nodes"]}
    assert [name for name, row in rows.items() if not row["ok"]] == ["infer-002"]
    seen = {(row["operation"], row["name"]) for row in cluster.json("plan")["changes"]}
    assert ("create", "infer-002") in seen
    cluster.up()
    after = boots(cluster)
    assert after["infer-002"] != before["infer-002"]
    assert {x: y for x, y in after.items() if x != "infer-002"} == {
        x: y for x, y in before.items() if x != "infer-002"
    }


def test_every_process_killed_at_once_is_recovered_from(cluster: Cluster) -> None:
    cluster.write_spec(infer=2, train=1)
    cluster.up()
    for name in ("infer-001", "infer-002", "train-001"):
        kill_machine(cluster, name)
    assert any("netns" in trace for trace in traces(cluster))
    cluster.up()
    assert all(row["ok"] for row in cluster.nodes().values())


def test_changed_image_replaces_node_by_node(cluster: Cluster) -> None:
    cluster.write_spec(infer=2)
    cluster.up()
    before = boots(cluster)
    cluster.write_spec(infer=2, extra="image:\n  extra_packages: [tree]\n")
    changes = {
        row["name"]
        for row in cluster.json("plan")["changes"]
        if row["operation"] == "create-replacement" and row["kind"] == "Machine"
    }
    assert changes == {"infer-001", "infer-002"}
    steps = [row for row in cluster.up()["done"] if row["kind"] == "Machine"]
    names = [row["name"] for row in steps]
    assert names in (
        ["infer-001"] * 2 + ["infer-002"] * 2,
        ["infer-002"] * 2 + ["infer-001"] * 2,
    )
    after = boots(cluster)
    assert all(after[name] != before[name] for name in before)
    assert cluster.ssh("infer-001", "command -v tree").strip() == "/usr/bin/tree"


def test_two_clusters_live_side_by_side(cluster: Cluster, other_cluster: Cluster) -> None:
    cluster.write_spec(infer=1)
    other_cluster.write_spec(infer=1)
    before = forwarding()
    cluster.up()
    other_cluster.up()
    kept = boots(other_cluster)
    for name in (".secrets", ".simulated-nvidia"):
        for inventory in (cluster.inventory, other_cluster.inventory):
            (inventory / name).mkdir()
            (inventory / name / "made").write_text("for these nodes")
    cluster.down()
    assert sorted(path.name for path in cluster.inventory.iterdir()) == ["cluster.yaml"]
    assert (other_cluster.inventory / ".secrets/made").exists()
    assert traces(cluster) == []
    assert boots(other_cluster) == kept
    assert forwarding() == "1"
    other_cluster.down()
    assert traces(other_cluster) == []
    assert forwarding() == before


def test_refused_spec_creates_nothing(cluster: Cluster) -> None:
    cluster.write_spec(infer=1, extra="colour: red\n")
    for command in ("check", "plan", "up"):
        text = cluster.run(command, cluster.name, expect=2)
        assert "colour" in text
    assert traces(cluster) == []
    assert not (cluster.folder / "state").exists()
    cluster.write_spec(infer=1)


def test_secret_file_is_laid_with_its_mode(cluster: Cluster) -> None:
    cluster.write_spec(
        infer=1,
        extra=(
            "files:\n  - path: /etc/munge/munge.key\n    source: munge.key\n"
            '    mode: "0400"\n    secret: true\n'
        ),
    )
    (cluster.inventory / "munge.key").write_text("sentinel-of-the-secret")
    cluster.up()
    assert cluster.ssh("infer-001", "sudo stat -c '%a %U' /etc/munge/munge.key") == "400 root\n"
    state = Path(cluster.environment["PULUMI_BACKEND_URL"].removeprefix("file://"))
    files = [x for x in state.rglob("*") if x.is_file()]
    assert files
    assert not [x for x in files if b"sentinel-of-the-secret" in x.read_bytes()]


def kill_machine(cluster: Cluster, node: str) -> None:
    """SIGKILL every process of a machine, as a power cut would; leaves all else as it is."""
    from infra.local.cgroup import MachineGroup

    MachineGroup(cluster.name, node).kill()
