"""The calls of the file system that a store makes, and their POSIX form.

Nothing here needs more than POSIX on a shared file system: no locks, no memory maps, no
attributes. Every method raises `OSError` as the system gives it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Writing(Protocol):
    """A new file, open for writing at its end."""

    def write(self, data: bytes | memoryview) -> int:
        """Write some of the data; the number of bytes taken, which may be less than all."""

    def sync(self) -> None:
        """Return when all that was written is durable."""

    def close(self) -> None:
        """Let go of the file; says nothing of durability."""


class Files(Protocol):
    """What a store needs of a file system. Paths are absolute."""

    def list(self, path: str) -> list[str]:
        """The names in a folder."""

    def make_folder(self, path: str) -> None:
        """Make one folder; `FileExistsError` when it is there."""

    def read(self, path: str) -> bytes:
        """A whole file."""

    def create(self, path: str) -> Writing:
        """A new file; `FileExistsError` when the name is taken."""

    def rename(self, source: str, target: str) -> None:
        """Give a file another name at once, in place of what had it."""

    def link(self, source: str, target: str) -> None:
        """A second name for a file; `FileExistsError` when it is taken: one caller wins."""

    def remove(self, path: str) -> None:
        """Remove a name."""

    def exists(self, path: str) -> bool:
        """Whether the name is there."""

    def sync_file(self, path: str) -> None:
        """Return when what is in a file, whoever wrote it, is durable."""

    def sync_folder(self, path: str) -> None:
        """Return when the names in the folder are durable."""

    def free(self, path: str) -> int:
        """Bytes that this user can still write."""


class _PosixWriting:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes | memoryview) -> int:
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class PosixFiles:
    """`Files` on a mounted file system. What is made is for its owner alone: it is private."""

    def list(self, path: str) -> list[str]:
        """See `Files`."""
        return os.listdir(path)

    def make_folder(self, path: str) -> None:
        """See `Files`."""
        Path(path).mkdir(mode=0o700)

    def read(self, path: str) -> bytes:
        """See `Files`."""
        return Path(path).read_bytes()

    def create(self, path: str) -> Writing:
        """See `Files`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return _PosixWriting(os.open(path, flags, 0o600))

    def rename(self, source: str, target: str) -> None:
        """See `Files`."""
        Path(source).rename(target)

    def link(self, source: str, target: str) -> None:
        """See `Files`."""
        os.link(source, target)

    def remove(self, path: str) -> None:
        """See `Files`."""
        Path(path).unlink()

    def exists(self, path: str) -> bool:
        """See `Files`. An error other than absence is raised, never taken for absence."""
        try:
            os.lstat(path)
        except FileNotFoundError:
            return False
        return True

    def sync_file(self, path: str) -> None:
        """See `Files`."""
        self._sync(path, os.O_RDONLY)

    def sync_folder(self, path: str) -> None:
        """See `Files`."""
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def _sync(self, path: str, flags: int) -> None:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free(self, path: str) -> int:
        """See `Files`."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize


def write_all(writing: Writing, data: bytes) -> None:
    """Write all of the data, however little each call takes."""
    left = memoryview(data)
    while left:
        left = left[writing.write(left) :]


def write_file(files: Files, path: str, data: bytes) -> None:
    """A new file with this data, durable; its name is durable after `sync_folder`."""
    writing = files.create(path)
    try:
        write_all(writing, data)
        writing.sync()
    finally:
        writing.close()


def remove_if_there(files: Files, path: str) -> None:
    """Remove a name that another may have removed meanwhile."""
    try:
        files.remove(path)
    except FileNotFoundError:
        return


def make_folders(files: Files, root: str, parts: list[str]) -> str:
    """The folder `root/parts...`, each made and its name durable where it was not there."""
    path = root
    for part in parts:
        above, path = path, f"{path}/{part}"
        if not files.exists(path):
            with suppress(FileExistsError):  # another process was quicker
                files.make_folder(path)
            files.sync_folder(above)
    return path
