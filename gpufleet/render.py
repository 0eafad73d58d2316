"""Files from templates, for all hosts or for none.

Everything is rendered in memory first; what is missing for any host, in any template, is found in
that one pass. Only a rendering without problems can be written.
"""

import stat
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
    nodes,
)

from .atomic import write_atomic
from .undefined import Missing, Recorder, recording_undefined

SUFFIX = ".j2"

_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")


@dataclass(frozen=True)
class Rendered:
    """The text of one template for one host."""

    host: str
    template: str
    text: str


@dataclass(frozen=True)
class Finding:
    """A place in a template that would hide a missing variable."""

    template: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.template}:{self.line}: {self.message}"


class RenderError(Exception):
    """Templates cannot be rendered; `problems` has every reason, of every host."""

    def __init__(self, problems: Iterable[Missing]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def render(
    folder: Path,
    templates: Sequence[str],
    hosts: Mapping[str, Mapping[str, object]],
    shared: Mapping[str, object] | None = None,
) -> list[Rendered]:
    """Every template of `folder` for every host, in memory.

    A template sees the host's variables, over those of `shared`, `inventory_hostname`, and all
    hosts' variables as `hosts`. Raises RenderError with all problems of all hosts and templates.
    """
    recorder = Recorder(hosts, shared or {})
    environment = _environment(folder, recording_undefined(recorder))
    rendered = []
    for template in templates:
        for host in hosts:
            text = _render(environment, template, host, recorder)
            rendered.append(Rendered(host, template, text))
    if recorder.problems:
        raise RenderError(recorder.problems)
    return rendered


def write_rendered(rendered: Iterable[Rendered], folder: Path, mode: int = 0o644) -> list[Path]:
    """Write texts as FOLDER/HOST/TEMPLATE without `.j2`, each atomically; returns those changed.

    A file that already has the text and the mode is left alone. Raises ValueError, with nothing
    written, for a host whose name would lead out of the folder.
    """
    targets = {_target(folder, item): item.text for item in rendered}
    changed = []
    for path, text in targets.items():
        if _is(path, text, mode):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text, mode)
        changed.append(path)
    return changed


def scan_templates(folder: Path) -> list[Finding]:
    """Every `default('')` below `folder`, in whatever spelling, and every template that is none.

    An empty default turns a forgotten variable into an empty value in a file on a node.
    """
    environment = _environment(folder, StrictUndefined)
    findings = []
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        name = path.relative_to(folder).as_posix()
        try:
            tree = environment.parse(path.read_text(encoding="utf-8"), name)
        except TemplateSyntaxError as error:
            findings.append(Finding(name, error.lineno, f"is no template: {error.message}"))
            continue
        findings += [
            Finding(name, node.lineno, f"an empty default hides that {_text(node.node)} is missing")
            for node in tree.find_all(nodes.Filter)
            if node.name in ("default", "d") and _empty_default(node)
        ]
    return findings


def _environment(folder: Path, undefined: type[StrictUndefined]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=undefined,
        extensions=_EXTENSIONS,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - configuration files, not HTML
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": _json_default}
    return environment


def _json_default(value: object) -> str:
    """Let the filter `tojson` meet an undefined value as any other use does."""
    if isinstance(value, Undefined):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _render(environment: Environment, template: str, host: str, recorder: Recorder) -> str:
    recorder.begin(host, template)
    before = len(recorder.problems)
    try:
        return environment.get_template(template).render(recorder.context())
    except TemplateNotFound as error:
        recorder.add(f"there is no template {error.name}", *_place(environment, error, template))
    except TemplateSyntaxError as error:
        recorder.add(f"is no template: {error.message}", error.name or template, error.lineno)
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as e:
        # After a missing variable this is its consequence, and only the cause is worth a line.
        if len(recorder.problems) == before:
            recorder.add(str(e) or type(e).__name__, *_place(environment, e, template))
    return ""


def _place(environment: Environment, error: Exception, template: str) -> tuple[str, int]:
    """The template and line where an error arose; jinja2 puts them into the traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for folder in getattr(environment.loader, "searchpath", ()):
            path = Path(frame.filename)
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix(), frame.lineno or 0
    return template, 0


def _target(folder: Path, item: Rendered) -> Path:
    if item.host in ("", ".", "..") or "/" in item.host:
        raise ValueError(f"host name {item.host!r} cannot be the name of a folder")
    return folder / item.host / item.template.removesuffix(SUFFIX)


def _is(path: Path, text: str, mode: int) -> bool:
    try:
        same_mode = stat.S_IMODE(path.stat().st_mode) == mode
        return same_mode and path.read_bytes() == text.encode()
    except FileNotFoundError:
        return False


def _empty_default(node: nodes.Filter) -> bool:
    named = [pair.value for pair in node.kwargs if pair.key == "default_value"]
    given = [*node.args[:1], *named]
    return not given or (isinstance(given[0], nodes.Const) and given[0].value == "")


def _text(node: nodes.Node | None) -> str:
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        return f"{_text(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        key = node.arg.value if isinstance(node.arg, nodes.Const) else _text(node.arg)
        return f"{_text(node.node)}[{key}]"
    return "a value"
