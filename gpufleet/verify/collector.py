"""Runs on a node, as the standard input of its Python (3.9 or newer), with what to run behind it.

`collect` runs commands side by side and prints their outputs as one line of JSON.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

MARK = "gpufleet-verify-answer "
CUT = 262144  # bytes of each stream; what is more than that is no answer to a check


def run(command: str, timeout: float) -> list[Any]:
    """[exit code, output, errors] of one shell command; 124 where it did not end in time."""
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, LC_ALL="C.UTF-8"),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
        return [process.returncode, _text(out), _text(err)]
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        # Whoever sleeps in the kernel, as one that waits for a dead GPU, does not die of it:
        # nobody waits for that.
        return [124, "", f"no answer within {timeout:g} s"]


def _text(data: bytes) -> str:
    return data[:CUT].decode("utf-8", "replace")


def collect(commands: list[str], timeout: float, at_once: int) -> None:
    """Print {command: [code, out, err]} behind MARK; never takes much longer than the sum."""
    answers: dict[str, list[Any]] = {}
    waiting = list(reversed(commands))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                command = waiting.pop()
            try:
                answer = run(command, timeout)
            except Exception as error:
                answer = [126, "", f"cannot be run: {error}"]
            with lock:
                answers[command] = answer

    threads = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write("\n" + MARK + json.dumps(answers) + "\n")
    sys.stdout.flush()
    os._exit(0)
