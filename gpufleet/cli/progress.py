"""Showing an engine's operation while it runs: live on a terminal, line by line elsewhere."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from gpufleet.engine import Operation
from gpufleet.engine.events import Step

from .exits import err

VERBS = {
    "create": ("making", "made"),
    "create-replacement": ("making anew", "made anew"),
    "delete": ("removing", "removed"),
    "delete-replaced": ("removing the old", "removed the old"),
    "update": ("changing", "changed"),
    "refresh": ("looking at", "looked at"),
}
# Looking is quick and says nothing by itself; what follows from it is shown.
QUIET = frozenset({"refresh"})


def label(step: Step) -> str:
    """A resource as people call it."""
    return step.name if step.kind == step.name.capitalize() else f"{step.kind} {step.name}"


def show(operation: Operation) -> list[dict[str, Any]]:
    """Show an operation to its end; returns what was done, in order.

    An interrupt asks the engine to finish what is under way: nothing is left half made.
    """
    begun: dict[str, tuple[Step, float]] = {}
    done: list[dict[str, Any]] = []
    with _interruptible(operation), Live(console=err, refresh_per_second=8, transient=True) as live:
        for event in operation.events():
            if not isinstance(event, Step) or event.operation in QUIET:
                continue
            key = f"{event.operation} {event.kind} {event.name}"
            if event.state == "begun":
                begun[key] = (event, time.monotonic())
            else:
                started = begun.pop(key, (event, time.monotonic()))[1]
                seconds = time.monotonic() - started
                done.append(
                    {
                        "operation": event.operation,
                        "kind": event.kind,
                        "name": event.name,
                        "ok": event.state == "done",
                        "seconds": round(seconds, 2),
                    }
                )
                verb = VERBS.get(event.operation, (event.operation, event.operation))[1]
                text = verb if event.state == "done" else f"could not be {verb}"
                live.console.print(f"  {label(event)}: {text} ({seconds:.1f} s)", markup=False)
            live.update(_current(begun))
    return done


def _current(begun: dict[str, tuple[Step, float]]) -> Text:
    now = time.monotonic()
    rows = [
        f"  {label(step)}: {VERBS.get(step.operation, (step.operation,))[0]} ({now - since:.0f} s)"
        for step, since in list(begun.values())[:12]
    ]
    return Text("\n".join(rows), style="dim")


@contextmanager
def _interruptible(operation: Operation) -> Iterator[None]:
    def cancel(*_: Any) -> None:
        err.print("  finishing what is under way; interrupt again to stop at once")
        operation.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
