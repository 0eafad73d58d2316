"""Who owns a line: fence files, numbered 1, 2, 3, ..., each made once by one owner.

Taking over is making the next number by `link`, which one caller wins on every POSIX file system.
An owner looks before each acknowledgement whether the next number is there. Fences are removed
oldest first and each removal made durable before the next one, so an owner that was stopped for
long finds the next number, or misses its own.

A writer makes its records durable and then looks; a successor makes its fence and then reads. So
what the writer acknowledges, the successor has read.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property

from gpufleet_agent.checkpoint.errors import Damaged, Fenced
from gpufleet_agent.checkpoint.files import Files, remove_if_there, write_file
from gpufleet_agent.checkpoint.header import FENCE, BrokenHead, Header, Owner
from gpufleet_agent.checkpoint.names import TEMPORARY, Listing, fence_name, sort_names
from gpufleet_agent.checkpoint.place import verify_root
from gpufleet_agent.checkpoint.records import Format
from gpufleet_agent.checkpoint.snapshots import decode_known

_RACES = 100
"""Takers that may be quicker before it is given up; each of them got a fence."""


def newest_fence(files: Files, folder: str, listing: Listing, versions: Format) -> Header | None:
    """The newest fence of a line; raises `Damaged` when it cannot be read."""
    if not listing.fences:
        if not listing.empty:
            raise Damaged(folder, "records but no fence")
        return None
    path = f"{folder}/{fence_name(listing.fences[-1])}"
    try:
        return decode_known(path, files.read(path), FENCE, versions)
    except BrokenHead as error:
        raise Damaged(path, str(error)) from error


@dataclass(frozen=True)
class Fence:
    """A fence that was taken; `former` is the one before it."""

    files: Files
    folder: str
    head: Header
    former: Header | None

    @cached_property
    def _watched(self) -> tuple[str, str]:
        return self._path(self.head.fence + 1), self._path(self.head.fence)

    def check(self) -> None:
        """Raise `Fenced` when another owner has taken the line over, `StorageAway` for no share."""
        following, mine = self._watched
        # The following one first: it is removed only after this one.
        if not self.files.exists(following):
            if self.files.exists(mine):
                return
            # Not the fence alone may be missing, but the whole share.
            verify_root(self.files, self.folder.rsplit("/", 2)[0])
        raise Fenced(self.folder, f"fence {self.head.fence}", "a later one")

    def _path(self, number: int) -> str:
        return f"{self.folder}/{fence_name(number)}"

    def remove_older(self) -> None:
        """Remove the fences before the former one, oldest first."""
        for number in sort_names(self.files.list(self.folder)).fences:
            if number < self.head.fence - 1:
                remove_if_there(self.files, self._path(number))
                self.files.sync_folder(self.folder)


def take_fence(
    files: Files,
    folder: str,
    agent: str,
    gpu: str,
    epoch: int | None,
    versions: Format,
    *,
    new_run: bool = False,
    keep_version: bool = False,
) -> Fence:
    """Become the owner of a line.

    `epoch` is the number of the assignment (None: that of the newest fence). With `keep_version`
    the fence is one that the former owner's release can read. Raises `Fenced` for an epoch below
    the newest one's.
    """
    for _ in range(_RACES):
        former = newest_fence(files, folder, sort_names(files.list(folder)), versions)
        last = 0 if former is None else former.epoch
        if epoch is not None and epoch < last:
            raise Fenced(folder, f"epoch {epoch}", f"epoch {last}")
        head = Header(
            FENCE,
            secrets.token_bytes(8) if former is None or new_run else former.run,
            Owner(agent, gpu, secrets.token_bytes(16)),
            1 if former is None else former.fence + 1,
            last if epoch is None else epoch,
            version=former.version if former and keep_version else versions.version,
        )
        if _make(files, folder, head, versions):
            return Fence(files, folder, head, former)
    raise Fenced(folder, "this attempt", f"{_RACES} others in a row")


def _make(files: Files, folder: str, head: Header, versions: Format) -> bool:
    target = f"{folder}/{fence_name(head.fence)}"
    temporary = f"{target}-{head.owner.token.hex()}{TEMPORARY}"
    write_file(files, temporary, head.encode())
    try:
        files.link(temporary, target)
        made = True
    except FileExistsError:
        # A network file system may repeat a call whose answer was lost: it may be this one's own.
        made = decode_known(target, files.read(target), FENCE, versions).owner == head.owner
    except FileNotFoundError:  # another owner was quicker, and tidied up
        made = False
    files.sync_folder(folder)
    remove_if_there(files, temporary)
    return made
