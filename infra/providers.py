"""Which component builds the nodes of which provider."""

from collections.abc import Callable
from typing import Any

import pulumi

from gpufleet.spec import ClusterSpec
from infra.local.components import LocalFleet


def _local(spec: ClusterSpec) -> pulumi.Output[dict[str, Any]]:
    return LocalFleet(spec).contract


PROVIDERS: dict[str, Callable[[ClusterSpec], pulumi.Output[dict[str, Any]]]] = {"local": _local}


def build(spec: ClusterSpec) -> pulumi.Output[dict[str, Any]]:
    """Declare the cluster's resources; returns the fleet contract as an output."""
    if spec.provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise pulumi.RunError(f"provider: {spec.provider} cannot be built yet; built are: {known}")
    return PROVIDERS[spec.provider](spec)
