"""A rebuilt node is entered, an impostor is not: over OpenSSH, Ansible and fabric alike."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ansible_runner
import pytest
from sshserver import SshServer, make_key

from gpufleet import ssh
from gpufleet.fleet import Fleet, validate, write_fleet
from gpufleet.hostkeys import HostKeyRefusedError, HostKeys, fingerprint

ROOT = Path(__file__).resolve().parents[2]
NODE = "gpu-003"


@dataclass
class Bench:
    """One node `gpu-003` on a real server, and the fleet's files about it."""

    folder: Path
    server: SshServer
    keys: dict[str, Path]

    @property
    def host_keys(self) -> HostKeys:
        return HostKeys(self.folder / "demo/ssh")

    @property
    def inventory(self) -> Path:
        return self.folder / "inventories/demo"

    def public(self, name: str) -> str:
        return " ".join(self.keys[name].with_suffix(".pub").read_text().split()[:2])

    def print_of(self, name: str) -> str:
        return fingerprint(self.public(name))

    def write_ssh_config(self, proxy: str = "") -> None:
        text = (
            f"Host {NODE} 127.0.0.1\n  HostName 127.0.0.1\n  Port {self.server.port}\n"
            f"Host *\n  User {self.server.user}\n  IdentityFile {self.server.client_key}\n"
            f"  IdentitiesOnly yes\n{proxy}"
        )
        (self.host_keys.folder / "ssh_config").write_text(text)

    def fleet(self, provider_id: str, key: str) -> Fleet:
        """The contract with this machine and published key, written to the inventory folder."""
        node = {
            "name": NODE,
            "address": "127.0.0.1",
            "provider_id": provider_id,
            "instance_type": "sim.cpu",
            "pool": "gpu",
            "partition": "training",
            "vcpus": 1,
            "memory_mib": 1024,
            "gpus": [],
            "nics": [],
            "scratch": [],
            "mounts": [],
            "failure_domain": NODE,
            "host_key": self.public(key),
            "simulated": True,
        }
        found = validate(
            {
                "schema_version": 1,
                "cluster": "demo",
                "provider": "local",
                "stack": "local-cpu",
                "simulated": True,
                "access": {
                    "user": self.server.user,
                    "ssh_config": str(self.host_keys.folder / "ssh_config"),
                    "known_hosts": str(self.host_keys.known_hosts),
                },
                "shared_mounts": [],
                "nodes": [node],
            }
        )
        write_fleet(self.inventory / ".fleet.json", found)
        return found

    def publish(self, fleet: Fleet) -> None:
        self.host_keys.publish(
            {x.name: (x.address, x.provider_id, x.host_key) for x in fleet.nodes}
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    for folder in ("demo/ssh", "inventories/demo", "runner", "server"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "inventories/demo/gpufleet.yml").write_text("plugin: gpufleet\n")
    server = SshServer(tmp_path / "server")
    keys = {name: tmp_path / "server" / name for name in ("A", "B")}
    for path in keys.values():
        make_key(path)
    found = Bench(tmp_path, server, keys)
    found.write_ssh_config()
    try:
        yield found
    finally:
        server.close()


def by_openssh(bench: Bench, fleet: Fleet) -> str | None:
    """None when the node was entered, else what a user is told."""
    done = subprocess.run(
        ssh.command(fleet, NODE, ["echo", "inside"]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode == 0:
        assert done.stdout == "inside\n"
        return None
    return "\n".join(ssh.explain(fleet, done.stderr)) or done.stderr


def by_ansible(bench: Bench, fleet: Fleet) -> str | None:
    """The same by ansible-runner, with the product's ansible.cfg."""
    done = ansible_runner.run(
        private_data_dir=str(bench.folder / "runner"),
        inventory=str(bench.inventory),
        host_pattern="all",
        module="ping",
        quiet=True,
        extravars={"ansible_python_interpreter": sys.executable},
        envvars={
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_HOME": str(bench.folder / "ansible"),
            "ANSIBLE_REMOTE_TEMP": str(bench.folder / "remote"),
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=no",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    output = done.stdout.read()
    if done.rc == 0:
        assert "pong" in output
        return None
    assert "UNREACHABLE" in output, output
    return "\n".join(ssh.explain(fleet, output)) or output


def by_fabric(bench: Bench, fleet: Fleet) -> str | None:
    """The same by fabric."""
    try:
        with ssh.connect(fleet, NODE) as connection:
            assert connection.run("echo inside", hide=True).stdout == "inside\n"
    except ssh.HostKeyMismatchError as error:
        return str(error)
    return None


Way = Callable[[Bench, Fleet], str | None]
WAYS = pytest.mark.parametrize("way", [by_openssh, by_ansible, by_fabric])


@WAYS
def test_c51_same_machine_with_another_key_is_refused(bench: Bench, way: Way) -> None:
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    bench.server.start(bench.keys["A"])
    assert way(bench, fleet) is None
    before = bench.host_keys.known_hosts.read_bytes()
    bench.server.start(bench.keys["B"])
    told = way(bench, fleet)
    assert told is not None
    for part in (
        NODE,
        f"known {bench.print_of('A')}",
        f"now {bench.print_of('B')}",
        f"`gpufleet ssh demo {NODE} --accept-new-key`",
    ):
        assert part in told
    assert bench.host_keys.known_hosts.read_bytes() == before


@WAYS
def test_c51_new_machine_with_published_key_is_entered(bench: Bench, way: Way) -> None:
    bench.publish(bench.fleet("i-1", "A"))
    fleet = bench.fleet("i-2", "B")
    bench.publish(fleet)
    bench.server.start(bench.keys["B"])
    assert way(bench, fleet) is None
    text = bench.host_keys.known_hosts.read_text()
    assert bench.public("B") in text
    assert bench.public("A") not in text


@WAYS
def test_c51_new_machine_that_does_not_have_the_published_key_is_refused(
    bench: Bench, way: Way
) -> None:
    bench.publish(bench.fleet("i-1", "A"))
    fleet = bench.fleet("i-2", "B")
    bench.publish(fleet)
    bench.server.start(bench.keys["A"])
    told = way(bench, fleet)
    assert told is not None
    assert f"now {bench.print_of('A')}" in told


def test_c51_contract_with_another_key_for_the_same_machine_is_refused(bench: Bench) -> None:
    bench.publish(bench.fleet("i-1", "A"))
    with pytest.raises(HostKeyRefusedError, match=f"host key of {NODE} changed"):
        bench.publish(bench.fleet("i-1", "B"))
    assert bench.public("A") in bench.host_keys.known_hosts.read_text()


def test_c51_operator_accepts_the_new_key_deliberately(bench: Bench) -> None:
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    bench.server.start(bench.keys["B"])
    assert by_fabric(bench, fleet) is not None
    with pytest.raises(ssh.HostKeyMismatchError, match="nothing was accepted"):
        ssh.accept(fleet, NODE, expected=bench.print_of("A"))
    assert by_fabric(bench, fleet) is not None
    accepted = ssh.accept(fleet, NODE, expected=bench.print_of("B"))
    assert (accepted.before, accepted.now) == (bench.print_of("A"), bench.print_of("B"))
    assert not accepted.stated
    for way in (by_openssh, by_fabric):
        assert way(bench, fleet) is None
    bench.publish(fleet)
    assert by_openssh(bench, fleet) is None


def test_c51_unknown_node_is_not_learned_on_the_way(bench: Bench) -> None:
    fleet = bench.fleet("i-1", "A")
    bench.host_keys.publish({})
    bench.server.start(bench.keys["A"])
    told = by_openssh(bench, fleet)
    assert told is not None
    assert "Host key verification failed" in told
    with pytest.raises(ssh.SshError, match=f"no host key of {NODE}: run `gpufleet up demo`"):
        ssh.connect(fleet, NODE)
    assert bench.public("A") not in bench.host_keys.known_hosts.read_text()


def test_c51_user_is_told_by_the_ssh_command_itself(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    bench.server.start(bench.keys["B"])
    assert ssh.run(fleet, NODE, ["true"]) == 255
    told = capfd.readouterr().err
    assert f"known {bench.print_of('A')}, now {bench.print_of('B')}" in told
    bench.server.start(bench.keys["A"])
    assert ssh.run(fleet, NODE, ["exit", "7"]) == 7


def test_c51_proxy_command_is_used_by_every_way(bench: Bench) -> None:
    marker = bench.folder / "used"
    relay = bench.folder / "relay.py"
    relay.write_text(
        "import pathlib, socket, sys, threading\n"
        f"path = pathlib.Path({str(marker)!r})\n"
        "path.open('a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def inward():\n"
        "    while data := sys.stdin.buffer.raw.read(65536):\n"
        "        stream.sendall(data)\n"
        "    stream.shutdown(socket.SHUT_WR)\n"
        "threading.Thread(target=inward, daemon=True).start()\n"
        "while data := stream.recv(65536):\n"
        "    sys.stdout.buffer.write(data)\n"
        "    sys.stdout.buffer.flush()\n"
    )
    bench.write_ssh_config(f"  ProxyCommand {sys.executable} {relay} %h %p\n")
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    bench.server.start(bench.keys["A"])
    for way in (by_openssh, by_ansible, by_fabric):
        marker.unlink(missing_ok=True)
        assert way(bench, fleet) is None
        assert marker.read_text().splitlines()[0] == f"127.0.0.1 {bench.server.port}"
    bench.server.start(bench.keys["B"])
    assert f"now {bench.print_of('B')}" in (by_fabric(bench, fleet) or "")


@pytest.mark.parametrize("proxy", ["", "  ProxyCommand sleep 30\n"])
def test_c51_server_that_never_speaks_costs_bounded_time(bench: Bench, proxy: str) -> None:
    bench.write_ssh_config(proxy)
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    with socket.create_server(("127.0.0.1", bench.server.port)):
        began = time.monotonic()
        with pytest.raises(ssh.SshError, match=f"{NODE} .* no SSH session within 1 s"):
            ssh.connect(fleet, NODE, timeout=1)
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("proxy", ["", "  ProxyCommand false\n", "  ProxyCommand /no/such\n"])
def test_c51_node_that_is_away_is_said_at_once(bench: Bench, proxy: str) -> None:
    bench.write_ssh_config(proxy)
    fleet = bench.fleet("i-1", "A")
    bench.publish(fleet)
    began = time.monotonic()
    with pytest.raises(ssh.SshError, match=f"{NODE} .* cannot be entered: .*gpufleet status demo"):
        ssh.connect(fleet, NODE, timeout=20)
    assert time.monotonic() - began < 5
