"""What a cluster has on this host, counted independently of the code under test."""

import subprocess
from pathlib import Path

from harness import Cluster


def traces(cluster: Cluster) -> list[str]:
    """Every process, mount, namespace, link, nft table, folder and file of a cluster."""
    found = []
    state = str(cluster.state)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state in line:
            found.append(f"process {process.name} {line}")
    found += [f"mount {x}" for x in Path("/proc/mounts").read_text().splitlines() if state in x]
    for folder in (Path("/run/netns"), Path("/sys/fs/cgroup")):
        for path in folder.rglob(f"*{cluster.name}*"):
            found.append(str(path))
    for command in (["ip", "-br", "link"], ["nft", "list", "ruleset"]):
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found += [x for x in text.splitlines() if cluster.name in x or uplink(cluster) in x]
    if cluster.state.exists():
        found.append(state)
    contract = cluster.inventory / ".fleet.json"
    if contract.exists():
        found.append(str(contract))
    return found


def uplink(cluster: Cluster) -> str:
    """Name of the cluster's link on the host."""
    from hashlib import sha256

    return "gf-" + sha256(cluster.name.encode()).hexdigest()[:8]


def forwarding() -> str:
    """The host's forwarding switch."""
    return Path("/proc/sys/net/ipv4/ip_forward").read_text().strip()
