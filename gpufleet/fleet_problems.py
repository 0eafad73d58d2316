"""What is wrong with a contract, in sentences that name the field."""

import difflib
import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from .fleet_model import model_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_LONGEST = 80


def describe(error: ValidationError) -> list[str]:
    """One sentence per problem: path, what is wrong, what was seen."""
    rows: list[str] = []
    for detail in error.errors(include_url=False):
        if detail["type"] == "incoherent":
            rows += detail.get("ctx", {})["rows"]
        else:
            rows.append(f"{field_path(detail['loc'])}: {_message(detail)}")
    return rows


def field_path(location: tuple[int | str, ...]) -> str:
    """`nodes[3].gpus[0].uuid` for ("nodes", 3, "gpus", 0, "uuid")."""
    text = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in location)
    return text.removeprefix(".") or "(top)"


def _message(detail: "ErrorDetails") -> str:
    location = detail["loc"]
    if detail["type"] == "missing":
        return "is missing"
    if detail["type"] == "extra_forbidden":
        parent = next((x for x in reversed(location[:-1]) if isinstance(x, str)), None)
        near = difflib.get_close_matches(str(location[-1]), model_of(parent).model_fields, n=1)
        return "is no field of the contract" + (f"; did you mean {near[0]}?" if near else "")
    message = detail["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]} (seen {_seen(detail['input'])})"


def _seen(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
