"""Arguments and options that several commands share."""

from typing import Annotated

import typer


def complete_cluster(incomplete: str) -> list[str]:
    """Names of this checkout's clusters, for shell completion."""
    from gpufleet.paths import inventories_dir

    names = sorted(path.parent.name for path in inventories_dir().glob("*/cluster.yaml"))
    return [name for name in names if name.startswith(incomplete)]


Cluster = Annotated[
    str,
    typer.Argument(
        help="Name of the cluster: a folder in inventories/.", autocompletion=complete_cluster
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
