"""`gpufleet stack`: what it prints, and what its exit codes say."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from gpufleet.cli.stack import app
from gpufleet.stack import get

DAY = ["--on", "2026-12-01"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="stack")


def as_json(done: Result) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    base = get("current")
    path.write_text(yaml.safe_dump({"name": "mine", "pins": dict(base.pins)}))
    return path


@pytest.mark.parametrize("command", ["check", "solve", "diff", "show", "list"])
def test_every_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert "--json" in done.output


def test_a_coherent_set_is_exit_0_and_a_clash_is_exit_1() -> None:
    assert run("check", "current", *DAY).exit_code == 0
    done = run("check", "tutorial", *DAY)
    assert done.exit_code == 1
    assert "cuda.minimum-driver: driver 560.35.05 is below 570.124.06" in done.stdout
    assert "12 clashes" in done.stdout
    assert "nearest set that works: tutorial-coherent" in done.stdout


def test_clashes_as_json_name_rule_pins_source_and_the_nearest_set() -> None:
    done = run("check", "tutorial", "--json", *DAY)
    assert done.exit_code == 1
    report = as_json(done)
    assert report["ok"] is False
    assert report["nearest"] == "tutorial-coherent"
    assert {"rule", "level", "pins", "message", "fix", "source"} == set(report["clashes"][0])
    assert {"pin": "ray", "before": "2.40.0", "after": "2.46.0"} in report["changes"]


def test_a_set_from_a_file_is_judged(custom: Path) -> None:
    assert run("check", str(custom), *DAY).exit_code == 0
    custom.write_text(custom.read_text().replace("13.0.2", "13.2.0"))
    done = run("check", str(custom), *DAY)
    assert done.exit_code == 1
    assert "595.45.04" in done.stdout


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("name: x\npins:\n  drivr: 580.1\n", ":3:3: pins.drivr", "did you mean driver?"),
        ("name: x\npins: {slurm: }\n", ":2:8: pins.slurm", "one value"),
        ("name: x\npins: [a]\n", ":2:1: pins", "mapping"),
        ("pins: {}\n", ":1:1:", "name is missing"),
        ("name: x\npins: {\n", ":3:1:", "not valid YAML"),
        ("name: x\npins: {}\ntargets: {gpu: [h300]}\n", "targets.gpu[0]", "did you mean h200?"),
        ("name: X Y\npins: {}\n", "name", "not a name"),
        ("name: x\npins: {}\nsimulated: [driver]\n", "simulated[0]", "unknown"),
        ("name: x\npins: {}\ncolour: red\n", ":3:1: colour", "unknown"),
        ("- x\n", ":1:1:", "mapping"),
    ],
)
def test_a_malformed_file_is_exit_2_with_its_place(
    text: str, place: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    done = run("check", str(path))
    assert done.exit_code == 2
    assert f"{path}:" in done.stderr
    assert place in done.stderr
    assert said in done.stderr
    report = as_json(run("check", str(path), "--json"))
    assert report["ok"] is False
    assert report["problems"]


def test_versions_in_a_file_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text("name: x\npins: {slurm: 24.10, torch_cuda: 12.10, python: 3.10}\n")
    pins = as_json(run("show", str(path), "--json"))["pins"]
    assert pins == {"slurm": "24.10", "torch_cuda": "12.10", "python": "3.10"}


@pytest.mark.parametrize(
    "arguments", [["check", "curent"], ["show", "curent"], ["diff", "current", "curent"]]
)
def test_an_unknown_set_is_exit_2_and_the_nearest_is_named(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert "did you mean current?" in done.stderr


def test_a_missing_file_is_exit_2(tmp_path: Path) -> None:
    assert run("check", str(tmp_path / "none.yaml")).exit_code == 2


def test_a_day_that_is_none_is_exit_2() -> None:
    assert run("check", "current", "--on", "yesterday").exit_code == 2


def test_a_solution_is_a_set_that_can_be_checked(tmp_path: Path) -> None:
    done = run("solve", "--want", "driver=580", "--want", "python=3.12", *DAY)
    assert done.exit_code == 0
    path = tmp_path / "solved.yaml"
    path.write_text(done.stdout)
    assert run("check", str(path), *DAY).exit_code == 0
    assert as_json(run("show", str(path), "--json"))["pins"]["driver"].startswith("580.")


def test_no_solution_is_exit_1_with_the_reason() -> None:
    done = run("solve", "--want", "driver=560", "--json", *DAY)
    assert done.exit_code == 1
    reason = as_json(done)["reason"]
    assert reason["wants"] == ["driver=560"]
    assert [x["rule"] for x in reason["rules"]] == ["driver.support"]
    done = run("solve", "--want", "torch=2.6", *DAY)
    assert "target gpu: h100, h200, b200" in done.stderr


def test_all_bad_wants_are_named_at_once() -> None:
    done = run("solve", "--want", "drivr=580", "--want", "python")
    assert done.exit_code == 2
    assert "did you mean driver" in done.stderr
    assert "'python' is not a want" in done.stderr


def test_a_difference_that_cannot_be_made_in_one_go_is_exit_1(custom: Path) -> None:
    assert run("diff", "tutorial-coherent", "current").exit_code == 0
    custom.write_text(custom.read_text().replace("slurm: 25.11.8", "slurm: 22.05.8"))
    done = run("diff", str(custom), "current")
    assert done.exit_code == 1
    assert "slurm.upgrade-span" in done.stdout


def test_a_set_is_the_same_as_itself() -> None:
    done = run("diff", "current", "current")
    assert done.exit_code == 0
    assert "pin the same" in done.stdout


def test_packages_have_their_own_suffixes() -> None:
    debs = as_json(run("show", "current", "--json"))["packages"]
    assert debs["nvidia-driver-580-open"] == "580.159.03-0ubuntu1"
    assert debs["nvidia-fabricmanager-580"] == "580.159.03-1"
    assert debs["cuda-toolkit-13-0"] == "13.0.2-1"


def test_all_sets_are_listed_with_their_verdicts() -> None:
    rows = as_json(run("list", "--json", *DAY))["sets"]
    verdicts = {row["name"]: row["clashes"] for row in rows}
    assert verdicts["tutorial"] == 12
    assert verdicts["current"] == 0
