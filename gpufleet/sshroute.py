"""How a node is reached from Python: address, identity, and the way through a proxy."""

import contextlib
import os
import shlex
import socket
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from .fleet import Fleet, FleetError, FleetNode


@dataclass(frozen=True)
class Wire:
    """An open way to a node's SSH server, with the proxy that carries it."""

    socket: socket.socket
    proxy: subprocess.Popen[bytes] | None = None

    def cut(self) -> None:
        """End it now: whoever waits on the socket sees its end, the proxy is asked to go."""
        if self.proxy is not None:
            self.proxy.terminate()
        # Closed already when fileno() is gone; shut down already when the kernel says so.
        if self.socket.fileno() >= 0:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Route:
    """The SSH client configuration of one node, resolved."""

    cluster: str
    name: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    proxy: str | None
    """Command whose standard input and output lead to the node's SSH server."""

    @property
    def key_name(self) -> str:
        """The name under which paramiko looks for the host key."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    def open(self, timeout: float) -> Wire:
        """A way to the node's SSH server; raises OSError, TimeoutError after `timeout` s."""
        if self.proxy is None:
            return Wire(socket.create_connection((self.host, self.port), timeout=timeout))
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # A real socket shows the end of the proxy at once; paramiko's own wrapper of
                # pipes would spin until its time-out.
                end = theirs.fileno()
                process = subprocess.Popen(shlex.split(self.proxy), stdin=end, stdout=end)
            except OSError:
                ours.close()
                raise
        threading.Thread(target=process.wait, daemon=True).start()
        return Wire(ours, process)


def find_route(fleet: Fleet, node: FleetNode) -> Route:
    """The way to a node, by the fleet's ssh_config or, without one, straight to its address.

    Raises FleetError for a configuration that cannot be read or understood.
    """
    import paramiko

    settings: dict[str, object] = {}
    path = fleet.access.ssh_config
    if path is not None:
        again = f"run `gpufleet up {fleet.cluster}` to write it anew"
        try:
            settings = dict(paramiko.SSHConfig.from_path(path).lookup(node.name))
        except OSError as error:
            raise FleetError([f"{path} cannot be read ({error.strerror}): {again}"]) from error
        except paramiko.ConfigParseError as error:
            raise FleetError([f"{path} is no SSH configuration ({error}): {again}"]) from error
    proxy = str(settings.get("proxycommand", "none"))
    named = settings.get("identityfile", [])
    host = str(settings.get("hostname", node.name))
    return Route(
        cluster=fleet.cluster,
        name=node.name,
        host=node.address if host == node.name else host,
        port=int(str(settings.get("port", 22))),
        user=str(settings.get("user", fleet.access.user)),
        identities=tuple(
            str(Path(os.fspath(x)).expanduser()) for x in (named if isinstance(named, list) else [])
        ),
        proxy=None if proxy.lower() == "none" else proxy.removeprefix("exec "),
    )
