"""Which address a local node has: given once, kept for as long as the cluster lives.

A pool that grows must not move the addresses of other nodes, and a rebuilt node comes back under
the address it had, so addresses are recorded, not counted.
"""

import ipaddress
from collections.abc import Collection, Mapping
from pathlib import Path

from gpufleet.spec.addresses import FIRST_NODE, KEPT_AT_END

from .files import locked, read_json, write_json


class RangeFull(RuntimeError):
    """The cluster's address range has no room for another node."""


def choose(
    taken: Mapping[str, str], alive: Collection[str], cidr: str, node: str
) -> tuple[str, dict[str, str]]:
    """The node's address and the new record.

    A recorded address is kept. A new node gets the lowest address never given out, and only when
    those are used up the one of a node that no longer exists.
    """
    addresses = ipaddress.IPv4Network(cidr)
    if node in taken and ipaddress.IPv4Address(taken[node]) in addresses:
        return taken[node], dict(taken)
    record = {name: given for name, given in taken.items() if name != node}
    given = set(record.values())
    last = addresses.num_addresses - KEPT_AT_END
    for ordinal in range(FIRST_NODE, last):
        candidate = str(addresses[ordinal])
        if candidate not in given:
            return candidate, {**record, node: candidate}
    for name in sorted(record):
        if name not in alive:
            candidate = record.pop(name)
            return candidate, {**record, node: candidate}
    raise RangeFull(f"{cidr} has no free address for {node}; widen network.cidr")


def allocate(state: Path, cidr: str, node: str) -> str:
    """Look up or give out a node's address; `state` is the cluster's state folder."""
    with locked(state / "addresses.lock"):
        record = read_json(state / "addresses.json") or {}
        folder = state / "nodes"
        alive = {x.name for x in folder.iterdir()} if folder.is_dir() else set()
        address, updated = choose(record, alive, cidr, node)
        if updated != record:
            write_json(state / "addresses.json", updated)
        return address
