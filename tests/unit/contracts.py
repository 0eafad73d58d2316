"""Example fleets for tests."""

import base64
import hashlib
from typing import Any

from gpufleet.fleet import Fleet, validate


def host_key(seed: str) -> str:
    """A well-formed public key that belongs to nobody."""
    kind = b"ssh-ed25519"
    raw = len(kind).to_bytes(4) + kind + (32).to_bytes(4) + hashlib.sha256(seed.encode()).digest()
    return f"ssh-ed25519 {base64.b64encode(raw).decode()}"


def gpu(node: str, index: int, **changes: Any) -> dict[str, Any]:
    """One GPU of a node."""
    digest = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return {
        "index": index,
        "uuid": f"GPU-{'-'.join(parts)}",
        "model": "NVIDIA H200 (simulated)",
        "memory_mib": 144384,
        "numa_node": 0,
        "pci_bus_id": f"00000000:{0x1B + index:02X}:00.0",
        "link_class": "NV18",
        **changes,
    }


def node(name: str, number: int, gpus: int = 2, **changes: Any) -> dict[str, Any]:
    """One node; `number` makes its address."""
    return {
        "name": name,
        "address": f"10.42.9.{number}",
        "provider_id": f"i-{name}-1",
        "instance_type": f"sim.h200x{gpus}" if gpus else "sim.cpu",
        "pool": name.rsplit("-", 1)[0],
        "partition": "training" if name.startswith("train") else "inference",
        "vcpus": 2,
        "memory_mib": 2048,
        "gpus": [gpu(name, index) for index in range(gpus)],
        "nics": [{"name": "eth0", "fabric": "ethernet", "rate_gbps": 10}],
        "scratch": [{"path": "/scratch", "size_gb": None}],
        "mounts": [{"path": "/fsx", "kind": "posix", "source": "/srv/fsx"}],
        "failure_domain": name,
        "host_key": host_key(name),
        "simulated": True,
        **changes,
    }


def contract(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A contract as plain values; without nodes it has two for inference and one for training."""
    rows = list(nodes) or [node("infer-001", 2), node("infer-002", 3), node("train-001", 4)]
    return {
        "schema_version": 1,
        "cluster": "demo",
        "provider": "local",
        "stack": "local-cpu",
        "simulated": True,
        "access": {
            "user": "fleet",
            "ssh_config": "/srv/demo/ssh/ssh_config",
            "known_hosts": "/srv/demo/ssh/known_hosts",
        },
        "shared_mounts": [{"path": "/fsx", "kind": "posix", "source": "/srv/fsx"}],
        "nodes": rows,
        **changes,
    }


def fleet(*nodes: dict[str, Any], **changes: Any) -> Fleet:
    """The same as a model."""
    return validate(contract(*nodes, **changes))
