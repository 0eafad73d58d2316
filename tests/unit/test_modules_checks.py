"""`gpufleet.node.checks`: asks until all is well or the time is over, and then says what is not."""

from typing import Any

import pytest
from nodebox import NodeBox


def shell(text: str, **more: Any) -> dict[str, Any]:
    return {"name": "demo", "command": ["sh", "-c", text], **more}


@pytest.mark.parametrize(
    "check",
    [
        shell("exit 0"),
        shell("echo warm; echo is UP; exit 3", matches="^is UP$"),
        shell("cat", stdin="STATUS: Success", matches="^STATUS: +Success"),
        shell("echo idle", matches=".", refuses="down"),
        shell("exit 1", when=False),
        {"name": "numbers are words, too", "command": ["test", 1, "-eq", 1]},
    ],
)
def test_what_is_well_is_well(box: NodeBox, check: dict[str, Any]) -> None:
    result = box.module("checks", checks=[check])
    assert not result["changed"]
    assert not result.get("failed")


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (shell("echo out; echo err >&2; exit 3"), "exit code 3: out\nerr"),
        (shell("echo is DOWN", matches="is UP"), "expected 'is UP', seen: is DOWN"),
        (shell("true", matches="x"), "seen: (nothing)"),
        (shell("echo node down", matches="node", refuses="down"), "seen: node down"),
        ({"name": "demo", "command": ["not-there"]}, "there is no not-there"),
        (shell("exit 1", hint="look at the log"), "; look at the log"),
    ],
)
def test_what_is_not_is_said_with_its_command(
    box: NodeBox, check: dict[str, Any], said: str
) -> None:
    result = box.module("checks", checks=[check])
    assert result["failed"]
    assert result["msg"].startswith(f"demo: `{check['command'][0]}")
    assert said in result["msg"]


def test_all_that_is_wrong_is_said_in_one_run(box: NodeBox) -> None:
    result = box.module("checks", checks=[shell("exit 1"), shell("exit 0"), shell("exit 2")])
    assert result["msg"].count("demo: ") == 2


def test_it_asks_until_all_is_well(box: NodeBox) -> None:
    third = f'echo x >> {box.folder}/asked; [ "$(wc -l < {box.folder}/asked)" -ge 3 ]'
    assert box.module("checks", checks=[shell(third)])["failed"]
    assert not box.module("checks", checks=[shell(third, within=20)]).get("failed")
    assert len((box.folder / "asked").read_text().split()) == 3


def test_a_dry_run_warns_and_does_not_wait(box: NodeBox) -> None:
    result = box.module("checks", check=True, checks=[shell("exit 1", within=300)])
    assert not result.get("failed")
    assert "exit code 1" in str(result["warnings"])


def test_a_misspelt_key_is_refused_before_anything_runs(box: NodeBox) -> None:
    box.stub("touched", "exit 0")
    checks = [{"name": "demo", "command": ["touched"], "whitin": 3}]
    assert box.module("checks", checks=checks)["msg"] == "demo: no such key: whitin"
    assert box.calls() == []
