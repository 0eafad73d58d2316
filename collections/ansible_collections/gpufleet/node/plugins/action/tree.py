"""Action of `gpufleet.node.tree`: sends the folder only to nodes that have another one."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

LARGEST = 16 * 1024 * 1024


def pack(folder):
    """The folder as an archive whose bytes follow from its contents alone."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            row = archive.gettarinfo(str(path), str(path.relative_to(folder)))
            row.mtime = row.uid = row.gid = 0
            row.uname = row.gname = "root"
            if row.isreg():
                with path.open("rb") as content:
                    archive.addfile(row, content)
            else:
                archive.addfile(row)
    return stream.getvalue()


class ActionModule(ActionBase):
    """Asks with the digest first, then sends."""

    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Result of the module."""
        result = super().run(tmp, task_vars)
        folder = Path(self._task.args.get("src", ""))
        if not folder.is_dir():
            if self._task.check_mode:
                return {**result, "changed": True, "diff": []}
            raise AnsibleActionFail(f"src: {folder} is no folder")
        archive = pack(folder)
        if len(archive) > LARGEST:
            raise AnsibleActionFail(
                f"{folder} has {len(archive)} bytes; at most {LARGEST} are sent so"
            )
        arguments = {
            "dest": self._task.args["dest"],
            "digest": hashlib.sha256(archive).hexdigest(),
        }
        result.update(self._ask(arguments, task_vars))
        if result.get("wanted") and not self._task.check_mode:
            text = base64.b64encode(archive).decode()
            result.update(self._ask({**arguments, "archive": text}, task_vars))
        result.pop("invocation", None)
        return result

    def _ask(self, arguments, task_vars):
        return self._execute_module(
            module_name="gpufleet.node.tree", module_args=arguments, task_vars=task_vars
        )
