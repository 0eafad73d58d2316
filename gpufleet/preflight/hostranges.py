"""Which IPv4 ranges are in use on this host: its addresses, its routes, its local fleets."""

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpufleet.paths import state_root

from .facts import FactError
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
    fleets: Mapping[str, Sequence[str]],
) -> list[Neighbour]:
    """Ranges in use, each once, from what `ip -json` prints and the ranges of known fleets.

    A fleet's own uplink is left out where the fleet itself is listed: its range covers the link.
    """
    uplinks = {uplink_name(name) for name, networks in fleets.items() if networks}
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
    found = {name: _bridged(name) for name in _namespaced_fleets()}
    for record in sorted(state_root().glob("*/addresses.json")):
        try:
            given = json.loads(record.read_text())
        except FileNotFoundError:
            continue  # taken down while it was looked at
        if given and not found.get(record.parent.name):
            found[record.parent.name] = [str(covering(given.values()))]
    return found


def _bridged(name: str) -> list[str]:
    """Ranges on the bridge of a fleet's namespace; none where it was taken down meanwhile."""
    try:
        text = output(["ip", "-n", PREFIX + name, "-json", "-4", "address", "show"])
    except FactError:
        if name in _namespaced_fleets():
            raise
        return []
    return [
        f"{entry['local']}/{entry['prefixlen']}"
        for link in json.loads(text or "[]")
        if link["ifname"] not in ("lo", "uplink")
        for entry in link.get("addr_info", [])
    ]


def covering(addresses: Iterable[str]) -> ipaddress.IPv4Network:
    """The smallest network that holds all the addresses; there must be at least one."""
    numbers = [int(ipaddress.IPv4Address(text)) for text in addresses]
    low, high = min(numbers), max(numbers)
    bits = (low ^ high).bit_length()
    return ipaddress.IPv4Network((low >> bits << bits, 32 - bits))


def _namespaced_fleets() -> list[str]:
    if not NAMESPACES.is_dir():
        return []
    names = (path.name.removeprefix(PREFIX) for path in NAMESPACES.glob(f"{PREFIX}*"))
    # A name with a further dot is a node's.
    return sorted(name for name in names if "." not in name and _is_namespace(PREFIX + name))


def _is_namespace(entry: str) -> bool:
    """Not so for the plain file that is left of a namespace when its host was cut off."""
    try:
        return (NAMESPACES / entry).stat().st_dev != NAMESPACES.stat().st_dev
    except FileNotFoundError:
        return False


def _network(text: str) -> str:
    return str(ipaddress.IPv4Network(text, strict=False))
