"""From the files of a line to its state. Pure but for the reader that it is given.

The rules, in the order of use:

1. The newest sound snapshot of the run is the base; a broken one is reported and passed over.
2. Segments follow in the order (owner, owner's count). A segment voids what earlier segments have
   from its own first record on: those records were never acknowledged.
3. Records must go on without a gap from the base to the greatest number that any head or name
   speaks of. A gap is damage, and nothing is started.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpufleet_agent.checkpoint.errors import Damaged
from gpufleet_agent.checkpoint.frames import Scan, scan
from gpufleet_agent.checkpoint.header import JOURNAL, SIZE, BrokenHead, Header, checksum
from gpufleet_agent.checkpoint.names import Listing, SegmentName, SnapshotName
from gpufleet_agent.checkpoint.records import Format, Kind, Record
from gpufleet_agent.checkpoint.sessions import Sessions
from gpufleet_agent.checkpoint.snapshots import BrokenSnapshot, decode_known, decode_snapshot


@dataclass
class Recovered:
    """The state of a line and how it was come by.

    `fresh`: nothing was there. `notes`: what was unusual, one sentence each. `loss`: what
    acknowledged turns could not be read (only when loss was accepted).
    """

    sessions: Sessions
    fresh: bool = False
    snapshot: SnapshotName | None = None
    broken_snapshots: list[SnapshotName] = field(default_factory=list)
    segments: list[tuple[SegmentName, int]] = field(default_factory=list)
    headless: list[SegmentName] = field(default_factory=list)
    replayed: int = 0
    torn_bytes: int = 0
    voided: int = 0
    notes: list[str] = field(default_factory=list)
    loss: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Segment:
    name: SegmentName
    head: Header
    found: Scan


class _Recovery:
    def __init__(
        self, listing: Listing, run: bytes, read: Callable[[str], bytes], versions: Format
    ) -> None:
        self.listing, self.run, self.read, self.versions = listing, run, read, versions
        self.result = Recovered(Sessions())
        self.must_reach = 0

    def lost(self, text: str) -> None:
        self.result.loss.append(text)

    def base(self) -> None:
        """Load the newest sound snapshot."""
        names = [name for name in self.listing.snapshots if name.run == self.run]
        for name in reversed(names):
            try:
                head, view = decode_snapshot(str(name), self.read(str(name)), self.versions)
                if (head.run, head.sequence, head.fence) != (self.run, name.sequence, name.fence):
                    raise BrokenSnapshot("its head says that it is another snapshot")
                self.result.sessions.restore(view)
            except ValueError as error:
                self.result.broken_snapshots.append(name)
                self.result.notes.append(f"{name}: broken, passed over: {error}")
                self.must_reach = max(self.must_reach, name.sequence)
                continue
            self.result.snapshot = name
            self._note_version(str(name), head)
            return

    def _note_version(self, name: str, head: Header) -> None:
        if head.version < self.versions.version:
            self.result.notes.append(
                f"{name}: migrated from version {head.version} to {self.versions.version}"
            )

    def segments(self) -> list[_Segment]:
        """Read all segments of the run; those that a crash left without a head are noted."""
        found = []
        for name in self.listing.segments:
            if name.run != self.run:
                continue
            data = self.read(str(name))
            try:
                head = decode_known(str(name), data, JOURNAL, self.versions)
                told = SegmentName(head.fence, head.ordinal_or_length, head.run)
                if told != name:
                    raise BrokenHead(f"its head says that it is {told}")
            except BrokenHead as error:
                if len(data) > SIZE:
                    self.lost(f"{name}: no sound head before {len(data) - SIZE} bytes: {error}")
                else:
                    self.result.headless.append(name)
                    self.result.notes.append(f"{name}: a crash while it was made: {error}")
                continue
            self._note_version(str(name), head)
            found.append(_Segment(name, head, scan(data, SIZE, checksum(data))))
            self.result.segments.append((name, head.sequence))
        return found

    def replay(self, segments: list[_Segment]) -> None:
        """Apply the records of all segments, in order and without a gap."""
        ends: list[int | None] = []
        end: int | None = None
        for segment in reversed(segments):
            ends.append(end)
            end = segment.head.sequence if end is None else min(end, segment.head.sequence)
        for segment, end in zip(segments, reversed(ends), strict=True):
            self.must_reach = max(self.must_reach, segment.head.sequence - 1)
            for stretch in segment.found.broken:
                self.result.torn_bytes += stretch.length
                self.result.notes.append(
                    f"{segment.name}: {stretch.length} broken bytes at {stretch.offset}, "
                    + ("in the middle" if stretch.sound_after else "the torn end, cut off")
                )
            for frame in segment.found.frames:
                for number, record in enumerate(frame.records, frame.first):
                    if end is not None and number >= end:
                        self.result.voided += 1
                    elif not self._apply(segment, number, record):
                        return
        reached = self.result.sessions.sequence
        if reached < self.must_reach:
            self.lost(f"the records {reached + 1} to {self.must_reach} are not there")

    def _apply(self, segment: _Segment, number: int, record: Record) -> bool:
        sessions = self.result.sessions
        if number <= sessions.sequence:
            return True
        if number > sessions.sequence + 1:
            self.lost(
                f"{segment.name}: the records {sessions.sequence + 1} to {number - 1} are not there"
            )
            return False
        if record.kind == Kind.TURN and segment.head.version != self.versions.version:
            payload = self.versions.upgrade(segment.head.version, record.payload)
            record = Record(record.kind, payload)
        try:
            sessions.apply(record, segment.head.owner.gpu)
        except ValueError as error:
            self.lost(f"{segment.name}: record {number}: {error}")
            return False
        self.result.replayed += 1
        return True


def recover(
    path: str,
    listing: Listing,
    run: bytes,
    read: Callable[[str], bytes],
    versions: Format,
    *,
    accept_loss: bool = False,
) -> Recovered:
    """The state of a run from its files; `read` gives a file's bytes by its name.

    Raises `Damaged` when acknowledged turns cannot be read (unless the loss is accepted: then
    the state is what is sound before it) and `VersionRefused` for files of a newer release.
    """
    recovery = _Recovery(listing, run, read, versions)
    recovery.base()
    segments = recovery.segments()
    recovery.replay(segments)
    result = recovery.result
    result.fresh = not segments and result.snapshot is None
    if result.fresh and run in listing.born:
        recovery.lost("the line has had records and none of its files is there")
    result.notes += [f"{name}: left by a crash" for name in listing.temporary]
    if result.loss and not accept_loss:
        raise Damaged(path, "; ".join(result.loss + result.notes))
    return result
