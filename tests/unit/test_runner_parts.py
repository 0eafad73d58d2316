"""The pure parts of running playbooks: budgets, limits, changes, the environment."""

from pathlib import Path

import contracts
import pytest

from gpufleet.runner import RunError
from gpufleet.runner.budget import parse_budget
from gpufleet.runner.changes import changes_of, differing
from gpufleet.runner.environment import environment
from gpufleet.runner.limits import pattern
from gpufleet.runner.place import without_values
from gpufleet.runner.progress import phase_of
from gpufleet.runner.tally import explain


@pytest.mark.parametrize(("text", "budget"), [("0", "0"), (" 12 ", "12"), ("020%", "20%")])
def test_a_budget_is_a_count_or_a_share(text: str, budget: str) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "%", "ten", "5%%", "٣"])
def test_no_other_budget(text: str) -> None:
    with pytest.raises(RunError, match="give a count such as 2, or a share"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("infer-001", "infer-001"),
        ("infer-[001-002],train-001", "infer-001,infer-002,train-001"),
        ("infer-[001,002]", "infer-001,infer-002"),
        ("gpu_nodes, infer-001,infer-001", "gpu_nodes,infer-001"),
        ("all", "all"),
    ],
)
def test_a_limit_is_names_lists_and_groups(text: str, limit: str) -> None:
    assert pattern(contracts.fleet(), text) == limit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("infer-003", "no such node or group; did you mean infer-00"),
        ("gpu_node", "did you mean gpu_nodes"),
        ("infer-[001-", "--limit: "),
        ("", "names no node"),
        ("all:!infer-001", "--limit"),
    ],
)
def test_a_limit_that_means_no_node_is_refused(text: str, said: str) -> None:
    with pytest.raises(RunError) as error:
        pattern(contracts.fleet(), text)
    assert said in str(error.value)


DATA = {"host": "a", "role": "slurm", "task": "Files", "task_action": "gpufleet.node.files"}


def rows(**res: object) -> list[tuple[str, str, str | None, str | None]]:
    found = changes_of({**DATA, "res": {"changed": True, **res}})
    assert all((x.node, x.role, x.task) == ("a", "slurm", "Files") for x in found)
    return [(x.kind, x.name, x.before, x.after) for x in found]


def diff(header: str, before: object, after: object) -> dict[str, object]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


def test_the_diffs_of_our_modules_say_kind_and_name() -> None:
    assert rows(
        diff=[
            diff("/etc/slurm/slurm.conf", "a\nMaxTime=1\nc\n", "a\nMaxTime=2\nc\n"),
            diff("package slurmd", "24.05.2", "24.11.1"),
            diff("unit slurmd.service", "stopped", "started"),
            diff("unit same.service", "started", "started"),
        ]
    ) == [
        ("file", "/etc/slurm/slurm.conf", "MaxTime=1", "MaxTime=2"),
        ("package", "slurmd", "24.05.2", "24.11.1"),
        ("unit", "slurmd.service", "stopped", "started"),
    ]


def test_changes_of_ansibles_own_modules_are_named_too() -> None:
    copied = {"before": "", "after": "x\n", "after_header": "/etc/x (content)"}
    assert rows(diff=copied) == [("file", "/etc/x", "", "x")]
    mode = {"before": {"path": "/etc/x", "mode": "0644"}, "after": {"path": "/etc/x", "mode": "1"}}
    ((kind, name, before, after),) = rows(diff=mode)
    assert (kind, name) == ("file", "/etc/x")
    assert "0644" in (before or "")
    assert '"1"' in (after or "")


def test_a_loop_gives_the_changes_of_its_changed_items() -> None:
    one = {"changed": True, "diff": [diff("package a", "1", "2")]}
    assert rows(results=[one, {"changed": False}]) == [("package", "a", "1", "2")]


def test_a_change_without_a_diff_is_still_one() -> None:
    assert rows() == [("other", "Files", None, None)]
    command = {**DATA, "task_action": "ansible.builtin.command"}
    (change,) = changes_of({**command, "res": {"changed": True, "cmd": ["a", "b"]}})
    assert (change.kind, change.name) == ("command", "a b")
    assert changes_of({**DATA, "res": {"changed": False}}) == []


def test_of_a_file_only_what_differs_is_shown() -> None:
    assert differing("a\nb\nc\n", "a\nB\nc\nd\n") == ("b", "B\nd")
    assert differing("a", "a\n") == ("a", "a\n")


def test_a_failure_is_told_whole_and_a_secret_one_not_at_all() -> None:
    text = explain({"msg": "non-zero return code", "stderr": "E: broken\nE: more", "stdout": "x"})
    assert text == "non-zero return code\nE: broken\nE: more\nx"
    looped = {
        "msg": "One or more items failed",
        "results": [{"failed": True, "item": 7, "msg": "m"}],
    }
    assert explain(looped) == "One or more items failed\n7: m"
    assert "no_log" in explain({"censored": "the output has been hidden"})
    assert explain({})


def test_ansible_gets_what_it_needs_and_no_secret() -> None:
    outer = {
        "HOME": "/h", "SSH_AUTH_SOCK": "/s", "GPUFLEET_STATE": "/st", "LC_ALL": "C",
        "ANSIBLE_FORKS": "9", "ANSIBLE_VAULT_PASSWORD_FILE": "/vault",
        "ANSIBLE_HOST_KEY_CHECKING": "False", "ANSIBLE_STRATEGY": "free",
        "AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x", "ANSIBLE_BECOME_PASS": "x",
        "GPUFLEET_API_KEY": "x", "PULUMI_CONFIG_PASSPHRASE": "x", "https_proxy": "u:p@x",
    }  # fmt: skip
    got = environment(outer, Path("/run-1"))
    assert "x" not in got.values()
    assert "u:p@x" not in got.values()
    for name in ("HOME", "SSH_AUTH_SOCK", "GPUFLEET_STATE", "ANSIBLE_FORKS"):
        assert got[name] == outer[name]
    assert got["ANSIBLE_VAULT_PASSWORD_FILE"] == "/vault"
    assert got["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert "ANSIBLE_STRATEGY" not in got


def test_a_holder_shows_no_value_of_an_extra_variable() -> None:
    arguments = ["play", "c", "reboot", "--extra", "key=hush", "--extra=other=hush", "--json"]
    assert without_values(arguments) == [
        "play", "c", "reboot", "--extra", "key=…", "--extra=other=…", "--json",
    ]  # fmt: skip


def test_the_phase_is_the_task_file_of_a_role() -> None:
    assert phase_of({"task_path": "/x/roles/slurm/tasks/install.yml:3"}) == "install"
    assert phase_of({"task_path": "/x/roles/slurm/tasks/main.yml:3"}) == ""
    assert phase_of({"task_path": "/x/playbooks/site.yml:3"}) == ""
