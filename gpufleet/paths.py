"""Where gpufleet keeps things: one place that knows every folder, each with its override.

| what      | default               | override               | removed by `down`  |
|-----------|-----------------------|------------------------|--------------------|
| cache     | ~/.cache/gpufleet     | GPUFLEET_CACHE         | no                 |
| state     | /var/lib/gpufleet     | GPUFLEET_STATE         | yes                |
| inventory | CHECKOUT/inventories  | GPUFLEET_INVENTORIES   | what is made there |
"""

import os
from pathlib import Path


def repo_root() -> Path:
    """The checkout this code runs from."""
    return Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Tools, images and builds that can be made again; never holds state of a fleet."""
    explicit = os.environ.get("GPUFLEET_CACHE")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpufleet"


def state_root() -> Path:
    """Parent of every cluster's state on this host, and of the Pulumi state of local stacks."""
    return Path(os.environ.get("GPUFLEET_STATE", "/var/lib/gpufleet"))


def state_dir(cluster: str) -> Path:
    """State of one cluster on this host: SSH identity, disks of local nodes, shared storage."""
    return state_root() / cluster


def inventories_dir() -> Path:
    """Folder that holds one folder a cluster."""
    explicit = os.environ.get("GPUFLEET_INVENTORIES")
    return Path(explicit) if explicit else repo_root() / "inventories"


def inventory_dir(cluster: str) -> Path:
    """All that is particular to one cluster."""
    return inventories_dir() / cluster


def fleet_file(cluster: str) -> Path:
    """The fleet contract as written for Ansible and every later step."""
    return inventory_dir(cluster) / ".fleet.json"


def made_for_nodes(cluster: str) -> tuple[Path, ...]:
    """Folders of passwords and of packages made for a fleet's nodes; new nodes get their own."""
    return tuple(inventory_dir(cluster) / name for name in (".secrets", ".simulated-nvidia"))
