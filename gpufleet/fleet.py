"""The fleet contract: what nodes exist, with what facts. Written by infra, read by all else.

Every provider states its nodes in these terms, as the stack output `fleet` and as
`inventories/CLUSTER/.fleet.json`. docs/fleet-contract.md says what readers may rely on.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .atomic import write_atomic
from .fleet_model import (
    SCHEMA_VERSION,
    Access,
    Fleet,
    FleetNode,
    Gpu,
    Mount,
    Nic,
    Scratch,
    UnknownNodeError,
)
from .fleet_problems import describe

__all__ = [
    "SCHEMA_VERSION",
    "Access",
    "Fleet",
    "FleetError",
    "FleetNode",
    "Gpu",
    "Mount",
    "Nic",
    "Scratch",
    "UnknownNodeError",
    "dump",
    "json_schema",
    "load_fleet",
    "validate",
    "write_fleet",
]


class FleetError(Exception):
    """There is no usable contract; `problems` has one sentence each, with the fix."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


def dump(fleet: Fleet) -> dict[str, Any]:
    """The contract as plain JSON values; `validate` gives back an equal fleet."""
    value: dict[str, Any] = fleet.model_dump(mode="json")
    return value


def validate(value: object) -> Fleet:
    """The contract from plain JSON values.

    Whole numbers may come as floats, as Pulumi's engine hands them over. Raises FleetError with
    every problem: path of the field, what is wrong, what was seen.
    """
    return _validate(value, "fleet contract", "")


def load_fleet(path: Path) -> Fleet:
    """The contract at `path`, which lies in the inventory folder of its cluster.

    Raises FleetError: no fleet yet, unreadable, damaged, of a newer schema, or not valid.
    """
    again = f"run `gpufleet up {path.absolute().parent.name}`"
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise FleetError([f"no fleet yet at {path}: {again}"]) from error
    except OSError as error:
        raise FleetError(
            [f"{path} cannot be read ({error.strerror}): make it readable for your user"]
        ) from error
    except ValueError as error:
        raise FleetError([f"{path} is damaged ({error}): {again} to write it anew"]) from error
    return _validate(value, str(path), f"; {again} to write it anew")


def write_fleet(path: Path, fleet: Fleet) -> None:
    """Write the contract, whole or not at all, readable for everybody: it holds no secret."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(dump(fleet), indent=2) + "\n", 0o644)


def json_schema() -> dict[str, Any]:
    """JSON schema of the contract. What it cannot say: names and ids are unique in a fleet."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Fleet.model_json_schema(),
        "title": f"gpufleet fleet contract, version {SCHEMA_VERSION}",
    }


def _validate(value: object, where: str, fix: str) -> Fleet:
    if not isinstance(value, dict):
        raise FleetError([f"{where} is no fleet contract: a JSON object is expected{fix}"])
    version = value.get("schema_version")
    if isinstance(version, int | float) and version > SCHEMA_VERSION:
        text = f"{where} is of schema version {version:g}, this gpufleet reads {SCHEMA_VERSION}"
        raise FleetError([f"{text}: update gpufleet to the one that wrote it"])
    try:
        return Fleet.model_validate(value)
    except ValidationError as error:
        raise FleetError([f"{where}: {text}{fix}" for text in describe(error)]) from error


if __name__ == "__main__":
    Path(__file__).with_suffix(".schema.json").write_text(
        json.dumps(json_schema(), indent=2) + "\n"
    )
