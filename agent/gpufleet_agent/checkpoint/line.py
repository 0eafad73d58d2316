"""A line of checkpoints opened by its owner: commit, snapshot, prune. Blocking calls, no waiting.

One thread commits; another may write snapshots and prune meanwhile. A call that fails leaves what
was there before as it was, and can be made again. Nothing is acknowledged that was not durable
while this owner still held the line.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpufleet_agent.checkpoint.errors import FULL, CheckpointError, Damaged, storage_error
from gpufleet_agent.checkpoint.fencing import Fence, take_fence
from gpufleet_agent.checkpoint.files import (
    Files,
    Writing,
    make_folders,
    remove_if_there,
    write_all,
    write_file,
)
from gpufleet_agent.checkpoint.frames import encode_frame
from gpufleet_agent.checkpoint.header import JOURNAL, SNAPSHOT, Header, checksum
from gpufleet_agent.checkpoint.names import (
    TEMPORARY,
    SegmentName,
    SnapshotName,
    born_name,
    sort_names,
)
from gpufleet_agent.checkpoint.place import Place, Settings, verify_root
from gpufleet_agent.checkpoint.records import FORMAT, Format, Record
from gpufleet_agent.checkpoint.recovery import Recovered, recover
from gpufleet_agent.checkpoint.retention import (
    expired_segments,
    expired_snapshots,
    kept_snapshots,
)
from gpufleet_agent.checkpoint.sessions import View
from gpufleet_agent.checkpoint.snapshots import BrokenSnapshot, decode_snapshot, encode_body

_LISTINGS = 5
"""How often the files are listed anew when one goes away while they are read."""


@contextmanager
def typed_errors(files: Files, path: str, needed: int = 0) -> Iterator[None]:
    """Raise every `OSError` inside as the typed error of this path; `needed` is in bytes."""
    try:
        yield
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else path
        free = _free(files, path) if error.errno in FULL else None
        raise storage_error(error, named, needed, free) from error


def _free(files: Files, path: str) -> int | None:
    try:
        return files.free(path)
    except OSError:  # the error before this one is the one to tell
        return None


def _let_go(writing: Writing) -> None:
    try:
        writing.close()
    except OSError:  # what is durable is durable, and what is not was told of before
        return


def _discard(files: Files, path: str) -> None:
    try:
        remove_if_there(files, path)
    except OSError:  # the error before this one is the one to tell; the next owner removes the file
        return


def read_line(
    files: Files, folder: str, run: bytes, versions: Format, *, accept_loss: bool = False
) -> Recovered:
    """The state of a run as its files are now; changes nothing."""
    for attempt in range(_LISTINGS):
        listing = sort_names(files.list(folder))
        try:
            return recover(
                folder,
                listing,
                run,
                lambda name: files.read(f"{folder}/{name}"),
                versions,
                accept_loss=accept_loss,
            )
        except FileNotFoundError:
            # A former owner was removing what its snapshots cover: list again.
            if attempt == _LISTINGS - 1:
                raise
    raise Damaged(folder, f"files went away {_LISTINGS} times while they were read")


class Line:
    """The files of a line in the hands of its owner."""

    def __init__(
        self, files: Files, place: Place, settings: Settings, versions: Format, fence: Fence
    ) -> None:
        self.files, self.place, self.settings = files, place, settings
        self.versions, self.fence = versions, fence
        self.folder = place.folder
        self.next = 1
        self.journal_bytes = 0
        self._segment: Writing | None = None
        self._segment_seed = 0
        self._segment_bytes = 0
        self._ordinal = 0
        self._segments: list[tuple[SegmentName, int]] = []
        self._broken: list[SnapshotName] = []

    @classmethod
    def open(
        cls,
        files: Files,
        place: Place,
        settings: Settings | None = None,
        *,
        epoch: int | None = None,
        versions: Format = FORMAT,
        new_run: bool = False,
    ) -> tuple["Line", Recovered]:
        """Take the line over and recover its state; appends may follow at once.

        Raises `Fenced` for an old epoch, `StorageAway` when the share is not there, `Damaged` and
        `VersionRefused` as `recover` does, and the other typed errors of the storage.
        """
        with typed_errors(files, place.root):
            verify_root(files, place.root)
            make_folders(files, place.root.rstrip("/"), [place.agent, place.line])
            folder = place.folder
            fence = take_fence(
                files, folder, place.agent, place.gpu, epoch, versions, new_run=new_run
            )
            line = cls(files, place, settings or Settings(), versions, fence)
            recovered = read_line(files, folder, fence.head.run, versions)
            try:
                line._begin(recovered)
            except BaseException:
                line.close()
                raise
        return line, recovered

    def _seal(self, recovered: Recovered) -> None:
        """Go on from what was recovered; what former owners still write behind it is void."""
        # They may have died before they made these durable.
        for name, _ in recovered.segments:
            self.files.sync_file(f"{self.folder}/{name}")
        self.next = recovered.sessions.sequence + 1
        self._segments = list(recovered.segments)
        self._broken = list(recovered.broken_snapshots)
        self._new_segment()

    def _begin(self, recovered: Recovered) -> None:
        self._seal(recovered)
        born = f"{self.folder}/{born_name(self.run)}"
        if not self.files.exists(born):
            self._publish(born, b"")
        # What former owners that died while they wrote have left.
        left = sort_names(self.files.list(self.folder)).temporary
        for name in (*left, *map(str, recovered.headless)):
            self._remove(name)
        self.fence.remove_older()

    @property
    def run(self) -> bytes:
        """The run that this line continues."""
        return self.fence.head.run

    @contextmanager
    def _guarded(self, needed: int = 0) -> Iterator[None]:
        """Typed errors; a file that went away under an old owner's hands says who it is."""
        with typed_errors(self.files, self.folder, needed):
            try:
                yield
            except FileNotFoundError:
                self.fence.check()
                raise

    def _head(
        self, magic: bytes, sequence: int, other: int, count: int = 0, crc: int = 0
    ) -> Header:
        head = self.fence.head
        return Header(
            magic,
            head.run,
            head.owner,
            head.fence,
            head.epoch,
            sequence,
            other,
            count,
            crc,
            self.versions.version,
        )

    def _new_segment(self) -> None:
        self._leave_segment()
        self._ordinal += 1
        name = SegmentName(self.fence.head.fence, self._ordinal, self.run)
        head = self._head(JOURNAL, self.next, self._ordinal).encode()
        writing = self.files.create(f"{self.folder}/{name}")
        try:
            write_all(writing, head)
            writing.sync()
            self.files.sync_folder(self.folder)
        except OSError:
            _let_go(writing)
            _discard(self.files, f"{self.folder}/{name}")
            raise
        self._segment, self._segment_seed = writing, checksum(head)
        self._segment_bytes = len(head)
        self._segments.append((name, self.next))

    def _leave_segment(self) -> None:
        if self._segment is not None:
            segment, self._segment = self._segment, None
            _let_go(segment)

    def commit(self, records: Sequence[Record]) -> int:
        """Make records durable; the number of the first. All of them or none are acknowledged.

        After a failure the segment is left for good: what the failed fsync did is unknown, so the
        next commit begins a new segment, which voids what this one may have left.
        """
        size = sum(len(record.payload) + 9 for record in records)
        with self._guarded(size):
            if self._segment is None or self._segment_bytes >= self.settings.segment_bytes:
                self._new_segment()
            segment = self._segment
            assert segment is not None
            frame = encode_frame(self._segment_seed, self.next, records)
            try:
                write_all(segment, frame)
                segment.sync()
                self.fence.check()
            except (OSError, CheckpointError):
                self._leave_segment()
                raise
        first = self.next
        self._segment_bytes += len(frame)
        self.journal_bytes += len(frame)
        self.next += len(records)
        return first

    def snapshot(self, view: View) -> int:
        """Write a snapshot and read it back; its size in bytes.

        The former generations stay as they are: `prune` removes them, once this has succeeded.
        """
        body = encode_body(view)
        name = SnapshotName(view.sequence, self.fence.head.fence, self.run)
        head = self._head(SNAPSHOT, view.sequence, len(body), len(view.sessions), zlib.crc32(body))
        data = head.encode() + body
        path = f"{self.folder}/{name}"
        with self._guarded(len(data)):
            self._publish(path, data)
            try:
                decode_snapshot(path, self.files.read(path), self.versions)
            except BrokenSnapshot as error:
                self._broken.append(name)
                raise Damaged(path, f"the snapshot reads back wrong: {error}") from error
        return len(data)

    def _publish(self, path: str, data: bytes) -> None:
        """A whole durable file under its name at once, if this owner still holds the line."""
        temporary = f"{path}-{self.fence.head.owner.token.hex()}{TEMPORARY}"
        try:
            write_file(self.files, temporary, data)
            self.fence.check()
            self.files.rename(temporary, path)
        except (OSError, CheckpointError):
            _discard(self.files, temporary)
            raise
        self.files.sync_folder(self.folder)

    def prune(self) -> None:
        """Remove generations beyond those kept, and segments that the oldest kept one covers."""
        keep = self.settings.keep
        with self._guarded():
            snapshots = sort_names(self.files.list(self.folder)).snapshots
            for old in expired_snapshots(snapshots, self.run, keep, self._broken):
                self._remove(str(old))
            kept = kept_snapshots(snapshots, self.run, keep, self._broken)
            if len(kept) < keep:
                return
            # The list is only ever appended to meanwhile, so its beginning can be cut off.
            expired = expired_segments(tuple(self._segments), kept[0].sequence)
            for name in expired:
                self._remove(str(name))
            del self._segments[: len(expired)]

    def _remove(self, name: str) -> None:
        self.fence.check()
        remove_if_there(self.files, f"{self.folder}/{name}")

    def read_other(self, origin: Place, epoch: int | None) -> Recovered | None:
        """The state of another line, its owner fenced off; None where it has no records.

        Only a fence and an empty segment are written there, in the version that line has: the
        release that wrote the line can go on with it.
        """
        with typed_errors(self.files, origin.folder):
            if not self.files.exists(origin.folder):
                return None
            if sort_names(self.files.list(origin.folder)).empty:
                return None
            fence = take_fence(
                self.files,
                origin.folder,
                origin.agent,
                origin.gpu,
                epoch,
                self.versions,
                keep_version=True,
            )
            state = read_line(self.files, origin.folder, fence.head.run, self.versions)
            same = Format(fence.head.version, {})
            parent = Line(self.files, origin, self.settings, same, fence)
            try:
                parent._seal(state)
            finally:
                parent.close()
        return state if state.sessions.sequence else None

    def begin_with(self, view: View) -> None:
        """Give a line that has no records yet a state: a fork of another line, or a restore."""
        if self.next != 1:
            raise Damaged(self.folder, f"has {self.next - 1} records already")
        self.snapshot(view)
        self.next = view.sequence + 1

    def free(self) -> int:
        """Bytes that can still be written beside the line."""
        with typed_errors(self.files, self.folder):
            return self.files.free(self.folder)

    def close(self) -> None:
        """Let go of the files. What was acknowledged is durable already."""
        self._leave_segment()
