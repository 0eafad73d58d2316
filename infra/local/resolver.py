"""Which name servers a node is told to ask: those of the host that a node can reach."""

from pathlib import Path

from gpufleet.preflight.local_network import usable_nameserver

CANDIDATES = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))


def nameservers(text: str) -> tuple[str, ...]:
    """The IPv4 name servers of a resolv.conf that lie outside the host's own loopback."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        if usable_nameserver(words[1]):
            found.append(words[1])
    return tuple(found)


def host_nameservers() -> tuple[str, ...]:
    """Name servers of this host; where a local stub stands in front, those behind it."""
    for path in CANDIDATES:
        if path.exists() and (found := nameservers(path.read_text())):
            return found
    return ()
