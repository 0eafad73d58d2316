"""Running the host's tools: a list, a deadline, and an error that says what failed."""

import subprocess
from collections.abc import Mapping, Sequence


class HostError(RuntimeError):
    """A step on the host failed; the text is one readable sentence for the operator."""


def run(
    args: Sequence[str],
    *,
    timeout: float = 30.0,
    input_text: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a tool of the host and return its standard output.

    `timeout` is in seconds. Raises HostError with the command and the last lines of its
    standard error when it fails, is missing or does not end in time.
    """
    try:
        done = subprocess.run(
            list(args),
            input=input_text,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=None if env is None else dict(env),
            check=False,
        )
    except FileNotFoundError as error:
        raise HostError(f"{args[0]} is not installed on this host; run setup/bootstrap") from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"`{' '.join(args)}` did not end within {timeout:g} s") from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:]) or "(no message)"
        raise HostError(f"`{' '.join(args)}` failed with status {done.returncode}: {tail}")
    return done.stdout
