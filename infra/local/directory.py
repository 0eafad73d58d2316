"""Who is where in a fleet: /etc/hosts of every node, and the files by which SSH reaches them."""

from dataclasses import dataclass
from pathlib import Path

from gpufleet.atomic import write_atomic
from gpufleet.paths import state_dir

from .cgroup import MachineGroup
from .command import HostError, run
from .network import NetworkSpec

BEGIN = "# begin gpufleet nodes"
END = "# end gpufleet nodes"


@dataclass(frozen=True)
class Entry:
    """One node as others find it."""

    name: str
    address: str


def hosts_block(entries: list[Entry]) -> str:
    """The managed part of /etc/hosts."""
    rows = [f"{entry.address} {entry.name}" for entry in sorted(entries, key=lambda x: x.name)]
    return "\n".join([BEGIN, *rows, END]) + "\n"


def with_block(current: str, block: str) -> str:
    """/etc/hosts with its managed part replaced, everything else as it was."""
    if BEGIN in current and END in current:
        before, rest = current.split(BEGIN, 1)
        after = rest.split(END, 1)[1].removeprefix("\n")
        return before + block + after
    separator = "" if not current or current.endswith("\n") else "\n"
    return current + separator + block


def init_pid(group: MachineGroup) -> int | None:
    """The host's number of a machine's first process, or None where it does not run."""
    depth = len(_namespace_pids("self")) + 1
    for pid in sorted(group.pids()):
        numbers = _namespace_pids(str(pid))
        if len(numbers) == depth and numbers[-1] == 1:
            return pid
    return None


def read_hosts(cluster: str, node: str) -> str | None:
    """A node's /etc/hosts, or None where the node does not run."""
    pid = init_pid(MachineGroup(cluster, node))
    return None if pid is None else run([*_inside(pid), "cat", "/etc/hosts"])


def publish_hosts(cluster: str, entries: list[Entry]) -> None:
    """Bring /etc/hosts of every node up to date; untouched where it already is."""
    block = hosts_block(entries)
    for entry in entries:
        pid = init_pid(MachineGroup(cluster, entry.name))
        if pid is None:
            raise HostError(f"node {entry.name} does not run; run `gpufleet up {cluster}`")
        current = run([*_inside(pid), "cat", "/etc/hosts"])
        wanted = with_block(current, block)
        if wanted != current:
            script = "umask 022; cat > /etc/.hosts.new && mv /etc/.hosts.new /etc/hosts"
            run([*_inside(pid), "sh", "-c", script], input_text=wanted)


def write_ssh_config(network: NetworkSpec, user: str, entries: list[Entry]) -> Path:
    """Write the SSH client configuration of a cluster; returns its path."""
    folder = state_dir(network.cluster) / "ssh"
    lines = [f"# SSH to the nodes of {network.cluster}; written by gpufleet, changes are lost.", ""]
    for entry in sorted(entries, key=lambda x: x.name):
        lines += [f"Host {entry.name} {entry.address}", f"  HostName {entry.address}", ""]
    lines += [
        "Host *",
        f"  User {user}",
        f"  IdentityFile {folder}/id_ed25519",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {folder}/known_hosts",
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  HostKeyAlgorithms ssh-ed25519",
        "  ConnectTimeout 10",
        f"  ProxyCommand nsenter --net=/run/netns/{network.namespace} nc %h %p",
        "",
    ]
    path = folder / "ssh_config"
    write_atomic(path, "\n".join(lines))
    return path


def _inside(pid: int) -> list[str]:
    # By entering the node's own view of its files, a link planted there cannot lead to the host's.
    return ["nsenter", f"--target={pid}", "--mount", "--root", "--wd=/", "--"]


def _namespace_pids(pid: str) -> list[int]:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    rows = (line.split() for line in status.splitlines())
    return next(([int(x) for x in row[1:]] for row in rows if row[0] == "NSpid:"), [])
