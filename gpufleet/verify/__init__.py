"""Is a node as it should be, right now? Asked on the node, read-only, with a verdict a node."""

from .model import Check, NodeReport, Row, Verdict
from .running import Job, VerifyError, verify

__all__ = ["Check", "Job", "NodeReport", "Row", "Verdict", "VerifyError", "verify"]
