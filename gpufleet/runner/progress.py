"""Showing a run while it goes on: a line a node on a terminal, line by line elsewhere."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .result import RunResult
from .running import PLAN
from .tally import RESULTS, explain, label

# A role has a task file for each of its phases.
PHASE = re.compile(r"/roles/[^/]+/tasks/([a-z_]+)\.ya?ml:")
# More lines than a screen has would hide those that matter.
SHOWN_NODES = 30
STYLES = {"failed": "red", "unreachable": "red", "changed": "yellow"}


@dataclass
class _Line:
    state: str = "waits"
    where: str = ""
    phase: str = ""
    plays: int = 0
    changed: int = 0


def phase_of(data: Mapping[str, Any]) -> str:
    """The phase that a task belongs to, such as install; empty for one outside of a role."""
    match = PHASE.search(str(data.get("task_path") or ""))
    return match[1] if match and match[1] != "main" else ""


class Progress:
    """Shows the events of a run on a console; `with progress.live():` around the run."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lines: dict[str, _Line] = {}
        self.plays = 1
        self.play = ""
        self._announced = ""
        self._live: Live | None = None
        self._began = time.monotonic()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the lines up to date meanwhile, where there is a terminal to do so."""
        if not self.console.is_terminal:
            yield
            return
        with Live(
            get_renderable=self._table, console=self.console, refresh_per_second=6, transient=True
        ) as live:
            self._live = live
            yield

    def notice(self, text: str) -> None:
        """Show what concerns the run as a whole."""
        self._print(Text(f"  {text}", style="bold"))

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        kind, data = str(event.get("event")), event.get("event_data") or {}
        if kind == PLAN:
            self.plays = max(1, len(data["plays"]))
            self.lines = {name: _Line() for name in data["hosts"]}
        elif kind == "playbook_on_play_start":
            self.play = str(data.get("name") or "")
        elif kind == "playbook_on_task_start":
            self._announce(data)
        elif kind == "runner_on_start":
            self._begin(data)
        elif kind in RESULTS and "host" in data:
            self._end(RESULTS[kind], data)

    def _announce(self, data: Mapping[str, Any]) -> None:
        # Every task were too much for a log; where the run stands is not.
        where = " · ".join(x for x in (self.play, str(data.get("role") or ""), phase_of(data)) if x)
        if self._live is None and where != self._announced:
            self._announced = where
            self._print(Text(f"  {where}"))

    def _begin(self, data: Mapping[str, Any]) -> None:
        line = self._line(data)
        parts = (self.play, str(data.get("role") or ""), str(data.get("task") or ""))
        line.where, line.phase = " · ".join(part for part in parts if part), phase_of(data)
        if line.state in ("waits", "ok"):
            line.state = "works"

    def _end(self, kind: str, data: Mapping[str, Any]) -> None:
        line, result = self._line(data), data.get("res") or {}
        if kind == "failed" and data.get("ignore_errors"):
            kind = "ok"
        if kind in ("failed", "unreachable"):
            line.state = kind
            self._print(Text(f"  {data['host']}: {label(data)}: {kind}", style="red"))
            self._print(Text(_indented(explain(result)), style="red"))
            return
        if line.state == "works":
            line.state = "ok"
        if kind == "ok" and result.get("changed"):
            line.changed += 1
            self._print(Text(f"  {data['host']}: {label(data)}: changed", style="yellow"))

    def _line(self, data: Mapping[str, Any]) -> _Line:
        line = self.lines.setdefault(str(data.get("host") or ""), _Line())
        if self.play and line.where.partition(" · ")[0] != self.play:
            line.plays += 1
            line.where = self.play
        return line

    def _print(self, text: Text) -> None:
        (self._live.console if self._live else self.console).print(text, soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        # Those at work first, then the lost ones: they are what is being waited for.
        order = {"works": 0, "unreachable": 1, "failed": 1}
        rows = sorted(self.lines.items(), key=lambda row: (order.get(row[1].state, 2), row[0]))
        for name, line in rows[:SHOWN_NODES]:
            bar = ProgressBar(total=self.plays, completed=min(line.plays, self.plays), width=12)
            state = Text(line.state, style=STYLES.get(line.state, ""))
            table.add_row(
                Text(name), bar, state, Text(line.phase), Text(line.where, overflow="ellipsis")
            )
        if len(rows) > SHOWN_NODES:
            table.add_row(Text(f"and {len(rows) - SHOWN_NODES} more"))
        table.add_row(Text(f"{time.monotonic() - self._began:.0f} s", style="dim"))
        return table


def summary(console: Console, result: RunResult) -> None:
    """Print what became of every node, and each failure with all that was said about it."""
    table = Table(box=None, pad_edge=False)
    for column in ("node", "state", "ok", "changed", "failed", "seconds"):
        table.add_column(column, justify="left" if column in ("node", "state") else "right")
    for name, node in sorted(result.nodes.items()):
        state = _state(result, name, node.unreachable)
        table.add_row(
            name,
            Text(state, style=STYLES.get(state, "")),
            str(node.ok),
            str(node.changed),
            str(node.failed),
            f"{node.seconds:.1f}",
        )
    if result.nodes:
        console.print(table)
    for name in result.failed:
        node = result.nodes[name]
        console.print(Text(f"{name}: {node.task}", style="red"), soft_wrap=True)
        console.print(Text(_indented(node.error or "")), soft_wrap=True)


def _state(result: RunResult, name: str, unreachable: int) -> str:
    if name in result.failed:
        return "unreachable" if unreachable else "failed"
    return "left" if name in result.left else "done"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
