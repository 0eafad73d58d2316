"""How the nodes of a fleet are right now, asked over SSH, all at once, within a bounded time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .fleet import Fleet, FleetNode
from .ssh import NoAnswerError, ask

DEADLINE = 10.0
SCRIPT = """\
cat /proc/sys/kernel/random/boot_id
cut -d' ' -f1 /proc/uptime
stat -c %Y /proc/1
date +%s
systemctl is-system-running

timeout 5 nvidia-smi -L || true
"""


@dataclass(frozen=True)
class NodeState:
    """One node as it answered, or the reason why it did not."""

    node: FleetNode
    boot_id: str | None = None
    uptime_s: int | None = None
    system: str | None = None
    gpus: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def well(self) -> bool:
        """Reachable, booted, and showing the GPUs that the contract states."""
        return self.problem is None

    @property
    def summary(self) -> str:
        """The state in a few words."""
        return "ok" if self.problem is None else self.problem

    @property
    def uptime_text(self) -> str:
        """Time since boot for people."""
        if self.uptime_s is None:
            return "-"
        minutes, hours = self.uptime_s // 60, self.uptime_s // 3600
        return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"

    @property
    def gpu_text(self) -> str:
        """Seen and stated GPUs."""
        return f"{len(self.gpus)}/{len(self.node.gpus)}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "name": self.node.name,
            "address": self.node.address,
            "partition": self.node.partition,
            "provider_id": self.node.provider_id,
            "ok": self.well,
            "problem": self.problem,
            "boot_id": self.boot_id,
            "uptime_s": self.uptime_s,
            "gpus": list(self.gpus),
        }


def probe(fleet: Fleet) -> list[NodeState]:
    """Ask every node; in the contract's order."""
    with ThreadPoolExecutor(min(64, max(1, len(fleet.nodes)))) as pool:
        return list(pool.map(lambda node: _ask(fleet, node), fleet.nodes))


def _ask(fleet: Fleet, node: FleetNode) -> NodeState:
    try:
        done = ask(fleet, node.name, ["sh", "-s"], stdin=SCRIPT, deadline=DEADLINE)
    except NoAnswerError as error:
        return NodeState(node, problem=error.problems[0])
    return judge(node, done.stdout)


def judge(node: FleetNode, text: str) -> NodeState:
    """Turn the answer of a node into its state."""
    lines = text.splitlines()
    if len(lines) < 5:
        return NodeState(node, problem=f"unexpected answer: {text.strip()[:80]!r}")
    boot_id, _, booted, now, system = lines[:5]
    gpus = tuple(line.rsplit("UUID: ", 1)[1].rstrip(")") for line in lines[5:] if "UUID: " in line)
    problem = None
    missing = [gpu.uuid for gpu in node.gpus if gpu.uuid not in gpus]
    if system not in ("running", "starting"):
        problem = f"system is {system}"
    if missing:
        problem = f"{len(missing)} of {len(node.gpus)} GPUs not seen: {', '.join(missing)}"
    return NodeState(node, boot_id, int(now) - int(booted), system, gpus, problem)
