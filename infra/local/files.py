"""State files of local fleets, and the removal of what they describe."""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpufleet.atomic import write_atomic


def write_json(path: Path, value: Any, mode: int = 0o600) -> None:
    """Write JSON atomically; state files are private unless said otherwise."""
    write_atomic(path, json.dumps(value, indent=2, sort_keys=True) + "\n", mode)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object at `path`, or None where there is none or it was never finished."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock of the kernel's; it ends with the process, however that dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder whatever modes its entries have; absent is fine, a mount inside is not."""
    try:
        device = path.lstat().st_dev
    except FileNotFoundError:
        return
    _remove(path, device)


def _remove(path: Path, device: int) -> None:
    # Symbolic links are never followed, and nothing on another file system is ever touched:
    # a bind mount left under a node's folder must not cost the data behind it.
    entries = list(os.scandir(path))
    for entry in entries:
        info = entry.stat(follow_symlinks=False)
        if info.st_dev != device:
            raise OSError(f"{entry.path} is a mount of another file system; not removed")
        if stat.S_ISDIR(info.st_mode):
            _remove(Path(entry.path), device)
        else:
            Path(entry.path).unlink()
    path.rmdir()
