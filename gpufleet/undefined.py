"""Undefined variables of templates: recorded with host, name and place, never rendered silently.

jinja2's StrictUndefined stops at the first use. Here a use is recorded and rendering goes on, so
that one pass finds them all; a rendering with a record is never used.
"""

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import StrictUndefined, Template
from jinja2.utils import missing


@dataclass(frozen=True)
class Missing:
    """One problem: `variable` of `host` at a line of a template; line 0 where none is known."""

    host: str
    variable: str | None
    template: str
    line: int
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = f"{self.template}:{self.line}" if self.line else self.template
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.host}: {place}: {self.message}{hint}"


class Recorder:
    """The variables of all hosts, and what was found missing in them."""

    def __init__(
        self, hosts: Mapping[str, Mapping[str, object]], shared: Mapping[str, object]
    ) -> None:
        self.problems: list[Missing] = []
        # Undefined values know the object that lacks them: by its identity its host is found.
        self._owners: dict[int, tuple[str | None, str]] = {}
        self._shared = self._copy(shared, None, "")
        self._hosts: dict[str, Any] = {
            host: self._copy(variables, host, "") for host, variables in hosts.items()
        }
        self._owners[id(self._hosts)] = (None, "hosts")
        self._host = self._template = ""

    def begin(self, host: str, template: str) -> None:
        """What follows is the rendering of this template for this host."""
        self._host, self._template = host, template

    def context(self) -> dict[str, Any]:
        """All that the template sees."""
        own = {"inventory_hostname": self._host, "hosts": self._hosts}
        return {**self._shared, **self._hosts[self._host], **own}

    def add(self, message: str, template: str, line: int) -> None:
        """Record a problem other than a missing variable."""
        self._record(Missing(self._host, None, template, line, message))

    def use(self, owner: object, name: str | int | None, hint: str | None) -> None:
        """Record that a template used something undefined: `name` of `owner`, jinja2's terms."""
        template, line = _place(self._template)
        if name is None:
            self.add(hint or "an undefined value is used", template, line)
            return
        if owner is missing:
            host, path, known = self._host, str(name), list(self.context())
        else:
            found, prefix = self._owners.get(id(owner), (None, f"a {type(owner).__name__}"))
            host = found or self._host
            path = f"{prefix}.{name}" if prefix else str(name)
            known = [str(key) for key in owner] if isinstance(owner, Mapping) else []
        near = difflib.get_close_matches(str(name), known, n=1)
        nearest = path.removesuffix(str(name)) + near[0] if near else None
        message = f"variable {path} is not defined"
        self._record(Missing(host, path, template, line, message, nearest))

    def _record(self, problem: Missing) -> None:
        # A template that loops over all hosts meets the same gap once per rendering.
        if problem not in self.problems:
            self.problems.append(problem)

    def _copy(self, value: object, host: str | None, path: str) -> Any:
        if isinstance(value, Mapping):
            dot = f"{path}." if path else ""
            copied = {key: self._copy(x, host, f"{dot}{key}") for key, x in value.items()}
            self._owners[id(copied)] = (host, path)
            return copied
        if isinstance(value, list | tuple):
            return [self._copy(x, host, f"{path}[{i}]") for i, x in enumerate(value)]
        return value


# What a use of something undefined gives, so that rendering can go on to the next problem.
_ANSWERS: dict[str, Callable[[object], object]] = {
    "__str__": lambda _: "",
    "__repr__": lambda _: "",
    "__iter__": lambda _: iter(()),
    "__len__": lambda _: 0,
    "__int__": lambda _: 0,
    "__float__": lambda _: 0.0,
    "__index__": lambda _: 0,
    "__abs__": lambda _: 0,
    "__round__": lambda _: 0,
    "__hash__": lambda _: 0,
    **dict.fromkeys(
        ("__bool__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"),
        lambda _: False,
    ),
    **dict.fromkeys(("__call__", "__getitem__", "__neg__", "__pos__"), lambda undefined: undefined),
    **dict.fromkeys(
        (
            f"__{side}{name}__"
            for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
            for side in ("", "r")
        ),
        lambda undefined: undefined,
    ),
}


def recording_undefined(recorder: Recorder) -> type[StrictUndefined]:
    """A class of undefined values whose every use is recorded and then counts as nothing."""

    def use(undefined: Any) -> None:
        recorder.use(undefined._undefined_obj, undefined._undefined_name, undefined._undefined_hint)

    def method(answer: Callable[[object], object]) -> Callable[..., object]:
        def special(undefined: object, *_: object, **__: object) -> object:
            use(undefined)
            return answer(undefined)

        return special

    def attribute(undefined: object, name: str) -> object:
        # Python probes for special methods; only names from templates count as a use.
        if name.startswith("__"):
            raise AttributeError(name)
        use(undefined)
        return undefined

    members: dict[str, Any] = {name: method(answer) for name, answer in _ANSWERS.items()}
    members |= {"__getattr__": attribute, "__slots__": ()}
    return type("RecordedUndefined", (StrictUndefined,), members)


def _place(template: str) -> tuple[str, int]:
    """The innermost template on the call stack and the line it is at."""
    frame = inspect.currentframe()
    while frame is not None:
        running = frame.f_globals.get("__jinja_template__")
        if isinstance(running, Template):
            return running.name or template, running.get_corresponding_lineno(frame.f_lineno)
        frame = frame.f_back
    return template, 0
