"""Who holds the package manager's locks, and waiting for them. They are never removed."""

from __future__ import annotations

import fcntl
import os
import struct
import time

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock")
# struct flock of a 64-bit Linux: type, whence, start, length, pid.
FLOCK = struct.Struct("hhqqi4x")


class LockHeld(Exception):
    """A lock was not free within the limit; the text names its holder."""


def holder(path):
    """Number of the process that holds a record lock on the file, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else pid
    finally:
        os.close(descriptor)


def command_of(pid):
    """Command line of a process, for a message."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "which has just ended"
    return words or "a process without a command line"


def wait(limit, paths=LOCKS):
    """Return once no lock is held; raise LockHeld after `limit` seconds. Returns seconds waited."""
    began = time.monotonic()
    while True:
        held = [(path, pid) for path in paths for pid in [holder(path)] if pid is not None]
        waited = time.monotonic() - began
        if not held:
            return waited
        if waited >= limit:
            path, pid = held[0]
            raise LockHeld(
                f"{path} has been held for {limit:g} s by process {pid} ({command_of(pid)}); "
                f"let it finish, or end it, and run this again"
            )
        time.sleep(0.2)
