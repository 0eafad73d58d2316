"""Simulated GPUs of a node: what they are, as the text that the simulated NVML library reads.

`describe` derives a description from a node's identity and instance type, `render` writes it as
`/etc/gpufleet/simgpu.conf`, `parse` reads it back. The format is documented in
docs/simulated-gpus.md.
"""

from gpufleet.simgpu.describe import InstanceTypeLike, UnknownModelError, describe
from gpufleet.simgpu.model import (
    FORMAT_VERSION,
    GpuDescription,
    Link,
    NodeDescription,
    Process,
)
from gpufleet.simgpu.text import DescriptionError, DescriptionProblem, parse

__all__ = [
    "FORMAT_VERSION",
    "DescriptionError",
    "DescriptionProblem",
    "GpuDescription",
    "InstanceTypeLike",
    "Link",
    "NodeDescription",
    "Process",
    "UnknownModelError",
    "describe",
    "parse",
]
