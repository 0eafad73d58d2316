"""What can go wrong with checkpoints, as types, and which error number means which.

Every error says the path, what was seen, and what to do. `exit_status` is what an agent process
that ends for this error exits with (the numbers are those of sysexits.h); those in `PERMANENT` do
not get better by a restart, so a service manager must not restart on them.
"""

import errno
import os
from collections.abc import Mapping
from typing import ClassVar


class CheckpointError(Exception):
    """Anything a checkpoint store refuses or fails at."""

    exit_status: ClassVar[int] = 70

    def __init__(self, path: str, seen: str, fix: str) -> None:
        super().__init__(f"{path}: {seen}; {fix}")
        self.path, self.seen, self.fix = path, seen, fix


class StorageError(CheckpointError):
    """The file system refused or failed; `number` is its error number."""

    exit_status = 74

    def __init__(self, path: str, number: int, seen: str, fix: str) -> None:
        super().__init__(path, f"{seen} ({errno.errorcode.get(number, number)})", fix)
        self.number = number


class StorageFull(StorageError):
    """No space or no quota left; what was there before is intact. Sizes in bytes."""

    def __init__(self, path: str, number: int, needed: int, free: int | None) -> None:
        known = "an unknown number of" if free is None else str(free)
        super().__init__(
            path,
            number,
            f"no space: {needed} bytes are needed, {known} are free",
            "make room on the share or raise its quota; writing is tried again by itself",
        )
        self.needed, self.free = needed, free


class StorageDenied(StorageError):
    """The file system forbids it to this user; not tried again."""

    exit_status = 77

    def __init__(self, path: str, number: int) -> None:
        super().__init__(
            path,
            number,
            f"uid {os.geteuid()} may not do this: {os.strerror(number)}",
            "give the user the path, or mount the share for writing, and start again",
        )


class StorageAway(StorageError):
    """The share is not there now; it is waited for."""

    exit_status = 75

    def __init__(self, path: str, number: int, seen: str) -> None:
        super().__init__(path, number, seen, "waiting for storage: mount the share")


class StorageFault(StorageError):
    """A fault that may pass; tried again a few times."""

    def __init__(self, path: str, number: int) -> None:
        super().__init__(path, number, os.strerror(number), "tried again with back-off")


class StorageFailed(StorageError):
    """A fault that did not pass. Never answered with a fresh start."""

    def __init__(self, path: str, number: int, attempts: int) -> None:
        super().__init__(
            path,
            number,
            f"{os.strerror(number)}, {attempts} times in a row",
            "nothing was started afresh and nothing removed; mend the share and start again",
        )


class Unacknowledged(CheckpointError):
    """The deadline passed before the turn was known to be durable: it may be kept or not."""

    exit_status = 75

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(
            path,
            f"the turn was not durable within {seconds:g} s and may be kept or not",
            "send it again with the same key: it is kept once",
        )


class Fenced(CheckpointError):
    """Another owner has taken this line over; nothing more is written here."""

    exit_status = 69

    def __init__(self, path: str, mine: str, newest: str) -> None:
        super().__init__(
            path,
            f"owner with {mine} is fenced off by {newest}",
            "stop this owner: the newer one has the sessions",
        )


class Damaged(CheckpointError):
    """Turns that were acknowledged cannot be read; nothing is started from a part of them."""

    exit_status = 65

    def __init__(self, path: str, seen: str) -> None:
        super().__init__(
            path,
            seen,
            "bring the file back from a copy, or `restore --accept-loss` into a new line",
        )


class VersionRefused(CheckpointError):
    """A file of a format version that this release cannot read; it is left as it is."""

    exit_status = 78

    def __init__(self, path: str, found: int | None, known: int) -> None:
        seen = "no format version" if found is None else f"format version {found}"
        super().__init__(
            path,
            f"{seen} where this release reads versions 1 to {known}",
            "run a release that reads it, or open the line that this release wrote",
        )
        self.found, self.known = found, known


class BadInput(CheckpointError):
    """A setting, a name or a turn that is not allowed; `path` is the field."""

    exit_status = 78


class Closed(CheckpointError):
    """The store is closed."""

    exit_status = 70

    def __init__(self, path: str) -> None:
        super().__init__(path, "the store is closed", "open it again")


PERMANENT = frozenset(
    kind.exit_status for kind in (StorageDenied, Damaged, VersionRefused, BadInput, Fenced)
)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The error numbers of a full share."""
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_AWAY = (
    errno.ENOTCONN,
    errno.ESHUTDOWN,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENODEV,
    errno.ENXIO,
    errno.ETIMEDOUT,
)
KINDS: Mapping[int, type[StorageError]] = {
    **dict.fromkeys(FULL, StorageFull),
    **dict.fromkeys(_DENIED, StorageDenied),
    **dict.fromkeys(_AWAY, StorageAway),
}
"""Error number to type; every other number is a `StorageFault`."""


def storage_error(
    error: OSError, path: str, needed: int = 0, free: int | None = None
) -> StorageError:
    """The typed error of a failed call on `path`; sizes in bytes, for a full share."""
    number = error.errno or errno.EIO
    kind = KINDS.get(number, StorageFault)
    if kind is StorageFull:
        return StorageFull(path, number, needed, free)
    if kind is StorageDenied:
        return StorageDenied(path, number)
    if kind is StorageAway:
        return StorageAway(path, number, os.strerror(number))
    return StorageFault(path, number)
