"""Action of `gpufleet.node.files`: renders on the controller what the module lays on the node."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

KEYS = {
    "dest", "template", "content", "base64", "copy", "link", "folder", "absent",
    "mode", "owner", "group", "validate", "secret", "once", "when",
}  # fmt: skip
SOURCES = ("template", "content", "base64", "copy", "link", "folder", "absent")
MODE = re.compile(r"0[0-7]{3}")


class ActionModule(ActionBase):
    """Checks every entry, renders all of them, then has the module lay them in one call."""

    _requires_connection = True
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Result of the module; fails before the node is touched when an entry is wrong."""
        result = super().run(tmp, task_vars)
        entries = self._task.args.get("files")
        unknown = set(self._task.args) - {"files"}
        if unknown or not isinstance(entries, list):
            raise AnsibleActionFail(
                f"files: a list is expected, and nothing beside it {unknown or ''}"
            )
        ready = [
            self._entry(number, dict(entry), task_vars)
            for number, entry in enumerate(entries)
            if entry.get("when", True) is True
        ]
        if any(entry.get("secret") for entry in ready) and not self._task.no_log:
            raise AnsibleActionFail("files: a task with a secret file needs `no_log: true`")
        result.update(
            self._execute_module(
                module_name="gpufleet.node.files", module_args={"files": ready}, task_vars=task_vars
            )
        )
        # The whole text of every file once more, which no one reads and every log would keep.
        result.pop("invocation", None)
        return result

    def _entry(self, number, entry, task_vars):
        where = f"files[{number}] {entry.get('dest', '')}".rstrip()
        if unknown := set(entry) - KEYS:
            raise AnsibleActionFail(f"{where}: no such key: {', '.join(sorted(unknown))}")
        given = [key for key in SOURCES if entry.get(key) not in (None, False)]
        if len(given) != 1:
            raise AnsibleActionFail(
                f"{where}: one of {', '.join(SOURCES)} is expected, seen {given}"
            )
        dest = entry.get("dest")
        if not isinstance(dest, str) or not dest.startswith("/"):
            raise AnsibleActionFail(f"{where}: dest is an absolute path, seen {dest!r}")
        mode = entry.get("mode")
        if mode is not None and not (isinstance(mode, str) and MODE.fullmatch(mode)):
            raise AnsibleActionFail(f"{where}: mode is text such as '0644', seen {mode!r}")
        entry.pop("when", None)
        if given[0] == "template":
            text = self._render(where, entry.pop("template"), task_vars)
            entry["content_base64"] = base64.b64encode(text.encode()).decode()
        elif given[0] == "content":
            entry["content_base64"] = base64.b64encode(entry.pop("content").encode()).decode()
        elif given[0] == "base64":
            entry["content_base64"] = entry.pop("base64")
        elif given[0] == "copy":
            source = self._find_needle("files", entry.pop("copy"))
            entry["content_base64"] = base64.b64encode(Path(source).read_bytes()).decode()
        return entry

    def _render(self, where, name, task_vars):
        source = Path(self._find_needle("templates", name))
        templar = self._templar.copy_with_new_env(
            searchpath=[str(source.parent)],
            available_variables={**task_vars, "template_path": str(source)},
        )
        text = templar.template(
            trust_as_template(source.read_text()),
            escape_backslashes=False,
            overrides={"trim_blocks": True, "lstrip_blocks": True},
        )
        if not isinstance(text, str):
            raise AnsibleActionFail(f"{where}: the template {name} did not give text")
        return text if text.endswith("\n") else text + "\n"
