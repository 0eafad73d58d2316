"""Action of `gpufleet.node.unpack`: sends the archive only to nodes that want it."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Asks with the checksum first, then sends."""

    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Result of the module."""
        result = super().run(tmp, task_vars)
        arguments = {key: self._task.args[key] for key in ("src", "sha256", "dest")}
        result.update(self._ask(arguments, task_vars))
        if result.get("wanted") and not self._task.check_mode:
            source = Path(arguments["src"])
            if not source.is_file():
                raise AnsibleActionFail(f"src: there is no file {source}")
            folder = self._make_tmp_path()
            path = self._connection._shell.join_path(folder, "archive")
            self._transfer_file(str(source), path)
            result.update(self._ask({**arguments, "archive": path}, task_vars))
            self._remove_tmp_path(folder)
        result.pop("invocation", None)
        return result

    def _ask(self, arguments, task_vars):
        return self._execute_module(
            module_name="gpufleet.node.unpack", module_args=arguments, task_vars=task_vars
        )
