"""Rules about the network that a local fleet shares with its host."""

import hashlib
import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from .facts import Facts
from .localgroups import Forwarding, FrontPort, Neighbour, Ranges, Resolver
from .rule import CannotJudge, Finding, Level, Rule

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec

LOCAL = frozenset({"local"})


def uplink_name(cluster: str) -> str:
    """The host's end of a local cluster's way out: `gf-` and 8 hex digits of its name's SHA-256."""
    return f"gf-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"


def cidr(spec: "ClusterSpec") -> ipaddress.IPv4Network:
    """The cluster's address range."""
    return ipaddress.IPv4Network(str(spec.network.cidr))


class RangeFree(Rule):
    """The cluster's addresses are used by nobody else on this host."""

    id = "local.range"
    level: ClassVar[Level] = "error"
    title = "the address range is used by nothing else"
    why = (
        "Two networks with the same addresses on one host make one of them unreachable: the "
        "host's own network, a VPN, or another local fleet."
    )
    look = "ip -4 route show table all\nip netns list"
    fix = "Choose another network.cidr; any private range that is not listed by `ip route` will do."
    providers = LOCAL
    needs = (Ranges,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding for each address, route or fleet in the way; the cluster's own are not."""
        own, uplink = cidr(spec), uplink_name(spec.name)
        for neighbour in facts.get(Ranges).neighbours:
            if neighbour.interface == uplink or neighbour.owner == spec.name:
                continue
            if own.overlaps(ipaddress.IPv4Network(neighbour.network)):
                yield Finding(
                    "network.cidr",
                    f"the range overlaps {self._who(neighbour)}",
                    str(own),
                    f"a private range apart from {neighbour.network}",
                    "choose another network.cidr",
                )

    @staticmethod
    def _who(neighbour: Neighbour) -> str:
        if neighbour.kind == "fleet":
            return f"{neighbour.network} of the local fleet {neighbour.owner}"
        where = f" on {neighbour.interface}" if neighbour.interface else ""
        return f"the host's {neighbour.kind} {neighbour.network}{where}"


class FrontPortFree(Rule):
    """The loopback port of the fleet's front can be had, or is the fleet's already."""

    id = "local.front-port"
    level: ClassVar[Level] = "error"
    title = "the front's port on 127.0.0.1 is free"
    why = (
        "The fleet's front is reached by this port of the host. Held by another program, that "
        "program would get the requests. A process in the cluster's own control group may hold it."
    )
    look = "ss -ltnp"
    fix = "Choose another access.front_port, or end the program that holds the port."
    providers = LOCAL
    needs = (FrontPort,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Cannot judge a port whose holder is hidden."""
        port = facts.get(FrontPort)
        if port.free or (port.holder and port.holder.own):
            return
        if port.holder is None:
            raise CannotJudge(
                f"127.0.0.1:{port.port} is in use, and by which process cannot be seen; run as root"
            )
        yield Finding(
            "access.front_port",
            "another program holds the port of the front",
            f"127.0.0.1:{port.port} held by {port.holder.command} (process {port.holder.pid})",
            "a port that is free on 127.0.0.1",
            "choose another access.front_port, or end that program",
        )


class ForwardingAllowed(Rule):
    """No other firewall drops what nodes send to package mirrors."""

    id = "local.forwarding"
    level: ClassVar[Level] = "error"
    title = "no other firewall drops what nodes send out"
    why = (
        "A packet is dropped when any one firewall on the host drops it, whatever the fleet's own "
        "rules say. Docker and most firewall front ends drop forwarded packets that they do not "
        "know, so nodes would wait for package mirrors until they time out."
    )
    look = "nft list chains"
    fix = (
        "Accept the fleet's interfaces in that firewall (they are named gf- and eight digits), "
        "or set network.egress to none."
    )
    providers = LOCAL
    needs = (Forwarding,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """One finding a chain that is shut in either direction; none without a way out."""
        if spec.network.egress == "none":
            return
        uplink = uplink_name(spec.name)
        for gate in facts.get(Forwarding).gates:
            if gate.lets_out and gate.lets_back:
                continue
            shut = " and ".join(
                text
                for text, is_open in (
                    (f"from {uplink}", gate.lets_out),
                    (f"to {uplink}", gate.lets_back),
                )
                if not is_open
            )
            yield Finding(
                "host",
                f"another firewall drops what is forwarded {shut}",
                f"{gate.name} drops by default",
                f"{gate.name} accepts {uplink} in both directions",
                f"add accept rules for interface {uplink} in and out to it "
                f"({self.doc} has them), or set network.egress: none",
            )


class NamesResolve(Rule):
    """Nodes can be given a name server that they can reach."""

    id = "local.dns"
    level: ClassVar[Level] = "error"
    title = "there is a name server that nodes can ask"
    why = (
        "Nodes ask the host's name servers. One on the host's loopback (a local cache) cannot be "
        "reached from a node, and one inside the cluster's range would be looked for among nodes."
    )
    look = "cat /etc/resolv.conf"
    fix = "Name servers under network.dns that the host can reach, by IPv4 address."
    providers = LOCAL
    needs = (Resolver,)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """At least one usable server; the spec's own list wins over the host's."""
        if spec.network.egress == "none":
            return
        resolver = facts.get(Resolver)
        listed = tuple(str(server) for server in spec.network.dns or ())
        servers = listed or resolver.nameservers
        path = "network.dns" if listed else "host"
        source = "network.dns" if listed else resolver.source
        usable = [server for server in servers if usable_nameserver(server)]
        if not usable:
            yield Finding(
                path,
                "nodes have no name server that they can reach",
                f"{source} lists {', '.join(servers) or 'none'}",
                "at least one IPv4 address outside the loopback range",
                "name one under network.dns",
            )
        for server in usable:
            if ipaddress.IPv4Address(server) in cidr(spec):
                yield Finding(
                    path,
                    "a name server lies inside the cluster's own range",
                    f"{server} in {cidr(spec)}",
                    "name servers outside network.cidr",
                    "choose another network.cidr or another name server",
                )


def usable_nameserver(text: str) -> bool:
    """Whether a node can be told to ask this server: IPv4, and not on a loopback address."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not address.is_loopback and not address.is_unspecified
