"""The engine's event log: one JSON object a line, read while it is being written."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

POLL = 0.05


@dataclass(frozen=True)
class Step:
    """Something the engine began, finished or failed on one resource."""

    state: Literal["begun", "done", "failed"]
    operation: str
    kind: str
    name: str


@dataclass(frozen=True)
class Message:
    """A message for the operator; severity is the engine's: info, warning, error."""

    severity: str
    text: str


Event = Step | Message

# What the engine says about a replaced resource comes in three steps; these two say it all.
SILENT = frozenset({"same", "replace", "read"})


def parse(line: str) -> Event | None:
    """One line of the log, or None for what an operator need not see."""
    row = json.loads(line)
    for key, state in (
        ("resourcePreEvent", "begun"),
        ("resOutputsEvent", "done"),
        ("resOpFailedEvent", "failed"),
    ):
        if key in row:
            return _step(row[key]["metadata"], state)
    if "diagnosticEvent" in row:
        event = row["diagnosticEvent"]
        text = event["message"].replace("<{%reset%}>", "").strip()
        shown = text and not event.get("ephemeral") and event["severity"] != "debug"
        return Message(event["severity"].removeprefix("info#"), text) if shown else None
    return None


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[Event]:
    """Events of a log as they are written, until the writer has ended and all was read."""
    with path.open() as log:
        rest = ""
        while True:
            last = ended()
            rest += log.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                event = parse(line) if line.strip() else None
                if event is not None:
                    yield event
            if last:
                return
            time.sleep(POLL)


def _step(metadata: dict[str, Any], state: Any) -> Step | None:
    kind = metadata["type"].rsplit(":", 1)[-1]
    internal = metadata["type"].startswith("pulumi:")
    if metadata["op"] in SILENT or internal:
        return None
    return Step(state, metadata["op"], kind, metadata["urn"].rsplit("::", 1)[-1])
