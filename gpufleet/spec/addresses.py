"""What the addresses of a local cluster's range are for."""

from ipaddress import IPv4Network

# .0 is the network, .1 the bridge, the last four the link between bridge and host.
FIRST_NODE = 2
KEPT_AT_END = 4


def capacity(cidr: IPv4Network) -> int:
    """How many nodes a range has addresses for."""
    return max(0, cidr.num_addresses - FIRST_NODE - KEPT_AT_END)
