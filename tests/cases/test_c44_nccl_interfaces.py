"""Field case: a socket interface filter that takes the wrong interface, or none."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from machine import CHECKOUT, Machine, Played, host, machine

from gpufleet import nccl

A = ["lo", "docker0", "ens32", "ens320", "veth12"]
B = ["lo", "enp71s0"]


def test_c44_prefix_that_takes_a_second_interface_is_warned_of() -> None:
    taken = nccl.take("ens32", A, "a")
    assert taken.names == ("ens32", "ens320")
    (warning,) = taken.warnings
    assert "ens32 is a prefix match" in warning
    assert "make it exact: =ens32" in warning


def test_c44_host_without_such_an_interface_is_named() -> None:
    (error,) = nccl.take("ens32", B, "host-b").errors
    assert error.startswith("host-b: the filter 'ens32' takes none")
    assert "enp71s0" in error


def test_c44_without_a_filter_loopback_and_virtual_ones_are_excluded() -> None:
    taken = nccl.take("", A, "a")
    assert {"lo", "docker", "veth"} <= set(taken.value.removeprefix("^").split(","))
    assert (taken.value[0], taken.names, taken.warnings) == ("^", ("ens32", "ens320"), ())
    assert nccl.take("", B, "b").names == ("enp71s0",)


def test_c44_exclusion_that_lets_loopback_in_is_warned_of() -> None:
    (warning,) = nccl.take("^docker0", A, "a").warnings
    assert "add lo to the exclusions" in warning


def test_c44_live_interfaces_of_a_network_namespace() -> None:
    code = (
        "import sys, json; from pathlib import Path\n"
        "from ansible_collections.gpufleet.node.plugins.modules.facts import Tree\n"
        "from gpufleet import nccl\n"
        "names = Tree('/').names('/sys/class/net')\n"
        "print(json.dumps([names, nccl.take('ens32', names, 'live').names,"
        " nccl.take('=ens32', names, 'live').names]))"
    )
    script = (
        "mount -t sysfs live /sys && ip link add ens32 type veth peer name ens320"
        ' && ip link add docker0 type veth peer name veth12 && exec "$0" -c "$1"'
    )
    done = subprocess.run(
        ["unshare", "-nm", "sh", "-c", script, sys.executable, code],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT}/collections"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [sorted(A), ["ens32", "ens320"], ["ens32"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("c44")) as found:
        yield found


@pytest.fixture(scope="module")
def played(made: Machine) -> Played:
    probe = "NCCL INFO NET/Socket : Using [0]ens320:10.0.0.2<0>"
    return made.play(
        ["nccl"],
        {
            "a": host({"interfaces": A}, nccl_settings={"NCCL_IB_TIMEOUT": "22"}),
            "b": host({"interfaces": B}, nccl_socket_ifname="ens32"),
            "prefix": host({"interfaces": A}, nccl_socket_ifname="ens32"),
            "probed": host(
                {"interfaces": A}, nccl_socket_ifname="=ens32", nccl_probe=["echo", probe]
            ),
        },
        "-f", "1",
    )  # fmt: skip


def test_c44_role_stops_at_the_host_without_one_and_warns_of_the_other(played: Played) -> None:
    assert played.failed == {"b", "probed"}
    assert "b: the filter 'ens32' takes none of its interfaces" in played.said("b").replace(
        "''", "'"
    )
    assert "make it exact: =ens32" in played.said("prefix")


def test_c44_start_up_probe_reads_back_which_interface_was_taken(played: Played) -> None:
    assert "NCCL takes an interface of the filter" in played.said("probed")
    assert "[0]ens320:10.0.0.2" in played.said("probed")


def test_c44_value_is_visible_on_the_node_and_inside_containers(
    played: Played, made: Machine
) -> None:
    # `probed` laid them last.
    assert "NCCL_SOCKET_IFNAME==ens32\n" in made.read("/etc/nccl.conf")
    edits = json.loads(made.read("/etc/cdi/gpufleet-nccl.json"))["devices"][0]["containerEdits"]
    assert "NCCL_SOCKET_IFNAME==ens32" in edits["env"]
    assert edits["mounts"][0]["containerPath"] == "/etc/nccl.conf"
    rows = made.read("/etc/gpufleet/env.d/nccl.env").splitlines()
    seen = made.run("env", "-i", *[x for x in rows if not x.startswith("#")], "/usr/bin/env").stdout
    assert seen.splitlines() == ["NCCL_SOCKET_IFNAME==ens32", "GLOO_SOCKET_IFNAME=ens32"]
