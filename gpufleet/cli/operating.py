"""Commands that change a cluster, and the one that says what they would change."""

import shutil
import sys
import time
from typing import Annotated

import typer

from gpufleet.engine import Engine, EngineError
from gpufleet.spec import ClusterSpec

from .arguments import Cluster, Json
from .checking import require_preflight
from .exits import Exit, emit_json, err, fail, load, out
from .progress import label, show

PLAN_VERBS = {
    "create": "+ make",
    "update": "~ change",
    "delete": "- remove",
    "create-replacement": "± replace",
}


def plan(cluster: Cluster, as_json: Json = False) -> None:
    """Say what `up` would make, change, replace and remove; touches nothing.

    Looks at what is really there first: a node that died since the last `up` shows as to be made.
    """
    from gpufleet.engine.events import Step

    spec = load(cluster, as_json=as_json)
    engine = Engine(spec.name)
    try:
        engine.prepare()
        operation = engine.preview()
        steps = [event for event in operation.events() if isinstance(event, Step)]
        operation.check()
    except EngineError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    changes = [step for step in steps if step.state == "begun" and step.operation in PLAN_VERBS]
    if as_json:
        rows = [{"operation": x.operation, "kind": x.kind, "name": x.name} for x in changes]
        emit_json({"ok": True, "cluster": spec.name, "changes": rows})
        return
    for step in changes:
        out.print(f"{PLAN_VERBS[step.operation]:<10} {label(step)}", markup=False)
    out.print(f"{len(changes)} changes" if changes else "no changes: the cluster is as its spec")


def up(
    cluster: Cluster,
    as_json: Json = False,
    skip_preflight: Annotated[
        bool, typer.Option("--skip-preflight", help="Do not run the preflight rules first.")
    ] = False,
    configured: Annotated[
        bool,
        typer.Option(
            "--configure/--no-configure",
            help="Then bring the software of the nodes to the spec, and prove that it works.",
        ),
    ] = False,
) -> None:
    """Bring a cluster to its spec: make, repair, replace and remove nodes.

    Safe to run again at any time, also after it was killed at any point: it looks at what is
    there, takes up what was begun and leaves healthy nodes alone. With --configure it ends with
    proofs: a Slurm job, a container with a GPU, Ray's nodes and etcd's health.
    """
    from gpufleet.fleet import dump, load_fleet
    from gpufleet.paths import fleet_file

    began = time.monotonic()
    spec = load(cluster, as_json=as_json)
    if not skip_preflight:
        require_preflight(spec, as_json=as_json)
    engine = Engine(spec.name)
    try:
        engine.prepare(notify=lambda text: err.print(text, markup=False))
        operation = engine.up()
        done = show(operation)
        operation.check()
    except EngineError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    fleet = load_fleet(fleet_file(spec.name))
    sweep(spec, keep=[node.name for node in fleet.nodes])
    report: dict[str, object] = {"done": done, "fleet": dump(fleet)}
    if not as_json:
        from .nodes import print_nodes

        print_nodes(fleet)
    ok = True
    if configured:
        from .configuring import configure_and_prove

        ok, more = configure_and_prove(spec.name, fleet, as_json=as_json)
        report |= more
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        emit_json({"ok": ok, "seconds": seconds, **report})
    elif ok:
        changed = f"{len(done)} steps" if done else "nothing to do"
        out.print(f"{spec.name} is up: {changed}, {seconds:.1f} s")
    if not ok:
        raise typer.Exit(Exit.FAILED)


def sweep(spec: ClusterSpec, *, keep: list[str]) -> None:
    """Remove what killed runs left on this host besides the nodes to keep.

    Only the local provider has anything on this host. With nothing to keep all of it goes.
    """
    if spec.provider == "local":
        from infra.local.sweep import sweep as sweep_host

        sweep_host(spec.name, keep)


def down(
    cluster: Cluster,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a cluster: nodes, network, disks, state. The cache of tools and images stays."""
    from gpufleet.paths import fleet_file, made_for_nodes

    spec = load(cluster, as_json=as_json)
    if not yes:
        if not sys.stdin.isatty():
            fail("not at a terminal: say --yes", code=Exit.BAD_INPUT, as_json=as_json)
        typer.confirm(f"Remove cluster {spec.name} with all its data?", abort=True)
    engine = Engine(spec.name)
    done = []
    try:
        if engine.exists():
            engine.prepare(notify=lambda text: err.print(text, markup=False))
            operation = engine.destroy()
            done = show(operation)
            operation.check()
        sweep(spec, keep=[])
        fleet_file(spec.name).unlink(missing_ok=True)
        for folder in made_for_nodes(spec.name):
            shutil.rmtree(folder, ignore_errors=True)
        if engine.exists():
            engine.forget()
    except EngineError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    if as_json:
        emit_json({"ok": True, "cluster": spec.name, "done": done})
    else:
        out.print(f"{spec.name} is down")
