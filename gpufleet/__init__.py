"""gpufleet: from a cluster spec to AI agents serving on every GPU."""

__version__ = "0.1.0"
