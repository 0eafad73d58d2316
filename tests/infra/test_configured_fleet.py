"""From bare nodes to a fleet that works; a second run has nothing to do; drift is named."""

import json
from typing import Any

import pytest

from harness import Cluster

pytestmark = pytest.mark.fleet


def told(cluster: Cluster, *arguments: str, expect: int = 0) -> dict[str, Any]:
    """Run a command that prints JSON; what it printed before that is progress."""
    text = cluster.run(*arguments, "--json", expect=expect, timeout=900)
    value: dict[str, Any] = json.loads(text[text.index("\n{\n") if "\n{\n" in text else 0 :])
    return value


@pytest.mark.timeout(1500)
def test_bare_nodes_become_a_fleet_that_works(cluster: Cluster) -> None:
    cluster.write_spec(extra="stack: local-cpu\n", infer=2, train=1)
    cluster.up()
    settings = cluster.inventory / "group_vars"
    settings.mkdir()
    (settings / "all.yml").write_text("---\nengine_parts: ray\n")

    first = told(cluster, "up", cluster.name, "--configure")
    assert first["ok"], [row for row in first["proofs"] if not row["ok"]]
    names = {row["name"] for row in first["proofs"]}
    assert {"Slurm job on 2 inference nodes", "Ray", "etcd"} <= names
    assert "container with a GPU by CDI" in names

    second = told(cluster, "configure", cluster.name)
    assert {node["changed"] for node in second["nodes"].values()} == {0}
    assert told(cluster, "drift", cluster.name)["drift"] == []

    cluster.ssh("infer-002", "sudo apt-mark unhold nvidia-fabricmanager-580 >/dev/null")
    found = told(cluster, "drift", cluster.name, expect=3)
    assert {row["node"] for row in found["drift"]} == {"infer-002"}

    # A run on one node writes what a run on all does, and mends what drifted there.
    told(cluster, "configure", cluster.name, "--limit", "infer-002")
    assert told(cluster, "drift", cluster.name)["drift"] == []
