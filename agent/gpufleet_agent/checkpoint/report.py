"""What a line of checkpoints holds, for people and for programs. Reads only."""

from dataclasses import dataclass, field

from gpufleet_agent.checkpoint.errors import CheckpointError
from gpufleet_agent.checkpoint.fencing import newest_fence
from gpufleet_agent.checkpoint.files import Files
from gpufleet_agent.checkpoint.header import Header
from gpufleet_agent.checkpoint.line import read_line
from gpufleet_agent.checkpoint.names import Listing, sort_names
from gpufleet_agent.checkpoint.records import FORMAT
from gpufleet_agent.checkpoint.recovery import Recovered
from gpufleet_agent.checkpoint.snapshots import BrokenSnapshot, decode_snapshot


@dataclass
class LineReport:
    """One line: its owner, its state, its files. `error` is why it is not sound."""

    folder: str
    owner: Header | None = None
    recovered: Recovered | None = None
    listing: Listing | None = None
    error: str = ""
    broken: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Every acknowledged turn can be read, and no file that was looked at is broken."""
        return not self.error and not self.broken

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        state, owner, listing = self.recovered, self.owner, self.listing
        return {
            "folder": self.folder,
            "sound": self.sound,
            "error": self.error,
            "broken": self.broken,
            "owner": owner
            and {
                "fence": owner.fence,
                "epoch": owner.epoch,
                "agent": owner.owner.agent,
                "gpu": owner.owner.gpu,
                "run": owner.run.hex(),
                "version": owner.version,
            },
            "state": state
            and {
                "sequence": state.sessions.sequence,
                "sessions": len(state.sessions),
                "turns": state.sessions.turns,
                "snapshot": state.snapshot and str(state.snapshot),
                "replayed": state.replayed,
                "torn_bytes": state.torn_bytes,
                "voided": state.voided,
                "notes": state.notes,
                "loss": state.loss,
            },
            "files": listing
            and {
                "snapshots": [str(name) for name in listing.snapshots],
                "segments": [str(name) for name in listing.segments],
                "temporary": list(listing.temporary),
                "other": list(listing.other),
            },
        }

    def text(self) -> str:
        """A few lines for people."""
        lines = [f"{self.folder}: {'sound' if self.sound else 'NOT SOUND'}"]
        if self.owner:
            who = self.owner.owner
            lines.append(
                f"  owner      {who.agent} on {who.gpu or 'no GPU'}, fence {self.owner.fence}, "
                f"epoch {self.owner.epoch}, run {self.owner.run.hex()}"
            )
        if self.recovered:
            state = self.recovered
            lines.append(
                f"  state      {len(state.sessions)} sessions, {state.sessions.turns} turns, "
                f"record {state.sessions.sequence}"
            )
            lines.append(
                f"  from       {state.snapshot or 'no snapshot'} and {state.replayed} records of "
                f"{len(state.segments)} segments"
            )
            lines += [f"  note       {note}" for note in state.notes]
        if self.listing:
            foreign = {name.run for name in self.listing.snapshots}
            foreign |= {name.run for name in self.listing.segments}
            foreign -= {self.owner.run} if self.owner else set()
            lines += [f"  former run {run.hex()}" for run in sorted(foreign)]
        lines += [f"  broken     {what}" for what in self.broken]
        if self.error:
            lines.append(f"  error      {self.error}")
        return "\n".join(lines) + "\n"


def report_line(files: Files, folder: str, *, deep: bool, accept_loss: bool = False) -> LineReport:
    """Look at a line; `deep` reads the older generations as well."""
    report = LineReport(folder)
    try:
        report.listing = sort_names(files.list(folder))
        report.owner = newest_fence(files, folder, report.listing, FORMAT)
        if report.owner is None:
            report.error = "no fence: nobody has opened this line"
            return report
        run = report.owner.run
        report.recovered = read_line(files, folder, run, FORMAT, accept_loss=accept_loss)
        report.broken = [f"{name}: see the notes" for name in report.recovered.broken_snapshots]
        if deep:
            _read_older(files, report, run)
    except CheckpointError as error:
        report.error = str(error)
    return report


def _read_older(files: Files, report: LineReport, run: bytes) -> None:
    assert report.listing is not None
    assert report.recovered is not None
    seen = {*report.recovered.broken_snapshots, report.recovered.snapshot}
    for name in report.listing.snapshots:
        if name.run == run and name not in seen:
            path = f"{report.folder}/{name}"
            try:
                decode_snapshot(path, files.read(path), FORMAT)
            except BrokenSnapshot as error:
                report.broken.append(f"{name}: {error}")
