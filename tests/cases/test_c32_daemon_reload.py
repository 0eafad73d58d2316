"""Containers lose their GPUs when systemd reads its units anew: only where one changed."""

import re
from pathlib import Path

from nodebox import ROOT, NodeBox
from rolefleet import RoleFleet
from rolerun import templates
from systemctl_stub import Systemctl


def test_c32_a_second_run_asks_nothing_of_systemd(laid: RoleFleet) -> None:
    assert laid.first_calls.count("daemon-reload") == 0  # no unit of the stand-in had changed
    assert "start slurmd.service" in laid.first_calls
    assert laid.second_calls == []
    assert "changed=0 " in laid.second.stdout


def test_c32_a_changed_unit_is_read_once_before_anything_is_started(box: NodeBox) -> None:
    systemd = Systemctl(box)
    systemd.unit("docker.service", NeedDaemonReload="yes")
    systemd.unit("gpufleet-cdi.service", NeedDaemonReload="yes")
    units = [
        {"name": name, "state": "started"} for name in ("gpufleet-cdi.service", "docker.service")
    ]
    box.module("units", units=units)
    assert systemd.calls() == [
        "daemon-reload", "start gpufleet-cdi.service", "start docker.service"
    ]  # fmt: skip
    box.module("units", units=units)
    assert systemd.calls() == []


def test_c32_no_role_reloads_without_a_change() -> None:
    """The module knows whether a unit changed; who reloads beside it has to say of what."""
    tasks = [*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").rglob("*.yml")]
    assert len(tasks) > 50
    words = ("daemon-reload", "daemon_reload", "daemon-reexec")
    for path in templates():
        assert not any(word in path.read_text() for word in words), path
    for path in tasks:
        for task in re.split(r"^- ", path.read_text(), flags=re.MULTILINE):
            if any(word in task for word in words):
                assert re.search(r"when:.* is changed", task, re.DOTALL), path


def test_c32_device_links_outlive_a_reload(laid: RoleFleet) -> None:
    """Devices without a link below /dev/char are cut off from containers by a reload."""
    rows = laid.read("/etc/udev/rules.d/71-gpufleet-nvidia.rules").splitlines()
    (rule,) = [row for row in rows if not row.startswith("#")]
    assert 'ACTION=="add"' in rule
    assert 'KERNEL=="nvidia*"' in rule
    assert "ln -sf ../%k /dev/char/%M:%m" in rule


def test_c32_devices_are_named_before_docker_starts(laid: RoleFleet) -> None:
    assert laid.first_calls.index("start gpufleet-cdi.service") < laid.first_calls.index(
        "start docker.service"
    )
    assert Path(laid.box.root / "etc/systemd/system/gpufleet-cdi.service").is_file()
