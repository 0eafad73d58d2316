"""Removing what killed runs left on the host: `python -m infra.local.sweep CLUSTER [KEEP ...]`.

Everything of a fleet is found by names that only that cluster can have: control groups below its
own, namespaces `gf.CLUSTER` and `gf.CLUSTER.NODE`, its uplink, its nft table, its state folder.
"""

import sys
from collections.abc import Collection
from pathlib import Path

from gpufleet.paths import state_dir

from . import cgroup, machine
from .files import remove_tree
from .network import NetworkSpec, remove_network

NAMESPACES = Path("/run/netns")


def known_machines(cluster: str) -> set[str]:
    """Every machine of the cluster of which anything is on this host, whole or not."""
    prefix = f"gf.{cluster}."
    spaces = NAMESPACES.iterdir() if NAMESPACES.is_dir() else iter(())
    folder = state_dir(cluster) / "nodes"
    folders = folder.iterdir() if folder.is_dir() else iter(())
    return (
        set(cgroup.machines(cluster))
        | {path.name.removeprefix(prefix) for path in spaces if path.name.startswith(prefix)}
        | {path.name for path in folders}
    )


def sweep(cluster: str, keep: Collection[str]) -> list[str]:
    """Remove every machine not to be kept; with none to keep, the whole cluster."""
    # The range only matters for making a network, not for taking its parts away.
    network = NetworkSpec(cluster, "0.0.0.0/0")
    removed = sorted(known_machines(cluster) - set(keep))
    for node in removed:
        machine.delete(network, node)
    if not keep:
        remove_network(network)
        remove_tree(state_dir(cluster))
    return removed


def leftovers(cluster: str) -> list[str]:
    """What of a cluster is still on this host; empty once it is down."""
    network = NetworkSpec(cluster, "0.0.0.0/0")
    found = [f"machine {name}" for name in sorted(known_machines(cluster))]
    if (NAMESPACES / network.namespace).exists():
        found.append(f"namespace {network.namespace}")
    if Path(f"/sys/class/net/{network.uplink}").exists():
        found.append(f"link {network.uplink}")
    if state_dir(cluster).exists():
        found.append(f"folder {state_dir(cluster)}")
    return found


def main(arguments: list[str]) -> int:
    """Sweep and name what was removed."""
    if not arguments:
        print("usage: python -m infra.local.sweep CLUSTER [NODE TO KEEP ...]", file=sys.stderr)
        return 2
    for node in sweep(arguments[0], arguments[1:]):
        print(node)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
