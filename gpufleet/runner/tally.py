"""Counting what a run does, node by node, from the events of ansible-runner."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .changes import changes_of
from .result import Change, NodeResult

RESULTS = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}
# Ansible counts such a task once for every file that it takes in, not once a host.
INCLUDES = ("include_tasks", "include_role")


@dataclass
class Tally:
    """Counts of one run so far; feed it every event in order."""

    nodes: dict[str, NodeResult] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    received: dict[str, Counter[str]] = field(default_factory=dict)
    includes: Counter[str] = field(default_factory=Counter)
    stats: Mapping[str, Any] | None = None

    def add(self, event: Mapping[str, Any]) -> None:
        """Count one event of ansible-runner."""
        data = event.get("event_data") or {}
        if event.get("event") == "playbook_on_stats":
            self.stats = data
        kind = RESULTS.get(str(event.get("event")))
        if kind is not None and "host" in data:
            self._add_result(kind, data)

    def _add_result(self, kind: str, data: Mapping[str, Any]) -> None:
        name = str(data["host"])
        node = self.nodes.setdefault(name, NodeResult())
        self.received.setdefault(name, Counter())[kind] += 1
        result = data.get("res") or {}
        node.seconds += float(data.get("duration") or 0.0)
        if kind == "ok" and str(data.get("task_action", "")).endswith(INCLUDES):
            self.includes[name] += 1
        if kind == "failed" and data.get("ignore_errors"):
            node.ignored += 1
            return
        setattr(node, kind, getattr(node, kind) + 1)
        if kind in ("failed", "unreachable"):
            node.error = explain(result)
            node.task = label(data)
        elif kind == "ok" and result.get("changed"):
            node.changed += 1
        if result.get("changed"):
            self.changes += changes_of(data)

    def differences(self, sent: Mapping[str, Mapping[str, int]]) -> list[str]:
        """How these counts disagree with what Ansible says it has sent, and with its own stats.

        `sent` is results by node and kind as counted inside Ansible. Empty where all is in order.
        """
        found = []
        for name in sorted({*sent, *self.received}):
            there, here = dict(sent.get(name, {})), dict(self.received.get(name, {}))
            if there != here:
                found.append(f"{name}: Ansible sent {_counts(there)}, received {_counts(here)}")
        if self.stats is not None:
            found += self._against_stats(self.stats)
        return found

    def _against_stats(self, stats: Mapping[str, Any]) -> list[str]:
        def stat(key: str, name: str) -> int:
            return int((stats.get(key) or {}).get(name, 0))

        found = []
        for name in sorted({*(stats.get("processed") or {}), *self.nodes}):
            node = self.nodes.get(name, NodeResult())
            whole = node.ok + node.ignored - self.includes[name]
            pairs = [
                ("skipped", stat("skipped", name), node.skipped),
                ("failed", stat("failures", name) + stat("rescued", name), node.failed),
            ]
            if stat("ignored", name) == node.ignored:
                # Else a task did not mind an unreachable host, which counts there as ok.
                pairs.append(("unreachable", stat("dark", name), node.unreachable))
            if node.ignored == 0:
                pairs.append(("changed", stat("changed", name), node.changed))
            found += [
                f"{name}: Ansible counts {theirs} {kind}, its events say {ours}"
                for kind, theirs, ours in pairs
                if theirs != ours
            ]
            if whole > stat("ok", name):
                found.append(
                    f"{name}: Ansible counts {stat('ok', name)} ok, its events say {whole}"
                )
        return found


def label(data: Mapping[str, Any]) -> str:
    """A task as people find it again: role and name."""
    role = str(data.get("role") or "")
    task = str(data.get("task") or "")
    return f"{role} : {task}" if role else task


def explain(result: Mapping[str, Any]) -> str:
    """Everything that a failed result says, the message first; nothing of it is cut."""
    if "censored" in result:
        return "hidden, since the task handles a secret (no_log)"
    parts = [str(result["msg"]).strip()] if result.get("msg") else []
    failed = [x for x in result.get("results") or [] if isinstance(x, dict) and x.get("failed")]
    for item in failed:
        parts.append(f"{item.get('item', 'item')}: {explain(item)}")
    for key in ("stderr", "module_stderr", "stdout", "module_stdout"):
        text = str(result.get(key) or "").strip()
        if text and not any(text in part for part in parts):
            parts.append(text)
    return "\n".join(parts) or "failed without a message"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "nothing"
