"""The ssh command line takes keys from the fleet's own file and nothing else."""

import subprocess
from pathlib import Path

import contracts
import pytest

from gpufleet import ssh
from gpufleet.fleet import FleetError, UnknownNodeError
from gpufleet.hostkeys import HostKeys
from gpufleet.sshroute import find_route

DIRECT = {"user": "fleet", "ssh_config": None, "known_hosts": "/srv/demo/ssh/known hosts"}


def effective(line: list[str]) -> dict[str, str]:
    """What OpenSSH makes of a command line, without connecting."""
    done = subprocess.run(
        [line[0], "-G", *line[1:]], capture_output=True, text=True, check=True
    ).stdout
    return dict(row.split(" ", 1) for row in done.splitlines() if " " in row)


def test_command_checks_keys_under_the_name_of_the_node(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("Host infer-001\n  HostName 10.42.9.2\n  StrictHostKeyChecking no\n")
    access = {"user": "fleet", "ssh_config": str(config), "known_hosts": str(tmp_path / "k h")}
    found = effective(ssh.command(contracts.fleet(access=access), "infer-001"))
    assert found["hostname"] == "10.42.9.2"
    assert found["hostkeyalias"] == "infer-001"
    assert found["stricthostkeychecking"] == "true"
    assert found["userknownhostsfile"] == str(tmp_path / "k h")
    assert found["globalknownhostsfile"] == "/dev/null"
    assert found["updatehostkeys"] == "false"


def test_node_is_reached_directly_without_a_configuration() -> None:
    found = effective(ssh.command(contracts.fleet(access=DIRECT), "infer-001"))
    assert (found["hostname"], found["user"]) == ("10.42.9.2", "fleet")
    assert found["userknownhostsfile"] == "/srv/demo/ssh/known hosts"


def test_arguments_go_to_the_node_and_never_to_ssh() -> None:
    line = ssh.command(contracts.fleet(), "infer-001", ["-oProxyCommand=x", "a b"])
    assert line[line.index("--") :] == ["--", "infer-001", "-oProxyCommand=x", "a b"]


def test_unknown_node_names_the_nearest() -> None:
    with pytest.raises(UnknownNodeError, match="did you mean infer-001"):
        ssh.command(contracts.fleet(), "infer-01")


def test_contract_without_known_hosts_is_no_reason_to_trust_anybody() -> None:
    fleet = contracts.fleet(access={"user": "fleet"})
    with pytest.raises(FleetError, match=r"state access\.known_hosts"):
        ssh.command(fleet, "infer-001")
    with pytest.raises(FleetError, match=r"state access\.known_hosts"):
        ssh.connect(fleet, "infer-001")


def test_route_follows_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        "Host infer-001\n  HostName 10.0.0.7\nHost *\n  Port 2200\n  User u\n"
        f"  IdentityFile {tmp_path}/id\n  ProxyCommand exec relay %h %p\n"
    )
    access = {"user": "fleet", "ssh_config": str(config), "known_hosts": "/k"}
    fleet = contracts.fleet(access=access)
    route = find_route(fleet, fleet.node("infer-001"))
    assert (route.host, route.port, route.user) == ("10.0.0.7", 2200, "u")
    assert route.identities == (f"{tmp_path}/id",)
    assert route.proxy == "relay 10.0.0.7 2200"
    assert route.key_name == "[10.0.0.7]:2200"
    other = find_route(fleet, fleet.node("train-001"))
    assert other.host == "10.42.9.4"


def test_missing_configuration_names_the_command() -> None:
    fleet = contracts.fleet()
    with pytest.raises(FleetError, match=r"ssh_config cannot be read .*`gpufleet up demo`"):
        find_route(fleet, fleet.node("infer-001"))


def test_changed_keys_are_explained_from_any_output(tmp_path: Path) -> None:
    keys = HostKeys(tmp_path)
    access = {"user": "fleet", "ssh_config": None, "known_hosts": str(keys.known_hosts)}
    fleet = contracts.fleet(access=access)
    keys.publish({x.name: (x.address, x.provider_id, x.host_key) for x in fleet.nodes})
    block = (
        "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@{end}"
        "The fingerprint for the ED25519 key sent by the remote host is{end}SHA256:{now}.{end}"
        "Host key for {name} has changed and you have requested strict checking.{end}"
    )
    for end in ("\r\n", "\\r\\n", "\x1b[0m\n\x1b[1;31m  "):
        text = "".join(
            block.format(end=end, now=now, name=name)
            for now, name in (("aaa", "infer-001"), ("bbb", "train-001"), ("ccc", "stranger"))
        )
        first, second = ssh.explain(fleet, text)
        assert "infer-001" in first
        assert "now SHA256:aaa;" in first
        assert "train-001" in second
    assert ssh.explain(fleet, "Permission denied (publickey).") == []
