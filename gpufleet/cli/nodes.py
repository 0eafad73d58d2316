"""Commands about the nodes of a cluster that is up: status, ssh."""

from typing import Annotated, Any

import typer
from rich.table import Table

from gpufleet.fleet import Fleet, FleetError, load_fleet
from gpufleet.paths import fleet_file

from .arguments import Cluster, Json
from .exits import Exit, emit_json, err, fail, out


def status(cluster: Cluster, as_json: Json = False) -> None:
    """Show every node as it is now: reachable, since when, with which GPUs.

    Asks all nodes at once over SSH, each within a few seconds; a node that does not answer is
    shown as such. Exit code 1 when any node is not well.
    """
    from gpufleet.probe import probe

    fleet = _fleet(cluster, as_json=as_json)
    states = probe(fleet)
    if as_json:
        rows = [state.to_dict() for state in states]
        emit_json({"ok": all(x.well for x in states), "cluster": cluster, "nodes": rows})
    else:
        table = Table(box=None, pad_edge=False)
        for column in ("node", "address", "partition", "state", "up", "GPUs"):
            table.add_column(column)
        for state in states:
            node = state.node
            table.add_row(
                node.name,
                node.address,
                node.partition,
                state.summary,
                state.uptime_text,
                state.gpu_text,
            )
        out.print(table)
    if not all(state.well for state in states):
        raise typer.Exit(Exit.FAILED)


def complete_node(context: typer.Context, incomplete: str) -> list[str]:
    """Names of a cluster's nodes, for shell completion."""
    try:
        fleet = load_fleet(fleet_file(context.params["cluster"]))
    except (FleetError, KeyError):
        return []
    return [node.name for node in fleet.nodes if node.name.startswith(incomplete)]


def ssh(
    cluster: Cluster,
    node: Annotated[str, typer.Argument(help="Name of the node.", autocompletion=complete_node)],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run there; none opens a shell.")
    ] = None,
    accept_new_key: Annotated[
        bool,
        typer.Option(
            "--accept-new-key",
            help="Trust the host key that the node presents now; compare it on its console.",
        ),
    ] = False,
) -> None:
    """Open a shell on a node, or run a command there; its exit code is passed on."""
    from gpufleet import ssh as ssh_module

    fleet = _fleet(cluster, as_json=False)
    try:
        if accept_new_key:
            accepted = ssh_module.accept(fleet, node)
            err.print(f"trusting {accepted.now} for {accepted.node} from now on", markup=False)
        code = ssh_module.run(fleet, node, command or [])
    except LookupError as error:
        fail(str(error.args[0]), code=Exit.BAD_INPUT)
    except FleetError as error:
        fail(str(error), code=Exit.FAILED)
    raise typer.Exit(code)


def print_nodes(fleet: Fleet) -> None:
    """Print what the contract says of each node."""
    table = Table(box=None, pad_edge=False)
    for column in ("node", "address", "partition", "type", "GPUs"):
        table.add_column(column, no_wrap=True)
    for node in fleet.nodes:
        gpus: Any = f"{len(node.gpus)} x {node.gpus[0].model}" if node.gpus else "none"
        table.add_row(
            node.name,
            node.address,
            node.partition,
            node.instance_type,
            gpus,
        )
    out.print(table)


def _fleet(cluster: str, *, as_json: bool) -> Fleet:
    try:
        return load_fleet(fleet_file(cluster))
    except FleetError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
