"""Where a line of checkpoints is, and the settings of a store."""

import errno
import zlib
from dataclasses import dataclass

from gpufleet_agent.checkpoint.errors import BadInput, StorageAway
from gpufleet_agent.checkpoint.files import Files, write_file
from gpufleet_agent.checkpoint.names import MARKER, plain_name

_MARKER_TEXT = b"gpufleet checkpoints 1\n"


@dataclass(frozen=True, slots=True)
class Place:
    """`root/agent/line`: one agent's line of checkpoints on the share.

    `gpu` is the UUID of the GPU that the agent runs on. A canary uses a line of its own, so that
    the release before it still finds its own files.
    """

    root: str
    agent: str
    line: str = "main"
    gpu: str = ""

    def __post_init__(self) -> None:
        if not self.root.startswith("/"):
            raise BadInput("checkpoint.path", repr(self.root), "give an absolute path")
        plain_name("agent", self.agent)
        plain_name("checkpoint.line", self.line)

    @property
    def folder(self) -> str:
        """The folder of the line."""
        return f"{self.root.rstrip('/')}/{self.agent}/{self.line}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a store works.

    `every`: records between snapshots. `keep`: generations of snapshots. `segment_bytes`: a
    journal segment longer than this is followed by another. `append_seconds`: how long an append
    waits to be durable. `attempts`: tries against a fault that may pass. `backoff_seconds`,
    `longest_backoff_seconds`: bounds of the waits between tries.
    """

    every: int = 50
    keep: int = 2
    segment_bytes: int = 8 << 20
    append_seconds: float = 5.0
    attempts: int = 3
    backoff_seconds: float = 0.05
    longest_backoff_seconds: float = 5.0

    def __post_init__(self) -> None:
        wrong = [
            f"checkpoint.{field} is {value}, allowed is {low} and more"
            for field, value, low in (
                ("every", self.every, 1),
                ("keep", self.keep, 1),
                ("segment_bytes", self.segment_bytes, 4096),
                ("attempts", self.attempts, 1),
            )
            if value < low
        ] + [
            f"checkpoint.{field} is {value}, allowed is more than 0"
            for field, value in (
                ("append_seconds", self.append_seconds),
                ("backoff_seconds", self.backoff_seconds),
                ("longest_backoff_seconds", self.longest_backoff_seconds),
            )
            if not value > 0
        ]
        if wrong:
            raise BadInput("checkpoint", "; ".join(wrong), "correct these fields")

    def first_snapshot(self, agent: str) -> int:
        """After how many records the first snapshot is due: 1 to `every`, by the agent's name.

        Agents that start together do not write their snapshots together for ever.
        """
        return zlib.crc32(agent.encode()) % self.every + 1


def prepare_root(files: Files, root: str) -> None:
    """Mark a mounted share as the home of checkpoints; changes nothing when it is marked."""
    path = f"{root.rstrip('/')}/{MARKER}"
    if not files.exists(path):
        write_file(files, path, _MARKER_TEXT)
    files.sync_folder(root)


def verify_root(files: Files, root: str) -> None:
    """Raise `StorageAway` when the root has not the marker: then the share is not mounted."""
    path = f"{root.rstrip('/')}/{MARKER}"
    try:
        text = files.read(path)
    except FileNotFoundError as error:
        raise StorageAway(
            path,
            errno.ENOENT,
            "the marker is missing: the share is not mounted, or was never prepared "
            f"(`python -m gpufleet_agent.checkpoint init {root}`, once)",
        ) from error
    if text != _MARKER_TEXT:
        raise BadInput(path, f"contains {text[:40]!r}", f"this release writes {_MARKER_TEXT!r}")


def space_warning(size: int, keep: int, free: int) -> str | None:
    """A warning when one more generation does not fit beside those kept; sizes in bytes."""
    needed = (keep + 1) * size
    have = free + keep * size
    if needed <= have:
        return None
    return (
        f"{keep} generations and the one being written need {needed} bytes of {size} each, "
        f"{have} are there: make room before the share is full"
    )
