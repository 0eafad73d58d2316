"""Proofs ask the right nodes, and take no answer that falls short."""

from types import SimpleNamespace

import contracts
import pytest

from gpufleet.cli import configuring
from gpufleet.fleet import Fleet, validate
from gpufleet.proof import Proof, Question, gist, questions

RAY = """\
 1 node_a
 1 node_b
 1 node_c
 0.0/6.0 GPU
"""
SMI = "GPU 0: NVIDIA H200 (simulated) (UUID: GPU-{})"


def asked(fleet: Fleet | None = None) -> dict[str, Question]:
    found = questions(fleet or validate(contracts.contract()))
    return {question.name: question for question in found}


def test_a_job_asks_for_a_gpu_on_each_of_two_nodes_of_a_partition() -> None:
    job = asked()["Slurm job on 2 inference nodes"]
    assert job.node == "train-001"
    assert {"-N2", "--gres=gpu:1", "inference", "nvidia-smi"} <= set(job.command)
    assert job.judge([SMI.format("a"), SMI.format("b")]) is None


def test_gpus_of_one_node_are_no_proof_for_two() -> None:
    job = asked()["Slurm job on 2 inference nodes"]
    assert job.judge([SMI.format("a"), SMI.format("a")]) is not None
    assert job.judge([]) is not None


def test_a_container_without_its_device_is_no_proof() -> None:
    container = asked()["container with a GPU by CDI"]
    assert container.judge(["/dev/nvidia0"]) is None
    assert container.judge(["ls: cannot access '/dev/nvidia0': No such file"]) is not None


@pytest.mark.parametrize(
    "answer",
    ["", RAY.replace(" 1 node_b\n", ""), RAY.replace("6.0", "4.0"), RAY.replace("GPU", "CPU")],
)
def test_ray_has_to_have_all_nodes_and_gpus(answer: str) -> None:
    ray = asked()["Ray"]
    assert ray.judge(RAY.splitlines()) is None
    assert ray.judge(answer.splitlines()) is not None


def test_every_member_of_etcd_has_to_be_healthy() -> None:
    etcd = asked()["etcd"]
    line = "http://10.42.9.2:2379 is healthy: successfully committed proposal"
    assert etcd.judge([line] * 3) is None
    assert etcd.judge([line] * 2) is not None


def test_a_fleet_without_gpus_is_proved_without_them() -> None:
    fleet = validate(contracts.contract(contracts.node("infer-001", 2, gpus=0)))
    assert set(asked(fleet)) == {"Ray", "etcd"}
    assert asked(fleet)["Ray"].judge([" 1 node_a"]) is None


def test_what_failed_is_told_by_its_reason() -> None:
    proof = Proof("etcd", "infer-001", ("etcdctl",), ("x is healthy",), "2 members expected")
    assert not proof.ok
    assert gist(proof) == "2 members expected"
    assert proof.to_dict()["problem"] == "2 members expected"


def test_what_was_seen_is_told_in_a_line() -> None:
    found = asked()
    assert found["Ray"].tell(RAY.splitlines()) == "3 nodes, 0.0/6.0 GPU"
    assert found["etcd"].tell(["x is healthy", "y is healthy"]) == "2 members healthy"
    listed = found["Slurm job on 2 inference nodes"].tell([SMI.format("a"), SMI.format("b")])
    assert listed.startswith("2 GPUs listed by srun -p inference -N2")
    assert gist(Proof("Ray", "infer-001", (), (), None, "3 nodes")) == "3 nodes"


@pytest.mark.parametrize(("configured", "proved"), [(True, True), (True, False), (False, True)])
def test_a_fleet_is_well_when_it_is_configured_and_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, configured: bool,
    proved: bool,
) -> None:  # fmt: skip
    fleet = validate(contracts.contract())
    result = SimpleNamespace(ok=configured, to_dict=lambda: {"playbook": "site"})
    proof = Proof("etcd", "infer-001", ("etcdctl",), (), None if proved else "no leader")
    monkeypatch.setattr(configuring, "_run", lambda *_, **__: result)
    monkeypatch.setattr("gpufleet.proof.prove", lambda *_: [proof])
    ok, rows = configuring.configure_and_prove("demo", fleet, as_json=True)
    assert ok == (configured and proved)
    # Nothing is proved of nodes that were not configured.
    assert ("proofs" in rows) == configured
    assert capsys.readouterr().out == ""
