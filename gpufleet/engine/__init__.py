"""Running the Pulumi engine on a cluster's stack: the same state as `pulumi up` by hand."""

from .run import Engine, EngineError, Operation

__all__ = ["Engine", "EngineError", "Operation"]
