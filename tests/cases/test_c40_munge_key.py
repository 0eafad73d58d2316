"""Munge's key: its permissions, and a daemon that still has the old one."""

import base64
import os
import re
import select
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import contracts
import pytest
import rolefleet
from nodebox import ROOT, NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

KEY = "/etc/munge/munge.key"
OTHER = base64.b64encode(b"another key of this cluster " * 3).decode()


@contextmanager
def munged(box: NodeBox, name: str, key: str = KEY) -> Iterator[Path]:
    """A real daemon with a socket of its own, as it would be on another node."""
    folder = f"/run/{name}"
    (box.root / folder[1:]).mkdir()
    box.run("chown", "munge:munge", folder)
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    arguments = [f"--{option}={folder}/{file}" for option, file in files.items()]
    done = box.run(
        "runuser", "-u", "munge", "--", "/usr/sbin/munged", f"--key-file={key}", *arguments
    )
    assert done.returncode == 0, done.stderr + box.read(f"{folder}/log")
    number = int(box.read(f"{folder}/pid"))
    process = os.pidfd_open(number)
    try:
        yield Path(folder)
    finally:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], 20)
        os.close(process)


@pytest.fixture
def roles(box: NodeBox) -> RoleRun:
    """A cluster of one node with the key laid."""
    systemd = Systemctl(box, strict=False)
    systemd.running("munge.service")
    fleet = contracts.contract(contracts.node("train-001", 2))
    made = RoleRun(box, fleet, munge_key=rolefleet.MUNGE_KEY)
    done = made.play([("munge", "configure")], node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    # The service was older than the key, however the key came there.
    assert systemd.calls() == ["restart munge.service"]
    return made


def test_c40_the_key_is_the_daemons_alone_and_the_daemon_takes_it(roles: RoleRun) -> None:
    box = roles.box
    key, folder = box.root / KEY[1:], box.root / "etc/munge"
    assert stat.S_IMODE(key.stat().st_mode) == 0o400
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    number = int(box.run("id", "-u", "munge").stdout)
    assert key.stat().st_uid == folder.stat().st_uid == number
    assert key.read_bytes() == base64.b64decode(rolefleet.MUNGE_KEY)
    with munged(box, "own") as place:
        done = box.run("sh", "-c", f"munge -n -S {place}/socket | unmunge -S {place}/socket")
        assert re.match("STATUS: +Success", done.stdout)


def test_c40_a_key_that_others_may_read_is_refused_and_closed_again(roles: RoleRun) -> None:
    box = roles.box
    (box.root / KEY[1:]).chmod(0o644)
    with pytest.raises(AssertionError, match="nsecure"), munged(box, "own"):
        pass
    done = roles.play([("munge", "configure")], node=rolefleet.FACTS)
    assert "changed=2 " in done.stdout  # the mode, and the restart that it makes due
    assert stat.S_IMODE((box.root / KEY[1:]).stat().st_mode) == 0o400


def test_c40_a_daemon_with_the_old_key_is_caught_by_the_roles_test(roles: RoleRun) -> None:
    box = roles.box
    with munged(box, "older") as older:
        # The key was swapped below it.
        (box.root / KEY[1:]).write_bytes(base64.b64decode(OTHER))
        with munged(box, "newer") as newer:
            for encodes, decodes, fine in ((newer, newer, True), (newer, older, False)):
                box.stub("munge", f'exec /usr/bin/munge -S {encodes}/socket "$@"')
                box.stub("unmunge", f'exec /usr/bin/unmunge -S {decodes}/socket "$@"')
                done = roles.play([("munge", "verify")], node=rolefleet.FACTS)
                assert (done.returncode == 0) is fine, done.stdout
                assert ("Invalid credential" in done.stdout) is not fine
    assert "a service older than the key" in " ".join(done.stdout.split())


def rotate(roles: RoleRun, *arguments: str) -> subprocess.CompletedProcess[str]:
    playbook = str(ROOT / "playbooks/rotate_munge.yml")
    return roles.ansible("playbook", "-vvv", "--diff", *arguments, playbook)


@pytest.fixture
def rotation(box: NodeBox) -> RoleRun:
    """A cluster whose key is its own, not one of the inventory's variables."""
    Systemctl(box, strict=False).running("munge.service")
    box.stub("munge", "echo MUNGE:credential:")
    box.stub("unmunge", "echo 'STATUS:           Success (0)'")
    fleet = contracts.contract(contracts.node("train-001", 2))
    made = RoleRun(box, fleet, ansible_become=False)
    secrets = made.inventory / ".secrets"
    secrets.mkdir(0o700)
    for name, text in (("munge_key", rolefleet.MUNGE_KEY), ("munge_key_next", OTHER)):
        (secrets / name).write_text(text)
        (secrets / name).chmod(0o600)
    return made


def test_c40_a_rotation_that_was_cut_off_is_ended_with_the_same_new_key(rotation: RoleRun) -> None:
    """The next key is there already: some nodes have it."""
    done = rotate(rotation)
    assert done.returncode == 0, done.stdout
    secrets = rotation.inventory / ".secrets"
    assert [path.name for path in secrets.iterdir()] == ["munge_key"]
    assert (secrets / "munge_key").read_text() == OTHER
    assert stat.S_IMODE((secrets / "munge_key").stat().st_mode) == 0o600
    assert (rotation.box.root / KEY[1:]).read_bytes() == base64.b64decode(OTHER)
    for key in (OTHER, rolefleet.MUNGE_KEY):
        assert key not in done.stdout + done.stderr
        assert base64.b64decode(key).decode() not in done.stdout + done.stderr


def test_c40_no_node_is_left_with_the_old_key(rotation: RoleRun) -> None:
    nodes = [contracts.node("train-001", 2), contracts.node("infer-001", 3)]
    rotation.declare(contracts.contract(*nodes))
    done = rotate(rotation, "--limit", "train-001")
    assert done.returncode != 0
    assert "infer-001 would keep the old key: run it without --limit" in " ".join(
        done.stdout.split()
    )
    assert sorted(os.listdir(rotation.inventory / ".secrets")) == ["munge_key", "munge_key_next"]
    assert not (rotation.box.root / KEY[1:]).exists() or (
        rotation.box.root / KEY[1:]
    ).read_bytes() != base64.b64decode(OTHER)
