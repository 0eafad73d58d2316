"""The command line says what it does, and its exit codes what became of it."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpufleet.cli import app
from gpufleet.paths import repo_root

GOOD = """\
name: c
provider: local
pools: [{name: a, partition: training, instance_type: sim.cpu, count: 1}]
network: {cidr: 10.217.0.0/24}
"""


@pytest.fixture
def inventories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUFLEET_INVENTORIES", str(tmp_path))
    monkeypatch.setenv("GPUFLEET_STATE", str(tmp_path / "state"))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/cluster.yaml").write_text(GOOD)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="gpufleet")


COMMANDS = ["check", "explain", "plan", "up", "down", "status", "ssh", "spec", "stack"]
COMMANDS += ["configure", "play", "drift", "verify"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert len(done.output.splitlines()) > 5


def test_help_lists_every_command() -> None:
    text = run("--help").output
    assert all(re.search(rf"^\s+{name}\s", text, re.MULTILINE) for name in COMMANDS)
    assert "Exit codes" in text


def test_every_command_in_the_manuals_exists() -> None:
    used = set()
    for path in [repo_root() / "README.md", *sorted((repo_root() / "docs").glob("*.md"))]:
        used |= set(re.findall(r"^ {4}bin/gpufleet ([a-z]+)", path.read_text(), re.MULTILINE))
    assert used
    for name in used:
        assert run(name, "--help").exit_code == 0, name


@pytest.mark.parametrize("command", ["check", "plan", "up", "down"])
def test_unknown_cluster_is_bad_input_and_the_known_ones_are_named(
    command: str, inventories: Path
) -> None:
    done = run(command, "nowhere")
    assert done.exit_code == 2
    assert "no cluster 'nowhere'" in done.stderr
    assert "known clusters: c" in done.stderr


@pytest.mark.parametrize("command", ["check", "plan", "up", "down"])
def test_bad_spec_is_reported_as_json_when_asked(command: str, inventories: Path) -> None:
    (inventories / "c/cluster.yaml").write_text(GOOD + "colour: red\n")
    done = run(command, "c", "--json")
    assert done.exit_code == 2
    report = json.loads(done.stdout)
    assert [x["path"] for x in report["problems"]] == ["colour"]
    assert not (inventories / "state").exists()


def test_removing_a_cluster_has_to_be_confirmed(inventories: Path) -> None:
    done = run("down", "c")
    assert done.exit_code == 2
    assert "--yes" in done.stderr


def test_status_without_a_fleet_says_how_to_get_one(inventories: Path) -> None:
    done = run("status", "c")
    assert done.exit_code == 1
    assert "gpufleet up c" in done.stderr
    assert json.loads(run("status", "c", "--json").stdout)["ok"] is False


def test_unknown_rule_is_bad_input(inventories: Path) -> None:
    done = run("explain", "local.dsk")
    assert done.exit_code == 2
    assert "local.disk" in done.stderr


def test_schema_is_printed_for_editors() -> None:
    assert json.loads(run("spec", "schema").stdout)["title"] == "gpufleet cluster spec"
