"""From a node and its instance type to its simulated GPUs."""

from dataclasses import replace

import pytest

from gpufleet.simgpu import UnknownModelError, describe
from simnode import Type


def test_same_node_same_gpus() -> None:
    assert describe("a", "gpu-001", Type()) == describe("a", "gpu-001", Type())


def test_identities_are_distinct_over_nodes_and_clusters() -> None:
    described = [
        describe(cluster, f"gpu-{number:03}", Type())
        for cluster in ("a", "b")
        for number in range(1, 101)
    ]
    gpus = [gpu for node in described for gpu in node.gpus]
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.serial for gpu in gpus}) == 1600


def test_identities_do_not_change_between_versions() -> None:
    """Fleets keep them: a change here would rename every GPU that is running."""
    gpu = describe("local", "gpu-001", Type()).gpus[0]
    assert gpu.uuid == "GPU-9df2f210-e579-588b-9f15-a362099bd170"
    assert gpu.serial == "99868435918409069782"


def test_eight_gpus_are_split_over_two_numa_nodes() -> None:
    gpus = describe("a", "n", Type()).gpus
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {gpu.cpu_affinity for gpu in gpus[:4]} == {tuple(range(8))}
    assert {gpu.cpu_affinity for gpu in gpus[4:]} == {tuple(range(8, 16))}


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_bus_ids_are_distinct_and_in_order(count: int) -> None:
    described = describe("a", "n", Type(gpus=count))
    buses = [gpu.pci_bus_id for gpu in described.gpus]
    assert len(set(buses)) == count
    assert buses == sorted(buses)
    assert described.nvlink == "NV18"
    assert {gpu.link_class for gpu in described.gpus} == {"NV18"}


def test_type_without_nvlink_has_no_switches() -> None:
    described = describe("a", "n", Type(gpus=2, nvlink=None))
    assert described.switches == ()
    assert described.nvlink is None
    assert described.fabric == "not_supported"
    assert {gpu.link_class for gpu in described.gpus} == {"PCIe"}


def test_more_numa_nodes_than_cpus_leaves_no_gpu_without_cpus() -> None:
    assert all(gpu.cpu_affinity for gpu in describe("a", "n", Type(vcpus=1)).gpus)


def test_type_without_gpus_has_none() -> None:
    cpu = Type("sim.cpu", gpus=0, gpu_model=None, gpu_memory_mib=None, nvlink=None)
    assert describe("a", "n", cpu).gpus == ()


def test_type_that_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(UnknownModelError, match="'X9' cannot be simulated; known: H200"):
        describe("a", "n", Type(gpu_model="X9"))
    with pytest.raises(ValueError, match="holds at most 8"):
        describe("a", "n", Type(gpus=9))
    with pytest.raises(ValueError, match="such as NV18"):
        describe("a", "n", Type(nvlink="fast"))


def test_one_gpu_is_changed_and_no_other() -> None:
    node = describe("a", "n", Type())
    lost = node.with_gpu(3, fault="lost")
    assert lost.gpus[3].fault == "lost"
    assert replace(lost, gpus=node.gpus) == node
    with pytest.raises(IndexError, match="8 GPUs"):
        node.with_gpu(8, fault="lost")
