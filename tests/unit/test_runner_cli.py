"""The commands that run playbooks: exit codes, JSON, and what people read."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import contracts
import pytest
from typer.testing import CliRunner, Result

from gpufleet.cli import app
from gpufleet.runner.place import claimed

SPEC = """\
name: c
provider: local
pools: [{name: infer, partition: inference, instance_type: sim.cpu, count: 2}]
network: {cidr: 10.217.0.0/24}
"""
HOSTS = """\
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    folder: FOLDER
  hosts: {infer-001: {}, infer-002: {}}
"""
WRITE = """\
- name: Write
  hosts: all
  gather_facts: false
  tasks:
    - name: Settings
      ansible.builtin.copy:
        dest: "{{ folder }}/{{ inventory_hostname }}.conf"
        content: "first\\nlevel={{ level | default(1) }}\\n"
        mode: "0644"
      diff: true
"""
FAIL = """\
- name: Fail
  hosts: all
  gather_facts: false
  tasks:
    - name: Break
      ansible.builtin.fail: {msg: "no luck with [brackets]"}
      when: inventory_hostname == "infer-002"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUFLEET_INVENTORIES", str(tmp_path / "inventories"))
    monkeypatch.setenv("GPUFLEET_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("gpufleet.runner.running.playbooks_dir", lambda: tmp_path / "playbooks")
    inventory = tmp_path / "inventories/c"
    inventory.mkdir(parents=True)
    (inventory / "cluster.yaml").write_text(SPEC)
    (inventory / "hosts.yml").write_text(HOSTS.replace("FOLDER", str(tmp_path)))
    rows = [contracts.node("infer-001", 2, 0), contracts.node("infer-002", 3, 0)]
    contract = contracts.contract(*rows, cluster="c")
    (inventory / ".fleet.json").write_text(json.dumps(contract))
    books = tmp_path / "playbooks"
    books.mkdir()
    for name, text in (("site", WRITE), ("drift", WRITE), ("broken", FAIL)):
        (books / f"{name}.yml").write_text(text)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="gpufleet")


def result_of(done: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_drift_says_per_node_what_is_there_and_what_is_wanted(place: Path) -> None:
    assert run("configure", "c").exit_code == 0
    none = run("drift", "c")
    assert none.exit_code == 0
    assert "no drift on 2 nodes" in none.output
    path = place / "infer-002.conf"
    path.write_text("first\nlevel=9\n")
    found = run("drift", "c", "--json")
    assert found.exit_code == 3
    value = result_of(found)
    assert value["ok"] is False
    assert value["drift"] == [
        {
            "node": "infer-002", "kind": "file", "name": str(path), "before": "level=9",
            "after": "level=1", "role": "", "task": "Settings",
        }
    ]  # fmt: skip
    assert path.read_text() == "first\nlevel=9\n"
    shown = run("drift", "c")
    assert shown.exit_code == 3
    assert "    seen    level=9\n    wanted  level=1\n" in shown.output
    assert run("drift", "c", "--limit", "infer-001").exit_code == 0


def test_drift_that_nobody_could_look_for_is_a_failure(place: Path) -> None:
    (place / "playbooks/drift.yml").write_text(FAIL)
    done = run("drift", "c", "--json")
    assert done.exit_code == 1
    assert result_of(done)["failed"] == ["infer-002"]


def test_a_result_has_every_node_and_what_failed_in_full(place: Path) -> None:
    done = run("play", "c", "broken", "--json")
    assert done.exit_code == 1
    value = result_of(done)
    assert set(value) >= {
        "ok", "cluster", "playbook", "seconds", "nodes", "failed", "left", "artifacts",
        "events_complete",
    }  # fmt: skip
    assert sorted(value["nodes"]) == ["infer-001", "infer-002"]
    assert value["nodes"]["infer-002"]["error"] == "no luck with [brackets]"
    shown = run("play", "c", "broken")
    assert shown.exit_code == 1
    assert "infer-002: Break\n    no luck with [brackets]\n" in shown.output
    assert "failed: infer-002" in shown.output


def test_check_shows_and_does_nothing(place: Path) -> None:
    done = run("configure", "c", "--check", "--limit", "infer-[001]", "--json")
    assert done.exit_code == 0
    (change,) = result_of(done)["changes"]
    assert (change["node"], change["after"]) == ("infer-001", "first\nlevel=1")
    assert not (place / "infer-001.conf").exists()


@pytest.mark.parametrize(
    ("value", "text"), [("2", "2"), ("1.10", "1.10"), ("@FILE", "from a file"), ("a=b", "a=b")]
)
def test_extra_variables_stay_what_they_are(place: Path, value: str, text: str) -> None:
    (place / "value").write_text("from a file\n")
    value = value.replace("FILE", str(place / "value"))
    done = run("play", "c", "site", "--limit", "infer-001", "--extra", f"level={value}")
    assert done.exit_code == 0, done.output
    assert (place / "infer-001.conf").read_text() == f"first\nlevel={text}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["play", "c", "nosuch"], "no playbook 'nosuch'; there are: broken, drift, site"),
        (["play", "c", "../site"], "no playbook '../site'"),
        (["play", "c", "site", "--limit", "infer-003"], "no such node or group"),
        (["play", "c", "site", "--extra", "novalue"], "give KEY=VALUE"),
        (["play", "c", "site", "--extra", "k=@/no/such"], "--extra k: "),
        (["configure", "c", "--max-failures", "some"], "give a count such as 2"),
        (["configure", "c", "--resume"], "site has not run on c yet"),
        (["configure", "nosuch"], "no cluster 'nosuch'"),
    ],
)
def test_bad_input_touches_nothing(place: Path, arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert run(*arguments, "--json").exit_code == 2
    assert list(place.glob("*.conf")) == []


def test_a_second_run_is_told_who_is_at_work(place: Path) -> None:
    with claimed("c"):
        done = run("configure", "c")
    assert done.exit_code == 1
    assert f"is being worked on by process {os.getpid()} (" in done.output


def test_elsewhere_than_on_a_terminal_it_tells_line_by_line(place: Path) -> None:
    done = run("configure", "c")
    assert done.stderr.splitlines()[0].strip() == "Write"
    assert "  infer-001: Settings: changed" in done.stderr.splitlines()
    assert "\x1b" not in done.stderr


def test_on_a_terminal_it_keeps_a_line_a_node(place: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import gpufleet.runner.running as r;"
        f"r.playbooks_dir = lambda: Path({str(place / 'playbooks')!r});"
        "from gpufleet.cli import main; sys.argv[1:] = ['configure', 'c']; main()"
    )
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [], 30)[0]:
            seen += os.read(ours, 65536)
    except OSError:
        pass
    finally:
        os.close(ours)
    assert child.wait(timeout=10) == 0
    assert child.stdout is not None
    child.stdout.close()
    text = seen.decode()
    assert "infer-001" in text
    assert "works" in text
    assert "Write · Settings" in text
