"""Ansible callback `gpufleet_watch`: ends a run between two tasks, and records who is through.

Ansible's own limit, `max_fail_percentage`, counts failed hosts alone: an unreachable one never
reaches it. It also starts anew with every play and batch. Here both kinds share one budget for the
whole run. The run ends where no node is in the middle of anything: when a task is about to start,
all nodes have ended the one before.

It reads from the environment the folder of the run (GPUFLEET_RUN_FOLDER), the budget
(GPUFLEET_RUN_BUDGET, a count or such as 20%), what earlier parts of the run have spent of it
(GPUFLEET_RUN_SPENT), and a file to remove once it is read (GPUFLEET_RUN_EXTRA). In the folder it
writes `plan.json` once and `watch.json` as the run goes; a file `stop` there asks it to end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible._internal._plugins._strategy import StrategyContext
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: gpufleet_watch
type: notification
short_description: Ends a run between two tasks, and records who is through
description:
  - Counts failed and unreachable hosts against one budget for the whole run.
options: {}
"""

# The strategies in which no host is at work when a task is about to start.
LOCKSTEP = frozenset({"linear", "ansible.builtin.linear"})


def allowed(budget: str, total: int) -> int:
    """How many of `total` hosts may fail: a count, or a share such as 20%, rounded down."""
    return total * int(budget[:-1]) // 100 if budget.endswith("%") else int(budget)


def identity(play: Any) -> str:
    """What all batches of a play have in common: ansible-runner adds the batch to the id."""
    return str(play._uuid).split("_")[0]


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Sees every result in Ansible's own process, so none can be lost on the way."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "gpufleet_watch"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.environ["GPUFLEET_RUN_FOLDER"])
        self.spent = int(os.environ.get("GPUFLEET_RUN_SPENT", "0"))
        self.allowed = 0
        self.inventory: Any = None
        self.manager: Any = None
        self.lockstep = True
        self.batch: tuple[str, set[str]] | None = None
        self.open: dict[str, set[str]] = {}
        self.failed: set[str] = set()
        self.unreachable: set[str] = set()
        self.out: set[str] = set()
        self.sent: dict[str, dict[str, int]] = {}
        self.hidden: list[dict[str, str]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Say which hosts and plays the run has."""
        extra = os.environ.get("GPUFLEET_RUN_EXTRA")
        if extra:
            Path(extra).unlink(missing_ok=True)
        plays = playbook.get_plays()
        self.inventory = plays[0].get_variable_manager()._inventory
        for play in plays:
            for name in self._hosts(play.hosts):
                self.open.setdefault(name, set()).add(identity(play))
        self.allowed = allowed(os.environ.get("GPUFLEET_RUN_BUDGET", "0"), len(self.open))
        self._write(
            "plan.json",
            {
                "pid": os.getpid(),
                "hosts": sorted(self.open),
                "plays": [play.get_name() for play in plays],
                "allowed": self.allowed,
            },
        )
        self._record()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Close the batch before, and begin this one unless the run is to end."""
        self._close_batch()
        self.lockstep = play.strategy in LOCKSTEP
        self._end_if_due()
        meant = set(self._hosts(play.hosts))
        for name, plays in self.open.items():
            if name not in meant:
                plays.discard(identity(play))
        self.batch = (identity(play), set(self._hosts(play.hosts, batch=True)))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        """End the run here if that is due."""
        self._boundary()

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:  # noqa: ARG002
        """End the run here if that is due."""
        self._boundary()

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        """Close the last batch: the run went to its end, or no host was left for it."""
        self._close_batch()
        self._record(ended=True)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Count a result."""
        self._count(result, "ok")
        if result.result.get("_ansible_no_log") and result.is_changed():
            role = result.task._role
            self.hidden.append(
                {
                    "node": result.host.get_name(),
                    "role": role.get_name() if role else "",
                    "task": result.task.name or result.task.action,
                }
            )

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Count a result."""
        self._count(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Count a result; the host is lost unless a rescue takes it up."""
        self._count(result, "failed")
        if not ignore_errors:
            self.failed.add(result.host.get_name())

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Count a result; the host is lost unless the task does not mind."""
        self._count(result, "unreachable")
        if not result.task.ignore_unreachable:
            self.unreachable.add(result.host.get_name())

    def _count(self, result: Any, kind: str) -> None:
        counts = self.sent.setdefault(result.host.get_name(), {})
        counts[kind] = counts.get(kind, 0) + 1

    def _hosts(self, pattern: Any, batch: bool = False) -> list[str]:
        text = ",".join(pattern) if isinstance(pattern, list) else str(pattern)
        if "{{" in text:
            # Not known before its play starts; until then any host may be meant.
            text = "all"
        found = self.inventory.get_hosts(text, ignore_restrictions=not batch)
        return [str(host.get_name()) for host in found]

    def _boundary(self) -> None:
        self.manager = StrategyContext.current().tqm
        self._note()
        if self.lockstep:
            self._end_if_due()

    def _note(self) -> None:
        # Ansible's own lists: a rescued host is not on them; one that another's fatal error takes
        # along is. They are cleared with every play, hence the union.
        if self.manager is not None:
            self.out |= set(self.manager._failed_hosts) | set(self.manager._unreachable_hosts)

    def _lost(self) -> set[str]:
        return (self.failed & self.out) | self.unreachable

    def _close_batch(self) -> None:
        self._note()
        if self.batch is not None:
            play, hosts = self.batch
            for name in hosts - self.out:
                self.open.get(name, set()).discard(play)
            self.batch = None
        self._record()

    def _end_if_due(self) -> None:
        reason = None
        if len(self._lost()) + self.spent > self.allowed:
            reason = "budget"
        elif (self.folder / "stop").exists():
            reason = "asked"
        if reason:
            self._record(ended=True, stopped=reason)
            # The way Ansible itself ends on an interrupt: no other exception of a callback gets
            # past its dispatcher. No host is at work now.
            raise KeyboardInterrupt

    def _record(self, ended: bool = False, stopped: str | None = None) -> None:
        lost = self._lost()
        self._write(
            "watch.json",
            {
                "ended": ended,
                "stopped": stopped,
                "done": sorted(x for x, plays in self.open.items() if not plays and x not in lost),
                "failed": sorted(lost - self.unreachable),
                "unreachable": sorted(self.unreachable),
                "sent": self.sent,
                "hidden": self.hidden,
            },
        )

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        temporary = self.folder / f".{name}"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            json.dump(value, f)
        temporary.replace(self.folder / name)
