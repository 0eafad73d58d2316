"""What became of a run of a playbook."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class RunError(Exception):
    """A run could not be begun, or its record not be read; the text is for the operator."""


class BusyError(RunError):
    """Another run of the cluster is under way."""


class PlaceError(RunError):
    """The records of runs cannot be kept where they belong."""


@dataclass
class NodeResult:
    """What a playbook did on one node: numbers of tasks, and seconds spent in them."""

    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0
    skipped: int = 0
    ignored: int = 0
    seconds: float = 0.0
    error: str | None = None
    task: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the JSON result."""
        return {
            "ok": self.ok,
            "changed": self.changed,
            "failed": self.failed,
            "unreachable": self.unreachable,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 2),
            "error": self.error,
            "task": self.task,
        }


@dataclass(frozen=True)
class Change:
    """One thing that a task changed on a node, or in check mode would change.

    `kind` is file, package, unit, command or other. `before` is what was seen on the node, `after`
    what is wanted; of files the differing lines alone. None where the task does not say.
    """

    node: str
    kind: str
    name: str
    before: str | None
    after: str | None
    role: str
    task: str

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the JSON result."""
        return {
            "node": self.node,
            "kind": self.kind,
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "role": self.role,
            "task": self.task,
        }


@dataclass
class RunResult:
    """A finished run; `nodes` holds every node that the playbook was for.

    `done`, `failed` and `left` divide those nodes: through the whole playbook, failed or
    unreachable, and not brought to the end. `error` is set where Ansible failed apart from any
    node; `stopped` says why a run ended early: budget, asked or killed.
    """

    cluster: str
    playbook: str
    artifacts: Path
    seconds: float = 0.0
    nodes: dict[str, NodeResult] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    resumed_past: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    events_complete: bool = True
    warnings: list[str] = field(default_factory=list)
    stopped: str | None = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every node is through the whole playbook."""
        return not (self.failed or self.left or self.error or self.stopped)

    def to_dict(self) -> dict[str, Any]:
        """The JSON result of `configure` and `play`."""
        return {
            "ok": self.ok,
            "cluster": self.cluster,
            "playbook": self.playbook,
            "seconds": round(self.seconds, 1),
            "nodes": {name: node.to_dict() for name, node in sorted(self.nodes.items())},
            "done": self.done,
            "failed": self.failed,
            "left": self.left,
            "resumed_past": self.resumed_past,
            "stopped": self.stopped,
            "error": self.error,
            "events_complete": self.events_complete,
            "warnings": self.warnings,
            "artifacts": str(self.artifacts),
        }
