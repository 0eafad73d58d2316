"""Which IPv4 ranges are in use on this host: its addresses, its routes, its local fleets."""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpufleet.paths import state_root

from .hosttool import output
from .local_network import uplink_name
from .localgroups import Neighbour, Ranges

NAMESPACES = Path("/run/netns")
PREFIX = "gf."
# Routes to the host's own addresses repeat what the addresses say.
REPEATS = frozenset({"local", "broadcast", "multicast", "anycast"})


def ranges() -> Ranges:
    """The ranges in use. Raises FactError where `ip` is missing or fails."""
    addresses = json.loads(output(["ip", "-json", "-4", "address", "show"]) or "[]")
    routes = json.loads(output(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    return Ranges(tuple(neighbours(addresses, routes, fleets())))


def neighbours(
    addresses: Iterable[Mapping[str, Any]],
    routes: Iterable[Mapping[str, Any]],
    fleets: Mapping[str, Iterable[str]],
) -> list[Neighbour]:
    """Ranges in use, each once, from what `ip -json` prints and the ranges of known fleets.

    A fleet's own uplink is left out where the fleet itself is listed: its range covers the link.
    """
    uplinks = {uplink_name(name) for name in fleets}
    found: list[Neighbour] = []
    for link in addresses:
        for entry in link.get("addr_info", []):
            if link["ifname"] not in uplinks:
                network = _network(f"{entry['local']}/{entry['prefixlen']}")
                found.append(Neighbour("address", network, link["ifname"]))
    linked = {(entry.network, entry.interface) for entry in found}
    for route in routes:
        if route["dst"] == "default" or route.get("type") in REPEATS:
            continue
        network, interface = _network(route["dst"]), str(route.get("dev", ""))
        if network == "0.0.0.0/0" or interface in uplinks or (network, interface) in linked:
            continue
        found.append(Neighbour("route", network, interface))
    for name, networks in fleets.items():
        found.extend(Neighbour("fleet", _network(network), owner=name) for network in networks)
    return list(dict.fromkeys(found))


def fleets() -> dict[str, list[str]]:
    """The ranges of every local fleet of this host, whether it runs or only has its state.

    A running fleet's range is read off the bridge in its namespace; for one that only has state,
    the smallest range around the addresses it has given to its nodes stands in.
    """
    found: dict[str, list[str]] = {}
    for name in _namespaced_fleets():
        links = json.loads(output(["ip", "-n", PREFIX + name, "-json", "-4", "address"]) or "[]")
        found[name] = [
            f"{entry['local']}/{entry['prefixlen']}"
            for link in links
            if link["ifname"] not in ("lo", "uplink")
            for entry in link.get("addr_info", [])
        ]
    for record in sorted(state_root().glob("*/addresses.json")):
        given = json.loads(record.read_text())
        if given and not found.get(record.parent.name):
            found[record.parent.name] = [str(covering(given.values()))]
    return found


def covering(addresses: Iterable[str]) -> ipaddress.IPv4Network:
    """The smallest network that holds all the addresses; there must be at least one."""
    numbers = [int(ipaddress.IPv4Address(text)) for text in addresses]
    low, high = min(numbers), max(numbers)
    bits = (low ^ high).bit_length()
    return ipaddress.IPv4Network((low >> bits << bits, 32 - bits))


def _namespaced_fleets() -> list[str]:
    if not NAMESPACES.is_dir():
        return []
    device = NAMESPACES.stat().st_dev
    names = []
    for path in sorted(NAMESPACES.iterdir()):
        name = path.name.removeprefix(PREFIX)
        # A name with a further dot is a node's. One on the folder's own device is the plain file
        # that is left of a namespace when its host was cut off.
        if path.name.startswith(PREFIX) and "." not in name and path.stat().st_dev != device:
            names.append(name)
    return names


def _network(text: str) -> str:
    return str(ipaddress.IPv4Network(text, strict=False))
