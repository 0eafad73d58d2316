"""Real processes on a real folder: kill -9 loses no acknowledged turn.

How many kills: GPUFLEET_CHECKPOINT_KILLS.
"""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

from gpufleet_agent.checkpoint import Line, Place, PosixFiles, prepare_root

KILLS = int(os.environ.get("GPUFLEET_CHECKPOINT_KILLS", "20"))
AGENT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("checkpoint_child.py")


def test_kill_9_loses_no_acknowledged_turn_and_keeps_none_twice(tmp_path: Path) -> None:
    root = str(tmp_path)
    prepare_root(PosixFiles(), root)
    chance = random.Random(1)
    acknowledged: set[str] = set()
    for life in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, str(CHILD), root, str(life)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(AGENT)},
        )
        assert process.stdout is not None
        with process.stdout as told:
            lines = [told.readline()]
            assert lines[0], "the child ended by itself"
            timer = threading.Timer(chance.uniform(0, 0.08), process.kill)
            timer.start()
            lines += told.readlines()
        assert process.wait() == -9
        timer.join()
        acknowledged.update(line.decode().strip() for line in lines if line.endswith(b"\n"))
    line, recovered = Line.open(PosixFiles(), Place(root, "agent-1"))
    line.close()
    kept: dict[str, list[str]] = {
        session.id: [turn.key for turn in session.turns()] for session in recovered.sessions
    }
    everything = [key for keys in kept.values() for key in keys]
    assert acknowledged <= set(everything)
    assert len(everything) == len(set(everything))
    for session, keys in kept.items():
        for life in range(KILLS):
            mine = [key for key in keys if key.startswith(f"{life}-")]
            assert mine == [f"{life}-{session[1:]}-{turn}" for turn in range(len(mine))]
    assert len(everything) - len(acknowledged) <= 6 * KILLS
