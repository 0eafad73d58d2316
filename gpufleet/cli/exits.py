"""Exit codes, the same for every command, and the one place that turns errors into them."""

import json
import sys
from enum import IntEnum
from typing import Any, NoReturn

import typer
from rich.console import Console

from gpufleet.spec import ClusterSpec, SpecError


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3


# Facts go to standard output, everything about getting them to standard error.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def emit_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def fail(message: str, *, code: Exit, as_json: bool = False, **details: Any) -> NoReturn:
    """End the command with a message for people or, asked for JSON, for machines."""
    if as_json:
        emit_json({"ok": False, "error": message, **details})
    else:
        err.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(code)


def load(cluster: str, *, as_json: bool = False) -> ClusterSpec:
    """The spec of a cluster of this checkout; ends the command with all its problems if bad."""
    from gpufleet.paths import inventories_dir, inventory_dir
    from gpufleet.spec import load_spec

    path = inventory_dir(cluster) / "cluster.yaml"
    if not path.exists():
        known = sorted(x.parent.name for x in inventories_dir().glob("*/cluster.yaml"))
        fail(
            f"no cluster {cluster!r}: {path} does not exist; known clusters: {', '.join(known)}",
            code=Exit.BAD_INPUT,
            as_json=as_json,
        )
    try:
        return load_spec(path)
    except SpecError as error:
        if as_json:
            problems = [problem.to_dict() for problem in error.problems]
            fail("bad cluster spec", code=Exit.BAD_INPUT, as_json=True, problems=problems)
        for problem in error.problems:
            err.print(str(problem), markup=False, soft_wrap=True)
        count = len(error.problems)
        fail(
            f"{count} problem{'s' if count != 1 else ''} in {path}; nothing was touched",
            code=Exit.BAD_INPUT,
        )
