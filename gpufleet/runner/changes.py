"""What a task changed, or would change, read from its result."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from .result import Change

# Headers of our own modules; a header that is an absolute path means a file.
KINDS = {"package": "package", "unit": "unit"}
COMMANDS = ("command", "shell", "script", "raw")
# Said by Ansible's own modules that look after a service.
UNITS = ("service", "systemd", "systemd_service")
HIDDEN = "hidden (no_log)"


def changes_of(data: Mapping[str, Any]) -> list[Change]:
    """The changes of one result's event data; a loop gives those of each item."""
    return list(_changes(data))


def hidden_change(row: Mapping[str, str]) -> Change:
    """A change by a task that handles a secret: that it is one, and nothing of what it is."""
    return Change(row["node"], "other", row["task"], HIDDEN, HIDDEN, row["role"], row["task"])


def _changes(data: Mapping[str, Any]) -> Iterator[Change]:
    result = data.get("res") or {}
    items = [x for x in result.get("results") or [] if isinstance(x, dict)]
    for item in items if items else [result]:
        if not item.get("changed"):
            continue
        rows = [row for row in _diffs(item.get("diff")) if row.get("before") != row.get("after")]
        if rows:
            for row in rows:
                yield _from_diff(data, row)
        else:
            yield _without_diff(data, item)


def _diffs(value: Any) -> list[dict[str, Any]]:
    rows = value if isinstance(value, list) else [value]
    return [row for row in rows if isinstance(row, dict) and row]


def _from_diff(data: Mapping[str, Any], row: Mapping[str, Any]) -> Change:
    kind, name = _subject(data, row)
    before, after = _text(row.get("before")), _text(row.get("after"))
    if kind == "file":
        before, after = differing(before or "", after or "")
    return _change(data, kind, name, before, after)


def _subject(data: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, str]:
    header = str(row.get("before_header") or row.get("after_header") or "")
    word, _, rest = header.partition(" ")
    if word in KINDS and rest:
        return KINDS[word], rest
    if header.startswith("/"):
        # Ansible's own modules add "(content)" or the like to the path.
        return "file", header.partition(" (")[0]
    for side in ("after", "before"):
        value = row.get(side)
        if isinstance(value, Mapping) and str(value.get("path", "")).startswith("/"):
            return "file", str(value["path"])
    return "other", header or str(data.get("task") or "")


def _without_diff(data: Mapping[str, Any], item: Mapping[str, Any]) -> Change:
    action = str(data.get("task_action") or "").rpartition(".")[2]
    task = str(data.get("task") or "")
    if action in COMMANDS:
        command = item.get("cmd")
        text = " ".join(map(str, command)) if isinstance(command, list) else str(command or task)
        return _change(data, "command", text, None, None)
    path = item.get("dest") or item.get("path")
    if path:
        return _change(data, "file", str(path), None, None)
    if action in UNITS and item.get("name"):
        return _change(data, "unit", str(item["name"]), None, None)
    return _change(data, "other", task, None, None)


def _change(
    data: Mapping[str, Any], kind: str, name: str, before: str | None, after: str | None
) -> Change:
    node, role = str(data.get("host") or ""), str(data.get("role") or "")
    return Change(node, kind, name, before, after, role, str(data.get("task") or ""))


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True)


def differing(before: str, after: str) -> tuple[str, str]:
    """Of two texts the lines that the other one lacks at that place."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    left, right = [], []
    for operation, a, b, c, d in matcher.get_opcodes():
        if operation != "equal":
            left += old[a:b]
            right += new[c:d]
    if not left and not right:
        return before, after
    return "\n".join(left), "\n".join(right)
