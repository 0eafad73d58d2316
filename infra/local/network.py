"""A cluster's network: one bridge in a namespace of its own, one masqueraded way out.

Nodes hang on the bridge by veth pairs. The host sees a single /30 link (the last four addresses
of the cluster's range); what leaves by it is masqueraded and limited to name look-ups and web
ports, for that is all a node needs to reach package mirrors. Every step looks before it acts, so
a half made network is completed and a whole one is left alone.
"""

import hashlib
import ipaddress
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpufleet.atomic import locked_folder
from gpufleet.preflight.local_network import uplink_name

from .command import run
from .files import read_json, write_json

BRIDGE = "br0"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def short_hash(*parts: str) -> str:
    """Eight hex digits that tell names apart where the kernel allows 15 characters."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class NetworkSpec:
    """What a cluster's network is made from."""

    cluster: str
    cidr: str
    egress: Literal["mirrors", "none"] = "mirrors"

    @property
    def namespace(self) -> str:
        """Name of the namespace that holds the bridge."""
        return f"gf.{self.cluster}"

    @property
    def uplink(self) -> str:
        """Name of the host's end of the way out."""
        return uplink_name(self.cluster)

    @property
    def table(self) -> str:
        """Name of the nft table on the host."""
        return f"gpufleet_{short_hash(self.cluster)}"

    @property
    def range(self) -> ipaddress.IPv4Network:
        """The cluster's addresses."""
        return ipaddress.IPv4Network(self.cidr)

    @property
    def gateway(self) -> str:
        """The bridge's address, the nodes' default route."""
        return str(self.range[1])

    @property
    def link(self) -> ipaddress.IPv4Network:
        """The /30 between the host and the bridge's namespace."""
        return ipaddress.IPv4Network((int(self.range.broadcast_address) - 3, 30))

    def node_namespace(self, node: str) -> str:
        """Name of the namespace of one node."""
        return f"gf.{self.cluster}.{node}"


def ensure_network(spec: NetworkSpec) -> None:
    """Make or complete the cluster's network."""
    namespace = spec.namespace
    ensure_namespace(namespace)
    if BRIDGE not in _links(namespace):
        _ip(namespace, "link", "add", BRIDGE, "type", "bridge")
    _ensure_address(namespace, BRIDGE, f"{spec.gateway}/{spec.range.prefixlen}")
    _ip(namespace, "link", "set", BRIDGE, "up")
    if spec.egress == "none":
        _remove_uplink(spec)
        return
    if spec.uplink not in _links(None) or "uplink" not in _links(namespace):
        _remove_uplink(spec)
        _ip(
            None, "link", "add", spec.uplink, "type", "veth",
            "peer", "name", "uplink", "netns", namespace,
        )  # fmt: skip
    host, fabric = str(spec.link[1]), str(spec.link[2])
    _ensure_address(None, spec.uplink, f"{host}/30")
    _ensure_address(namespace, "uplink", f"{fabric}/30")
    _ip(None, "link", "set", spec.uplink, "up")
    _ip(namespace, "link", "set", "uplink", "up")
    _ip(namespace, "route", "replace", "default", "via", host)
    in_namespace(namespace, lambda: FORWARDING.write_text("1"))
    _nft(namespace, _inside_rules())
    _nft(None, _host_rules(spec))
    _ensure_forwarding(spec.cluster)


def network_whole(spec: NetworkSpec) -> bool:
    """Whether the network is up with all its parts."""
    if not namespace_exists(spec.namespace) or BRIDGE not in _links(spec.namespace):
        return False
    if spec.egress == "none":
        return True
    tables = run(["nft", "list", "tables", "ip"]).split()
    return (
        spec.uplink in _links(None)
        and spec.table in tables
        and "uplink" in _links(spec.namespace)
        and FORWARDING.read_text().strip() == "1"
    )


def remove_network(spec: NetworkSpec) -> None:
    """Remove the network and every rule and setting of the host that was made for it."""
    _remove_uplink(spec)
    remove_namespace(spec.namespace)


def hardware_address(address: str) -> str:
    """The MAC address that goes with an IPv4 address, locally administered.

    A node made anew under its old address must be the same to its neighbours' caches, else they
    send to a card that is gone until their entries expire.
    """
    return "02:67:" + ipaddress.IPv4Address(address).packed.hex(":")


def ensure_node_link(spec: NetworkSpec, node: str, address: str) -> None:
    """Make a node's namespace and its cable to the bridge."""
    namespace = spec.node_namespace(node)
    port = f"p{short_hash(spec.cluster, node)}"
    ensure_namespace(namespace)
    if "eth0" not in _links(namespace) or port not in _links(spec.namespace):
        if port in _links(spec.namespace):
            _ip(spec.namespace, "link", "del", port)
        _ip(
            spec.namespace, "link", "add", port, "type", "veth",
            "peer", "name", "eth0", "address", hardware_address(address), "netns", namespace,
        )  # fmt: skip
    _ip(spec.namespace, "link", "set", port, "master", BRIDGE, "up")
    _ensure_address(namespace, "eth0", f"{address}/{spec.range.prefixlen}")
    _ip(namespace, "link", "set", "lo", "up")
    _ip(namespace, "link", "set", "eth0", "up")
    _ip(namespace, "route", "replace", "default", "via", spec.gateway)


def remove_node_link(spec: NetworkSpec, node: str) -> None:
    """Remove a node's namespace; its cable goes with it."""
    port = f"p{short_hash(spec.cluster, node)}"
    if namespace_exists(spec.namespace) and port in _links(spec.namespace):
        _ip(spec.namespace, "link", "del", port)
    remove_namespace(spec.node_namespace(node))


def ensure_namespace(name: str) -> None:
    """Make a named network namespace unless a usable one is there."""
    if namespace_exists(name):
        return
    remove_namespace(name)
    run(["ip", "netns", "add", name])
    _ip(name, "link", "set", "lo", "up")


def namespace_exists(name: str) -> bool:
    """Whether the name stands for a namespace, not for the plain file that a crash can leave."""
    path = Path("/run/netns") / name
    try:
        return path.stat().st_dev != path.parent.stat().st_dev
    except FileNotFoundError:
        return False


def remove_namespace(name: str) -> None:
    """Remove a named namespace; absent is fine."""
    path = Path("/run/netns") / name
    if namespace_exists(name):
        run(["ip", "netns", "del", name])
    path.unlink(missing_ok=True)


def in_namespace[T](name: str, action: Callable[[], T]) -> T:
    """Call `action` in a network namespace: a thread enters it, this process does not."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.setns(descriptor, os.CLONE_NEWNET)
            finally:
                os.close(descriptor)
            outcome.append(action())
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def connect(namespace: str, address: str, port: int, timeout: float) -> socket.socket:
    """A TCP connection made inside a namespace, usable from anywhere in this process."""
    return in_namespace(
        namespace, lambda: socket.create_connection((address, port), timeout=timeout)
    )


def _inside_rules() -> str:
    return """\
table ip gpufleet
delete table ip gpufleet
table ip gpufleet {
  chain out {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "uplink" masquerade
  }
}
"""


def _host_rules(spec: NetworkSpec) -> str:
    fabric = spec.link[2]
    return f"""\
table ip {spec.table}
delete table ip {spec.table}
table ip {spec.table} {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname "{spec.uplink}" udp dport 53 accept
    iifname "{spec.uplink}" tcp dport {{ 53, 80, 443 }} accept
    iifname "{spec.uplink}" drop
    oifname "{spec.uplink}" ct state established,related accept
    oifname "{spec.uplink}" drop
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname "{spec.uplink}" udp dport 53 accept
    iifname "{spec.uplink}" tcp dport 53 accept
    iifname "{spec.uplink}" drop
  }}
  chain out {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {fabric} oifname != "{spec.uplink}" masquerade
  }}
}}
"""


def _remove_uplink(spec: NetworkSpec) -> None:
    if spec.uplink in _links(None):
        _ip(None, "link", "del", spec.uplink)
    if spec.table in run(["nft", "list", "tables", "ip"]).split():
        run(["nft", "delete", "table", "ip", spec.table])
    _release_forwarding(spec.cluster)


# Forwarding is one switch of the whole host, whatever folders its fleets keep their state in. The
# fleets that need it are recorded together with its value before the first of them, so that the
# last one to go puts it back. A reboot clears both the switch and the record.
FORWARDING_RECORD = Path("/run/gpufleet-forwarding.json")


def _ensure_forwarding(cluster: str) -> None:
    with locked_folder(FORWARDING_RECORD.parent):
        record = read_json(FORWARDING_RECORD) or {"before": FORWARDING.read_text().strip()}
        users = set(record.get("clusters", [])) | {cluster}
        write_json(FORWARDING_RECORD, {**record, "clusters": sorted(users)})
        FORWARDING.write_text("1")


def _release_forwarding(cluster: str) -> None:
    with locked_folder(FORWARDING_RECORD.parent):
        record = read_json(FORWARDING_RECORD)
        if record is None or cluster not in record["clusters"]:
            return
        users = set(record["clusters"]) - {cluster}
        if users:
            write_json(FORWARDING_RECORD, {**record, "clusters": sorted(users)})
        else:
            FORWARDING.write_text(str(record["before"]))
            FORWARDING_RECORD.unlink()


def _links(namespace: str | None) -> set[str]:
    text = _ip(namespace, "-json", "link", "show")
    return {str(link["ifname"]) for link in json.loads(text or "[]")}


def _ensure_address(namespace: str | None, device: str, address: str) -> None:
    _ip(namespace, "addr", "replace", address, "dev", device)


def _ip(namespace: str | None, *args: str) -> str:
    prefix = ["ip", "-n", namespace] if namespace else ["ip"]
    return run([*prefix, *args])


def _nft(namespace: str | None, rules: str) -> None:
    prefix = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
    run([*prefix, "nft", "-f", "-"], input_text=rules)
