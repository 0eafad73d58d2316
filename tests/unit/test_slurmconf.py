"""Slurm's lines from what is declared: every node once, counts that agree, whatever the fleet."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import slurmconf
from gpufleet.hostlist import expand
from gpufleet.slurmconf import SlurmConfError, SlurmNode

nodes = st.lists(
    st.builds(
        SlurmNode,
        name=st.builds("{}-{:03d}".format, st.sampled_from(["a", "gpu", "x9"]), st.integers(1, 40)),
        address=st.just("10.0.0.1"),
        cpus=st.sampled_from([2, 192]),
        memory_mib=st.sampled_from([2048, 2097152]),
        gpus=st.sampled_from([0, 1, 2, 8, 16]),
        gpu_type=st.sampled_from(["h200", "l4"]),
        partition=st.sampled_from(["training", "inference"]),
        domain=st.sampled_from(["rack1", "rack2", "rack3"]),
    ),
    min_size=1, max_size=25, unique_by=lambda node: node.name,
)  # fmt: skip


def words(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split())


@given(nodes, st.sampled_from([1.0, 0.95, 0.5]))
@settings(max_examples=60, deadline=None)
def test_every_node_stands_once_with_its_own_figures(rows: list[SlurmNode], share: float) -> None:
    found = {}
    for line in slurmconf.node_lines(rows, share):
        row = words(line)
        for name in expand(row["NodeName"]):
            assert name not in found
            found[name] = (row["CPUs"], row["RealMemory"], row.get("Gres", ""))
    assert found == {
        node.name: (
            str(node.cpus),
            str(int(node.memory_mib * share)),
            f"gpu:{node.gpu_type}:{node.gpus}" if node.gpus else "",
        )
        for node in rows
    }


@given(nodes)
@settings(max_examples=60, deadline=None)
def test_there_are_as_many_device_files_as_gpus(rows: list[SlurmNode]) -> None:
    found = {}
    for line in slurmconf.gres_lines(rows):
        row = words(line)
        files = expand(row["File"].removeprefix("/dev/"))
        assert files == [f"nvidia{number}" for number in range(len(files))]
        for name in expand(row["NodeName"]):
            assert name not in found
            found[name] = (row["Type"], len(files))
    assert found == {node.name: (node.gpu_type, node.gpus) for node in rows if node.gpus}


@given(nodes)
@settings(max_examples=60, deadline=None)
def test_partitions_and_switches_have_every_node_once(rows: list[SlurmNode]) -> None:
    names = sorted(node.name for node in rows)
    by_partition = slurmconf.partitions(rows)
    assert sorted(x for text in by_partition.values() for x in expand(text)) == names
    for name, text in by_partition.items():
        assert {node.partition for node in rows if node.name in expand(text)} == {name}
    topology = [words(line) for line in slurmconf.topology_lines(rows)]
    leaves = {row["SwitchName"]: expand(row["Nodes"]) for row in topology if "Nodes" in row}
    domains: dict[str, list[str]] = {}
    for node in rows:
        domains.setdefault(node.domain, []).append(node.name)
    if len(domains) == len(rows):
        assert topology == []  # a switch for each node would say nothing
    else:
        assert sorted(map(sorted, leaves.values())) == sorted(map(sorted, domains.values()))
        above = [expand(row["Switches"]) for row in topology if "Switches" in row]
        assert above == ([sorted(leaves)] if len(leaves) > 1 else [])


@given(nodes, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_inventory_changes_nothing(
    rows: list[SlurmNode], source: random.Random
) -> None:
    """The hash of the file decides on restarts."""
    mixed = list(rows)
    source.shuffle(mixed)
    for lines in (slurmconf.node_lines, slurmconf.gres_lines, slurmconf.topology_lines):
        assert lines(mixed) == lines(rows)
    assert list(slurmconf.partitions(mixed).items()) == list(slurmconf.partitions(rows).items())


@given(nodes, st.data())
@settings(max_examples=60, deadline=None)
def test_what_vanishes_is_what_was_there_and_is_not_named(
    rows: list[SlurmNode], data: st.DataObject
) -> None:
    present = [words(line)["NodeName"] for line in slurmconf.node_lines(rows)]
    kept = data.draw(st.lists(st.sampled_from(rows), unique_by=lambda node: node.name))
    gone = {node.name for node in rows} - {node.name for node in kept}
    leaving = data.draw(st.sets(st.sampled_from(sorted(gone)))) if gone else set()
    assert slurmconf.vanishing([*present, "DEFAULT"], kept, leaving) == sorted(gone - leaving)


def variables(**changes: Any) -> dict[str, Any]:
    gpus = [{"index": number, "model": "NVIDIA H200 141GB HBM3e"} for number in range(2)]
    return {
        "ansible_host": "10.0.0.1", "gpufleet_vcpus": 4, "gpufleet_memory_mib": 1000,
        "gpufleet_gpus": gpus, "gpufleet_partition": "training", "gpufleet_failure_domain": "r1",
        **changes,
    }  # fmt: skip


def test_a_node_comes_from_its_variables() -> None:
    node = slurmconf.declared("a", variables())
    assert node == SlurmNode("a", "10.0.0.1", 4, 1000, 2, "h200", "training", "r1")
    assert slurmconf.declared("a", variables(gpufleet_gpus=[])).gpu_type == ""


@pytest.mark.parametrize("key", slurmconf.NEEDED)
def test_a_variable_that_is_missing_is_named_with_its_host(key: str) -> None:
    given_ = variables()
    del given_[key]
    with pytest.raises(SlurmConfError, match=f"gpu-002: no {key} in the inventory; nothing is"):
        slurmconf.declared("gpu-002", given_)


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ([(0, "NVIDIA H200"), (1, "NVIDIA L4")], r"several types \(h200, l4\) in one node"),
        ([(0, "NVIDIA L4"), (2, "NVIDIA L4")], "indices of its GPUs are 0, 2, not 0 to 1"),
        ([(1, "NVIDIA L4")], "indices of its GPUs are 1, not 0 to 0"),
    ],
)
def test_gpus_that_slurm_could_not_count_are_refused(
    gpus: list[tuple[int, str]], said: str
) -> None:
    rows = [{"index": index, "model": model} for index, model in gpus]
    with pytest.raises(SlurmConfError, match=said):
        slurmconf.declared("a", variables(gpufleet_gpus=rows))


def test_names_of_types_are_lower_case_words() -> None:
    for model in ("NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA RTX A6000", "NVIDIA GB200"):
        node = slurmconf.declared("a", variables(gpufleet_gpus=[{"index": 0, "model": model}]))
        assert re.fullmatch(r"[a-z0-9_]+", node.gpu_type)
