"""Instance types as data: each row with its source and date. A new type is a new row."""

from datetime import date as Date  # noqa: N812  a field of that name hides the class
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parent
# The C loader where PyYAML has it: ten times as fast, and every command reads the catalog.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CatalogError(LookupError):
    """No such instance type; the text names the nearest."""


class Nic(BaseModel):
    """A network card as the fleet contract states it; rate in gigabits a second."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    fabric: str
    rate_gbps: int


class InstanceType(BaseModel):
    """What a type of machine has. Memory in MiB; the GPU figures are for one GPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    provider: str
    simulated: bool
    vcpus: int
    memory_mib: int
    gpus: int
    gpu_model: str | None = None
    gpu_memory_mib: int = 0
    architecture: str = "x86_64"
    nvlink: str | None = None
    numa_nodes: int = 1
    nics: tuple[Nic, ...] = ()
    scratch_gb: int | None = None
    source: str
    date: Date


@cache
def load(folder: Path = FOLDER) -> dict[str, InstanceType]:
    """All types of the data files in a folder, by name."""
    found: dict[str, InstanceType] = {}
    for path in sorted(folder.glob("*.yaml")):
        for row in _read(path)["instance_types"]:
            itype = InstanceType.model_validate(row)
            if itype.name in found:
                raise ValueError(f"{path}: {itype.name} is in the catalog twice")
            found[itype.name] = itype
    return found


def _read(path: Path) -> Any:
    loader = Loader(path.read_text(encoding="utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def names(provider: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of a provider's types; empty where the catalog does not know the provider."""
    return tuple(sorted(x.name for x in load(folder).values() if x.provider == provider))


def get(name: str, folder: Path = FOLDER) -> InstanceType:
    """A type by its name; raises CatalogError."""
    known = load(folder)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise CatalogError(f"no instance type {name!r} in the catalog{hint}")
    return known[name]
