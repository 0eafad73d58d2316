"""Commands about the version lock: check, solve, diff, show, list. They touch nothing."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import Json
from .exits import Exit, emit_json, err, fail, out

if TYPE_CHECKING:
    from gpufleet.stack import Clash, StackSet

app = typer.Typer(help="Check, solve and compare sets of pinned versions.", no_args_is_help=True)


def complete_set(incomplete: str) -> list[str]:
    """Names of the shipped sets, for shell completion."""
    from gpufleet.stack import names

    return [name for name in names() if name.startswith(incomplete)]


SetOrFile = Annotated[
    str,
    typer.Argument(
        metavar="SET", help="A shipped set, or the file of one.", autocompletion=complete_set
    ),
]
On = Annotated[
    str | None, typer.Option("--on", metavar="DATE", help="Judge as of this day, not today.")
]


def _day(text: str | None, *, as_json: bool) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        fail(f"{text!r} is not a day such as 2026-12-01", code=Exit.BAD_INPUT, as_json=as_json)


def _load(named: str, *, as_json: bool) -> "StackSet":
    """A shipped set, or one from a file; what has a slash or a suffix is a file."""
    from gpufleet.spec import SpecError
    from gpufleet.stack import UnknownSet, get, load_set

    try:
        if "/" in named or named.endswith((".yaml", ".yml")):
            return load_set(Path(named))
        return get(named)
    except UnknownSet as error:
        fail(str(error.args[0]), code=Exit.BAD_INPUT, as_json=as_json)
    except SpecError as error:
        problems = [problem.to_dict() for problem in error.problems]
        if as_json:
            fail("bad stack set", code=Exit.BAD_INPUT, as_json=True, problems=problems)
        for problem in error.problems:
            err.print(str(problem), markup=False, soft_wrap=True)
        count = len(problems)
        fail(f"{count} problem{'s' if count != 1 else ''} in {named}", code=Exit.BAD_INPUT)


def _print_clashes(clashes: "list[Clash]") -> None:
    for clash in clashes:
        mark = "" if clash.level == "error" else " (warning)"
        pins = ", ".join(f"{name} {value}" for name, value in clash.pins.items())
        out.print(f"{clash.rule}{mark}: {clash.message}", markup=False, soft_wrap=True)
        out.print(f"    pins:   {pins}", markup=False, soft_wrap=True)
        out.print(f"    fix:    {clash.fix}", markup=False, soft_wrap=True)
        out.print(f"    source: {clash.source}", markup=False, soft_wrap=True)


@app.command("check", short_help="Say whether a set's pins go together")
def check(
    named: SetOrFile = "current",
    on: On = None,
    as_json: Json = False,
) -> None:
    """Judge a set by every rule: which pins clash, why, the fix, and the nearest set that works.

    Exit codes: 0 the pins go together, 1 some clash, 2 no such set or a file that cannot be read.
    """
    from gpufleet import stack

    now = _day(on, as_json=as_json)
    pinned = _load(named, as_json=as_json)
    clashes = stack.check(pinned, now)
    coherent = stack.is_coherent(clashes)
    near = None if coherent else stack.nearest(pinned, now)
    if as_json:
        emit_json(
            {
                "ok": coherent,
                "set": pinned.name,
                "date": now.isoformat(),
                "clashes": [clash.to_dict() for clash in clashes],
                "nearest": near.name if near else None,
                "changes": [x.to_dict() for x in stack.differences(pinned, near)] if near else [],
            }
        )
    else:
        _print_clashes(clashes)
        errors = sum(clash.level == "error" for clash in clashes)
        if coherent:
            rules = len(stack.rules())
            out.print(f"{pinned.name}: {len(pinned.pins)} pins go together by {rules} rules")
        else:
            out.print(f"{pinned.name}: {errors} clash{'es' if errors != 1 else ''}")
        if near:
            text = f"nearest set that works: {near.name} ({near.title})"
            out.print(text, markup=False, soft_wrap=True)
            _print_changes(pinned, near)
    if not coherent:
        raise typer.Exit(Exit.FAILED)


def _print_changes(before: "StackSet", after: "StackSet") -> None:
    from rich.table import Table

    from gpufleet import stack

    table = Table("pin", before.name, after.name, box=None, pad_edge=False)
    for change in stack.differences(before, after):
        table.add_row(change.pin, change.before or "-", change.after or "-")
    out.print(table)


@app.command("solve", short_help="Find the newest set under wants")
def solve(
    want: Annotated[
        list[str] | None,
        typer.Option("--want", metavar="PIN=VERSION", help="Such as driver=580; may be repeated."),
    ] = None,
    like: Annotated[
        str, typer.Option(help="Set whose pins and targets are chosen for.", metavar="SET")
    ] = "current",
    on: On = None,
    as_json: Json = False,
) -> None:
    """Find the newest set whose pins go together, under any number of wants.

    `=` means versions that begin so: driver=580, slurm=24.11, gpu=b200. Ranges need quotes:
    'vllm>=0.11,<0.20'. Where there is no such set, the wants and rules that exclude one another are
    named: without any one of them there would be one.

    Exit codes: 0 found, 1 there is none, 2 a want that is none.
    """
    from gpufleet import stack

    now = _day(on, as_json=as_json)
    shape = _load(like, as_json=as_json)
    wants, bad = [], []
    for text in want or []:
        try:
            wants.append(stack.parse_want(text, shape))
        except stack.BadWant as error:
            bad.append(str(error))
    if bad:
        fail("\n".join(bad), code=Exit.BAD_INPUT, as_json=as_json, problems=bad)
    try:
        solution = stack.solve(shape, wants, now)
    except stack.Unsolvable as error:
        fail(str(error), code=Exit.FAILED, as_json=as_json, reason=error.to_dict())
    if as_json:
        emit_json({"ok": True, "set": solution.found.to_dict(), "choices": solution.choices})
    else:
        typer.echo(_as_yaml(solution.found), nl=False)


@app.command("diff", short_help="Compare two sets")
def diff(
    before: SetOrFile,
    after: SetOrFile,
    as_json: Json = False,
) -> None:
    """Show the pins that two sets do not share, and changes that cannot be made in one go."""
    from gpufleet import stack

    first, second = _load(before, as_json=as_json), _load(after, as_json=as_json)
    changes = stack.differences(first, second)
    refused = stack.check_change(first, second)
    if as_json:
        emit_json(
            {
                "ok": not refused,
                "before": first.name,
                "after": second.name,
                "changes": [x.to_dict() for x in changes],
                "clashes": [x.to_dict() for x in refused],
                "distance": stack.distance(first, second),
            }
        )
    else:
        if changes:
            _print_changes(first, second)
        else:
            out.print(f"{first.name} and {second.name} pin the same")
        _print_clashes(refused)
    if refused:
        raise typer.Exit(Exit.FAILED)


@app.command("show", short_help="Print a set with what it stands for")
def show(
    named: SetOrFile,
    as_json: Json = False,
) -> None:
    """Print a set's pins, what is only simulated, and the Debian packages that they mean."""
    from gpufleet.stack.lockstep import packages

    pinned = _load(named, as_json=as_json)
    debs = packages(pinned)
    if as_json:
        emit_json({"ok": True, **pinned.to_dict(), "packages": debs})
        return
    typer.echo(_as_yaml(pinned), nl=False)
    if debs:
        typer.echo("# Debian packages:")
        for package, version in debs.items():
            typer.echo(f"#   {package} {version}")


def _as_yaml(pinned: "StackSet") -> str:
    """A set in the form of its file."""
    import yaml

    data: dict[str, Any] = pinned.to_dict()
    return yaml.safe_dump(
        {key: value for key, value in data.items() if value}, sort_keys=False, allow_unicode=True
    )


@app.command("list", short_help="List the shipped sets")
def list_sets(on: On = None, as_json: Json = False) -> None:
    """List the shipped sets, and whether each one's pins go together today."""
    from gpufleet import stack

    now = _day(on, as_json=as_json)
    rows = []
    for name in stack.names():
        pinned = stack.get(name)
        clashes = stack.check(pinned, now)
        errors = sum(clash.level == "error" for clash in clashes)
        rows.append({"name": name, "title": pinned.title, "clashes": errors})
    if as_json:
        emit_json({"ok": True, "sets": rows})
        return
    for row in rows:
        verdict = f"{row['clashes']} clashes" if row["clashes"] else "coherent"
        out.print(f"{row['name']:<18} {verdict:<12} {row['title']}", markup=False)
