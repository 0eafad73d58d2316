"""Each worker gets its own GPU by UUID, whatever the order in which GPUs are counted."""

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.gpuids import AssignmentError, assign, bus_order, labels

STUB = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'CUDA' in k}))"


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    pci_bus_id: str


def inventory(count: int) -> list[Gpu]:
    """GPUs in the order of their buses; the UUIDs sort otherwise."""
    return [
        Gpu(f"GPU-{0xFFFF - n * 7919 % 0xFFFF:08x}-0000-4000-8000-000000000000",
            f"00000000:{0x1B + 9 * n:02X}:00.0")
        for n in range(count)
    ]  # fmt: skip


def dump(environment: Mapping[str, str]) -> dict[str, str]:
    """What a worker started with this environment sees."""
    done = subprocess.run(
        [sys.executable, "-c", STUB],
        env=dict(environment), capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    seen: dict[str, str] = json.loads(done.stdout)
    return seen


def test_c47_workers_of_a_shuffled_inventory_see_distinct_gpus_by_uuid() -> None:
    gpus = inventory(3)
    shuffled = [gpus[2], gpus[0], gpus[1]]
    workers = ["agent-0", "agent-1", "agent-2"]
    seen = {worker: dump(env) for worker, env in assign(shuffled, workers).items()}
    assert [seen[worker]["CUDA_VISIBLE_DEVICES"] for worker in workers] == [g.uuid for g in gpus]
    assert {env["CUDA_DEVICE_ORDER"] for env in seen.values()} == {"PCI_BUS_ID"}


def test_c47_restarted_worker_gets_the_same_gpu() -> None:
    gpus, workers = inventory(3), ["agent-0", "agent-1", "agent-2"]
    before = dump(assign(gpus, workers)["agent-1"])
    after = dump(assign([gpus[1], gpus[2], gpus[0]], workers)["agent-1"])
    assert before == after


@given(st.integers(1, 16), st.randoms(use_true_random=False))
def test_c47_assignment_does_not_depend_on_the_order_of_enumeration(
    count: int, chance: random.Random
) -> None:
    gpus, workers = inventory(count), [f"agent-{n}" for n in range(count)]
    expected = assign(gpus, workers)
    chance.shuffle(gpus)
    assigned = assign(gpus, workers)
    assert assigned == expected
    assert len({env["CUDA_VISIBLE_DEVICES"] for env in assigned.values()}) == count


@given(st.integers(2, 16), st.data())
def test_c47_lost_gpu_moves_no_other_worker(count: int, data: st.DataObject) -> None:
    gpus, workers = inventory(count), [f"agent-{n}" for n in range(count)]
    before = assign(gpus, workers)
    lost = data.draw(st.integers(0, count - 1))
    left = [gpu for gpu in gpus if gpu is not gpus[lost]]
    staying = [worker for n, worker in enumerate(workers) if n != lost]
    after = assign(left, staying, previous=before)
    assert after == {worker: before[worker] for worker in staying}


def test_c47_replaced_gpu_goes_to_the_worker_that_lost_its_own() -> None:
    gpus, workers = inventory(3), ["a", "b", "c"]
    before = assign(gpus, workers)
    spare = Gpu("GPU-99999999-0000-4000-8000-000000000000", "00000000:01:00.0")
    after = assign([spare, gpus[0], gpus[2]], workers, previous=before)
    assert after["a"] == before["a"]
    assert after["c"] == before["c"]
    assert after["b"]["CUDA_VISIBLE_DEVICES"] == spare.uuid


def test_c47_labels_name_the_device_and_never_its_index() -> None:
    gpu = Gpu("GPU-00000000-0000-4000-8000-000000000000", "0000:9d:00.0")
    assert labels(gpu) == {"gpu_uuid": gpu.uuid, "pci_bus_id": "00000000:9D:00.0"}


def test_c47_bus_ids_are_ordered_as_numbers() -> None:
    assert bus_order("0000:9d:00.0") == bus_order("00000000:9D:00.0") == bus_order("9d:0.0")
    assert bus_order("0000:9D:00.0") < bus_order("00000001:02:00.0")
    with pytest.raises(ValueError, match="no PCI bus id"):
        bus_order("GPU-0")


def test_c47_more_workers_than_gpus_and_doubled_names_are_all_refused_at_once() -> None:
    gpu = inventory(1)[0]
    with pytest.raises(AssignmentError) as caught:
        assign([gpu, gpu, Gpu("0", "01:00.0")], ["a", "a", "b", "c"])
    assert len(caught.value.problems) == 4
