"""Running a playbook on a cluster: one at a time, within a budget of failures, resumable."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufleet.paths import inventory_dir, repo_root

from .budget import parse_budget
from .changes import hidden_change
from .part import Event, Order, Part
from .place import RunState, claimed, close_to_others, new_run, read_state, write_state
from .result import NodeResult, RunError, RunResult

# Comes before all events of ansible-runner, with `hosts`, `plays` and what is `allowed` to fail.
PLAN = "gpufleet_plan"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class UnknownPlaybookError(RunError):
    """There is no playbook of that name."""


def playbooks_dir() -> Path:
    """Folder of the playbooks that can be run by name."""
    return repo_root() / "playbooks"


def playbooks() -> list[str]:
    """Names of the playbooks that there are."""
    return sorted(path.stem for path in playbooks_dir().glob("*.yml"))


def run(
    cluster: str,
    playbook: str | Path,
    *,
    limit: str | None = None,
    tags: str | None = None,
    check: bool = False,
    extra: Mapping[str, Any] | None = None,
    max_failures: str = "0",
    resume: bool = False,
    on_event: Callable[[Event], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> RunResult:
    """Run a playbook on the nodes of a cluster and say what became of each.

    `playbook` is a name out of `playbooks()`, or the path of a file. `limit` is names of nodes and
    groups with commas, `tags` likewise of tags, `check` changes nothing. `extra` are variables;
    they go by a file that is removed as soon as it is read. `max_failures` is how many nodes may
    fail or be unreachable, all plays together, before the run ends: a count or a share such as
    20%. With `resume` only nodes are taken that the last run of this playbook did not bring to the
    end; where there are none, nothing is run and the result has no nodes.

    `on_event` gets the PLAN and every event of ansible-runner, `on_notice` what people should know
    meanwhile. In the main thread an interrupt, the end of the terminal or SIGTERM ends the run
    before the next task, a second one at once.

    Raises RunError where nothing was begun: no such playbook, another run under way (BusyError),
    no earlier run to resume.
    """
    path = _find(playbook)
    budget = parse_budget(max_failures)
    inventory = inventory_dir(cluster)
    if not inventory.is_dir():
        raise RunError(f"no cluster {cluster!r}: {inventory} does not exist")
    with claimed(cluster) as folder:
        before = None
        if resume:
            before = _to_resume(read_state(folder, path.stem), cluster, path.stem, limit, tags)
            if not before.failed and not before.left:
                last = folder / before.run
                return RunResult(cluster, path.stem, last, resumed_past=before.done)
        run_folder = new_run(folder, path.stem)
        result = RunResult(cluster, path.stem, run_folder)
        order = Order(
            path, inventory, limit=limit, tags=tags, check=check, budget=budget, extra=extra or {}
        )
        if before is not None:
            result.resumed_past = before.done
            # Not the failed and left alone: nodes that are new since then are not done either.
            order = replace(order, limit=before.limit, without=before.done, tags=before.tags)

        def record(*, ended: bool) -> None:
            if not check and result.nodes:
                write_state(folder, _state(result, order, before, ended=ended))

        began = time.monotonic()
        try:
            _Parts(result, order, on_event, on_notice, lambda: record(ended=False)).play()
        finally:
            result.seconds = time.monotonic() - began
            close_to_others(run_folder)
            record(ended=True)
    return result


class _Parts:
    """The starts of Ansible that make up one run, and what they add up to.

    Mostly there is one. Ansible itself gives up all nodes when every host of a batch is lost, or
    one in a play with `any_errors_fatal`; while that is within the budget, the others go on in
    another start.
    """

    def __init__(
        self,
        result: RunResult,
        order: Order,
        on_event: Callable[[Event], None] | None,
        on_notice: Callable[[str], None] | None,
        on_plan: Callable[[], None],
    ) -> None:
        self.result = result
        self.order = order
        self.on_event = on_event or (lambda _: None)
        self.on_plan = on_plan
        self.notice = on_notice or (lambda _: None)
        self.allowed: int | None = None
        self.lost: set[str] = set()
        self.done: set[str] = set()
        self.targets: set[str] = set()
        self.current: Part | None = None
        self.asked = 0

    def play(self) -> None:
        """Run all parts."""
        with self._interruptible():
            order, number = self.order, 1
            while True:
                part = Part(order, self.result.artifacts / str(number))
                self.current = part
                if self.asked:
                    self.result.stopped = "asked"
                    break
                try:
                    part.play(self._see)
                finally:
                    lost_now = self._take(part)
                left = self._left()
                if not left or not lost_now or self.result.stopped or self.result.error:
                    break
                if self.allowed is None or len(self.lost) > self.allowed:
                    break
                number += 1
                self.notice(
                    f"lost {', '.join(sorted(lost_now))}, within the budget of {self.allowed}; "
                    f"going on with {len(left)} node{'s' if len(left) != 1 else ''}"
                )
                order = replace(order, hosts=left, budget=str(self.allowed), spent=len(self.lost))

    def _see(self, event: Event) -> None:
        if self.allowed is None and self.current is not None and self.current.plan:
            plan = self.current.plan
            self._adopt(plan)
            self.on_plan()
            self.on_event({"event": PLAN, "event_data": plan})
        self.on_event(event)

    def _adopt(self, plan: Mapping[str, Any]) -> None:
        self.allowed = int(plan["allowed"])
        self.targets = set(plan["hosts"])
        self.result.left = self._left()
        for name in plan["hosts"]:
            self.result.nodes.setdefault(name, NodeResult())

    def _left(self) -> list[str]:
        return sorted(self.targets - self.lost - self.done)

    def _take(self, part: Part) -> set[str]:
        """Add a part that has ended to the result; returns the nodes that it lost."""
        plan, watch, tally = part.plan, part.watch, part.tally
        if self.allowed is None and plan:
            self._adopt(plan)
        hidden = watch.get("hidden", ())
        for row in hidden:
            # Its event lost that along with the rest.
            tally.nodes.setdefault(row["node"], NodeResult()).changed += 1
        for name, node in tally.nodes.items():
            _add(self.result.nodes.setdefault(name, NodeResult()), node)
        lost = {*watch.get("failed", ()), *watch.get("unreachable", ())}
        self.lost |= lost
        self.done |= set(watch.get("done", ()))
        for name, node in self.result.nodes.items():
            if name not in self.lost:
                # A failure that a rescue has taken up is none.
                node.error = node.task = None
        self.result.changes += tally.changes
        self.result.changes += [hidden_change(row) for row in hidden]
        self.result.failed, self.result.done = sorted(self.lost), sorted(self.done)
        self.result.left = self._left()
        self._judge(part, lost)
        return lost

    def _judge(self, part: Part, lost: set[str]) -> None:
        watch, result = part.watch, self.result
        differences = part.tally.differences(watch.get("sent", {}))
        stats_due = watch.get("ended") and not watch.get("stopped")
        if stats_due and part.tally.stats is None:
            differences.append("Ansible's summary did not arrive")
        if part.killed:
            result.stopped = "killed"
            differences = ["the run was ended in the middle"]
        elif watch.get("stopped"):
            result.stopped = watch["stopped"]
        elif not watch.get("ended"):
            result.error = part.output_tail() or f"Ansible ended with code {part.code}"
        elif part.code != 0 and not lost:
            result.error = part.output_tail()
        if differences:
            result.events_complete = False
            result.warnings += [f"events are incomplete: {text}" for text in differences]

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(*_: Any) -> None:
            self.asked += 1
            if self.current is None:
                return
            if self.asked == 1:
                self.current.stop()
                text = "finishing what is under way on the nodes; again to stop at once"
            else:
                self.current.kill()
                text = "stopping at once"
            # A terminal that is gone cannot be told.
            with suppress(OSError):
                self.notice(text)

        before = {number: signal.signal(number, interrupt) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _find(playbook: str | Path) -> Path:
    if isinstance(playbook, Path):
        return playbook.resolve()
    if playbook not in playbooks():
        raise UnknownPlaybookError(
            f"no playbook {playbook!r}; there are: {', '.join(playbooks()) or 'none'}"
        )
    return playbooks_dir() / f"{playbook}.yml"


def _add(total: NodeResult, part: NodeResult) -> None:
    for name in ("ok", "changed", "failed", "unreachable", "skipped", "ignored", "seconds"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    if part.error is not None:
        total.error, total.task = part.error, part.task


def _to_resume(
    state: RunState | None, cluster: str, playbook: str, limit: str | None, tags: str | None
) -> RunState:
    if state is None:
        raise RunError(f"nothing to resume: {playbook} has not run on {cluster} yet")
    if limit is not None:
        raise RunError("--resume takes the nodes of the run that it resumes; leave out --limit")
    if tags is not None and tags != state.tags:
        raise RunError(
            f"the run to resume had --tags {state.tags or 'none'}, not {tags}; "
            "leave out --tags, or run without --resume"
        )
    return state


def _state(result: RunResult, order: Order, before: RunState | None, *, ended: bool) -> RunState:
    earlier = before.done if before is not None else []
    return RunState(
        playbook=result.playbook,
        run=result.artifacts.name,
        tags=order.tags,
        limit=before.limit if before is not None else order.limit,
        done=sorted({*earlier, *result.done}),
        failed=result.failed,
        left=result.left,
        ended=ended,
    )
