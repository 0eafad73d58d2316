"""Which name servers a node is told to ask: those of the host that a node can reach."""

import ipaddress
from pathlib import Path

CANDIDATES = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))


def nameservers(text: str) -> tuple[str, ...]:
    """The IPv4 name servers of a resolv.conf that lie outside the host's own loopback."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            address = ipaddress.IPv4Address(words[1])
        except ValueError:
            continue
        if not address.is_loopback:
            found.append(str(address))
    return tuple(found)


def host_nameservers() -> tuple[str, ...]:
    """Name servers of this host; where a local stub stands in front, those behind it."""
    for path in CANDIDATES:
        if path.exists() and (found := nameservers(path.read_text())):
            return found
    return ()
