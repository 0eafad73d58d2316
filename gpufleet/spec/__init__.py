"""The cluster spec: `inventories/NAME/cluster.yaml` as typed data, or a list of problems."""

from .errors import Problem, SpecError
from .load import load_spec
from .model import ClusterSpec, NodeFile, NodePlan, Pool, Suppression
from .schema import json_schema

__all__ = [
    "ClusterSpec",
    "NodeFile",
    "NodePlan",
    "Pool",
    "Problem",
    "SpecError",
    "Suppression",
    "json_schema",
    "load_spec",
]
