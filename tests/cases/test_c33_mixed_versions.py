"""Field case: Ray or Python that is not the same on all nodes."""

import pytest

from gpufleet.stack import get
from gpufleet.stack.uniform import cluster_wide, overrides

PINS = {"ray": "2.9.3", "python": "3.10.13"}


def test_c33_group_with_its_own_python_is_named() -> None:
    (found,) = overrides(
        PINS,
        {
            "group_vars/head": {"ray": "2.9.3", "python": "3.10.13"},
            "group_vars/workers": {"python": "3.10.12"},
        },
    )
    assert (found.place, found.variable) == ("group_vars/workers", "python")
    assert (found.value, found.wanted) == ("3.10.12", "3.10.13")
    assert "group_vars/workers" in str(found)


def test_c33_host_with_its_own_ray_is_named() -> None:
    (found,) = overrides(
        PINS, {"group_vars/all": PINS, "host_vars/train-001": {"gpufleet_ray": "2.9.2"}}
    )
    assert (found.place, found.variable) == ("host_vars/train-001", "gpufleet_ray")
    assert "remove gpufleet_ray from host_vars/train-001" in str(found)


def test_c33_two_groups_that_differ_are_found_without_a_pin() -> None:
    (found,) = overrides({}, {"group_vars/a": {"ray": "2.46.0"}, "group_vars/b": {"ray": "2.46.1"}})
    assert found.place == "group_vars/b"


def test_c33_repeating_the_clusters_pin_is_fine_and_other_variables_are_nobodys_business() -> None:
    pins = get("current").pins
    assert (
        overrides(pins, {"host_vars/x": {"ray": pins["ray"], "ray_port": 6379, "docker": "26.1.5"}})
        == []
    )


@pytest.mark.parametrize("name", ["ray", "python", "torch", "vllm", "slurm"])
def test_c33_what_nodes_speak_to_one_another_with_is_one_version(name: str) -> None:
    assert name in cluster_wide()
