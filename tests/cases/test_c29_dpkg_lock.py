"""Package locks that something else holds: waited for, its holder named, never deleted."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aptbox
import pytest
from aptbox import package
from nodebox import NodeBox

LOCKS = ["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock"]
# A record lock, as apt and dpkg take it; told by its first argument what it pretends to be.
HOLDER = """\
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o640)
fcntl.lockf(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(box: NodeBox, path: str) -> Iterator[subprocess.Popen[str]]:
    """A lock in the hands of a process that lets go when its input ends."""
    holder = subprocess.Popen(
        box.command([sys.executable, "-c", HOLDER, path, "unattended-upgrade"]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        yield holder
    finally:
        holder.communicate(timeout=20)


@pytest.fixture
def node(box: NodeBox) -> NodeBox:
    aptbox.bare(box)
    aptbox.source(box, aptbox.publish(box, [package("demo-a", "1"), package("demo-b", "1")]))
    return box


def install(box: NodeBox, limit: int, name: str = "demo-a") -> dict[str, Any]:
    return {"packages": {name: "1"}, "lock_timeout": limit}


def test_c29_at_the_limit_the_holder_is_named_and_the_lock_is_there(node: NodeBox) -> None:
    for lock in LOCKS:
        with held(node, lock) as holder:
            before = (node.root / lock[1:]).stat().st_ino
            began = time.monotonic()
            result = node.module("packages", **install(node, 1))
            assert result["failed"]
            assert time.monotonic() - began >= 1
            said = f"{lock} has been held for 1 s by process {holder.pid} ("
            assert result["msg"].startswith(said)
            assert "unattended-upgrade" in result["msg"]
            assert holder.poll() is None
            assert (node.root / lock[1:]).stat().st_ino == before
    assert aptbox.installed(node) == {}


def test_c29_it_waits_and_goes_on_when_the_lock_is_let_go(node: NodeBox) -> None:
    # What is installed is read before the lock is looked at: from then on it waits.
    asked = node.folder / "asked"
    node.stub("dpkg-query", f'touch {asked}; exec /usr/bin/dpkg-query "$@"')
    with held(node, LOCKS[0]):
        waiting = subprocess.Popen(
            node.module_command("packages", install(node, 60)),
            env=node.module_environment(), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not asked.exists():
            assert time.monotonic() < deadline
            os.sched_yield()
        assert waiting.poll() is None
        assert aptbox.installed(node) == {}
    assert waiting.wait(60) == 0
    assert aptbox.installed(node) == {"demo-a": ("1", "install")}


def test_c29_apt_itself_is_given_the_same_limit(node: NodeBox) -> None:
    node.stub("apt-get", 'exec /usr/bin/apt-get "$@"')
    aptbox.publish(node, [package("demo-a", "1"), package("demo-c", "1")])
    node.module("packages", **install(node, 7, "demo-c"))
    calls = [call for call in node.calls() if " -s " not in call]
    assert {call.split()[-1] for call in calls} == {"update", "demo-c=1"}
    assert all("-o DPkg::Lock::Timeout=7 " in call for call in calls)


def test_c29_holds_alone_wait_for_the_lock_too(node: NodeBox) -> None:
    node.module("packages", **install(node, 7))
    with held(node, LOCKS[1]):
        result = node.module("packages", hold=True, **install(node, 1))
        assert "has been held for 1 s" in result["msg"]
    assert aptbox.installed(node)["demo-a"] == ("1", "install")


def test_c29_nothing_to_do_does_not_wait(node: NodeBox) -> None:
    node.module("packages", **install(node, 7))
    with held(node, LOCKS[0]):
        assert not node.module("packages", **install(node, 1)).get("failed")


def test_c29_a_first_boot_is_let_finish(node: NodeBox) -> None:
    node.path("/run/cloud-init/x")
    node.stub("cloud-init", "exit 0")
    node.stub("apt-get", 'exec /usr/bin/apt-get "$@"')
    node.module("packages", **install(node, 7))
    assert node.calls()[0] == "cloud-init status --wait"
    node.stub("cloud-init", "exec tail -f /dev/null")
    result = node.module("packages", **install(node, 1, "demo-b"))
    assert "cloud-init did not end within 1 s" in result["msg"]
