"""What the process of the tests tells the command line: one JSON object a line."""

import json
from typing import Any

from .model import NodeReport, Row, Verdict

STARTED = "started"
"""A node is being asked: {"event", "node"}."""
DONE = "done"
"""A node is judged: {"event", "node", "seconds", "rows": [...]}."""


def started(node: str) -> str:
    """The line for a node that is being asked."""
    return json.dumps({"event": STARTED, "node": node}) + "\n"


def done(report: NodeReport) -> str:
    """The line for a node that is judged."""
    rows = [
        [row.check, row.title, str(row.verdict), list(row.reasons), row.command, row.hint,
         row.seconds]
        for row in report.rows
    ]  # fmt: skip
    value = {"event": DONE, "node": report.node, "seconds": report.seconds, "rows": rows}
    return json.dumps(value) + "\n"


def read(line: str) -> tuple[str, NodeReport | None]:
    """(node, its report or None when it was started); raises ValueError for another line."""
    try:
        value: dict[str, Any] = json.loads(line)
        if value["event"] == STARTED:
            return str(value["node"]), None
        rows = tuple(
            Row(name, title, Verdict(verdict), tuple(reasons), command, hint, seconds)
            for name, title, verdict, reasons, command, hint, seconds in value["rows"]
        )
        return str(value["node"]), NodeReport(value["node"], rows, float(value["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no event of verify: {line[:80]!r}") from error
