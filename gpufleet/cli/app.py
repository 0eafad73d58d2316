"""The command line of gpufleet."""

from pathlib import Path
from typing import Annotated

import typer

from gpufleet import __version__

from . import checking, configuring, nodes, operating, stack, verifying

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
spec_app = typer.Typer(help="About the cluster spec itself.", no_args_is_help=True)
app.add_typer(spec_app, name="spec")
app.add_typer(stack.app, name="stack")

# In the order in which they are first needed; the short texts have to fit the list.
app.command("check", short_help="Check a spec, and what is to carry it")(checking.check)
app.command("plan", short_help="Say what `up` would change; touches nothing")(operating.plan)
app.command("up", short_help="Bring a cluster to its spec; run it again any time")(operating.up)
app.command("configure", short_help="Bring the software of the nodes to the spec")(
    configuring.configure
)
app.command("play", short_help="Run a playbook: drain, reboot, verify and others")(configuring.play)
app.command("drift", short_help="Say where nodes differ from what is wanted")(configuring.drift)
app.command("verify", short_help="Judge every node: ok, degraded, reboot or isolate")(
    verifying.verify
)
app.command("status", short_help="Show every node as it is now")(nodes.status)
app.command(
    "ssh",
    short_help="Open a shell on a node, or run a command there",
    context_settings={"allow_interspersed_args": False},
)(nodes.ssh)
app.command("down", short_help="Remove a cluster with all its data")(operating.down)
app.command("explain", short_help="Explain a preflight rule")(checking.explain)
spec_app.command("schema", short_help="Print the JSON schema of cluster.yaml")(checking.schema)


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
    app(prog_name="gpufleet")
