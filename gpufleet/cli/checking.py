"""Commands that look and touch nothing: check, explain, spec schema."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.spec import ClusterSpec

if TYPE_CHECKING:
    from gpufleet.preflight import Report

from .arguments import Cluster, Json
from .exits import Exit, emit_json, err, fail, load, out


def check(cluster: Cluster, as_json: Json = False) -> None:
    """Check a cluster's spec, and whether this host and account can carry it.

    Reports every problem in one run, each with the place, what was seen, what is allowed and the
    fix. A rule that lacks its facts is skipped and says why; it never passes for want of facts.
    """
    from gpufleet import preflight

    spec = load(cluster, as_json=as_json)
    report = run_preflight(spec)
    if as_json:
        nodes = len(spec.nodes())
        emit_json({"cluster": spec.name, "nodes": nodes, **report.to_dict()})
    else:
        for line in preflight.lines(report):
            out.print(line, markup=False, soft_wrap=True)
    if not report.ok:
        raise typer.Exit(Exit.BAD_INPUT)


def run_preflight(spec: ClusterSpec) -> "Report":
    """Gather facts and judge the spec by every rule of its provider."""
    from gpufleet import preflight

    facts = preflight.gather_facts(spec)
    return preflight.run(spec, facts, datetime.now(UTC))


def require_preflight(spec: ClusterSpec, *, as_json: bool = False) -> None:
    """End the command unless the rules let the cluster through."""
    from gpufleet import preflight

    report = run_preflight(spec)
    if report.ok:
        return
    if as_json:
        fail("preflight failed", code=Exit.BAD_INPUT, as_json=True, preflight=report.to_dict())
    for line in preflight.lines(report):
        err.print(line, markup=False, soft_wrap=True)
    fail("preflight failed; nothing was touched", code=Exit.BAD_INPUT)


def explain(rule: Annotated[str, typer.Argument(help="Rule id, such as local.disk.")]) -> None:
    """Explain a preflight rule: why it exists, how to see its fact by hand, how to fix it."""
    from gpufleet import preflight

    try:
        out.print(preflight.explain(rule), markup=False, soft_wrap=True)
    except LookupError as error:
        fail(str(error.args[0]), code=Exit.BAD_INPUT)


def schema() -> None:
    """Print the JSON schema of cluster.yaml, for editors and other tools."""
    from gpufleet.spec import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
