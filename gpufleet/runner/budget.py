"""How many nodes a run may lose."""

import re

from .result import RunError

_BUDGET = re.compile(r"([0-9]{1,9})(%?)")


def parse_budget(text: str) -> str:
    """A budget as `run` takes it: a count of nodes, or a share of them such as 20%.

    Raises RunError for anything else.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or (match[2] and int(match[1]) > 100):
        raise RunError(
            f"--max-failures {text!r} is no number of nodes; give a count such as 2, "
            "or a share of the nodes from 0% to 100% such as 20%"
        )
    return f"{int(match[1])}{match[2]}"
