"""SIMULATED vendor packages: names, versions and dependencies of the real ones, no contents.

Local nodes have no NVIDIA hardware, so their packages are stubs made from the version lock, in a
signed repository that roles use exactly as they use the vendor's. `python -m gpufleet.simdebs`
makes it.
"""

from .repository import Built, build

__all__ = ["Built", "build"]
