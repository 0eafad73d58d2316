"""Proofs that a configured fleet works: real work, asked of a few nodes over SSH.

A job of Slurm, a container with a GPU, Ray's own count, and a decision by etcd. Each keeps the
command that it ran, so that a person can run it again by hand.
"""

import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .fleet import Fleet
from .groups import groups
from .ssh import command, explain

DEADLINE = 90.0
"""Seconds that one proof may take; the container has to wait for Docker, the job for its turn."""

# The smallest image that can look at a device: `ls` of the node and the libraries that it names.
CONTAINER = """\
image=gpufleet-proof:$$
trap 'docker rmi -f "$image" > /dev/null 2>&1' EXIT
{ echo /usr/bin/ls; ldd /usr/bin/ls | grep -o '/[^ ]*'; } | sed 's|^/||' | sort -u |
    tar -h -C / -T - -cf - | docker import - "$image" > /dev/null &&
    docker run --rm --network none --device nvidia.com/gpu=0 "$image" /usr/bin/ls /dev/nvidia0
"""


@dataclass(frozen=True)
class Proof:
    """One proof that was run: `seen` is what came back, `problem` why that is not enough."""

    name: str
    node: str
    command: tuple[str, ...]
    seen: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the fleet did what it should."""
        return self.problem is None

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "name": self.name,
            "ok": self.ok,
            "node": self.node,
            "command": list(self.command),
            "seen": list(self.seen),
            "problem": self.problem,
        }


@dataclass(frozen=True)
class Question:
    """What is asked of which node, and what the answer has to be.

    `judge` gets the lines of the answer and returns what is wrong with them, or None.
    """

    name: str
    node: str
    command: tuple[str, ...]
    judge: Callable[[Sequence[str]], str | None] = field(compare=False)
    stdin: str = ""


def questions(fleet: Fleet) -> list[Question]:
    """What is asked of a fleet, from its contract: pure."""
    members = groups(fleet)
    head = members["slurm_controller"][0]
    asked = []
    for partition in sorted({node.partition for node in fleet.nodes if node.gpus}):
        nodes = [x for x in fleet.nodes if x.partition == partition and x.gpus][:2]
        count = len(nodes)
        job = ("srun", "-p", partition, f"-N{count}", "--gres=gpu:1", "--immediate=60")
        asked.append(
            Question(
                f"Slurm job on {count} {partition} node{'s' if count > 1 else ''}",
                head,
                (*job, "nvidia-smi", "-L"),
                _gpus_of(count),
            )
        )
    for node in [x for x in fleet.nodes if x.gpus][:1]:
        asked.append(
            Question(
                "container with a GPU by CDI",
                node.name,
                ("sudo", "-n", "sh", "-s"),
                lambda lines: None if "/dev/nvidia0" in lines else "it does not see /dev/nvidia0",
                CONTAINER,
            )
        )
    gpus = sum(len(node.gpus) for node in fleet.nodes)
    status = ("sudo", "-n", "/usr/local/bin/gpufleet-ray", "status")
    asked.append(Question("Ray", head, status, _ray(len(fleet.nodes), gpus)))
    etcd = members["etcd"]
    health = ("etcdctl", "--endpoints", "http://127.0.0.1:2379", "endpoint", "health", "--cluster")
    asked.append(Question("etcd", etcd[0], health, _healthy(len(etcd))))
    return asked


def _gpus_of(count: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        seen = {line.rsplit("UUID: ", 1)[1] for line in lines if "UUID: " in line}
        return None if len(seen) >= count else f"GPUs of {count} nodes expected, seen {len(seen)}"

    return judge


def _ray(nodes: int, gpus: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        joined = sum(line.strip().startswith("1 node_") for line in lines)
        counted = [x.split("/")[1].split()[0] for x in lines if x.strip().endswith(" GPU")]
        if joined == nodes and (not gpus or [float(x) for x in counted] == [float(gpus)]):
            return None
        return f"expected {nodes} nodes and {gpus} GPUs, seen {joined} and {counted or 'none'}"

    return judge


def _healthy(members: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        seen = sum("is healthy" in line for line in lines)
        return None if seen == members else f"{members} healthy members expected, seen {seen}"

    return judge


def prove(fleet: Fleet, on_done: Callable[[Proof], None] | None = None) -> list[Proof]:
    """Ask all questions at once; proofs in the order of the questions.

    `on_done` gets each proof as its answer comes. Nothing is left on the nodes.
    """

    def ask(question: Question) -> Proof:
        proof = _ask(fleet, question)
        if on_done is not None:
            on_done(proof)
        return proof

    asked = questions(fleet)
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(ask, asked))


def _ask(fleet: Fleet, question: Question) -> Proof:
    try:
        done = subprocess.run(
            command(fleet, question.node, question.command),
            input=question.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem: str | None = f"no answer within {DEADLINE:g} s"
        return Proof(question.name, question.node, question.command, (), problem)
    lines = tuple(line.rstrip() for line in done.stdout.splitlines() if line.strip())
    problem = question.judge(lines)
    if done.returncode == 255:
        last = list(lines[-1:]) or ["no message"]
        problem = f"unreachable: {(explain(fleet, done.stdout) or last)[0]}"
    elif done.returncode != 0:
        problem = f"exit code {done.returncode}: {(lines or ('no message',))[-1]}"
    return Proof(question.name, question.node, question.command, lines, problem)


def gist(proof: Proof) -> str:
    """What a proof saw, in one line for people."""
    if proof.problem is not None:
        return proof.problem
    telling = [x.strip() for x in proof.seen if "GPU" in x or "healthy" in x or "/dev/" in x]
    if proof.name == "etcd":
        return f"{len(telling)} members healthy"
    if proof.name == "Ray":
        nodes = sum(line.strip().startswith("1 node_") for line in proof.seen)
        return f"{nodes} nodes, {telling[-1] if telling else 'no GPUs'}"
    if proof.name.startswith("Slurm"):
        return f"{len(telling)} GPUs listed by {shlex.join(proof.command)}"
    return "; ".join(telling)
