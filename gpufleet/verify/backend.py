"""testinfra's way to a node: over the fleet's own SSH, from what was gathered where it can."""

from collections.abc import Mapping
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult

from .model import Output
from .remote import Asker


class FleetBackend(BaseBackend):  # type: ignore[misc]  # testinfra has no types
    """One node. Commands that were gathered are not run again; all others are, one by one."""

    NAME = "gpufleet"

    def __init__(self, node: str, asker: Asker, gathered: Mapping[str, Output]) -> None:
        super().__init__(node)
        self._asker = asker
        self._gathered = gathered
        # Else testinfra would ask the node, with a Python of its own.
        self._encoding = "utf-8"
        self.last = ""
        """The command that was asked for last."""

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run a shell command with quoted arguments; raises Unreachable."""
        text = self.get_command(command, *args)
        self.last = text
        found = self._gathered.get(text) or self._asker.run(self.hostname, text)
        return self.result(found.code, text.encode(), found.out, found.err)
