"""A crash at any call of the file system loses no acknowledged turn and invents none."""

import os
import random

import pytest
from checkpoint_scripts import PLACE, SMALL, Script, by_session, fresh_disk, turns_of

from gpufleet_agent.checkpoint.line import Line
from gpufleet_agent.checkpoint.records import Turn, turn_record

LONG_SEEDS = int(os.environ.get("GPUFLEET_CHECKPOINT_SEEDS", "150"))


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_every_single_call_keeps_every_acknowledged_turn(seed: int) -> None:
    at, reached = 0, True
    while reached:
        for outcome in range(3):
            script, disk = Script(seed, 6), fresh_disk(outcome)
            reached = script.crash(disk, at)
            found, recovered = Line.open(disk.after_crash(seed * 7919 + at * 3 + outcome), PLACE)
            script.check(recovered)
            found.close()
        at += 1
    assert at > 40


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_every_call_of_a_recovery_keeps_every_acknowledged_turn(seed: int) -> None:
    at, reached = 0, True
    while reached:
        script, disk = Script(seed, 8), fresh_disk(seed)
        script.crash(disk, 60 + seed * 9)
        # The process died first, the machine only after another owner had begun.
        disk = disk.after_kill() if at % 2 else disk.after_crash(seed)
        reached = script.crash(disk, at)
        disk = disk.after_crash(seed + at)
        _, recovered = Line.open(disk, PLACE, SMALL)
        script.check(recovered)
        at += 1
    assert at > 40


def test_many_lives_with_crashes_anywhere_keep_every_acknowledged_turn() -> None:
    for seed in range(LONG_SEEDS):
        chance = random.Random(seed)
        script, disk = Script(seed, 12), fresh_disk(seed)
        try:
            for _ in range(5):
                script.crash(disk, chance.randint(0, 220))
                disk = (
                    disk.after_crash(chance.getrandbits(32))
                    if chance.random() < 0.6
                    else (disk.after_kill())
                )
            _, recovered = Line.open(disk, PLACE, SMALL)
            script.check(recovered)
        except BaseException:
            print(f"seed {seed}: GPUFLEET_CHECKPOINT_SEEDS={seed + 1} reproduces it")
            raise


def test_a_torn_tail_is_cut_and_told_of() -> None:
    script, disk = Script(3, 5), fresh_disk()
    script.live(disk).close()
    segment = [path for path in disk.walk() if "journal" in path][-1]
    size = len(disk.read(segment))
    disk.put(segment, disk.read(segment) + b"GFRM" + bytes(100))
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == by_session(script.acknowledged)
    assert recovered.torn_bytes == 104
    assert any(f"104 broken bytes at {size}, the torn end" in note for note in recovered.notes)


def test_segments_go_only_when_the_oldest_kept_snapshot_covers_them() -> None:
    disk = fresh_disk()
    line, state = Line.open(disk, PLACE, SMALL)
    keys = [f"s/{number}" for number in range(40)]
    for number, key in enumerate(keys, 1):
        record = turn_record("s", Turn(key, bytes(2500)))
        line.commit([record])
        state.sessions.apply(record, "")
        if number % 10 == 0:
            line.snapshot(state.sessions.view())
            line.prune()
    line.close()
    assert len([path for path in disk.walk() if "journal" in path]) < 8
    kept = sorted(path for path in disk.walk() if path.endswith(".ckpt"))
    assert len(kept) == 2
    # The newest snapshot is broken: the one before it and the journal have everything.
    disk.flip(kept[-1], 300)
    _, recovered = Line.open(disk, PLACE)
    assert turns_of(recovered.sessions) == by_session(keys)
    assert recovered.replayed == 10
