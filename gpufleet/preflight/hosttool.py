"""Asking a tool of the host: a list of words, a deadline, and what it said when it failed."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from .facts import FactError


@dataclass(frozen=True)
class Answer:
    """What a tool answered; `error` is the last line of its standard error."""

    status: int
    output: str
    error: str


def ask(words: Sequence[str], *, timeout: float = 3.0, given: str | None = None) -> Answer:
    """Run a tool to its end; raises FactError where it is missing or takes over `timeout` s."""
    try:
        done = subprocess.run(
            list(words), input=given, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        raise FactError(f"{words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise FactError(f"`{' '.join(words)}` did not end within {timeout:g} s") from error
    lines = done.stderr.strip().splitlines()
    return Answer(done.returncode, done.stdout, lines[-1].strip() if lines else "")


def output(words: Sequence[str], *, timeout: float = 3.0) -> str:
    """Standard output of a tool; raises FactError where it fails."""
    answer = ask(words, timeout=timeout)
    if answer.status != 0:
        said = answer.error or "no message"
        raise FactError(f"`{' '.join(words)}` failed with status {answer.status}: {said}")
    return answer.output
