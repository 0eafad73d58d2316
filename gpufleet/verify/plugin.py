"""pytest plugin of the suite: asks all nodes at once, judges each as soon as it has answered.

A test takes `host`, testinfra's view of one node, and `examine`; its mark `check` names the row of
the catalogue. It is parametrised over the nodes that the check concerns. A test of somebody's own
takes `host` alone; it runs on every node, and is `degraded` when it fails.
"""

import os
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from gpufleet.fleet import load_fleet

from . import events
from .backend import FleetBackend
from .catalog import BY_NAME
from .model import Check, Finding, NodeReport, Output, Row, Verdict, Want, worst
from .remote import Asker, Unreachable
from .want import wants

REACHED = "ssh.reached"


class Unwell(AssertionError):
    """A check found something; `findings` has all of it."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__("; ".join(f"{found.verdict}: {found.reason}" for found in findings))


@dataclass
class Session:
    """What the tests of one run share."""

    asker: Asker
    wanted: dict[str, Want]
    parallel: int
    events: int | None
    hosts: dict[str, Host] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def tell(self, line: str) -> None:
        """Hand a line to whoever started us."""
        if self.events is not None:
            os.write(self.events, line.encode())


SESSION = pytest.StashKey[Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options by which `gpufleet verify` starts the suite."""
    group = parser.getgroup("gpufleet verify")
    group.addoption("--fleet", required=True, help="fleet contract (.fleet.json)")
    group.addoption("--nodes", default="", help="names with commas; none: all nodes")
    group.addoption("--controllers", default="", help="Slurm controllers, with commas")
    group.addoption("--parallel", type=int, default=16, help="nodes that are asked at once")
    group.addoption("--node-timeout", type=float, default=60, help="seconds a node has to answer")
    group.addoption("--events", type=int, default=None, help="descriptor for events as JSON lines")


def pytest_configure(config: pytest.Config) -> None:
    """Read the contract; an unusable one ends the run with its problems."""
    config.addinivalue_line("markers", "check(name): the row of the catalogue that a test is")
    fleet = load_fleet(Path(config.getoption("fleet")))
    everything = wants(fleet, _names(config.getoption("controllers")))
    chosen = _names(config.getoption("nodes")) or list(everything)
    config.stash[SESSION] = Session(
        asker=Asker(fleet, config.getoption("node_timeout")),
        wanted={name: everything[fleet.node(name).name] for name in chosen},
        parallel=max(1, config.getoption("parallel")),
        events=config.getoption("events"),
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def check_of(node: pytest.Item | pytest.Function) -> Check | None:
    """The row of the catalogue that a test stands for."""
    mark = node.get_closest_marker("check")
    return BY_NAME[mark.args[0]] if mark else None


def _node_of(item: pytest.Item) -> str:
    """The node that a test is for; empty for a test of none."""
    parameters = getattr(item, "callspec", None)
    return str(parameters.params.get("node", "")) if parameters else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test a node, for the nodes that its check concerns."""
    if "node" not in metafunc.fixturenames:
        return
    session = metafunc.config.stash[SESSION]
    marks = list(metafunc.definition.iter_markers("check"))
    check = BY_NAME[marks[0].args[0]] if marks else None
    names = [name for name, want in session.wanted.items() if check is None or check.applies(want)]
    metafunc.parametrize("node", names, ids=names)


@pytest.fixture
def host(request: pytest.FixtureRequest, node: str) -> Host:
    """testinfra's view of the node; what the checks ask is there already."""
    return request.config.stash[SESSION].hosts[node]


@pytest.fixture
def want(request: pytest.FixtureRequest, node: str) -> Want:
    """What the node should be."""
    return request.config.stash[SESSION].wanted[node]


@pytest.fixture
def examine(request: pytest.FixtureRequest, want: Want) -> Callable[[Host], None]:
    """Run the test's check on a host; raises Unwell with all that it finds."""

    def run(host: Host) -> None:
        check = check_of(request.node)
        assert check is not None, "the test has no mark `check`"
        result = host.run(check.command(want))
        found = check.examine(Output(result.rc, result.stdout, result.stderr), want)
        if found:
            raise Unwell(found)

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Turn the outcome of a test into a row of its node."""
    report = yield
    session = item.config.stash[SESSION]
    node = _node_of(item)
    if node and not _skipped(call) and (call.when == "call" or call.excinfo is not None):
        last = session.hosts[node].backend.last
        session.rows.setdefault(node, []).append(_row(item, call, session.wanted[node], last))
    return report


def _skipped(call: pytest.CallInfo[None]) -> bool:
    return call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception)


def _row(item: pytest.Item, call: pytest.CallInfo[None], want: Want, last: str) -> Row:
    check = check_of(item)
    error = call.excinfo.value if call.excinfo else None
    findings: list[Finding] = []
    if isinstance(error, Unwell):
        findings = error.findings
    elif error is not None:
        # A check that cannot be made is no proof that all is well.
        text = str(error).splitlines() or [type(error).__name__]
        asserted = isinstance(error, AssertionError)
        cause = "" if asserted else f"the check failed by itself: {type(error).__name__}: "
        findings = [Finding(f"{cause}{text[0]}"[:300])]
    own = str(getattr(item, "originalname", item.name))
    fallback = check.verdict if check else Verdict.DEGRADED
    return Row(
        check=check.name if check else own,
        title=check.title if check else "a test of your own",
        verdict=worst(found.verdict or fallback for found in findings),
        reasons=tuple(found.reason for found in findings),
        command=check.command(want) if check else last,
        hint=check.hint if check else "",
        seconds=call.duration,
    )


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Ask all nodes, at most `--parallel` at once; run the tests of each when it has answered."""
    if session.testsfailed:
        raise session.Interrupted(f"{session.testsfailed} files of tests cannot be read")
    shared = session.config.stash[SESSION]
    items: dict[str, list[pytest.Item]] = {name: [] for name in shared.wanted}
    for item in session.items:
        # A check that concerns none of the nodes leaves a test for nothing.
        if (node := _node_of(item)) in items:
            items[node].append(item)
    with ThreadPoolExecutor(shared.parallel) as pool:
        try:
            asked = {pool.submit(_ask, shared, name, items[name]): name for name in items}
            for answer in as_completed(asked):
                _judge(shared, asked[answer], answer, items[asked[answer]])
        except BaseException:
            shared.asker.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return True


def _ask(shared: Session, name: str, items: list[pytest.Item]) -> tuple[float, dict[str, Output]]:
    shared.tell(events.started(name))
    began = time.monotonic()
    want = shared.wanted[name]
    checks = [check for item in items if (check := check_of(item))]
    found = shared.asker.ask(name, [check.command(want) for check in checks])
    return time.monotonic() - began, dict(found)


def _judge(
    shared: Session,
    name: str,
    answer: "Future[tuple[float, dict[str, Output]]]",
    items: list[pytest.Item],
) -> None:
    try:
        seconds, outputs = answer.result()
    except Unreachable as error:
        row = Row(
            REACHED, "the node can be entered over SSH", Verdict.ISOLATE, (str(error),), "true",
            "look at `bin/gpufleet status`, then at the machine itself",
        )  # fmt: skip
        shared.tell(events.done(NodeReport(name, (row,), 0.0)))
        return
    shared.hosts[name] = Host(FleetBackend(name, shared.asker, outputs))
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    order = {check: place for place, check in enumerate(BY_NAME)}
    rows = sorted(shared.rows.get(name, []), key=lambda row: order.get(row.check, len(order)))
    shared.tell(events.done(NodeReport(name, tuple(rows), seconds)))
