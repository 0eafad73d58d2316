"""A run of real playbooks: the budget, who is through and who is left, and what is kept of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpufleet import runner
from gpufleet.runner import BusyError, RunError, RunResult
from gpufleet.runner.place import KEPT_RUNS, claimed, new_run, read_state, runs_dir

# Port 1 of loopback is closed: a node that cannot be reached, at once and for certain.
DEAD = "{ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}"

Play = Callable[..., RunResult]


class Place:
    """An inventory of nodes that are all this machine; playbooks leave marks in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.marks = root / "marks"
        self.marks.mkdir()
        (root / "inventories/c").mkdir(parents=True)

    def nodes(self, *names: str, dead: tuple[str, ...] = ()) -> None:
        hosts = ", ".join(f"{name}: {DEAD if name in dead else '{}'}" for name in names)
        (self.root / "inventories/c/hosts.yml").write_text(
            "all:\n"
            "  vars:\n"
            "    ansible_connection: local\n"
            "    ansible_python_interpreter: '{{ ansible_playbook_python }}'\n"
            f"    marks: {self.marks}\n"
            f"  hosts: {{{hosts}}}\n"
        )

    def playbook(self, text: str, name: str = "book") -> Path:
        path = self.root / f"{name}.yml"
        path.write_text(text)
        return path

    def marked(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("GPUFLEET_INVENTORIES", str(tmp_path / "inventories"))
    monkeypatch.setenv("GPUFLEET_STATE", str(tmp_path / "state"))
    # Modules of a run that is killed leave their folders there.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Place(tmp_path)


TWO_TASKS = """\
- name: Only
  hosts: all
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.ping:
    - name: Fail
      ansible.builtin.fail: {msg: "no luck, {{ inventory_hostname }}"}
      when: inventory_hostname in failing | default([])
    - name: Mark
      ansible.builtin.file: {path: "{{ marks }}/{{ inventory_hostname }}", state: touch}
"""


@pytest.mark.parametrize(("budget", "goes_on"), [("1", False), ("2", True), ("50%", True)])
def test_failed_and_unreachable_share_one_budget(place: Place, budget: str, goes_on: bool) -> None:
    place.nodes("a", "b", "c", "x", dead=("x",))
    result = runner.run(
        "c", place.playbook(TWO_TASKS), max_failures=budget, extra={"failing": ["a"]}
    )
    assert result.failed == ["a", "x"]
    assert not result.ok
    assert result.nodes["a"].error == "no luck, a"
    assert "Connection refused" in (result.nodes["x"].error or "")
    assert (result.nodes["a"].unreachable, result.nodes["x"].unreachable) == (0, 1)
    assert place.marked() == (["b", "c"] if goes_on else [])
    assert result.left == ([] if goes_on else ["b", "c"])
    assert result.stopped == (None if goes_on else "budget")
    assert result.events_complete, result.warnings


BATCHES = """\
- name: Rolling
  hosts: all
  serial: 2
  gather_facts: false
  tasks:
    - name: First
      ansible.builtin.file: {path: "{{ marks }}/{{ inventory_hostname }}", state: touch}
    - name: The node dies
      ansible.builtin.set_fact: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
      when: inventory_hostname == dies | default('')
    - name: Second
      ansible.builtin.file: {path: "{{ marks }}/{{ inventory_hostname }}.2", state: touch}
    - name: Third
      ansible.builtin.file: {path: "{{ marks }}/{{ inventory_hostname }}.3", state: touch}
"""


def test_a_node_that_dies_stops_the_batches_and_the_rest_is_resumed(place: Place) -> None:
    place.nodes("n1", "n2", "n3", "n4", "n5", "n6")
    book = place.playbook(BATCHES)
    result = runner.run("c", book, extra={"dies": "n3"})
    assert (result.done, result.failed, result.left) == (
        ["n1", "n2"], ["n3"], ["n4", "n5", "n6"],
    )  # fmt: skip
    assert "n5" not in place.marked()
    assert "n6" not in place.marked()
    again = runner.run("c", book, resume=True)
    assert again.ok
    assert again.resumed_past == ["n1", "n2"]
    assert again.done == ["n3", "n4", "n5", "n6"]
    assert sorted(again.nodes) == again.done
    nothing = runner.run("c", book, resume=True)
    assert nothing.ok
    assert nothing.nodes == {}
    assert nothing.resumed_past == ["n1", "n2", "n3", "n4", "n5", "n6"]


def test_a_resume_takes_new_nodes_and_keeps_to_the_terms_of_its_run(place: Place) -> None:
    place.nodes("a", "b", "c", "x", dead=("x",))
    book = place.playbook(TWO_TASKS)
    with pytest.raises(RunError, match="nothing to resume: book has not run on c yet"):
        runner.run("c", book, resume=True)
    first = runner.run("c", book, limit="a,x", max_failures="1")
    assert (first.done, first.failed) == (["a"], ["x"])
    with pytest.raises(RunError, match="leave out --limit"):
        runner.run("c", book, resume=True, limit="b")
    with pytest.raises(RunError, match="had --tags none, not base"):
        runner.run("c", book, resume=True, tags="base")
    place.nodes("a", "b", "c", "x")
    again = runner.run("c", book, resume=True)
    assert again.done == ["x"]
    whole = runner.run("c", book, extra={"failing": ["a"]}, max_failures="1")
    assert whole.failed == ["a"]
    place.nodes("a", "b", "c", "x", "new")
    assert runner.run("c", book, resume=True).done == ["a", "new"]


def test_batches_go_on_within_the_budget(place: Place) -> None:
    place.nodes("n1", "n2", "n3", "n4", "n5", "n6")
    result = runner.run("c", place.playbook(BATCHES), extra={"dies": "n3"}, max_failures="1")
    assert result.failed == ["n3"]
    assert result.done == ["n1", "n2", "n4", "n5", "n6"]
    assert not result.ok


FATAL = """\
- name: Gate
  hosts: all
  any_errors_fatal: true
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.ping:
- name: Work
  hosts: all
  gather_facts: false
  tasks:
    - name: Mark
      ansible.builtin.file: {path: "{{ marks }}/{{ inventory_hostname }}", state: touch}
"""


def test_what_ansible_gives_up_as_a_whole_goes_on_within_the_budget(place: Place) -> None:
    place.nodes("a", "b", "x", dead=("x",))
    book = place.playbook(FATAL)
    stopped = runner.run("c", book)
    assert (stopped.failed, stopped.left) == (["x"], ["a", "b"])
    assert place.marked() == []
    told: list[str] = []
    result = runner.run("c", book, max_failures="1", on_notice=told.append)
    assert (result.failed, result.done, result.left) == (["x"], ["a", "b"], [])
    assert place.marked() == ["a", "b"]
    assert told == ["lost x, within the budget of 1; going on with 2 nodes"]
    assert result.events_complete, result.warnings


HARMLESS = """\
- name: Rescued
  hosts: all
  gather_facts: false
  tasks:
    - name: Try
      block:
        - name: Break
          ansible.builtin.fail: {msg: broken}
      rescue:
        - name: Mend
          ansible.builtin.ping:
    - name: Mind nothing
      ansible.builtin.fail: {msg: ignored}
      ignore_errors: true
    - name: Take in twice
      ansible.builtin.include_tasks: more.yml
      loop: [1, 2]
    - name: Skip
      ansible.builtin.ping:
      when: false
    - name: Loop
      ansible.builtin.command: "true"
      loop: [1, 2]
"""


def test_rescued_and_ignored_failures_are_none_and_all_events_add_up(place: Place) -> None:
    place.nodes("a", "b")
    (place.root / "more.yml").write_text("- name: More\n  ansible.builtin.ping:\n")
    result = runner.run("c", place.playbook(HARMLESS))
    assert result.ok
    assert result.done == ["a", "b"]
    assert result.nodes["a"].error is None
    assert result.nodes["a"].ignored == 1
    assert result.events_complete, result.warnings


def test_lost_events_are_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufleet.runner.tally import Tally

    whole = Tally.add

    def lossy(self: Tally, event: Any) -> None:
        if not (event.get("event") == "runner_on_ok" and event["event_data"]["host"] == "b"):
            whole(self, event)

    monkeypatch.setattr(Tally, "add", lossy)
    place.nodes("a", "b")
    result = runner.run("c", place.playbook(TWO_TASKS))
    assert not result.events_complete
    assert result.to_dict()["events_complete"] is False
    assert result.warnings == [
        "events are incomplete: b: Ansible sent 2 ok, 1 skipped, received 1 skipped",
        "events are incomplete: b: Ansible counts 1 changed, its events say 0",
    ]


SECRETS = """\
- name: Secrets
  hosts: all
  gather_facts: false
  tasks:
    - name: Use it
      ansible.builtin.copy: {content: "{{ key }}", dest: "{{ marks }}/key", mode: "0600"}
      no_log: true
"""


def test_secrets_reach_ansible_and_nothing_that_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", "from-the-environment")
    monkeypatch.setenv("ANSIBLE_BECOME_PASSWORD", "from-the-environment")
    place.nodes("a")
    seen: list[str] = []

    def look(event: Any) -> None:
        seen.append(json.dumps(event))
        extras = list(runs_dir("c").glob("extra-*"))
        if event["event"] == "playbook_on_play_start":
            assert extras == []

    result = runner.run("c", place.playbook(SECRETS), extra={"key": "hush-hush"}, on_event=look)
    assert result.ok, result.error
    assert (place.marks / "key").read_text() == "hush-hush"
    (change,) = result.changes
    assert result.nodes["a"].changed == 1
    assert result.events_complete, result.warnings
    assert (change.kind, change.name, change.before) == ("other", "Use it", "hidden (no_log)")
    kept = [path for path in (place.root / "state").rglob("*") if path.is_file()]
    assert len(kept) > 5
    for path in kept:
        assert b"hush-hush" not in path.read_bytes(), path
        assert b"from-the-environment" not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path
    assert not any("hush-hush" in text for text in seen)
    assert (place.root / "state/c/runs").stat().st_mode & 0o777 == 0o700


def test_ansible_checks_host_keys_whatever_its_runner_says(place: Place) -> None:
    place.nodes("a")
    result = runner.run("c", place.playbook(TWO_TASKS))
    command = json.loads((result.artifacts / "1/command").read_text())
    assert command["env"]["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert command["command"][:3] == ["setpriv", "--pdeathsig", "TERM"]


def test_a_playbook_that_cannot_be_read_is_an_error_of_no_node(place: Place) -> None:
    place.nodes("a")
    result = runner.run("c", place.playbook("- hosts: all\n  tasks: [{no_such_module: }]\n"))
    assert not result.ok
    assert "no_such_module" in (result.error or "")
    assert result.failed == []


def test_an_error_of_the_listener_ends_the_run_between_tasks_and_is_raised(place: Place) -> None:
    place.nodes("a")

    def listen(event: Any) -> None:
        if event["event"] == "playbook_on_task_start":
            raise BrokenPipeError("gone")

    with pytest.raises(BrokenPipeError):
        runner.run("c", place.playbook(TWO_TASKS), on_event=listen)
    state = read_state(runs_dir("c"), "book")
    assert state is not None
    with claimed("c"):
        pass


def test_check_mode_changes_nothing_and_is_nothing_to_resume(place: Place) -> None:
    place.nodes("a")
    result = runner.run("c", place.playbook(TWO_TASKS), check=True)
    assert result.ok
    assert [change.kind for change in result.changes] == ["file"]
    assert place.marked() == []
    assert read_state(runs_dir("c"), "book") is None


def test_one_run_at_a_time_and_the_holder_is_named(place: Place) -> None:
    place.nodes("a")
    book = place.playbook(TWO_TASKS)
    with claimed("c"), pytest.raises(BusyError, match=rf"process {os.getpid()} \(.+\), since 20"):
        runner.run("c", book)
    assert runner.run("c", book).ok


def test_old_runs_go(place: Place) -> None:
    with claimed("c") as folder:
        made = [new_run(folder, "book") for _ in range(KEPT_RUNS + 3)]
    assert [path.exists() for path in made] == [False] * 3 + [True] * KEPT_RUNS


SLOW = """\
- name: Slow
  hosts: all
  gather_facts: false
  tasks:
    - name: Long
      ansible.builtin.shell: |
        touch {{ marks }}/begun; sleep {{ seconds }}; touch {{ marks }}/ended
    - name: Next
      ansible.builtin.file: {path: "{{ marks }}/next", state: touch}
"""

CHILD = """\
import json, sys
from pathlib import Path
from gpufleet import runner
result = runner.run("c", Path(sys.argv[1]), extra={"seconds": float(sys.argv[2])})
print(json.dumps(result.to_dict()))
"""


def begin(place: Place, seconds: float) -> "subprocess.Popen[str]":
    place.nodes("a")
    book = place.playbook(SLOW)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(book), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    wait(lambda: (place.marks / "begun").exists())
    return child


def wait(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ansible_pid(place: Place) -> int:
    (plan,) = (place.root / "state").rglob("plan.json")
    return int(json.loads(plan.read_text())["pid"])


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_interrupt_lets_the_task_under_way_end_and_begins_no_other(place: Place) -> None:
    child = begin(place, 1.5)
    child.send_signal(signal.SIGINT)
    result = json.loads(child.communicate(timeout=30)[0])
    assert place.marked() == ["begun", "ended"]
    assert (result["stopped"], result["left"], result["failed"]) == ("asked", ["a"], [])
    assert result["nodes"]["a"]["ok"] == 1
    assert result["events_complete"] is True


def test_a_second_interrupt_ends_it_at_once(place: Place) -> None:
    child = begin(place, 60)
    child.send_signal(signal.SIGINT)
    wait(lambda: any((place.root / "state").rglob("stop")))
    child.send_signal(signal.SIGINT)
    result = json.loads(child.communicate(timeout=20)[0])
    assert (result["stopped"], result["left"], result["events_complete"]) == (
        "killed", ["a"], False,
    )  # fmt: skip
    assert gone(ansible_pid(place))


def test_ansible_ends_with_its_parent_and_what_was_left_is_known(place: Place) -> None:
    child = begin(place, 60)
    pid = ansible_pid(place)
    child.kill()
    child.communicate(timeout=10)
    wait(lambda: gone(pid))
    state = read_state(runs_dir("c"), "book")
    assert state is not None
    assert (state.done, state.left) == ([], ["a"])
