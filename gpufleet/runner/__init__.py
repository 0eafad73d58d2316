"""Running playbooks on a cluster: `run` is the one way in, for every command that configures."""

from .result import BusyError, Change, NodeResult, PlaceError, RunError, RunResult
from .running import UnknownPlaybookError, playbooks, run

__all__ = [
    "BusyError",
    "Change",
    "NodeResult",
    "PlaceError",
    "RunError",
    "RunResult",
    "UnknownPlaybookError",
    "playbooks",
    "run",
]
