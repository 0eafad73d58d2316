"""SSH to the nodes of a fleet: OpenSSH's command line, and fabric connections from Python.

Both take host keys from the fleet's own known_hosts alone, under the node's name. An unknown or
changed key ends the attempt; nothing is ever learned on the way.
"""

import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .fleet import Access, Fleet, FleetError, FleetNode
from .hostkeys import Entry, HostKeyError, HostKeys, fingerprint, refusal
from .sshroute import Route, find_route

if TYPE_CHECKING:
    from .sshtypes import Connection

TIMEOUT = 10.0
"""Seconds within which a node has to let us in."""

_CHANGED = re.compile(
    r"key sent by the remote host is\s+(?P<now>SHA256:[A-Za-z0-9+/]+).*?"
    r"Host key for (?P<name>\S+) has changed",
    re.DOTALL,
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class SshError(FleetError):
    """A node could not be entered; `problems` says why and what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__([problem])


class NoAnswerError(SshError):
    """A node was asked and did not answer; `problems` says why in a few words."""


class HostKeyMismatchError(SshError):
    """A node presents another key than the one it is known by."""


@dataclass(frozen=True)
class Accepted:
    """What `accept` did: fingerprints, the old one None where none was known."""

    node: str
    before: str | None
    now: str
    stated: bool
    """The contract states this key."""


def options(access: Access, name: str) -> list[str]:
    """OpenSSH options that hold for every way to a node, Ansible's too.

    The key belongs to the node's name: neither a reused address nor a port decides. Raises
    SshError for a contract that names no known_hosts.
    """
    known = access.known_hosts
    if known is None:
        raise SshError(
            f"the fleet contract names no known_hosts file, so {name} cannot be told from an"
            f" impostor: state access.known_hosts"
        )
    rows = ["StrictHostKeyChecking=yes", f'UserKnownHostsFile="{known}"']
    rows += ["GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", f"HostKeyAlias={name}"]
    return ["-F", access.ssh_config or "/dev/null", *(x for row in rows for x in ("-o", row))]


def command(fleet: Fleet, node: str, args: Sequence[str] = ()) -> list[str]:
    """The ssh command line for a node; `args` go to the remote shell, none opens one.

    Raises UnknownNodeError (a LookupError) with the nearest name, SshError as `options`.
    """
    found = fleet.node(node)
    line = ["ssh", *options(fleet.access, found.name)]
    if fleet.access.ssh_config is None:
        line += ["-o", f"HostName={found.address}", "-o", f"User={fleet.access.user}"]
    return [*line, "--", found.name, *args]


def run(fleet: Fleet, node: str, args: Sequence[str] = ()) -> int:
    """Run ssh with the caller's terminal; returns its exit code.

    Where the node's key was refused, says so on standard error with both fingerprints and the way
    to accept, which ssh itself does not know. Call it from the main thread.
    """
    line = command(fleet, node, args)
    with _interrupts_left_to_child():
        code = subprocess.call(line)
    if code == 255:
        for text in explain(fleet, _refused_with(fleet, node)):
            sys.stderr.write(f"{text}\n")
    return code


def ask(
    fleet: Fleet, node: str, args: Sequence[str], *, stdin: str = "", deadline: float
) -> "subprocess.CompletedProcess[str]":
    """Run a command on a node and return what came back, within `deadline` seconds.

    Raises NoAnswerError where there was none; a command that failed there is an answer. Raises as
    `command` too.
    """
    try:
        done = subprocess.run(
            command(fleet, node, args),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"no answer within {deadline:g} s") from None
    if done.returncode == 255:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise NoAnswerError(f"unreachable: {(explain(fleet, done.stderr) or last)[0]}")
    return done


def explain(fleet: Fleet, output: str) -> list[str]:
    """What changed host keys are reported in the output of ssh or Ansible, one sentence each.

    Empty where there is none. Names the node, the known and the new fingerprint, how to accept.
    """
    text = _COLOUR.sub("", output.replace("\\r", "\r").replace("\\n", "\n"))
    rows = []
    for name, now in {x["name"]: x["now"] for x in _CHANGED.finditer(text)}.items():
        if any(node.name == name for node in fleet.nodes):
            rows.append(refusal(name, _known(fleet, name), now, fleet.cluster))
    return rows


def connect(fleet: Fleet, node: str, timeout: float = TIMEOUT) -> "Connection":
    """An open fabric connection to a node, made within `timeout` seconds or not at all.

    Once closed it cannot be opened again. Raises UnknownNodeError, HostKeyMismatchError, and
    SshError for everything else that keeps us out.
    """
    import fabric
    import paramiko

    found = fleet.node(node)
    route = find_route(fleet, found)
    keys = _known_keys(fleet, found)
    with _Attempt(route, timeout) as attempt:
        connection = fabric.Connection(
            route.host,
            user=route.user,
            port=route.port,
            # Nothing from fabric's or the user's own files; and no command eats our input.
            config=fabric.Config(
                ssh_config=paramiko.SSHConfig(),
                overrides={"run": {"in_stream": False}},
                lazy=True,
            ),
            gateway=False,
            forward_agent=False,
            connect_kwargs={
                "sock": attempt.wire.socket,
                "key_filename": list(route.identities),
                "look_for_keys": not route.identities,
                "allow_agent": not route.identities,
                "timeout": timeout,
                "banner_timeout": timeout,
                "auth_timeout": timeout,
            },
        )
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        for kind, key in keys.items():
            connection.client.get_host_keys().add(route.key_name, kind, key)
        connection.open()
    opened: Connection = connection
    return opened


def accept(
    fleet: Fleet, node: str, expected: str | None = None, timeout: float = TIMEOUT
) -> Accepted:
    """Trust the host key that a node presents now: the deliberate answer to a refusal.

    `expected` is the fingerprint read at the node's console; another one is refused. Raises
    UnknownNodeError, HostKeyMismatchError, SshError.
    """
    found = fleet.node(node)
    key = presented_key(fleet, found.name, timeout)
    now = fingerprint(key)
    if expected is not None and expected != now:
        raise HostKeyMismatchError(
            f"{found.name} presents the host key {now}, not {expected}: nothing was accepted"
        )
    stated = Entry(
        found.name, found.address, found.provider_id, found.host_key, published=found.host_key
    )
    try:
        before = _record(fleet).accept(stated, key)
    except HostKeyError as error:
        raise SshError(str(error)) from error
    old = fingerprint(before.key) if before else None
    return Accepted(found.name, old, now, now == fingerprint(found.host_key))


def presented_key(fleet: Fleet, node: str, timeout: float = TIMEOUT) -> str:
    """The host key that a node presents, of the type that the contract states; trusts nothing.

    Nobody logs in for it. Raises UnknownNodeError, SshError.
    """
    import paramiko

    found = fleet.node(node)
    with _Attempt(find_route(fleet, found), timeout) as attempt:
        transport = paramiko.Transport(attempt.wire.socket)
        try:
            wanted = found.host_key.split()[0]
            offered = transport.get_security_options()
            offered.key_types = sorted(offered.key_types, key=lambda kind: kind != wanted)
            transport.start_client(timeout=timeout)
            key = transport.get_remote_server_key()
        finally:
            transport.close()
    return f"{key.get_name()} {key.get_base64()}"


class _Attempt:
    """A socket to a node that dies at the deadline, and errors in words."""

    def __init__(self, route: Route, timeout: float) -> None:
        self._route = route
        self._timeout = timeout
        self._expired = threading.Event()
        self._timer = threading.Timer(timeout, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> "_Attempt":
        try:
            self.wire = self._route.open(self._timeout)
        except OSError as error:
            raise self._error(error) from error
        self._timer.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import paramiko

        self._timer.cancel()
        if error is None:
            return
        self.wire.cut()
        self.wire.socket.close()
        if isinstance(error, paramiko.BadHostKeyException):
            known = fingerprint(
                f"{error.expected_key.get_name()} {error.expected_key.get_base64()}"
            )
            now = fingerprint(f"{error.key.get_name()} {error.key.get_base64()}")
            route = self._route
            raise HostKeyMismatchError(refusal(route.name, known, now, route.cluster)) from error
        if isinstance(error, paramiko.SSHException | OSError | EOFError):
            raise self._error(error) from error

    def _expire(self) -> None:
        self._expired.set()
        self.wire.cut()

    def _error(self, error: Exception) -> SshError:
        route = self._route
        if self._expired.is_set() or isinstance(error, TimeoutError):
            reason = f"no SSH session within {self._timeout:g} s"
        else:
            reason = str(error) or type(error).__name__
        return SshError(
            f"{route.name} ({route.host} port {route.port}) cannot be entered: {reason};"
            f" see `gpufleet status {route.cluster}`"
        )


def _record(fleet: Fleet) -> HostKeys:
    known = fleet.access.known_hosts
    if known is None:
        raise SshError("the fleet contract names no known_hosts file: state access.known_hosts")
    return HostKeys(Path(known).parent, fleet.cluster)


def _known_keys(fleet: Fleet, node: FleetNode) -> dict[str, Any]:
    """The paramiko keys by type under which a node is known."""
    import paramiko

    path = _record(fleet).known_hosts
    again = f"run `gpufleet up {fleet.cluster}`"
    try:
        found = paramiko.HostKeys(str(path)).lookup(node.name)
    except OSError as error:
        raise SshError(f"{path} cannot be read ({error.strerror}): {again}") from error
    if not found:
        raise SshError(f"{path} has no host key of {node.name}: {again}")
    return dict(found)


def _known(fleet: Fleet, name: str) -> str:
    entry = _record(fleet).entries().get(name)
    return fingerprint(entry.key) if entry else "none"


def _refused_with(fleet: Fleet, node: str) -> str:
    line = command(fleet, node, ["true"])
    line[1:1] = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={TIMEOUT:g}"]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=2 * TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stderr


@contextmanager
def _interrupts_left_to_child() -> Iterator[None]:
    # A handler, unlike SIG_IGN, is not inherited by the child.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ansible_arguments(access: Access, name: str) -> str:
    """`options` as one line for Ansible's `ansible_ssh_common_args`."""
    return shlex.join(options(access, name))
