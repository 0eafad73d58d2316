"""Commands that run playbooks on the nodes of a cluster: configure, play, drift."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from gpufleet.fleet import Fleet, FleetError, load_fleet
from gpufleet.paths import fleet_file

from .arguments import Cluster, Json
from .exits import Exit, emit_json, err, fail, load, out

Limit = Annotated[
    str | None,
    typer.Option(
        "--limit",
        metavar="HOSTS",
        help="Only these: names, lists such as infer-[001-004], or groups, with commas.",
    ),
]
MaxFailures = Annotated[
    str,
    typer.Option(
        "--max-failures",
        metavar="N",
        help="How many nodes may fail or be unreachable, all together, before the run ends: "
        "a count, or a share such as 20%.",
    ),
]
Extra = Annotated[
    list[str] | None,
    typer.Option(
        "--extra",
        metavar="KEY=VALUE",
        help="A variable for the playbook; again for more. true, false and whole numbers are what "
        "they look like, all else is text; @FILE as value is the text of a file, for secrets.",
    ),
]


def complete_playbook(incomplete: str) -> list[str]:
    """Names of the playbooks, for shell completion."""
    from gpufleet.runner import playbooks

    return [name for name in playbooks() if name.startswith(incomplete)]


def configure(
    cluster: Cluster,
    limit: Limit = None,
    tags: Annotated[
        str | None,
        typer.Option("--tags", help="Only these roles, with commas: slurm,munge."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what would change; change nothing.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Only nodes that the last run did not bring to the end."),
    ] = False,
    max_failures: MaxFailures = "0",
    as_json: Json = False,
) -> None:
    """Bring the software of every node to the spec: playbooks/site.yml.

    Safe to run again at any time. The first Ctrl-C finishes what is under way on the nodes and
    says which are left, the second stops at once; --resume goes on with the rest. A run that loses
    more nodes than --max-failures ends before the next task, on all nodes.
    """
    result = _run(
        cluster,
        "site",
        as_json=as_json,
        limit=limit,
        tags=tags,
        check=check,
        resume=resume,
        max_failures=max_failures,
    )
    _report(result, as_json=as_json, check=check)


def play(
    cluster: Cluster,
    playbook: Annotated[
        str,
        typer.Argument(help="Name of a playbook in playbooks/.", autocompletion=complete_playbook),
    ],
    limit: Limit = None,
    extra: Extra = None,
    max_failures: MaxFailures = "0",
    as_json: Json = False,
) -> None:
    """Run any playbook of playbooks/ by its name, such as drain, reboot or upgrade.

    An unknown name lists those that there are.
    """
    result = _run(
        cluster,
        playbook,
        as_json=as_json,
        limit=limit,
        extra=_variables(extra or [], as_json=as_json),
        max_failures=max_failures,
    )
    _report(result, as_json=as_json)


def drift(cluster: Cluster, limit: Limit = None, as_json: Json = False) -> None:
    """Compare nodes with the version lock and the files as rendered; changes nothing.

    Shows for every difference what is on the node and what is wanted. Exit code 0: none, 3: there
    are some, 1: a node failed or could not be reached, so that nobody knows.
    """
    # The budget is all nodes: one that is down must not hide the drift of the others.
    result = _run(cluster, "drift", as_json=as_json, limit=limit, check=True, max_failures="100%")
    if as_json:
        rows = [change.to_dict() for change in result.changes]
        emit_json({**result.to_dict(), "ok": result.ok and not rows, "drift": rows})
    else:
        _print_drift(result)
    if not result.ok:
        raise typer.Exit(Exit.FAILED)
    if result.changes:
        raise typer.Exit(Exit.REFUSED)


def configure_and_prove(
    cluster: str, fleet: Fleet, *, as_json: bool
) -> tuple[bool, dict[str, object]]:
    """Run site.yml on all nodes, then the proofs; whether all went well, and rows for JSON.

    Says meanwhile what goes on, and shows both results unless `as_json`.
    """
    from gpufleet.proof import Proof, gist, prove

    result = _run(cluster, "site", as_json=as_json, limit=None)
    if not as_json:
        _print_result(result)
    if not result.ok:
        return False, {"configured": result.to_dict()}

    def show(proof: Proof) -> None:
        if not as_json:
            line = f"{'ok  ' if proof.ok else 'FAIL'} {proof.name}: {gist(proof)}"
            out.print(line, markup=False, soft_wrap=True, style="" if proof.ok else "red")
            if not proof.ok:
                words = " ".join(proof.command)
                out.print(f"     on {proof.node}: {words}", markup=False, soft_wrap=True)

    proofs = prove(fleet, show)
    rows = [proof.to_dict() for proof in proofs]
    return all(x.ok for x in proofs), {"configured": result.to_dict(), "proofs": rows}


def _run(cluster: str, playbook: str, *, as_json: bool, limit: str | None, **options: Any) -> Any:
    from gpufleet import runner
    from gpufleet.runner.limits import pattern
    from gpufleet.runner.progress import Progress

    spec = load(cluster, as_json=as_json)
    fleet = _fleet(spec.name, as_json=as_json)
    progress = Progress(err)
    try:
        wanted = None if limit is None else pattern(fleet, limit)
        with progress.live():
            return runner.run(
                spec.name,
                playbook,
                limit=wanted,
                on_event=progress.event,
                on_notice=progress.notice,
                **options,
            )
    except (runner.BusyError, runner.PlaceError) as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
    except runner.RunError as error:
        fail(str(error), code=Exit.BAD_INPUT, as_json=as_json)


def _report(result: Any, *, as_json: bool, check: bool = False) -> None:
    if as_json:
        rows = [change.to_dict() for change in result.changes]
        emit_json({**result.to_dict(), **({"changes": rows} if check else {})})
    else:
        _print_result(result, check=check)
    if not result.ok:
        raise typer.Exit(Exit.FAILED)


def _print_result(result: Any, *, check: bool = False) -> None:
    from gpufleet.runner.progress import summary

    summary(out, result)
    if check and result.changes:
        _print_changes(result.changes)
    _print_end(result)


def _print_end(result: Any) -> None:
    from gpufleet.hostlist import compress

    for text in result.warnings:
        err.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)
    if result.error:
        err.print(result.error, style="red", markup=False, soft_wrap=True)
    if result.resumed_past:
        out.print(f"skipped, done before: {compress(result.resumed_past)}", markup=False)
    if result.ok:
        changed = sum(node.changed for node in result.nodes.values())
        out.print(f"{result.playbook} is through: {changed} changes, {result.seconds:.1f} s")
        return
    reasons = {
        "budget": "stopped: more nodes are lost than --max-failures allows",
        "asked": "stopped as asked; what was under way on the nodes is finished",
        "killed": "stopped at once; what was under way on a node ends there by itself",
    }
    if result.stopped:
        err.print(reasons[result.stopped], style="red")
    for word, names in (("failed", result.failed), ("left", result.left)):
        if names:
            err.print(f"{word}: {compress(names)}", style="red", markup=False, soft_wrap=True)
    err.print(f"all that Ansible said: {result.artifacts}", markup=False, soft_wrap=True)


def _print_drift(result: Any) -> None:
    from gpufleet.runner.progress import summary

    if not result.ok:
        summary(out, result)
    _print_changes(result.changes)
    if result.ok:
        count, nodes = len(result.changes), {change.node for change in result.changes}
        out.print(
            f"{count} differences on {len(nodes)} of {len(result.nodes)} nodes"
            if count
            else f"no drift on {len(result.nodes)} nodes"
        )
    else:
        _print_end(result)


def _print_changes(changes: list[Any]) -> None:
    for change in sorted(changes, key=lambda row: (row.node, row.role, row.kind, row.name)):
        where = f"{change.role} : {change.task}" if change.role else change.task
        out.print(Text(f"{change.node}  {change.kind} {change.name}  ({where})"), soft_wrap=True)
        for word, text in (("seen", change.before), ("wanted", change.after)):
            if text is not None:
                lines = text.splitlines() or ["(nothing)"]
                for line in lines:
                    out.print(Text(f"    {word:<6}  {line}"), soft_wrap=True)


def _variables(pairs: list[str], *, as_json: bool) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            fail(
                f"--extra {key!r}: give KEY=VALUE, where KEY has letters, digits and _ only",
                code=Exit.BAD_INPUT,
                as_json=as_json,
            )
        found[key] = _value(key, value, as_json=as_json)
    return found


def _value(key: str, text: str, *, as_json: bool) -> Any:
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--extra {key}: {error}", code=Exit.BAD_INPUT, as_json=as_json)
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # A version such as 1.10 has to stay the text that it is.
    return value if isinstance(value, bool | int | list | dict) else text


def _fleet(cluster: str, *, as_json: bool) -> Fleet:
    try:
        return load_fleet(fleet_file(cluster))
    except FleetError as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json)
