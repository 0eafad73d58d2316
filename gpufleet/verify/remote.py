"""Asking one node everything in one SSH session, strictly by the fleet's own host keys."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet import ssh
from gpufleet.fleet import Fleet

from .collector import MARK
from .model import Output

COMMAND_TIMEOUT = 20.0
"""Seconds that one command has on the node."""
AT_ONCE = 8
"""Commands of one node that run side by side there."""
_SOURCE = Path(__file__).with_name("collector.py")


class Unreachable(Exception):
    """A node could not be asked; the text says why and names the node."""


def program(commands: Sequence[str], timeout: float = COMMAND_TIMEOUT) -> str:
    """The program that a node's Python is given: the collector, and a call of it."""
    arguments = f"{list(commands)!r}, {timeout!r}, {AT_ONCE}"
    return f"{_SOURCE.read_text()}\n\ncollect({arguments})\n"


def answers(text: str) -> dict[str, Output] | None:
    """Outputs by command from what the program printed; None where it did not get that far.

    Whatever else a login prints, such as a banner, is passed over.
    """
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            try:
                rows = json.loads(line[len(MARK) :])
                return {key: Output(int(row[0]), *row[1:]) for key, row in rows.items()}
            except (ValueError, TypeError, AttributeError, IndexError):
                return None
    return None


@dataclass
class Asker:
    """Asks nodes of a fleet; `timeout` (s) is all the time that a node has to answer."""

    fleet: Fleet
    timeout: float
    _running: set["subprocess.Popen[str]"] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cancelled: bool = False

    def ask(self, node: str, commands: Sequence[str]) -> Mapping[str, Output]:
        """Outputs by command; raises Unreachable."""
        code, out, err = self._ssh(node, "python3 -", program(commands))
        found = answers(out)
        if found is not None:
            return found
        if code == 255:
            raise Unreachable(self._why(err))
        last = Output(code, out, err).said
        raise Unreachable(f"{node} let us in, but its python3 gave no answer: {last}")

    def run(self, node: str, command: str) -> Output:
        """One command by itself, over a connection of its own; raises Unreachable."""
        code, out, err = self._ssh(node, command, "")
        if code == 255:
            raise Unreachable(self._why(err))
        return Output(code, out, err)

    def cancel(self) -> None:
        """End everything that is under way, and begin nothing more."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                _kill(process)

    def _ssh(self, node: str, command: str, text: str) -> tuple[int, str, str]:
        line = ssh.command(self.fleet, node, [command])
        line[1:1] = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={ssh.TIMEOUT:g}"]
        with self._lock:
            if self._cancelled:
                raise Unreachable(f"{node} was not asked: the run was ended")
            # A group of its own, so that a proxy dies with its ssh.
            process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            out, err = process.communicate(text, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            raise Unreachable(f"{node} did not answer within {self.timeout:g} s") from None
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, out, err

    def _why(self, err: str) -> str:
        changed = ssh.explain(self.fleet, err)
        return changed[0] if changed else f"ssh: {Output(255, '', err).said}"


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
