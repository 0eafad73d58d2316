"""One owner at a time: what an old owner writes late is refused, or void."""

import itertools

import pytest
from checkpoint_scripts import PLACE, SMALL, fresh_disk, turns_of

from gpufleet_agent.checkpoint import Fenced, Line, Place, Turn
from gpufleet_agent.checkpoint.records import Record, turn_record
from gpufleet_agent.checkpoint.simulated_disk import SimulatedDisk


def record(session: str, key: str) -> Record:
    return turn_record(session, Turn(key, b"body"))


def test_an_old_owner_cannot_commit_snapshot_or_prune() -> None:
    disk = fresh_disk()
    old, state = Line.open(disk, PLACE, SMALL)
    old.commit([record("s", "1")])
    state.sessions.apply(record("s", "1"), "GPU-1")
    Line.open(disk, Place("/fsx", "agent-1", "main", "GPU-2"), SMALL)
    for act in (
        lambda: old.commit([record("s", "2")]),
        lambda: old.snapshot(state.sessions.view()),
        lambda: old._remove("anything"),
    ):
        with pytest.raises(Fenced, match="fence 1 is fenced off"):
            act()
    assert not [path for path in disk.walk() if path.endswith((".ckpt", ".tmp"))]


def test_an_older_epoch_is_refused_and_the_same_epoch_may_restart() -> None:
    disk = fresh_disk()
    Line.open(disk, PLACE, epoch=7)
    line, _ = Line.open(disk, PLACE, epoch=7)
    with pytest.raises(Fenced, match="epoch 6 is fenced off by epoch 7"):
        Line.open(disk, PLACE, epoch=6)
    line.commit([record("s", "1")])
    Line.open(disk, PLACE, epoch=8)
    with pytest.raises(Fenced):
        line.commit([record("s", "2")])


def test_a_turn_that_was_written_late_is_void() -> None:
    disk = fresh_disk()
    old, _ = Line.open(disk, PLACE, SMALL)
    old.commit([record("s", "1")])
    new, _ = Line.open(disk, PLACE, SMALL)
    with pytest.raises(Fenced):
        old.commit([record("s", "late")])
    new.commit([record("s", "2")])
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == {"s": ["1", "2"]}
    assert recovered.voided == 1


def test_the_sessions_come_with_the_gpu_that_had_them() -> None:
    disk = fresh_disk()
    Line.open(disk, PLACE)[0].commit([record("a", "1"), record("b", "1")])
    second = Place("/fsx", "agent-1", "main", "GPU-2")
    line, recovered = Line.open(disk, second)
    assert [session.gpu for session in recovered.sessions] == ["GPU-1", "GPU-1"]
    assert line.fence.former is not None
    assert line.fence.former.owner.gpu == "GPU-1"
    line.commit([record("b", "2")])
    _, recovered = Line.open(disk, second)
    assert {session.id: session.gpu for session in recovered.sessions} == {
        "a": "GPU-1",
        "b": "GPU-2",
    }


class _Interrupted(SimulatedDisk):
    """Calls back before one of its calls, as if another owner's process ran then."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupt_at = -1
        self.interrupt = lambda: None

    def _call(self, name, path, carry_out):  # type: ignore[no-untyped-def]
        if self.calls == self.interrupt_at:
            self.interrupt_at = -1
            self.interrupt()
        return super()._call(name, path, carry_out)


class _SyncedIsSeen(_Interrupted):
    """Files as another client may see them at the earliest duty: what is synced."""

    def read(self, path: str) -> bytes:
        super().read(path)
        return self._file(path).durable


@pytest.mark.parametrize("kind", [_Interrupted, _SyncedIsSeen])
def test_a_takeover_between_any_two_calls_of_the_old_owner_loses_nothing(
    kind: type[_Interrupted],
) -> None:
    """The old owner commits, snapshots and prunes; the new one comes at each single call."""
    for at in itertools.count():
        disk = kind()
        disk._root = fresh_disk()._root
        old, state = Line.open(disk, PLACE, SMALL)
        acknowledged: list[str] = []
        taken: list[tuple[Line, list[str]]] = []

        def take_over(disk=disk, acknowledged=acknowledged, taken=taken) -> None:
            line, found = Line.open(disk, PLACE, SMALL)
            known = turns_of(found.sessions).get("s", [])
            assert known[: len(acknowledged)] == acknowledged
            line.commit([record("s", "new")])
            taken.append((line, [*known, "new"]))

        disk.calls, disk.interrupt_at, disk.interrupt = 0, at, take_over
        try:
            for number in range(8):
                entry = record("s", f"{number}")
                old.commit([entry])
                acknowledged.append(f"{number}")
                state.sessions.apply(entry, "GPU-1")
                if number % 2:
                    old.snapshot(state.sessions.view())
                    old.prune()
        except Fenced:
            pass
        if not taken:
            break
        new, known = taken[0]
        # What the old owner got acknowledged, the new owner knew when it began.
        assert known[: len(acknowledged)] == acknowledged
        new.commit([record("s", "newer")])
        _, recovered = Line.open(disk, PLACE)
        assert turns_of(recovered.sessions) == {"s": [*known, "newer"]}
    assert at > 60


def test_of_two_who_take_over_at_once_one_has_the_line() -> None:
    for at in range(12):
        disk = _Interrupted()
        disk._root = fresh_disk()._root
        Line.open(disk, PLACE)
        lines: list[Line] = []

        def second(disk=disk, lines=lines) -> None:
            lines.append(Line.open(disk, PLACE)[0])

        disk.calls, disk.interrupt_at, disk.interrupt = 0, at, second
        lines.append(Line.open(disk, PLACE)[0])
        able = 0
        for line in lines:
            try:
                line.commit([record("s", "x")])
                able += 1
            except Fenced:
                continue
        assert able == 1
        assert len({line.fence.head.fence for line in lines}) == 2


def test_old_fences_are_removed_oldest_first_and_the_newest_stay() -> None:
    disk = fresh_disk()
    for _ in range(6):
        Line.open(disk, PLACE)
    fences = sorted(path.rpartition("/")[2] for path in disk.walk() if "fence" in path)
    assert fences == [f"fence-{number:020d}" for number in (5, 6)]
