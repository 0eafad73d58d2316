"""Which simulated packages there are: every version that a set with simulated pins asks for."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpufleet import stack
from gpufleet.stack import lockstep
from gpufleet.stack.sets import StackSet
from gpufleet.stack.universe import universe
from gpufleet.stack.versions import head

from .contents import files_of
from .deb import Package


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("packages.yaml").read_text()
    )
    return rows


def packages() -> list[Package]:
    """Packages of all shipped sets that simulate something, by name and version."""
    found: dict[tuple[str, str], Package] = {}
    for name in stack.names():
        pinned = stack.get(name)
        if pinned.simulated:
            for package in packages_of(pinned):
                found[package.name, package.version] = package
    return [found[key] for key in sorted(found)]


def packages_of(pinned: StackSet) -> list[Package]:
    """The simulated packages of one set.

    Raises KeyError for a package of the lock that packages.yaml lacks.
    """
    made = []
    whole = lockstep.complete(pinned)
    for pin in whole.simulated:
        version = whole.pins[pin]
        words = {
            "version": version,
            "branch": head(version, 1),
            "dashed": head(version, 2).replace(".", "-"),
        }
        rows = {name.format_map(words): row for name, row in _rows().items()}
        for template, full in universe()[pin].facts(version).get("packages", {}).items():
            name, exact = template.format_map(words), full.format_map(words)
            row = rows[name]
            made.append(
                Package(
                    name=name,
                    version=exact,
                    summary=f"NVIDIA {row['summary']}",
                    depends=tuple(_dependency(x, exact, words) for x in row.get("depends", ())),
                    conflicts=tuple(row.get("conflicts", ())),
                    files=files_of(row.get("stub", ""), version),
                )
            )
    return made


def _dependency(text: str, version: str, words: dict[str, str]) -> str:
    name = text.removeprefix("=").format_map(words)
    return f"{name} (= {version})" if text.startswith("=") else name
