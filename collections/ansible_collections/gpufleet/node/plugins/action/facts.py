"""Action of `gpufleet.node.facts`: adds how far the node's clock is from the operator's."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """The facts, and `clock_offset`: {seconds, within} with the bound of its error."""

    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Result of the module with the offset: node's time less ours, half a round trip unsure."""
        result = super().run(tmp, task_vars)
        before = time.time()
        result.update(
            self._execute_module(
                module_name="gpufleet.node.facts",
                module_args=dict(self._task.args),
                task_vars=task_vars,
            )
        )
        after = time.time()
        if "time" in result:
            there = result.pop("time")
            result["clock_offset"] = {
                "seconds": round(there - (before + after) / 2, 3),
                "within": round((after - before) / 2, 3),
            }
        return result
