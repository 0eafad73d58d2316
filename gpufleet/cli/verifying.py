"""The command that judges nodes by what they are right now: verify."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.status import Status

from gpufleet.fleet import Fleet, FleetError, load_fleet
from gpufleet.paths import fleet_file, inventory_dir

from .arguments import Cluster, Json
from .exits import Exit, emit_json, err, fail, load, out

if TYPE_CHECKING:
    from gpufleet.verify import Job, NodeReport


def verify(
    cluster: Cluster,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit",
            metavar="HOSTS",
            help="Only these: names, lists such as infer-[001-004], or groups, with commas.",
        ),
    ] = None,
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", min=1, max=256, help="Nodes asked at once.")
    ] = 16,
    node_timeout: Annotated[
        float,
        typer.Option(
            "--node-timeout", metavar="SECONDS", min=1, help="Time that a node has to answer."
        ),
    ] = 60,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the outcome as JUnit's XML, too."),
    ] = None,
    tests: Annotated[
        list[Path] | None,
        typer.Option(
            "--tests",
            metavar="PATH",
            exists=True,
            help="Tests of your own besides: pytest functions that take testinfra's `host`.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check on every node that it is as it should be, and say what to do with it.

    Looks over SSH at the driver, GPUs, fabric, containers, Slurm, etcd, Ray, storage and system of
    every node, all at once, and changes nothing. Verdicts: ok; degraded (it may go on, and needs a
    look); reboot (drain it first); isolate (keep work away from it). A node that cannot be entered
    is to be isolated. Exit code 0: all nodes are ok, 1: one is not.
    """
    from gpufleet import verify as core
    from gpufleet.verify import report

    spec = load(cluster, as_json=as_json)
    job = replace(
        _job(spec.name, limit, as_json=as_json),
        parallel=parallel,
        node_timeout=node_timeout,
        tests=tuple(path.resolve() for path in tests or ()),
    )
    began = time.monotonic()
    try:
        reports = _watch(job)
    except core.VerifyError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    seconds = round(time.monotonic() - began, 1)
    unwritten = _write(junit, report.junit(spec.name, reports, seconds))
    if as_json:
        emit_json(report.to_dict(spec.name, reports, seconds))
    else:
        report.show(out, spec.name, reports, seconds)
    if unwritten:
        err.print(unwritten, style="red", markup=False, soft_wrap=True)
    if unwritten or any(found.verdict is not core.Verdict.OK for found in reports):
        raise typer.Exit(Exit.FAILED)


def _job(cluster: str, limit: str | None, *, as_json: bool) -> "Job":
    from gpufleet.groups import groups
    from gpufleet.runner import RunError
    from gpufleet.runner.limits import pattern
    from gpufleet.verify import Job
    from gpufleet.verify.running import chosen
    from gpufleet.verify.want import controllers_of, wants

    try:
        fleet: Fleet = load_fleet(fleet_file(cluster))
        controllers = controllers_of(inventory_dir(cluster))
        wants(fleet, controllers)
    except FleetError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    try:
        wanted = [] if limit is None else pattern(fleet, limit).split(",")
    except RunError as error:
        fail(str(error), code=Exit.BAD_INPUT, as_json=as_json)
    nodes = chosen(fleet, groups(fleet, controllers), wanted)
    return Job(fleet, nodes, tuple(controllers))


def _watch(job: "Job") -> "list[NodeReport]":
    from gpufleet.verify import Verdict, verify
    from gpufleet.verify.report import plain

    asked: set[str] = set()
    judged = 0
    with Status(f"0 of {len(job.nodes)} nodes", console=err) as status:

        def on_node(node: str, report: "NodeReport | None") -> None:
            nonlocal judged
            if report is None:
                asked.add(node)
            else:
                asked.discard(node)
                judged += 1
                if report.verdict is not Verdict.OK:
                    first = report.bad[0].reasons[0] if report.bad else "no check was made"
                    err.print(
                        f"  {node}: {report.verdict}: {plain(first)}", markup=False, soft_wrap=True
                    )
            waiting = ", ".join(sorted(asked)[:4])
            more = f" and {len(asked) - 4} more" if len(asked) > 4 else ""
            status.update(f"{judged} of {len(job.nodes)} nodes; asking {waiting or 'none'}{more}")

        return verify(job, on_node)


def _write(path: Path | None, text: str) -> str | None:
    """Write a file whole; returns what keeps us from it."""
    if path is None:
        return None
    from gpufleet.atomic import write_atomic

    try:
        write_atomic(path, text, 0o644)
    except OSError as error:
        return f"--junit {path}: {error.strerror}; name a file in a folder that you may write to"
    return None
