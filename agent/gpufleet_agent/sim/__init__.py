"""A simulator for pure cores: seeded clock, network, disk and faults."""

from gpufleet_agent.sim.kernel import Host, InvariantBroken, Kernel, Node
from gpufleet_agent.sim.network import Network
from gpufleet_agent.sim.seeds import SeedFailed, chosen_seeds, sweep

__all__ = [
    "Host",
    "InvariantBroken",
    "Kernel",
    "Network",
    "Node",
    "SeedFailed",
    "chosen_seeds",
    "sweep",
]
