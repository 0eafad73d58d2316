"""What the model says of a value, in the words of the person who wrote it."""

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from .document import NOTHING, PLAIN_INT, Document, Odd
from .errors import Path, Problem, dotted, excerpt
from .model import NARROWEST, WIDEST, ClusterSpec

PLACE = "an absolute path without empty parts, `.`, `..` or a slash at its end"
ACCOUNT = "lower-case letters, digits, hyphens and underscores, at most 32"

PATTERNS = {
    "name": "lower-case letters, digits and hyphens, beginning with a letter, at most 20",
    "pools[].name": "lower-case letters and digits, beginning with a letter, at most 16",
    "pools[].instance_type": "lower-case letters, digits, dots and hyphens",
    "pools[].capacity.reservation_id": "cr- and the reservation's number",
    "stack": "lower-case letters, digits and hyphens, beginning with a letter",
    "image.id": "ami- and the image's number",
    "image.extra_packages[]": "the name of a Debian package",
    "access.user": "lower-case letters, digits, hyphens and underscores, at most 31",
    "storage.shared.mount": PLACE,
    "storage.scratch.mount": PLACE,
    "files[].path": PLACE,
    "files[].owner": ACCOUNT,
    "files[].group": ACCOUNT,
}

WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "decimal_type": "a number",
    "is_instance_of": "a number",
    "bool_type": "true or false",
    "date_type": "a date, YYYY-MM-DD",
    "date_from_datetime_parsing": "a date, YYYY-MM-DD",
    "tuple_type": "a list: lines that begin with `- `",
    "model_type": "a group of keys: lines of `name: value` below it",
    "model_attributes_type": "a group of keys: lines of `name: value` below it",
    "dict_type": "a group of keys: lines of `name: value` below it",
}

RANGES = {
    "cidr": "an IPv4 range such as 10.42.1.0/24",
    "cidr_host": "the range's first address with its width",
    "cidr_public": "a range inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
    "cidr_size": f"/{WIDEST} to /{NARROWEST}",
    "address": "an IPv4 address such as 10.0.0.53",
}


def problem(document: Document, error: ErrorDetails) -> Problem:
    """One error of the model as a problem of the file."""
    path: Path = tuple(error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        return _unknown(document, path)
    if kind == "missing":
        line, column = document.place(path[:-1])
        fix = f"add `{path[-1]}: ...`"
        return Problem(document.file, line, column, dotted(path), "missing", fix=fix)
    line, column = document.place(path)
    message, seen, allowed, fix = _describe(document, path, error)
    return Problem(document.file, line, column, dotted(path), message, seen, allowed, fix)


def _describe(document: Document, path: Path, error: ErrorDetails) -> tuple[str, str, str, str]:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    seen = _seen(document, path, value)
    if kind in WANTED:
        return _other_type(document, path, value, kind)
    if kind in RANGES:
        fix = f"write {context['fix']}" if "fix" in context else ""
        return error["msg"], seen, RANGES[kind], fix
    if kind == "literal_error":
        choices = _choices(path)
        near = get_close_matches(str(value), choices, 1)
        fix = f"did you mean {near[0]}?" if near else ""
        return "not one of the choices", seen, ", ".join(choices), fix
    if kind == "string_pattern_mismatch":
        return "not written as it has to be", seen, PATTERNS[_generic(path)], ""
    if kind in LIMITS:
        message, allowed = LIMITS[kind]
        return message, seen, allowed.format(**context), ""
    return error["msg"], seen, "", ""


LIMITS = {
    "greater_than_equal": ("too small", "{ge} or more"),
    "greater_than": ("too small", "more than {gt}"),
    "decimal_max_digits": ("too long", "{max_digits} digits or less"),
    "less_than_equal": ("too large", "{le} or less"),
    "string_too_short": ("too short", "{min_length} characters or more"),
    "string_too_long": ("too long", "{max_length} characters or less"),
    "too_short": ("too few", "{min_length} or more"),
}


def _other_type(document: Document, path: Path, value: Any, kind: str) -> tuple[str, str, str, str]:
    allowed, written = WANTED[kind], document.written.get(path)
    seen = _seen(document, path, value)
    if written is None:
        return f"has to be {allowed}", seen, "", ""
    if written.reading == NOTHING:
        return "has no value", seen, allowed, "give it one, or remove the key"
    if kind == "string_type" and written.reading:
        message = f"YAML reads {_cut(written.text)} as {_cut(written.reading)}, not as text"
        # Of a mode that YAML would misread, the leading zero is often missing as well.
        text = written.text.zfill(4) if path[-1] == "mode" else written.text
        return message, seen, allowed, f'quote it: "{text}"'
    if isinstance(value, Odd):
        message = f"YAML reads {_cut(written.text)} as {_cut(value.reading)}"
        plain = _plain(written.text, value.reading)
        return message, seen, allowed, f"write {plain}" if _suits(plain, kind) else ""
    if written.quoted and _suits(written.text, kind):
        return "text in quotes", seen, allowed, f"write {written.text} without quotes"
    return f"has to be {allowed}", seen, "", ""


def _cut(text: str) -> str:
    return excerpt(text, 40)


def _plain(text: str, reading: str) -> str:
    """What was most likely meant, in a form that everybody reads alike."""
    digits = text.replace("_", "").removeprefix("+")
    # A leading zero is padding far more often than it is octal; 0x and the like are no accident.
    return (digits.lstrip("0") or "0") if digits.isdigit() else reading.split()[-1]


def _suits(text: str, kind: str) -> bool:
    if kind == "bool_type":
        return text in ("true", "false")
    if kind.startswith("int"):
        return PLAIN_INT.fullmatch(text) is not None
    return kind in ("decimal_type", "is_instance_of") and text.replace(".", "", 1).isdigit()


def _seen(document: Document, path: Path, value: Any) -> str:
    written = document.written.get(path)
    if written is not None:
        if written.reading == NOTHING:
            return written.text or NOTHING
        return f'"{written.text}"' if written.quoted else written.text
    if isinstance(value, dict):
        return "a group of keys"
    return "a list" if isinstance(value, list | tuple) else str(value)


def _unknown(document: Document, path: Path) -> Problem:
    line, column = document.keys.get(path) or document.place(path)
    known = list(_model_at(path[:-1]).model_fields)
    near = get_close_matches(str(path[-1]), known, 1)
    return Problem(
        document.file,
        line,
        column,
        dotted(path),
        "unknown key",
        str(path[-1]),
        ", ".join(known),
        f"did you mean {near[0]}?" if near else "remove it",
    )


def _model_at(path: Path) -> type[BaseModel]:
    model: type[BaseModel] = ClusterSpec
    for part in path:
        if isinstance(part, str):
            found = _models(model.model_fields[part].annotation)
            model = found[0] if found else model
    return model


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _choices(path: Path) -> list[str]:
    names = [part for part in path if isinstance(part, str)]
    annotation = _model_at(tuple(names[:-1])).model_fields[names[-1]].annotation
    return [str(choice) for choice in get_args(annotation)]


def _generic(path: Path) -> str:
    text = dotted(tuple(0 if isinstance(part, int) else part for part in path))
    return text.replace("[0]", "[]")
