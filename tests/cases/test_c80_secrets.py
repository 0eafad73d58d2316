"""Secrets in logs, in argument lists and in files that others may read."""

import base64
import os
import re
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import rolefleet
import yaml
from nodebox import ROOT, NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

SECRETS = (rolefleet.MUNGE_KEY, base64.b64decode(rolefleet.MUNGE_KEY).decode(), rolefleet.RAY_TOKEN)


def tasks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every task of roles and playbooks with its file."""

    def inner(where: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in value or []:
            parts = [
                row.get(key) for key in ("tasks", "pre_tasks", "post_tasks", "block", "rescue")
            ]
            if any(parts):
                for part in parts:
                    yield from inner(where, part)
            else:
                yield f"{where}: {row.get('name')}", row

    for path in sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]):
        if path.parent.name != "vars":
            yield from inner(str(path.relative_to(ROOT)), yaml.safe_load(path.read_text()))


@cache
def secret_variables() -> set[str]:
    """Variables whose default is made by the lookup."""
    found = set()
    for path in ROOT.glob("roles/*/*/main.yml"):
        if path.parent.name in ("defaults", "vars"):
            found |= set(re.findall(r"^(\w+):.*gpufleet\.node\.secret", path.read_text(), re.M))
    return found


def names_secret(value: Any) -> bool:
    """Whether a template in it takes the value of a secret; a path with its name does not."""
    expressions = " ".join(re.findall(r"{[{%].*?[}%]}", str(value), re.DOTALL))
    return any(re.search(rf"(?<![\w/.]){name}\b", expressions) for name in secret_variables())


def templates_of(role: str) -> dict[str, str]:
    return {x.name: x.read_text() for x in ROOT.glob(f"roles/{role}/templates/*.j2")}


def entries() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every file that roles lay: where it is said, its task and its entry."""
    for where, task in tasks():
        files = task.get("gpufleet.node.files", {}).get("files", [])
        laid = list(files) if isinstance(files, list) else []
        for rows in (task.get("vars") or {}).values():
            laid += [x for x in rows if isinstance(x, dict)] if isinstance(rows, list) else []
        for entry in laid:
            yield where, task, entry


def test_c80_there_are_secrets_to_look_for() -> None:
    assert {"munge_key", "ray_token"} <= secret_variables()
    assert len(list(tasks())) > 60


def test_c80_no_task_has_a_secret_in_its_arguments() -> None:
    for where, task in tasks():
        for kind in ("command", "shell", "raw", "script"):
            arguments = task.get(f"ansible.builtin.{kind}")
            assert not names_secret(arguments), where
            # What reads a key from an environment is read by ps, too.
            assert not names_secret(task.get("environment")), where


def test_c80_a_file_with_a_secret_is_closed_and_never_shown() -> None:
    seen = []
    for where, task, entry in entries():
        role = where.split("/")[1]
        text = templates_of(role).get(str(entry.get("template")), "")
        if names_secret({**entry, "text": text}):
            seen.append(entry["dest"])
            assert entry.get("secret") is True, f"{where}: {entry['dest']}"
        if entry.get("secret"):
            assert int(entry["mode"], 8) & 0o007 == 0, f"{where}: {entry['dest']}"
            assert task.get("no_log") is True, where
    assert {"/etc/munge/munge.key", "/etc/gpufleet/ray.token"} <= set(seen)


def test_c80_no_unit_template_has_a_secret() -> None:
    for path in ROOT.glob("roles/*/templates/*.j2"):
        if "[Service]" in path.read_text():
            assert not names_secret(path.read_text()), path.name


def test_c80_nothing_of_them_in_what_ansible_says(laid: rolefleet.RoleFleet) -> None:
    """With differences shown and at -vv, as people look for a fault."""
    for done in (laid.first, laid.second):
        assert [x for x in SECRETS if x in done.stdout + done.stderr] == []


def test_c80_no_file_with_one_may_be_read_by_others(laid: rolefleet.RoleFleet) -> None:
    found = {}
    upper = laid.box.root / str(laid.box.layers / "upper").lstrip("/")
    for folder, _, names in os.walk(upper):
        for path in (Path(folder) / name for name in names):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                if any(x.encode() in content for x in SECRETS):
                    mode = stat.S_IMODE(path.stat().st_mode)
                    found[f"/{path.relative_to(upper)}"] = mode
    assert found == {"/etc/munge/munge.key": 0o400, "/etc/gpufleet/ray.token": 0o640}


def test_c80_a_secret_without_no_log_is_refused(box: NodeBox) -> None:
    roles = RoleRun(box, rolefleet.contract("infer-001"))
    files = [{"dest": "/etc/demo/key", "content": "S3NTINEL-x", "mode": "0600", "secret": True}]
    play = [{
        "hosts": "all", "gather_facts": False,
        "tasks": [{"name": "Lay", "gpufleet.node.files": {"files": files}}],
    }]  # fmt: skip
    path = box.folder / "play.yml"
    path.write_text(yaml.safe_dump(play))
    done = roles.ansible("playbook", str(path))
    assert "a task with a secret file needs `no_log: true`" in done.stdout
    assert not box.exists("/etc/demo/key")


def command_lines() -> Iterator[bytes]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                yield Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue


@pytest.fixture
def watched() -> Iterator[list[bytes]]:
    """Command lines with a secret that any process had meanwhile, whoever looks."""
    found: list[bytes] = []
    over = Event()

    def watch() -> None:
        while not over.is_set():
            found.extend(x for x in command_lines() if any(y.encode() in x for y in SECRETS))

    thread = Thread(target=watch)
    thread.start()
    yield found
    over.set()
    thread.join()


def test_c80_no_process_has_one_on_its_command_line(box: NodeBox, watched: list[bytes]) -> None:
    Systemctl(box, strict=False)
    box.stub("munge", "echo MUNGE:credential:")
    box.stub("unmunge", "cat > /dev/null; echo 'STATUS:           Success (0)'")
    roles = RoleRun(
        box, rolefleet.contract("infer-001"), munge_key=SECRETS[0], ray_token=SECRETS[2]
    )
    steps = [("munge", "configure"), ("munge", "verify"), ("ray", "install")]
    done = roles.play(steps, "--limit", "infer-001", node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    assert watched == []
