"""A simulated disk that forgets what was not synced, and fails where it is told to.

Not a file system: a stand-in for tests, seeded. Every file has the bytes that are durable and the
writes since; every folder has the names that are durable and the changes since. A crash keeps any
of the writes (by sectors) and any of the changes, not only the oldest ones: what POSIX allows.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gpufleet_agent.checkpoint.files import Writing

_SECTOR = 512


class SimulatedCrash(BaseException):
    """The machine stopped. No `Exception`: nothing in the code under test may handle it."""


@dataclass(eq=False)
class _File:
    durable: bytes = b""
    now: bytearray = field(default_factory=bytearray)
    writes: list[tuple[int, bytes]] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        self.writes.append((len(self.now), data))
        self.now += data

    def sync(self) -> None:
        self.durable, self.writes = bytes(self.now), []

    def after_crash(self, chance: random.Random) -> "_File":
        kept = bytearray(self.durable)
        for offset, data in self.writes:
            for start in range(0, len(data), _SECTOR):
                if chance.random() < 0.5:
                    part = data[start : start + _SECTOR]
                    end = offset + start + len(part)
                    kept.extend(bytes(max(0, end - len(kept))))
                    kept[offset + start : end] = part
        return _File(bytes(kept), bytearray(kept))


@dataclass(eq=False)
class _Folder:
    durable: dict[str, "_File | _Folder"] = field(default_factory=dict)
    now: dict[str, "_File | _Folder"] = field(default_factory=dict)
    changes: list[dict[str, "_File | _Folder | None"]] = field(default_factory=list)

    def change(self, names: "Mapping[str, _File | _Folder | None]") -> None:
        self.changes.append(dict(names))
        _carry_out(self.now, self.changes[-1])

    def sync(self) -> None:
        self.durable, self.changes = dict(self.now), []

    def after_crash(self, chance: random.Random, done: "dict[int, _File]") -> "_Folder":
        kept = dict(self.durable)
        for change in self.changes:
            if chance.random() < 0.5:
                _carry_out(kept, change)
        names: dict[str, _File | _Folder] = {}
        for name, entry in kept.items():
            if isinstance(entry, _Folder):
                names[name] = entry.after_crash(chance, done)
            else:
                if id(entry) not in done:
                    done[id(entry)] = entry.after_crash(chance)
                names[name] = done[id(entry)]
        return _Folder(dict(names), names)


def _carry_out(
    names: "dict[str, _File | _Folder]", change: "Mapping[str, _File | _Folder | None]"
) -> None:
    for name, entry in change.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


type Fault = Callable[[int, str, str], OSError | int | None]
"""(number of the call, its name, path) -> an error to raise, bytes that a write takes, or None."""


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class SimulatedDisk:
    """`Files` in memory. `calls` counts the calls that change something or could fail.

    `crash_at`: the number of the call that does not come back; whether it was carried out is by
    the seed. `fault` decides over every call.
    """

    def __init__(
        self, seed: int = 0, *, crash_at: int | None = None, fault: Fault | None = None
    ) -> None:
        self.calls = 0
        self.crash_at, self.fault = crash_at, fault
        self.capacity = 1 << 40
        self._chance = random.Random(seed)  # noqa: S311
        self._root = _Folder()

    def after_crash(self, seed: int) -> "SimulatedDisk":
        """The disk as it is found after the machine stopped and came back."""
        found = SimulatedDisk(seed)
        found._root = self._root.after_crash(random.Random(seed), {})  # noqa: S311
        return found

    def after_kill(self) -> "SimulatedDisk":
        """The disk as the next process finds it when only this one died: nothing is lost."""
        found = SimulatedDisk()
        found._root = self._root
        return found

    def flip(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Damage one byte of a file, durably."""
        file = self._file(path)
        file.now[offset] ^= mask
        file.sync()

    def cut(self, path: str, size: int) -> None:
        """Cut a file short, durably."""
        file = self._file(path)
        del file.now[size:]
        file.sync()

    def put(self, path: str, data: bytes) -> None:
        """Put a durable file there, from outside of the code under test."""
        folder, name = self._split(path)
        file = _File(data, bytearray(data))
        folder.change({name: file})
        folder.sync()

    def wipe(self, path: str) -> None:
        """Remove a name durably, from outside of the code under test."""
        folder, name = self._split(path)
        folder.change({name: None})
        folder.sync()

    def walk(self, path: str = "") -> Iterator[str]:
        """The paths of all files."""
        for name, entry in sorted(self._folder(path).now.items()):
            if isinstance(entry, _Folder):
                yield from self.walk(f"{path}/{name}")
            else:
                yield f"{path}/{name}"

    def _folder(self, path: str) -> _Folder:
        entry: _File | _Folder | None = self._root
        for part in path.split("/"):
            if part:
                entry = entry.now.get(part) if isinstance(entry, _Folder) else None
        if entry is None:
            raise _error(errno.ENOENT, path)
        if isinstance(entry, _File):
            raise _error(errno.ENOTDIR, path)
        return entry

    def _split(self, path: str) -> tuple[_Folder, str]:
        above, _, name = path.rpartition("/")
        return self._folder(above), name

    def _file(self, path: str) -> _File:
        folder, name = self._split(path)
        entry = folder.now.get(name)
        if not isinstance(entry, _File):
            raise _error(errno.ENOENT, path)
        return entry

    def _add(self, path: str, entry: _File | _Folder) -> None:
        folder, name = self._split(path)
        if name in folder.now:
            raise _error(errno.EEXIST, path)
        folder.change({name: entry})

    def _call(self, name: str, path: str, carry_out: Callable[[], None]) -> int | None:
        """Count a call, and fail or crash in it as planned; bytes of a short write."""
        number, self.calls = self.calls, self.calls + 1
        if number == self.crash_at:
            if self._chance.random() < 0.5:
                carry_out()
            raise SimulatedCrash
        planned = None if self.fault is None else self.fault(number, name, path)
        if isinstance(planned, OSError):
            planned.filename = path
            raise planned
        if planned is None:
            carry_out()
        return planned

    def list(self, path: str) -> list[str]:
        """See `Files`."""
        self._call("list", path, lambda: None)
        return list(self._folder(path).now)

    def make_folder(self, path: str) -> None:
        """See `Files`."""
        self._call("make_folder", path, lambda: self._add(path, _Folder()))

    def read(self, path: str) -> bytes:
        """See `Files`."""
        self._call("read", path, lambda: None)
        return bytes(self._file(path).now)

    def create(self, path: str) -> Writing:
        """See `Files`."""
        file = _File()
        self._call("create", path, lambda: self._add(path, file))
        return _SimulatedWriting(self, path, file)

    def rename(self, source: str, target: str) -> None:
        """See `Files`."""
        folder, name = self._split(target)
        former = source.rpartition("/")[2]
        self._call(
            "rename", target, lambda: folder.change({former: None, name: self._file(source)})
        )

    def link(self, source: str, target: str) -> None:
        """See `Files`."""
        self._call("link", target, lambda: self._add(target, self._file(source)))

    def remove(self, path: str) -> None:
        """See `Files`."""

        def carry_out() -> None:
            folder, name = self._split(path)
            self._file(path)
            folder.change({name: None})

        self._call("remove", path, carry_out)

    def exists(self, path: str) -> bool:
        """See `Files`."""
        self._call("exists", path, lambda: None)
        try:
            folder, name = self._split(path)
        except FileNotFoundError:
            return False
        return name in folder.now

    def sync_file(self, path: str) -> None:
        """See `Files`."""
        self._call("sync_file", path, self._file(path).sync)

    def sync_folder(self, path: str) -> None:
        """See `Files`."""
        self._call("sync_folder", path, self._folder(path).sync)

    def free(self, path: str) -> int:
        """See `Files`."""
        self._call("free", path, lambda: None)
        return self.capacity - sum(len(self._file(name).now) for name in self.walk())


class _SimulatedWriting:
    def __init__(self, disk: SimulatedDisk, path: str, file: _File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def write(self, data: bytes | memoryview) -> int:
        taken = bytes(data)
        room = self._disk.capacity - sum(len(self._disk._file(n).now) for n in self._disk.walk())
        if not room:
            raise _error(errno.ENOSPC, self._path)
        taken = taken[:room]
        short = self._disk._call("write", self._path, lambda: self._file.write(taken))
        if short is None:
            return len(taken)
        self._file.write(taken[:short])
        return short

    def sync(self) -> None:
        self._disk._call("sync", self._path, self._file.sync)

    def close(self) -> None:
        return
