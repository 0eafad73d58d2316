"""Facts are gathered within their time, from this very host, and nothing is left behind."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from preflight_fixtures import CLUSTER, free_port, spec_of

from gpufleet.preflight import gather_facts
from gpufleet.preflight.facts import FactError, FactGroup, gather
from gpufleet.preflight.hosttool import Answer, ask, output
from gpufleet.preflight.kernelprobe import kernel
from gpufleet.preflight.localfacts import (
    cgroups,
    filesystem_of,
    memory,
    own_fleet,
    place,
    real_gpus,
    resolver,
)
from gpufleet.preflight.localgroups import (
    Cgroups,
    Identity,
    Kernel,
    Memory,
    Neighbour,
    OwnFleet,
    Probe,
    Ranges,
    RealGpus,
    Resolver,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state root of the test's own."""
    monkeypatch.setenv("GPUFLEET_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def mine() -> tuple[list[str], set[str], set[str], set[str]]:
    """What a probe could leave behind: namespaces, mounts, tables and links with its names."""
    names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    rules = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return (
        [line for line in names.splitlines() if "probe" in line],
        {line for line in Path("/proc/mounts").read_text().splitlines() if " /tmp" in line},
        {line for line in rules.stdout.splitlines() if "probe" in line},
        {name for _, name in socket.if_nameindex() if "probe" in name},
    )


@needs_root
def test_this_host_gives_all_facts_and_keeps_no_trace(tmp_path: Path, state: Path) -> None:
    before = mine()
    facts = gather_facts(spec_of(tmp_path, access={"front_port": free_port()}))
    assert facts.absent == {}
    assert facts.get(Identity).euid == 0
    assert {probe.works for probe in facts.get(Kernel).probes.values()} == {True}
    assert set(facts.get(Kernel).probes) == {
        "overlayfs", "network namespaces", "veth pairs", "bridges", "nft masquerading",
    }  # fmt: skip
    assert facts.get(Memory).available_mib > 100
    assert Neighbour("address", "127.0.0.0/8", "lo") in facts.get(Ranges).neighbours
    assert mine() == before == ([], before[1], set(), set())
    assert not state.exists()


def test_slow_gatherer_costs_its_own_facts_only() -> None:
    never = threading.Event()

    def hang() -> FactGroup:
        never.wait(20)
        return Memory(1)

    begun = time.monotonic()
    facts = gather({Memory: hang, Identity: lambda: Identity(7)}, deadline=0.2)
    took = time.monotonic() - begun
    never.set()
    assert 0.2 <= took < 2
    assert facts.get(Identity).euid == 7
    assert facts.absent == {"memory": "memory facts were not there within 0.2 s"}
    with pytest.raises(FactError, match=r"memory facts were not there within 0.2 s"):
        facts.get(Memory)


def test_failing_gatherer_leaves_its_reason() -> None:
    def known() -> FactGroup:
        raise FactError("ip is not installed")

    def unforeseen() -> FactGroup:
        raise KeyError("dst")

    facts = gather({Ranges: known, Memory: unforeseen}, deadline=5)
    assert facts.absent == {"ranges": "ip is not installed", "memory": "KeyError: 'dst'"}


def test_hanging_tool_is_ended_at_its_deadline() -> None:
    begun = time.monotonic()
    with pytest.raises(FactError, match=r"`sleep 30` did not end within 0.2 s"):
        ask(["sleep", "30"], timeout=0.2)
    assert time.monotonic() - begun < 5


def test_missing_and_failing_tools_are_said() -> None:
    with pytest.raises(FactError, match="no-such-tool is not installed"):
        ask(["no-such-tool"])
    with pytest.raises(FactError, match=r"`sh -c echo why >&2; exit 3` failed with status 3: why"):
        output(["sh", "-c", "echo why >&2; exit 3"])


def test_kernel_is_not_judged_without_root() -> None:
    with pytest.raises(FactError, match="can be tried by root only"):
        kernel(euid=1000)


def test_kernel_features_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nft" else f"/bin/{name}")

    def answer(words: list[str], given: str | None = None) -> Answer:
        assert words[0] == "unshare"
        return Answer(1, "", "Unknown device type") if "bridge" in words else Answer(0, "", "")

    assert kernel(answer, euid=0).probes == {
        "overlayfs": Probe(True),
        "network namespaces": Probe(True),
        "veth pairs": Probe(True),
        "bridges": Probe(False, "Unknown device type"),
        "nft masquerading": Probe(None, "nft is not installed"),
    }


def test_without_namespaces_what_needs_them_is_untried() -> None:
    def answer(words: list[str], given: str | None = None) -> Answer:
        return Answer(1, "", "Operation not permitted") if "--net" in words else Answer(0, "", "")

    probes = kernel(answer, euid=0).probes
    assert probes["network namespaces"] == Probe(False, "Operation not permitted")
    assert probes["bridges"] == Probe(None, "needs network namespaces to be tried")


@pytest.mark.parametrize(
    ("files", "layout", "path"),
    [
        (["cgroup.controllers"], "unified", ""),
        (["unified/cgroup.controllers", "memory/cgroup.procs"], "hybrid", "unified"),
        (["memory/cgroup.procs"], "v1", ""),
        ([], "none", ""),
    ],
)
def test_layout_of_control_groups(files: list[str], layout: Any, path: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = cgroups(tmp_path)
    assert found == Cgroups(layout, str(tmp_path / path), layout in ("unified", "hybrid"))


def test_folder_that_is_not_made_yet_lies_where_its_parent_does(tmp_path: Path) -> None:
    found = place(tmp_path / "a/b/c")
    assert found.path == str(tmp_path / "a/b/c")
    assert found.device == tmp_path.stat().st_dev
    assert found.free_mib > 0
    assert not found.read_only
    assert not (tmp_path / "a").exists()


MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:30 / /srv rw shared:1 - nfs4 server:/ rw
24 22 0:31 / /srv/my\040disk rw - xfs /dev/vdb rw
25 22 0:32 / /mnt rw - ext4 /dev/vdc rw
26 22 0:33 / /mnt rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/x", "nfs4"),
        ("/srvx", "ext4"),
        ("/srv/my disk/x", "xfs"),
        ("/mnt/x", "tmpfs"),
    ],
)
def test_file_system_of_a_folder_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS.strip()) == kind


def test_memory_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9999 kB\nMemAvailable:    2048 kB\n")
    assert memory(tmp_path / "meminfo") == Memory(2)
    (tmp_path / "meminfo").write_text("MemTotal: 9999 kB\n")
    with pytest.raises(FactError, match="does not say what memory is available"):
        memory(tmp_path / "meminfo")


@pytest.mark.parametrize("base", ["", "unified/"])
def test_own_nodes_are_those_laid_and_those_that_run(
    base: str, state: Path, tmp_path: Path
) -> None:
    for node in ("a-001", "a-002"):
        (state / CLUSTER / "nodes" / node).mkdir(parents=True)
        (state / CLUSTER / "nodes" / node / "machine.json").touch()
    (state / CLUSTER / "nodes/debris").mkdir()
    for node, populated in (("a-001", 1), ("a-002", 0)):
        group = tmp_path / f"cg/{base}gpufleet/{CLUSTER}/{node}"
        group.mkdir(parents=True)
        (group / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
    expected = OwnFleet(frozenset({"a-001", "a-002"}), frozenset({"a-001"}))
    assert own_fleet(CLUSTER, tmp_path / "cg") == expected


@pytest.mark.parametrize(
    ("behind", "front", "source", "servers"),
    [
        (None, "nameserver 10.1.1.1\noptions edns0", "etc/resolv.conf", ("10.1.1.1",)),
        ("nameserver 10.2.2.2", "nameserver 127.0.0.53", "run/systemd/resolve/resolv.conf",
         ("10.2.2.2",)),
        ("# empty", "nameserver 10.1.1.1", "etc/resolv.conf", ("10.1.1.1",)),
        (None, "nameserver 127.0.0.1", "etc/resolv.conf", ("127.0.0.1",)),
        (None, None, "etc/resolv.conf", ()),
    ],
)  # fmt: skip
def test_name_servers_behind_a_local_cache_are_found(
    behind: str | None, front: str | None, source: str, servers: tuple[str, ...], tmp_path: Path
) -> None:
    for name, text in (("run/systemd/resolve/resolv.conf", behind), ("etc/resolv.conf", front)):
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text + "\n")
    assert resolver(tmp_path) == Resolver(str(tmp_path / source), servers)


def test_only_device_files_of_gpus_count_as_gpus(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert real_gpus(tmp_path) == RealGpus((f"{tmp_path}/nvidia0", f"{tmp_path}/nvidia1"))


def test_gatherer_that_never_ends_does_not_keep_the_program() -> None:
    code = (
        "import threading\n"
        "from gpufleet.preflight.facts import gather\n"
        "from gpufleet.preflight.localgroups import Memory\n"
        "print(gather({Memory: threading.Event().wait}, 0.1).absent)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert "were not there within 0.1 s" in done.stdout


@needs_root
def test_control_groups_that_are_mounted_read_only_are_seen(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    code = f"from gpufleet.preflight.localfacts import *; print(cgroups(Path({str(tmp_path)!r})))"
    script = 'mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == repr(Cgroups("unified", str(tmp_path), False))
