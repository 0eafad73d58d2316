"""Facts under which each rule passes, keyed by rule id, and small specs to judge."""

import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gpufleet.preflight import Outcome, Report
from gpufleet.preflight.facts import FactGroup, Facts
from gpufleet.preflight.local_network import uplink_name
from gpufleet.preflight.localgroups import (
    Cgroups,
    Disk,
    Forwarding,
    FrontPort,
    Gate,
    Holder,
    Identity,
    Kernel,
    Memory,
    Neighbour,
    OwnFleet,
    Place,
    Probe,
    Ranges,
    RealGpus,
    Resolver,
    Tools,
)
from gpufleet.preflight.needs import local_needs
from gpufleet.spec import ClusterSpec, load_spec

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
CLUSTER = "tiny"
UPLINK = uplink_name(CLUSTER)
Fields = Mapping[str, Any]


def spec_of(folder: Path, **fields: Any) -> ClusterSpec:
    """A local spec of three nodes, with some of its fields replaced."""
    data = {
        "name": CLUSTER,
        "provider": "local",
        "pools": [
            {"name": "a", "partition": "inference", "instance_type": "sim.cpu", "count": 3},
        ],
        "network": {"cidr": "10.9.0.0/24"},
        **fields,
    }
    place = folder / CLUSTER / "cluster.yaml"
    place.parent.mkdir(exist_ok=True)
    place.write_text(yaml.safe_dump(data))
    return load_spec(place)


def suppressing(
    rule: str, expires: str = "2026-12-31", reason: str = "this host is a test bench"
) -> Fields:
    """Fields of a spec that suppresses one rule."""
    entry = {
        "rule": rule,
        "reason": reason,
        "expires": datetime.fromisoformat(expires).date(),
    }
    return {"preflight": {"suppress": [entry]}}


def place(free_mib: int = 100_000, filesystem: str = "ext4", **fields: Any) -> Place:
    """A roomy folder on the host's only file system."""
    return Place(fields.pop("path", "/state"), filesystem, fields.pop("device", 1), free_mib,
                 **fields)  # fmt: skip


def outcome_of(report: Report, rule_id: str) -> Outcome:
    """The outcome of one rule."""
    return next(outcome for outcome in report.outcomes if outcome.rule == rule_id)


def free_port() -> int:
    """A loopback port that nothing held a moment ago."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


GOOD: tuple[FactGroup, ...] = (
    Identity(0),
    Kernel("6.1", {"overlayfs": Probe(True), "bridges": Probe(True)}),
    Cgroups("unified", "/sys/fs/cgroup", True),
    Tools({tool.name: f"/usr/bin/{tool.name}" for tool in local_needs().tools}),
    Disk(place(), place(path="/cache")),
    Memory(64_000),
    OwnFleet(),
    Ranges((Neighbour("address", "192.168.1.0/24", "eth0"),)),
    FrontPort(8400, True),
    Forwarding(),
    Resolver("/etc/resolv.conf", ("192.168.1.1",)),
    RealGpus(),
)


def good(*instead: FactGroup) -> Facts:
    """Facts under which every rule passes, some of them replaced."""
    return Facts.of(*GOOD).with_groups(*instead)


@dataclass(frozen=True)
class Case:
    """A situation, and exactly what a rule says: one line a finding, "" where it passes."""

    said: str
    groups: tuple[FactGroup, ...] = ()
    fields: Fields | None = None


PASSES: dict[str, tuple[Case, ...]] = {
    "suppression.known": (Case("", fields=suppressing("local.disk")),),
    "suppression.current": (Case("", fields=suppressing("local.disk", "2026-12-01")),),
    "local.root": (Case("", (Identity(0),)),),
    "local.kernel": (Case(""),),
    "local.cgroup2": (Case("", (Cgroups("hybrid", "/sys/fs/cgroup/unified", True),)),),
    "local.tools": (Case(""),),
    "local.filesystem": (Case("", (Disk(place(filesystem="xfs"), place()),)),),
    "local.disk": (
        Case("", (Disk(place(1468), place(1468)),)),
        Case("", (Disk(place(700), place(700)), OwnFleet(frozenset({"a-001", "a-002", "a-003"})))),
    ),
    "local.memory": (
        Case("", (Memory(872),)),
        Case("", (Memory(10), OwnFleet(running_nodes=frozenset({"a-001", "a-002", "a-003"})))),
    ),
    "local.range": (
        Case("", (Ranges((Neighbour("address", "10.9.0.252/30", UPLINK),)),)),
        Case("", (Ranges((Neighbour("fleet", "10.9.0.0/24", owner=CLUSTER),)),)),
        Case("", (Ranges((Neighbour("route", "10.9.1.0/24", "eth1"),)),)),
    ),
    "local.front-port": (Case("", (FrontPort(8400, False, Holder(7, "python", True)),)),),
    "local.forwarding": (
        Case("", (Forwarding((Gate("g", True, True),)),)),
        Case(
            "",
            (Forwarding((Gate("g", False, False),)),),
            {"network": {"cidr": "10.9.0.0/24", "egress": "none"}},
        ),
    ),
    "local.dns": (
        Case("", (Resolver("r", ("127.0.0.53", "10.1.1.1")),)),
        Case("", (Resolver("r", ()),), {"network": {"cidr": "10.9.0.0/24", "dns": ["10.1.1.1"]}}),
        Case("", (Resolver("r", ()),), {"network": {"cidr": "10.9.0.0/24", "egress": "none"}}),
    ),
    "local.real-gpus": (Case(""),),
}
