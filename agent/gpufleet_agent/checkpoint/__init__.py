"""Checkpoints: no acknowledged turn of a session is lost, whatever dies.

Every turn goes to a journal (group commit: one fsync for all that wait), every 50 records a
snapshot of all sessions is written, and a fence file says who may write. See docs/checkpoints.md.
"""

from gpufleet_agent.checkpoint.errors import (
    PERMANENT,
    BadInput,
    CheckpointError,
    Closed,
    Damaged,
    Fenced,
    StorageAway,
    StorageDenied,
    StorageError,
    StorageFailed,
    StorageFault,
    StorageFull,
    Unacknowledged,
    VersionRefused,
)
from gpufleet_agent.checkpoint.files import Files, PosixFiles
from gpufleet_agent.checkpoint.health import Condition, Health
from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.place import Place, Settings, prepare_root
from gpufleet_agent.checkpoint.records import FORMAT, Format, Turn
from gpufleet_agent.checkpoint.recovery import Recovered
from gpufleet_agent.checkpoint.sessions import Session, Sessions
from gpufleet_agent.checkpoint.store import CheckpointStore

__all__ = [
    "FORMAT",
    "PERMANENT",
    "BadInput",
    "CheckpointError",
    "CheckpointStore",
    "Closed",
    "Condition",
    "Damaged",
    "Fenced",
    "Files",
    "Format",
    "Health",
    "Line",
    "Place",
    "PosixFiles",
    "Recovered",
    "Session",
    "Sessions",
    "Settings",
    "StorageAway",
    "StorageDenied",
    "StorageError",
    "StorageFailed",
    "StorageFault",
    "StorageFull",
    "Turn",
    "Unacknowledged",
    "VersionRefused",
    "prepare_root",
]
