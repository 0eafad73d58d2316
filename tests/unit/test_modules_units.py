"""`gpufleet.node.units`: only what differs is asked for, and a missed restart is made good."""

import socket
import time
from typing import Any

import pytest
from nodebox import NodeBox
from systemctl_stub import Systemctl

CONF = "/etc/demo/demo.conf"


@pytest.fixture
def systemd(box: NodeBox) -> Systemctl:
    return Systemctl(box)


def settle(box: NodeBox, *, check: bool = False, wait: int = 20, **entry: Any) -> dict[str, Any]:
    units = [{"name": "demo.service", **entry}]
    return box.module("units", check=check, units=units, wait=wait)


def test_a_unit_is_enabled_and_started_once(box: NodeBox, systemd: Systemctl) -> None:
    systemd.unit("demo.service")
    would = settle(box, check=True, enabled=True, state="started")
    assert would["changed_units"] == ["demo.service: enable", "demo.service: start"]
    assert systemd.calls() == []
    did = settle(box, enabled=True, state="started")
    assert did["changed_units"] == would["changed_units"]
    assert did["diff"] == would["diff"]
    assert systemd.calls() == ["enable demo.service", "start demo.service"]
    again = settle(box, enabled=True, state="started")
    assert (again["changed"], again["diff"], systemd.calls()) == (False, [], [])


def test_a_restart_is_due_when_a_file_is_newer_than_the_process(
    box: NodeBox, systemd: Systemctl
) -> None:
    """However the file came there: the run that changed it may have been killed."""
    box.write(CONF, "x")
    systemd.running("demo.service", 3600)
    wanted = {"state": "started", "restart_after": ["/etc/demo/none", CONF]}
    would = settle(box, check=True, **wanted)
    assert would["changed_units"] == [f"demo.service: restart, older than {CONF}"]
    assert systemd.calls() == []
    assert settle(box, **wanted)["changed"]
    assert systemd.calls() == ["restart demo.service"]
    assert not settle(box, **wanted)["changed"]


def test_a_rename_alone_makes_a_restart_due(box: NodeBox, systemd: Systemctl) -> None:
    """An old file that is put in place by a rename keeps the time at which it was written."""
    found = box.write(CONF, "x")
    begun = found.stat().st_ctime + 0.001
    systemd.running("demo.service", time.time() - begun)
    wanted = {"state": "started", "restart_after": [CONF]}
    assert not settle(box, **wanted)["changed"]
    deadline = time.monotonic() + 20
    while found.stat().st_ctime <= begun:
        assert time.monotonic() < deadline
        found.rename(found.with_name("other")).rename(found)
    assert settle(box, **wanted)["changed"]


def test_a_reload_counts_from_the_last_reload(box: NodeBox, systemd: Systemctl) -> None:
    box.write(CONF, "x")
    systemd.running("demo.service", 3600)
    wanted = {"state": "started", "restart_after": [CONF], "reload": True}
    assert settle(box, **wanted)["changed_units"] == [f"demo.service: reload, older than {CONF}"]
    assert systemd.calls() == ["reload demo.service"]
    assert not settle(box, **wanted)["changed"]
    box.write(CONF, "y")
    assert settle(box, **wanted)["changed"]


@pytest.mark.parametrize("check", [False, True])
def test_unit_files_are_read_anew_only_when_one_changed(
    box: NodeBox, systemd: Systemctl, check: bool
) -> None:
    systemd.running("demo.service")
    systemd.running("other.service", NeedDaemonReload="yes")
    units = [{"name": name, "state": "started"} for name in ("demo.service", "other.service")]
    first = box.module("units", check=check, units=units)
    assert first["changed_units"] == ["systemd: read unit files anew"]
    assert systemd.calls() == ([] if check else ["daemon-reload"])
    if not check:
        assert not box.module("units", units=units)["changed"]
        assert systemd.calls() == []


def test_a_unit_in_its_failed_state_is_reset_before_it_is_started(
    box: NodeBox, systemd: Systemctl
) -> None:
    systemd.unit("demo.service", ActiveState="failed", SubState="failed")
    assert settle(box, state="started")["changed"]
    assert systemd.calls() == ["reset-failed demo.service", "start demo.service"]


def test_stopped_disabled_and_masked(box: NodeBox, systemd: Systemctl) -> None:
    systemd.running("demo.service")
    assert settle(box, state="stopped", enabled=False)["changed"]
    assert systemd.calls() == ["disable demo.service", "stop demo.service"]
    assert not settle(box, state="stopped", enabled=False)["changed"]
    assert settle(box, masked=True)["changed"]
    assert not settle(box, masked=True)["changed"]
    assert systemd.calls() == ["mask demo.service"]
    assert settle(box, masked=False, enabled=True, state="started")["changed"]
    assert systemd.calls() == ["unmask demo.service", "enable demo.service", "start demo.service"]


def test_a_oneshot_that_has_run_well_is_not_run_again(box: NodeBox, systemd: Systemctl) -> None:
    systemd.running("demo.service", Type="oneshot")
    systemd.unit("demo.service", ActiveState="inactive", SubState="dead")
    assert not settle(box, state="started")["changed"]
    systemd.unit("demo.service", Result="exit-code")
    assert settle(box, state="started")["changed"]


def test_a_unit_that_fails_ends_the_run_with_its_log(box: NodeBox, systemd: Systemctl) -> None:
    systemd.unit("demo.service")
    systemd.breaks("demo.service")
    result = settle(box, state="started")
    assert result["failed"]
    assert "systemctl start demo.service: Job for demo.service failed" in result["msg"]
    assert "last words of the unit" in result["msg"]


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"LoadState": "not-found"}, "there is no unit demo.service"),
        ({"LoadState": "bad-setting"}, "cannot be loaded (bad-setting)"),
    ],
)
def test_a_unit_that_cannot_be_loaded(
    box: NodeBox, systemd: Systemctl, properties: dict[str, str], said: str
) -> None:
    systemd.unit("demo.service", **properties)
    assert said in settle(box, state="started")["msg"]
    assert systemd.calls() == []


def test_what_is_not_there_need_not_be_stopped_and_may_come_in_a_dry_run(
    box: NodeBox, systemd: Systemctl
) -> None:
    assert not settle(box, state="stopped", enabled=False)["changed"]
    assert settle(box, check=True, state="started")["changed_units"] == ["demo.service: start"]


def test_its_port_has_to_answer(box: NodeBox, systemd: Systemctl) -> None:
    systemd.running("demo.service")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not settle(box, state="started", wait_port=f"127.0.0.1:{port}").get("failed")
    result = settle(box, state="started", wait_port=port, wait=0)
    assert f"port {port} does not answer" in result["msg"]


def test_a_misspelt_key_is_refused_and_what_is_left_out_is_left_out(
    box: NodeBox, systemd: Systemctl
) -> None:
    systemd.unit("demo.service")
    assert "no such key: sate" in settle(box, sate="started")["msg"]
    assert not settle(box, state="started", when=False)["changed"]
    assert systemd.calls() == []
