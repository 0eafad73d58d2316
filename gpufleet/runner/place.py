"""Where the runs of a cluster are kept, which of them may go on, and how the last one ended."""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet.atomic import write_atomic
from gpufleet.paths import state_dir

from .result import BusyError, PlaceError, RunError

KEPT_RUNS = 20


@dataclass(frozen=True)
class RunState:
    """How far the last run of a playbook came; what `--resume` goes by."""

    playbook: str
    run: str
    tags: str | None = None
    limit: str | None = None
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    ended: bool = True


def runs_dir(cluster: str) -> Path:
    """Folder of the runs of a cluster, for its owner's eyes alone; made if missing."""
    folder = state_dir(cluster) / "runs"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise PlaceError(
            f"cannot keep records of runs in {folder}: {error.strerror}; "
            "run this as the user that made the cluster, or set GPUFLEET_STATE"
        ) from error
    return folder


@contextmanager
def claimed(cluster: str) -> Iterator[Path]:
    """Be the one run of this cluster; raises BusyError that names the holder where there is one.

    The lock ends with the process, however that dies.
    """
    folder = runs_dir(cluster)
    path = folder / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"cluster {cluster} is being worked on by {_holder(path)}; "
                "wait for it, or interrupt it, and run this again"
            ) from error
        mine = {
            "pid": os.getpid(),
            "command": " ".join([Path(sys.argv[0]).name, *without_values(sys.argv[1:])]),
            "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(mine).encode(), 0)
        yield folder
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def new_run(folder: Path, playbook: str) -> Path:
    """A new folder for one run's artifacts; the oldest ones beyond those kept are removed."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    run = folder / f"{stamp}-{playbook}"
    run.mkdir(mode=0o700)
    # An interrupted run could not remove its secrets; nothing else of this name is in use now.
    for stale in folder.glob("extra-*"):
        stale.unlink(missing_ok=True)
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    for old in runs[:-KEPT_RUNS]:
        shutil.rmtree(old, ignore_errors=True)
    return run


def close_to_others(run: Path) -> None:
    """Take from everybody else what rights Ansible's own files give them."""
    for path in run.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


def write_state(folder: Path, state: RunState) -> None:
    """Record how far a run came."""
    text = json.dumps(asdict(state), indent=2) + "\n"
    write_atomic(folder / f"{state.playbook}.state.json", text, 0o600)


def read_state(folder: Path, playbook: str) -> RunState | None:
    """How far the last run of a playbook came; None where there was none."""
    path = folder / f"{playbook}.state.json"
    try:
        value: dict[str, Any] = json.loads(path.read_text())
        state = RunState(**value)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise RunError(
            f"{path} is no record of a run: {error}; remove it, and run without --resume"
        ) from error
    return state if state.ended else _recovered(folder, state)


def _recovered(folder: Path, state: RunState) -> RunState:
    # The run's process died. Ansible's own record of who was through is newer than ours.
    rows = [_row(path) for path in sorted((folder / state.run).glob("*/watch.json"))]
    lost = {name for row in rows for key in ("failed", "unreachable") for name in row.get(key, ())}
    done = {*state.done, *(name for row in rows for name in row.get("done", ()))}
    every = {*state.done, *state.failed, *state.left}
    return replace(
        state, done=sorted(done), failed=sorted(lost), left=sorted(every - done - lost), ended=True
    )


def _row(path: Path) -> dict[str, list[str]]:
    row: dict[str, list[str]] = json.loads(path.read_text())
    return row


def _holder(path: Path) -> str:
    try:
        row = json.loads(path.read_text())
        return f"process {row['pid']} ({row['command']}), since {row['since']}"
    except (OSError, ValueError, KeyError):
        return "another process, which has just begun"


def without_values(arguments: list[str]) -> list[str]:
    """A command's arguments as others may see them: extra variables without their values."""
    shown = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if before in ("--extra", "-e") or argument.startswith("--extra="):
            head = argument.removeprefix("--extra=").partition("=")[0]
            prefix = "--extra=" if argument.startswith("--extra=") else ""
            shown.append(f"{prefix}{head}=…")
        else:
            shown.append(argument)
    return shown
