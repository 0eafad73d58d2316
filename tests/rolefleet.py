"""A small fleet whose roles have been run on a throwaway node, for tests of what they lay."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import contracts
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

CONTROLLER = "train-001"
# On loopback, and not those of another run beside this one.
NETWORK = f"127.{os.getpid() // 250 % 250 + 2}.{os.getpid() % 250}"
PORTS = (2379, 6379, 6817, 6819, 9090, 9100)
FACTS = {
    "os": {"id": "debian", "version": "13", "codename": "trixie"},
    "container": "", "cgroup": {"mode": "v2"}, "dbus": True, "slurm_nodes": [], "etcd_data": False,
    "driver_loaded": "580.105.08", "slurm_plugins": ["cgroup_v1", "cgroup_v2"],
    "free_mib": 99999, "secure_boot": False,
}  # fmt: skip
STEPS = [
    *((role, "configure") for role in (
        "base", "apt_pins", "nvidia_driver", "nvidia_fabricmanager", "cuda", "container", "munge",
        "slurm", "etcd", "agent_host", "storage_lustre", "nccl")),
    ("ray", "install"), ("ray", "configure"), ("observability", "configure"),
]  # fmt: skip
MUNGE_KEY = "UzNOVElORUwtbXVuZ2UtUzNOVElORUwtbXVuZ2UtUzNOVElORUwtbXVuZ2U="
RAY_TOKEN = "S3NTINEL-ray-token"


def contract(*names: str, **changes: Any) -> dict[str, Any]:
    """Nodes on loopback; without names two for inference and one that controls."""
    rows = [
        contracts.node(name, number, **{"address": f"{NETWORK}.{number}", **changes})
        for number, name in enumerate(names or ("infer-001", "infer-002", CONTROLLER), 2)
    ]
    return contracts.contract(*rows)


def stubs(box: NodeBox) -> None:
    """Programs of packages that are not installed here."""
    box.stub("mariadb", "echo 1")


@contextmanager
def listening(fleet: Mapping[str, Any]) -> Iterator[None]:
    """Ports of the controller's services, which would answer if it had a systemd."""
    (address,) = [node["address"] for node in fleet["nodes"] if node["name"] == CONTROLLER]
    with ExitStack() as stack:
        for port in PORTS:
            stack.enter_context(socket.create_server((address, port)))
        yield


@dataclass
class RoleFleet:
    """Roles on the controller, which also is a node with GPUs: run twice."""

    box: NodeBox
    systemd: Systemctl
    roles: RoleRun
    first: CompletedProcess[str]
    first_calls: list[str]
    second: CompletedProcess[str]
    second_calls: list[str]

    def read(self, name: str) -> str:
        return self.box.read(name)


@contextmanager
def made(folder: Path) -> Iterator[RoleFleet]:
    """The fleet with all of its roles on the controller, twice."""
    fleet = contract()
    with NodeBox(folder / "node") as box, listening(fleet):
        stubs(box)
        systemd = Systemctl(box, strict=False)
        roles = RoleRun(
            box, fleet, munge_key=MUNGE_KEY, ray_token=RAY_TOKEN, etcd_bootstrap=True,
            observability_jaeger_archive="jaeger.tar.gz", observability_jaeger_sha256="0" * 64,
        )  # fmt: skip
        runs: list[Any] = []
        for _ in range(2):
            runs += [
                roles.play(STEPS, "--diff", "-vv", "--limit", CONTROLLER, node=FACTS),
                systemd.calls(),
            ]
            assert runs[-2].returncode == 0, runs[-2].stdout + runs[-2].stderr
            # What etcd makes at its first start.
            box.path("/var/lib/etcd/gpufleet/member/snap").mkdir(exist_ok=True)
        yield RoleFleet(box, systemd, roles, *runs)
