"""The command line of gpufleet."""

from pathlib import Path
from typing import Annotated

import typer

from gpufleet import __version__

from . import checking, nodes, operating

HELP = """\
Take a cluster spec to AI agents serving on every GPU.

A cluster is a folder in inventories/ with a cluster.yaml. `gpufleet up local` makes the one that
needs nothing but this machine: real Linux nodes in namespaces, with simulated GPUs.

Exit codes: 0 done, 1 failed, 2 bad input (nothing was touched), 3 a gate refused.
"""

app = typer.Typer(
    name="gpufleet",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
spec_app = typer.Typer(help="The cluster spec itself.", no_args_is_help=True)
app.add_typer(spec_app, name="spec")

app.command("check")(checking.check)
app.command("explain")(checking.explain)
app.command("plan")(operating.plan)
app.command("up")(operating.up)
app.command("down")(operating.down)
app.command("status")(nodes.status)
app.command("ssh", context_settings={"allow_interspersed_args": False})(nodes.ssh)
spec_app.command("schema")(checking.schema)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpufleet {__version__}")
        raise typer.Exit


@app.callback()
def common(
    inventories: Annotated[
        Path | None,
        typer.Option(
            help="Folder with one folder a cluster.",
            envvar="GPUFLEET_INVENTORIES",
            show_default="inventories/ of this checkout",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001  its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that every command takes."""
    if inventories is not None:
        import os

        os.environ["GPUFLEET_INVENTORIES"] = str(inventories.resolve())


def main() -> None:
    """Entry point of the `gpufleet` command."""
    app()
