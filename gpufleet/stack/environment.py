"""The engine's Python environment of a set: what a resolver is asked for, and what it found."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .sets import StackSet
from .universe import Universe, universe

RESOLVED = Path(__file__).with_name("resolved")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
# torch depends on one of these, by the major version of its CUDA.
NCCL = re.compile(r"nvidia-nccl-cu[0-9]+")


@dataclass(frozen=True)
class Requirements:
    """Requirement lines. Constraints bound what is pulled in; overrides replace what others ask."""

    python: str
    required: tuple[str, ...]
    constraints: tuple[str, ...]
    overrides: tuple[str, ...]


def requirements(pinned: StackSet, known: Universe | None = None) -> Requirements:
    """Requirements of a set, in the order of its components; raises KeyError without a python pin.

    They are those of the engine's environment; the agent's own one is locked apart from it.
    """
    world = known or universe()
    required: list[str] = []
    constraints: list[str] = []
    overrides: list[str] = []
    for name, version in pinned.pins.items():
        component = world[name]
        if component.distribution:
            required.append(f"{component.distribution}=={version}")
        facts = component.facts(version)
        constraints += facts.get("constraints", [])
        overrides += [line.format_map(pinned.pins) for line in facts.get("overrides", [])]
    return Requirements(
        pinned.pins["python"], tuple(required), tuple(constraints), tuple(overrides)
    )


def lock_file(pinned: StackSet) -> Path:
    """Where a shipped set's resolved requirements with hashes are kept; not there for all sets."""
    return RESOLVED / f"{pinned.name}.txt"


def locked(text: str) -> dict[str, str]:
    """Package -> version of a requirements file with exact pins."""
    return {name.lower(): version for name, version in PINNED.findall(text)}


def mismatches(
    pinned: StackSet, found: Mapping[str, str], known: Universe | None = None
) -> list[str]:
    """Pins of a set that a resolver's result does not have, each as a sentence."""
    world = known or universe()
    wrong = []
    for name, version in pinned.pins.items():
        distribution = world[name].distribution
        if distribution and found.get(distribution) != version:
            wrong.append(f"{name} is {version}, resolved was {found.get(distribution)}")
    brought = sorted({version for name, version in found.items() if NCCL.fullmatch(name)})
    nccl = pinned.pins.get("nccl")
    if nccl is not None and brought and brought != [nccl]:
        wrong.append(f"nccl is {nccl}, resolved was {', '.join(brought)}")
    return wrong
