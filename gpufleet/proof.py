"""Proofs that a configured fleet works: real work, asked of a few nodes over SSH.

A job of Slurm, a container with a GPU, Ray's own count, and a decision by etcd. Each keeps the
command that it ran, so that a person can run it again by hand.
"""

import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .fleet import Fleet
from .groups import groups
from .ssh import NoAnswerError, ask

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
    """One proof that was run: `seen` is what came back, `problem` why that is not enough.

    `told` is what came back in one line for people.
    """

    name: str
    node: str
    command: tuple[str, ...]
    seen: tuple[str, ...] = ()
    problem: str | None = None
    told: str = ""

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

    `judge` gets the lines of the answer and returns what is wrong with them, or None; `tell` says
    in one line what they show.
    """

    name: str
    node: str
    command: tuple[str, ...]
    judge: Callable[[Sequence[str]], str | None] = field(compare=False)
    tell: Callable[[Sequence[str]], str] = field(compare=False)
    stdin: str = ""


def questions(fleet: Fleet) -> list[Question]:
    """What is asked of a fleet, from its contract: pure."""
    members = groups(fleet)
    head = members["slurm_controller"][0]
    asked = []
    for partition in sorted({node.partition for node in fleet.nodes if node.gpus}):
        nodes = [x for x in fleet.nodes if x.partition == partition and x.gpus][:2]
        count = len(nodes)
        job = (
            *("srun", "-p", partition, f"-N{count}", "--gres=gpu:1", "--immediate=60"),
            *("nvidia-smi", "-L"),
        )
        asked.append(
            Question(
                f"Slurm job on {count} {partition} node{'s' if count > 1 else ''}",
                head,
                job,
                _gpus_of(count),
                _listed_by(job),
            )
        )
    for node in [x for x in fleet.nodes if x.gpus][:1]:
        asked.append(
            Question(
                "container with a GPU by CDI",
                node.name,
                ("sudo", "-n", "sh", "-s"),
                lambda lines: None if "/dev/nvidia0" in lines else "it does not see /dev/nvidia0",
                "; ".join,
                CONTAINER,
            )
        )
    gpus = sum(len(node.gpus) for node in fleet.nodes)
    status = ("sudo", "-n", "/usr/local/bin/gpufleet-ray", "status")
    asked.append(Question("Ray", head, status, _ray(len(fleet.nodes), gpus), _ray_has))
    etcd = members["etcd"]
    health = ("etcdctl", "--endpoints", "http://127.0.0.1:2379", "endpoint", "health", "--cluster")
    asked.append(Question("etcd", etcd[0], health, _healthy(len(etcd)), _members))
    return asked


def _uuids(lines: Sequence[str]) -> list[str]:
    """GPUs that nvidia-smi lists."""
    return [line.rsplit("UUID: ", 1)[1] for line in lines if "UUID: " in line]


def _gpus_of(count: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        seen = len(set(_uuids(lines)))
        return None if seen >= count else f"GPUs of {count} nodes expected, seen {seen}"

    return judge


def _listed_by(job: Sequence[str]) -> Callable[[Sequence[str]], str]:
    return lambda lines: f"{len(_uuids(lines))} GPUs listed by {shlex.join(job)}"


def _joined(lines: Sequence[str]) -> int:
    """Nodes that Ray has."""
    return sum(line.strip().startswith("1 node_") for line in lines)


def _ray_gpus(lines: Sequence[str]) -> list[str]:
    """Ray's lines of GPUs in use and there, such as `0.0/6.0 GPU`."""
    return [line.strip() for line in lines if line.strip().endswith(" GPU")]


def _ray(nodes: int, gpus: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        joined = _joined(lines)
        counted = [x.split("/")[1].split()[0] for x in _ray_gpus(lines)]
        if joined == nodes and (not gpus or [float(x) for x in counted] == [float(gpus)]):
            return None
        return f"expected {nodes} nodes and {gpus} GPUs, seen {joined} and {counted or 'none'}"

    return judge


def _ray_has(lines: Sequence[str]) -> str:
    return f"{_joined(lines)} nodes, {(_ray_gpus(lines) or ['no GPUs'])[-1]}"


def _well(lines: Sequence[str]) -> int:
    """Members of etcd that say so."""
    return sum("is healthy" in line for line in lines)


def _healthy(members: int) -> Callable[[Sequence[str]], str | None]:
    def judge(lines: Sequence[str]) -> str | None:
        seen = _well(lines)
        return None if seen == members else f"{members} healthy members expected, seen {seen}"

    return judge


def _members(lines: Sequence[str]) -> str:
    return f"{_well(lines)} members healthy"


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
    def proof(lines: tuple[str, ...], problem: str | None, told: str = "") -> Proof:
        return Proof(question.name, question.node, question.command, lines, problem, told)

    try:
        done = ask(fleet, question.node, question.command, stdin=question.stdin, deadline=DEADLINE)
    except NoAnswerError as error:
        return proof((), error.problems[0])
    text = f"{done.stdout}\n{done.stderr}"
    lines = tuple(line.rstrip() for line in text.splitlines() if line.strip())
    if done.returncode != 0:
        return proof(lines, f"exit code {done.returncode}: {(lines or ('no message',))[-1]}")
    return proof(lines, question.judge(lines), question.tell(lines))


def gist(proof: Proof) -> str:
    """What a proof saw, or what is wrong with that, in one line for people."""
    return proof.told if proof.problem is None else proof.problem
