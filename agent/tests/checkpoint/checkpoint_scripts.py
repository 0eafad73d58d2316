"""Scripts of commits and snapshots that the tests of a line carry out on a simulated disk."""

import random

from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.place import Place, Settings, prepare_root
from gpufleet_agent.checkpoint.records import Turn, turn_record
from gpufleet_agent.checkpoint.recovery import Recovered
from gpufleet_agent.checkpoint.sessions import Sessions
from gpufleet_agent.checkpoint.simulated_disk import SimulatedCrash, SimulatedDisk

ROOT = "/fsx"
PLACE = Place(ROOT, "agent-1", "main", "GPU-1")
SMALL = Settings(every=5, keep=2, segment_bytes=4096)


def fresh_disk(seed: int = 0) -> SimulatedDisk:
    """A disk with a prepared share."""
    disk = SimulatedDisk(seed)
    disk.make_folder(ROOT)
    disk.sync_folder("")
    prepare_root(disk, ROOT)
    disk.calls = 0
    return disk


def turns_of(sessions: Sessions) -> dict[str, list[str]]:
    """The keys of all turns, by session."""
    return {session.id: [turn.key for turn in session.turns()] for session in sessions}


def by_session(keys: list[str]) -> dict[str, list[str]]:
    """What `turns_of` has to say after these turns (a key is `session/number`)."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.split("/")[0], []).append(key)
    return found


class Script:
    """Lives of owners of one line, and what each was promised."""

    def __init__(self, seed: int, commits: int) -> None:
        self.chance = random.Random(seed)
        self.commits = commits
        self.acknowledged: list[str] = []
        self.in_flight: list[str] = []
        self.number = 0

    def check(self, recovered: Recovered) -> None:
        """Every acknowledged turn is there in order; of those under way, a whole batch or none."""
        found = turns_of(recovered.sessions)
        with_all = self.acknowledged + self.in_flight
        assert found in (by_session(self.acknowledged), by_session(with_all)), (
            f"acknowledged {self.acknowledged}, under way {self.in_flight}, found {found}"
        )
        if found == by_session(with_all):
            self.acknowledged = with_all
        self.in_flight = []

    def live(self, disk: SimulatedDisk) -> Line:
        """Open, check what is there, commit and snapshot; ends by a crash or by itself."""
        line, recovered = Line.open(disk, PLACE, SMALL)
        self.check(recovered)
        sessions = recovered.sessions
        for _ in range(self.commits):
            batch = []
            for _ in range(self.chance.randint(1, 3)):
                self.number += 1
                batch.append(f"s{self.chance.randint(1, 3)}/{self.number}")
            self.in_flight = batch
            size = self.chance.choice([1, 60, 900])
            records = [
                turn_record(key.split("/")[0], Turn(key, b"b" * size, 1, 2)) for key in batch
            ]
            line.commit(records)
            self.acknowledged += batch
            self.in_flight = []
            for record in records:
                sessions.apply(record, "GPU-1")
            if self.chance.random() < 0.3:
                line.snapshot(sessions.view())
                line.prune()
        return line

    def crash(self, disk: SimulatedDisk, at: int) -> bool:
        """A life that crashes at a call; whether it came that far."""
        disk.calls, disk.crash_at = 0, at
        try:
            self.live(disk).close()
        except SimulatedCrash:
            return True
        finally:
            disk.crash_at = None
        return False
