"""Neighbours on this host's network: ranges in use, fleets, and who holds a port."""

import ipaddress
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preflight_fixtures import CLUSTER, UPLINK, free_port

from gpufleet.preflight.hostport import front_port, holder
from gpufleet.preflight.hostranges import covering, fleets, neighbours
from gpufleet.preflight.localgroups import Neighbour

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state root of the test's own."""
    monkeypatch.setenv("GPUFLEET_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that listens on a loopback port of the kernel's choice."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


ADDRESSES: list[dict[str, Any]] = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "eth0", "addr_info": [{"local": "192.0.2.2", "prefixlen": 24}]},
    {"ifname": UPLINK, "addr_info": [{"local": "10.9.0.253", "prefixlen": 30}]},
    {"ifname": "ifb0", "addr_info": []},
]
ROUTES: list[dict[str, Any]] = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
    {"dst": "192.0.2.0/24", "dev": "eth0", "scope": "link"},
    {"dst": "10.9.0.252/30", "dev": UPLINK},
    {"type": "local", "dst": "192.0.2.2", "dev": "eth0", "table": "local"},
    {"dst": "172.16.0.0/12", "dev": "tun0", "table": "52"},
    {"type": "blackhole", "dst": "10.50.0.0/16"},
    {"dst": "100.64.0.7", "dev": "tun0"},
]


def test_ranges_in_use_are_each_named_once() -> None:
    assert neighbours(ADDRESSES, ROUTES, {CLUSTER: ["10.9.0.1/24"], "other": ["10.8.0.0/28"]}) == [
        Neighbour("address", "127.0.0.0/8", "lo"),
        Neighbour("address", "192.0.2.0/24", "eth0"),
        Neighbour("route", "172.16.0.0/12", "tun0"),
        Neighbour("route", "10.50.0.0/16"),
        Neighbour("route", "100.64.0.7/32", "tun0"),
        Neighbour("fleet", "10.9.0.0/24", owner=CLUSTER),
        Neighbour("fleet", "10.8.0.0/28", owner="other"),
    ]


def test_uplink_of_a_fleet_without_known_range_is_kept() -> None:
    found = neighbours(ADDRESSES, ROUTES, {CLUSTER: []})
    assert Neighbour("address", "10.9.0.252/30", UPLINK) in found


def test_laid_fleet_that_is_not_up_is_a_neighbour(state: Path) -> None:
    for name, record in (("laid", {"a-001": "10.7.0.2", "a-009": "10.7.0.9"}), ("empty", {})):
        (state / name).mkdir(parents=True)
        (state / name / "addresses.json").write_text(json.dumps(record))
    found = fleets()
    assert found["laid"] == ["10.7.0.0/28"]
    assert "empty" not in found


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
def test_covering_network_holds_all_addresses_and_none_smaller_does(numbers: set[int]) -> None:
    addresses = {ipaddress.IPv4Address(number) for number in numbers}
    network = covering(str(address) for address in addresses)
    assert all(address in network for address in addresses)
    if network.prefixlen < 32:
        assert not any(addresses <= set_of(half, addresses) for half in network.subnets())


def set_of(
    network: ipaddress.IPv4Network, addresses: set[ipaddress.IPv4Address]
) -> set[ipaddress.IPv4Address]:
    return {address for address in addresses if address in network}


@needs_root
def test_running_fleet_is_found_by_its_namespace(state: Path) -> None:
    name = f"pf{os.getpid()}"
    subprocess.run(["ip", "netns", "add", f"gf.{name}"], check=True)
    try:
        for words in (["link", "add", "br0", "type", "bridge"],
                      ["addr", "add", "10.77.0.1/28", "dev", "br0"]):  # fmt: skip
            subprocess.run(["ip", "-n", f"gf.{name}", *words], check=True)
        assert fleets()[name] == ["10.77.0.1/28"]
    finally:
        subprocess.run(["ip", "netns", "del", f"gf.{name}"], check=True)
    assert name not in fleets()


@needs_root
def test_file_left_of_a_namespace_is_no_fleet(state: Path) -> None:
    leftover = Path(f"/run/netns/gf.left{os.getpid()}")
    leftover.touch()
    try:
        assert f"left{os.getpid()}" not in fleets()
    finally:
        leftover.unlink()


def test_free_port_is_free_and_stays_free() -> None:
    port = free_port()
    assert front_port(port, CLUSTER).free
    with closing(socket.create_server(("127.0.0.1", port))):
        assert not front_port(port, CLUSTER).free


def test_holder_of_the_port_is_named(listener: socket.socket) -> None:
    found = front_port(listener.getsockname()[1], CLUSTER)
    assert found.holder is not None
    assert (found.holder.pid, found.holder.own) == (os.getpid(), False)
    assert found.holder.command


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_listener_on_every_address_holds_the_port_too(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with closing(socket.socket(family)) as server:
        server.bind((address, 0))
        server.listen()
        found = front_port(server.getsockname()[1], CLUSTER)
    assert not found.free
    assert found.holder is not None
    assert found.holder.pid == os.getpid()


@pytest.mark.parametrize(
    ("group", "own"),
    [
        (f"0::/gpufleet/{CLUSTER}", True),
        (f"0::/gpufleet/{CLUSTER}/front", True),
        (f"4:memory:/\n0::/gpufleet/{CLUSTER}x", False),
        ("0::/gpufleet/other", False),
        ("0::/user.slice", False),
    ],
)
def test_process_in_the_clusters_control_group_is_its_own(
    group: str, own: bool, tmp_path: Path
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout\n"
        "   0: 0100007F:20D0 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 1\n"
    )
    (tmp_path / "77/fd").mkdir(parents=True)
    (tmp_path / "77/fd/5").symlink_to("socket:[4242]")
    (tmp_path / "77/comm").write_text("front\n")
    (tmp_path / "77/cgroup").write_text(group + "\n")
    found = holder(8400, CLUSTER, tmp_path)
    assert found is not None
    assert (found.pid, found.command, found.own) == (77, "front", own)
    assert holder(8401, CLUSTER, tmp_path) is None
