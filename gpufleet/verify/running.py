"""Running the suite in a process of its own, and taking in what it tells."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpufleet.fleet import write_fleet
from gpufleet.fleet_model import Fleet
from gpufleet.paths import repo_root

from . import events
from .model import NodeReport

SUITE = Path(__file__).with_name("suite")
PARALLEL = 16
"""Nodes that are asked at once, unless said otherwise."""
NODE_TIMEOUT = 60.0
"""Seconds that a node has for all its answers, unless said otherwise."""
GOODBYE = 10.0
"""Seconds that the suite has to end its connections when it is to stop."""
# Variables by which somebody's own pytest would change this one.
FOREIGN = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_THEME")

OnNode = Callable[[str, NodeReport | None], None]


class VerifyError(Exception):
    """The suite itself did not come to its end; the text has what it said last."""


@dataclass(frozen=True)
class Job:
    """What is to be verified: names of nodes, how many at once, seconds a node has."""

    fleet: Fleet
    nodes: tuple[str, ...]
    controllers: tuple[str, ...] = ()
    parallel: int = PARALLEL
    node_timeout: float = NODE_TIMEOUT
    tests: tuple[Path, ...] = ()
    """Folders or files with tests of the caller's own, besides the suite."""


def command(job: Job, contract: Path, descriptor: int) -> list[str]:
    """The command line of the suite."""
    return [
        *(sys.executable, "-m", "pytest", "-c", str(SUITE / "pytest.ini")),
        *("--rootdir", str(SUITE), "-p", "gpufleet.verify.plugin", "--tb=short"),
        *("--fleet", str(contract), "--nodes", ",".join(job.nodes)),
        *("--controllers", ",".join(job.controllers), "--parallel", str(job.parallel)),
        *("--node-timeout", f"{job.node_timeout:g}", "--events", str(descriptor), str(SUITE)),
        *map(str, job.tests),
    ]


def verify(job: Job, on_node: OnNode | None = None) -> list[NodeReport]:
    """Judge every node of the job; in the job's order, the same nodes and no others.

    `on_node` hears of each node when it is begun (None) and when it is judged, in this thread.
    Raises VerifyError when the suite ends before every node is judged.
    """
    found: dict[str, NodeReport] = {}
    with tempfile.TemporaryDirectory(prefix="gpufleet-verify-") as folder:
        contract = Path(folder) / "fleet.json"
        # As it was read: what somebody writes meanwhile does not mix in.
        write_fleet(contract, job.fleet)
        said = _run(job, contract, found, on_node or (lambda *_: None))
    missing = [name for name in job.nodes if name not in found]
    if missing:
        raise VerifyError(f"the suite ended without a verdict for {', '.join(missing)}:\n{said}")
    return [found[name] for name in job.nodes]


def _run(job: Job, contract: Path, found: dict[str, NodeReport], on_node: OnNode) -> str:
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        command(job, contract, theirs),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(theirs,),
        env=_environment(),
        # An interrupt at the terminal is ours to pass on, once.
        start_new_session=True,
    )
    os.close(theirs)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        with os.fdopen(ours, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                node, report = events.read(line)
                if report is not None:
                    found[node] = report
                on_node(node, report)
        process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        reader.join(GOODBYE)
        if process.stdout is not None:
            process.stdout.close()
    return "".join(said[-30:]).strip()


def _end(process: "subprocess.Popen[str]") -> None:
    """Ask the suite to stop, which ends its connections; it is killed when it does not."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(GOODBYE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    path = [str(repo_root()), *filter(None, [kept.get("PYTHONPATH")])]
    # Other plugins that happen to be installed are no part of this.
    kept |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


def chosen(fleet: Fleet, members: dict[str, list[str]], wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of nodes for a list of names and groups, each once, in the contract's order.

    `all` is every node; so is an empty list.
    """
    names = {name for item in wanted for name in members.get(item, [item])}
    everyone = not wanted or "all" in wanted
    return tuple(node.name for node in fleet.nodes if everyone or node.name in names)
