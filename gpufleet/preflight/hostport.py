"""Whether a port of 127.0.0.1 can be had, and who holds it where not."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from .facts import FactError
from .localgroups import FrontPort, Holder

LISTEN = "0A"
LOOPBACK, ANY = "0100007F", "00000000"
# 127.0.0.1 in an IPv6 socket, as the kernel prints it; and the address that takes IPv4 as well.
MAPPED, ANY6 = "0000000000000000FFFF00000100007F", "0" * 32


def front_port(port: int, cluster: str, proc: Path = Path("/proc")) -> FrontPort:
    """Try to bind the port, without listening, and let go at once."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return FrontPort(port, False, holder(port, cluster, proc))
            raise FactError(f"127.0.0.1:{port} could not be tried: {error.strerror}") from error
    return FrontPort(port, True)


def holder(port: int, cluster: str, proc: Path = Path("/proc")) -> Holder | None:
    """The process that listens on the port, or None where this caller may not see it.

    It is the cluster's own when it is a member of the control group gpufleet/CLUSTER.
    """
    wanted = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not wanted:
        return None
    for folder in proc.iterdir():
        if folder.name.isdigit() and wanted & set(_open(folder / "fd")):
            try:
                command = (folder / "comm").read_text().strip()
                groups = (folder / "cgroup").read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while it was looked at
            own = any(f"/gpufleet/{cluster}/" in f"{line}/" for line in groups)
            return Holder(int(folder.name), command, own)
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        path = proc / "net" / table
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            words = line.split()
            address, _, number = words[1].partition(":")
            here = address in (LOOPBACK, ANY, MAPPED, ANY6)
            if words[3] == LISTEN and here and int(number, 16) == port:
                yield words[9]


def _open(folder: Path) -> Iterator[str]:
    try:
        for descriptor in os.listdir(folder):
            yield os.readlink(folder / descriptor)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return  # ended meanwhile, or another user's: not visible, so not the answer
