"""From a file to a cluster spec, or to every problem in it."""

from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .checks import findings
from .document import Document, read_document
from .errors import Problem, SpecError, dotted
from .explain import problem
from .model import ClusterSpec


def load_spec(path: Path) -> ClusterSpec:
    """Read a cluster spec; raises SpecError with all its problems."""
    return build_spec(read_document(path))


def build_spec(document: Document) -> ClusterSpec:
    """Build a spec from a parsed file; raises SpecError with all its problems."""
    problems = list(document.problems)
    if not isinstance(document.data, dict):
        line, column = document.place(())
        message = "a cluster spec is a group of keys"
        problems.append(Problem(document.file, line, column, "", message, fix="begin with `name:`"))
        raise SpecError(problems)
    spec = None
    try:
        spec = ClusterSpec.model_validate(document.data)
    except ValidationError as error:
        problems += [
            problem(document, x) for x in error.errors(include_url=False) if not _counts_faulty(x)
        ]
    told = {(x.line, x.column) for x in problems}
    for found in findings(document):
        line, column = document.place(found.path)
        # What the field itself has said already is not said again in other words.
        if (line, column) not in told or found.path not in document.places:
            text = dotted(found.path)
            problems.append(Problem(document.file, line, column, text, *found[1:]))
    if problems or spec is None:
        raise SpecError(problems)
    return spec


def _counts_faulty(error: ErrorDetails) -> bool:
    # The model counts only the items that are right; the list itself may well be long enough.
    value = error["input"]
    return error["type"] == "too_short" and isinstance(value, list | tuple) and len(value) > 0
