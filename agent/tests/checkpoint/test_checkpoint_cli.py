"""The commands: what they print and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet_agent.checkpoint import Line, Place, PosixFiles, Turn, prepare_root
from gpufleet_agent.checkpoint.cli import main
from gpufleet_agent.checkpoint.records import turn_record

AGENT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A share with a line of 12 turns in 3 sessions, snapshots at 4 and 8."""
    prepare_root(PosixFiles(), str(tmp_path))
    line, state = Line.open(PosixFiles(), Place(str(tmp_path), "a", gpu="GPU-1"), epoch=9)
    for number in range(12):
        record = turn_record(f"s{number % 3}", Turn(f"{number}", b"body"))
        line.commit([record])
        state.sessions.apply(record, "GPU-1")
        if number in (3, 7):
            line.snapshot(state.sessions.view())
    line.close()
    return tmp_path


def damage(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0xFF
    path.write_bytes(raw)


def test_inspect_says_owner_and_state_of_every_line_under_a_path(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for path in (root, root / "a", root / "a/main"):
        assert main(["inspect", str(path)]) == 0
        text = capsys.readouterr().out
        assert "a on GPU-1, fence 1, epoch 9" in text
        assert "3 sessions, 12 turns, record 12" in text
    assert main(["inspect", str(root), "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)["lines"]
    assert line["sound"]
    assert line["state"]["replayed"] == 4
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_verify_finds_damage_that_a_restore_would_pass_over(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = sorted((root / "a/main").glob("snapshot-*"))
    assert main(["verify", str(root)]) == 0
    damage(older, 300)
    assert main(["inspect", str(root)]) == 0
    assert main(["verify", str(root)]) == 1
    damage(newer, 300)
    capsys.readouterr()
    assert main(["inspect", str(root)]) == 1
    assert "12 turns" in capsys.readouterr().out


def test_restore_makes_a_new_line_and_leaves_the_old_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    target = root / "a/again"
    assert main(["restore", str(root / "a/main"), "--to", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["turns"] == 12
    assert {path: path.read_bytes() for path in before} == before
    line, recovered = Line.open(PosixFiles(), Place(str(root), "a", "again"))
    line.close()
    assert recovered.sessions.turns == 12
    assert main(["restore", str(root / "a/main"), "--to", str(target)]) == 2


def test_restore_of_a_damaged_line_needs_the_loss_to_be_accepted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (journal,) = (root / "a/main").glob("journal-*")
    damage(journal, journal.stat().st_size - 150)
    command = ["restore", str(root / "a/main"), "--to", str(root / "a/again")]
    assert main(command) == 1
    assert "are not there" in capsys.readouterr().err
    assert not (root / "a/again").exists()
    assert main([*command, "--accept-loss"]) == 0
    told = capsys.readouterr().out
    assert "turns: 9" in told or "turns: 10" in told
    assert "lost: " in told


def test_bad_input_is_told_apart_from_damage(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["inspect", "relative"],
        ["inspect", str(root / "nowhere")],
        ["verify", str(root / "a/main/born-1")],
        ["restore", str(root), "--to", str(root / "a/x")],
        ["restore", str(root / "a/main"), "--to", str(root / "a/.x")],
    ):
        assert main(command) == 2, command
        assert capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["restore", str(root)])
    assert caught.value.code == 2


def test_the_help_teaches_and_init_prepares(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpufleet_agent.checkpoint", *arguments],
            env={**os.environ, "PYTHONPATH": str(AGENT)},
            capture_output=True,
            text=True,
        )

    text = run("--help").stdout
    for word in ("init ROOT", "inspect PATH", "verify PATH", "restore PATH", "exit status"):
        assert word in text
    assert run("init", str(tmp_path)).returncode == 0
    assert run("init", str(tmp_path)).returncode == 0
    assert (tmp_path / ".gpufleet-checkpoints").is_file()
