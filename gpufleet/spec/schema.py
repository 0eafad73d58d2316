"""The cluster spec as a JSON schema, for editors and other tools."""

from typing import Any

from .model import ClusterSpec


def json_schema() -> dict[str, Any]:
    """JSON schema, draft 2020-12; what holds between fields is not in it."""
    schema = ClusterSpec.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "gpufleet cluster spec",
    }
