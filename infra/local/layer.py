"""What a node has on its disk at birth: files laid into the upper layer before the first boot.

Nothing is mounted on the host for this. The upper layer is a plain folder; a folder made in it
takes the mode and owner that the same folder has in the image, else it would shadow them.
"""

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpufleet.atomic import write_atomic


@dataclass(frozen=True)
class BirthFile:
    """A file of a node; `mode` is octal text ("0600") or symbolic numbers already resolved."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"


class Layer:
    """The upper layer of one node over the image's root file system."""

    def __init__(self, upper: Path, image: Path) -> None:
        self.upper = upper
        self.image = image
        self._users = _ids(image / "etc/passwd")
        self._groups = _ids(image / "etc/group")

    def put(self, file: BirthFile) -> None:
        """Lay one file; raises LookupError for an owner that the image does not know."""
        uid, gid = self._id(file.owner, self._users), self._id(file.group, self._groups)
        target = self._place(file.path)
        write_atomic(target, file.content, file.mode)
        os.chown(target, uid, gid)

    def copy(self, source: Path, path: str, mode: int = 0o755) -> None:
        """Lay a copy of a host file, owned by root."""
        target = self._place(path)
        shutil.copyfile(source, target)
        target.chmod(mode)

    def link(self, target: str, path: str) -> None:
        """Lay a symbolic link."""
        place = self._place(path)
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    def folder(self, path: str, mode: int = 0o755, owner: str = "root") -> None:
        """Make a folder of the node with its own mode and owner."""
        place = self._place(f"{path}/.")
        place.chmod(mode)
        os.chown(place, self._id(owner, self._users), self._id(owner, self._groups))

    def _id(self, name: str, known: dict[str, int]) -> int:
        if name not in known:
            raise LookupError(f"the node image has no user or group {name!r}")
        return known[name]

    def _place(self, path: str) -> Path:
        parts = PurePosixPath(path).relative_to("/").parts
        if ".." in parts:
            raise ValueError(f"{path} leaves the node's root")
        target, below = self.upper, self.image
        folders = parts if path.endswith("/.") else parts[:-1]
        for part in folders:
            target, below = target / part, below / part
            if below.is_symlink():
                raise ValueError(f"{path}: {below.relative_to(self.image)} is a link in the image")
            if not target.is_dir():
                target.mkdir()
                if below.is_dir():
                    info = below.stat()
                    target.chmod(stat.S_IMODE(info.st_mode))
                    os.chown(target, info.st_uid, info.st_gid)
        return target if path.endswith("/.") else target / parts[-1]


def _ids(database: Path) -> dict[str, int]:
    rows = (line.split(":") for line in database.read_text().splitlines() if line)
    return {row[0]: int(row[2]) for row in rows}
