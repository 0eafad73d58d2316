"""`python -m gpufleet_agent.checkpoint`: look at lines of checkpoints, check and restore them."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from gpufleet_agent.checkpoint.errors import BadInput, CheckpointError, StorageAway
from gpufleet_agent.checkpoint.files import Files, PosixFiles
from gpufleet_agent.checkpoint.line import Line, typed_errors
from gpufleet_agent.checkpoint.names import MARKER
from gpufleet_agent.checkpoint.place import Place, prepare_root
from gpufleet_agent.checkpoint.report import LineReport, report_line

_ABOUT = """\
A share holds lines of checkpoints as ROOT/AGENT/LINE. PATH below is one line's folder, an
agent's folder, or ROOT: then all lines under it are meant. Nothing but `init` and `restore`
writes anything, and `restore` only into a new line.

  init ROOT      mark a mounted share, once; agents wait for storage where the mark is missing
  inspect PATH   who owns each line, what it holds, where its last snapshot is
  verify PATH    read every byte: are all acknowledged turns there?
  restore PATH   copy what can be read into a new line, for an agent to go on with

exit status: 0 done and sound, 1 damage or a failure of the storage, 2 bad input
"""

_RESTORE = """\
Reads the line at PATH (stop its agent first, or the copy is of a moment) and begins the line
ROOT/AGENT/LINE given by --to with its sessions. PATH is left as it is. When acknowledged turns
cannot be read nothing is written, unless --accept-loss is given: then the sessions as they were
before the damage are restored, and what is missing is printed.

example: python -m gpufleet_agent.checkpoint restore /fsx/ckpt/agent-7/main \\
             --to /fsx/ckpt/agent-7/main-2
"""


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="gpufleet-agent checkpoint", description=_ABOUT, formatter_class=raw
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text, about in (
        ("init", "mark a mounted share as the home of checkpoints", None),
        ("inspect", "owner, state and files of each line", None),
        ("verify", "read every byte of each line", None),
        ("restore", "copy what can be read into a new line", _RESTORE),
    ):
        command = commands.add_parser(
            name, help=text, description=about or text, formatter_class=raw
        )
        command.add_argument("path", metavar="PATH", help="an absolute path")
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if name == "restore":
            command.add_argument("--to", required=True, metavar="PATH", help="the new line")
            command.add_argument(
                "--accept-loss",
                action="store_true",
                help="restore what is sound although acknowledged turns are missing",
            )
    return parser


def _lines(files: Files, path: str, depth: int = 2) -> list[str]:
    """The folders of lines at or below a path."""
    names = files.list(path)
    if any(name.startswith(("fence-", "journal-", "snapshot-")) for name in names):
        return [path]
    found = []
    for name in sorted(names):
        if depth and name != MARKER:
            try:
                found += _lines(files, f"{path}/{name}", depth - 1)
            except NotADirectoryError:
                continue
    return found


def _report(files: Files, path: str, *, deep: bool) -> tuple[list[LineReport], int]:
    lines = _lines(files, path)
    if not lines:
        raise BadInput(path, "no line of checkpoints is here", "give ROOT, ROOT/AGENT or a line")
    reports = [report_line(files, line, deep=deep) for line in lines]
    return reports, int(any(not report.sound for report in reports))


def _restore(files: Files, source: str, target: str, *, accept_loss: bool) -> dict[str, object]:
    root, _, rest = target.rpartition("/")
    root, _, agent = root.rpartition("/")
    place = Place(root, agent, rest)
    if _lines(files, source) != [source]:
        raise BadInput(source, "is not the folder of one line", "give ROOT/AGENT/LINE")
    if source == place.folder or (files.exists(place.folder) and files.list(place.folder)):
        raise BadInput(place.folder, "is there already", "give a line that is not there yet")
    state = report_line(files, source, deep=True, accept_loss=accept_loss)
    if state.recovered is None or (state.error and not accept_loss):
        raise CheckpointError(source, state.error or "cannot be read", "nothing was written")
    line, _ = Line.open(files, place)
    try:
        view = state.recovered.sessions.view()
        if view.sequence:
            line.begin_with(view)
    finally:
        line.close()
    return {
        "restored": place.folder,
        "sessions": len(state.recovered.sessions),
        "turns": state.recovered.sessions.turns,
        "lost": state.recovered.loss,
        "notes": state.recovered.notes,
    }


def _print(
    write: Callable[[str], object], value: list[LineReport] | dict[str, object], *, as_json: bool
) -> None:
    if as_json:
        told = {"lines": [entry.to_dict() for entry in value]} if isinstance(value, list) else value
        write(json.dumps(told, indent=2) + "\n")
    elif isinstance(value, list):
        write("\n".join(report.text() for report in value))
    else:
        for key, what in value.items():
            for item in what if isinstance(what, list) else [what]:
                write(f"{key}: {item}\n")


def main(arguments: Sequence[str] | None = None, files: Files | None = None) -> int:
    """Carry out one command; the exit status."""
    chosen = _parser().parse_args(arguments)
    share = files or PosixFiles()
    path = chosen.path.rstrip("/")
    status = 0
    try:
        if not path.startswith("/"):
            raise BadInput("PATH", repr(chosen.path), "give an absolute path")
        with typed_errors(share, path):
            result: list[LineReport] | dict[str, object]
            try:
                if chosen.command == "init":
                    prepare_root(share, path)
                    result = {"prepared": path}
                elif chosen.command == "restore":
                    result = _restore(
                        share, path, chosen.to.rstrip("/"), accept_loss=chosen.accept_loss
                    )
                else:
                    result, status = _report(share, path, deep=chosen.command == "verify")
            except (FileNotFoundError, NotADirectoryError) as error:
                raise BadInput(str(error.filename or path), "is no folder", "see --help") from error
    except CheckpointError as error:
        if chosen.json:
            sys.stdout.write(json.dumps({"error": str(error), "kind": type(error).__name__}) + "\n")
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, BadInput | StorageAway) else 1
    _print(sys.stdout.write, result, as_json=chosen.json)
    return status
