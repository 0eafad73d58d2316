"""What a local fleet takes from its host: `local_needs.yaml` as typed values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).with_name("local_needs.yaml")


@dataclass(frozen=True)
class Figure:
    """An amount in MiB with the place it comes from and the day it was looked at."""

    mib: int
    source: str
    date: date


@dataclass(frozen=True)
class Tool:
    """A tool of the host: which package brings it, and what it is for."""

    name: str
    package: str
    use: str


@dataclass(frozen=True)
class LocalNeeds:
    """All that a local fleet asks of its host."""

    image: Figure
    node_disk: Figure
    node_memory: Figure
    memory_margin: Figure
    tools: tuple[Tool, ...]
    unfit_filesystems: frozenset[str]


@cache
def local_needs() -> LocalNeeds:
    """The data file, read once."""
    data: Mapping[str, Any] = yaml.safe_load(DATA.read_text())
    return LocalNeeds(
        image=_figure(data["disk"]["image_mib"]),
        node_disk=_figure(data["disk"]["node_mib"]),
        node_memory=_figure(data["memory"]["node_mib"]),
        memory_margin=_figure(data["memory"]["margin_mib"]),
        tools=tuple(
            Tool(name, row["package"], row["use"]) for name, row in data["tools"]["rows"].items()
        ),
        unfit_filesystems=frozenset(data["filesystems"]["unfit"]),
    )


def _figure(row: Mapping[str, Any]) -> Figure:
    return Figure(int(row["value"]), str(row["source"]), row["date"])
