"""Rules about room: disk and memory for the nodes that are still to be made."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from .facts import Facts
from .localgroups import Disk, Memory, OwnFleet, Place
from .needs import local_needs
from .rule import Finding, Level, Rule

if TYPE_CHECKING:
    from gpufleet.spec import ClusterSpec


class DiskRoom(Rule):
    """Disk for the image and for each node that is not laid yet."""

    id = "local.disk"
    level: ClassVar[Level] = "error"
    title = "the disk has room for the image and the nodes"
    why = (
        "A disk that runs full while nodes are made leaves a fleet half made and a host in "
        "trouble. Nodes that are there already are not counted again."
    )
    look = "df -h /var/lib ~"
    fix = "Free disk space, ask for fewer nodes, or move GPUFLEET_STATE and GPUFLEET_CACHE."
    providers = frozenset({"local"})
    needs = (Disk, OwnFleet)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """Cache and state are added up where they lie on one file system."""
        disk, needs = facts.get(Disk), local_needs()
        laid = facts.get(OwnFleet).laid_nodes
        new = sum(node.name not in laid for node in spec.nodes())
        nodes_mib = new * needs.node_disk.mib
        nodes_text = f"{new} new nodes x {needs.node_disk.mib} MiB"
        image_text = f"image {needs.image.mib} MiB"
        if disk.state.device == disk.cache.device:
            both = f"{image_text} + {nodes_text}"
            yield from self._judge(disk.state, needs.image.mib + nodes_mib, both, "state and cache")
            return
        yield from self._judge(disk.cache, needs.image.mib, image_text, "cache")
        yield from self._judge(disk.state, nodes_mib, nodes_text, "state")

    def _judge(self, place: Place, need: int, sum_text: str, what: str) -> Iterator[Finding]:
        if place.free_mib < need:
            yield Finding(
                "host",
                f"too little disk for the {what} of this fleet",
                f"{place.free_mib} MiB free at {place.path}",
                f"at least {need} MiB ({sum_text})",
                "free disk space, lower pools[].count, or move GPUFLEET_STATE or GPUFLEET_CACHE",
            )


class MemoryRoom(Rule):
    """Memory for each node that does not run yet."""

    id = "local.memory"
    level: ClassVar[Level] = "error"
    title = "the memory is enough for the nodes"
    why = (
        "Nodes are real machines with a systemd of their own. A host that runs out of memory "
        "kills processes at will, on nodes and off them. Nodes that run are not counted again."
    )
    look = "grep MemAvailable /proc/meminfo"
    fix = "Ask for fewer nodes, or use a host with more memory."
    providers = frozenset({"local"})
    needs = (Memory, OwnFleet)

    def check(self, spec: "ClusterSpec", facts: Facts) -> Iterator[Finding]:
        """What is available must hold the new nodes idle, and the margin."""
        needs, available = local_needs(), facts.get(Memory).available_mib
        running = facts.get(OwnFleet).running_nodes
        new = sum(node.name not in running for node in spec.nodes())
        need = new * needs.node_memory.mib + needs.memory_margin.mib
        if new and available < need:
            yield Finding(
                "host",
                "too little memory for the nodes of this fleet",
                f"{available} MiB available",
                f"at least {need} MiB ({new} new nodes x {needs.node_memory.mib} MiB + "
                f"{needs.memory_margin.mib} MiB)",
                "lower pools[].count, end what takes the memory, or use a larger host",
            )
