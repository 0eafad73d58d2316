"""The first process of a machine: becomes the loop around systemd-nspawn, never returns.

Run as `python -m infra.local.launch MACHINE.json`. The order matters: the control group is entered
before anything else, so whatever happens afterwards is ended with the machine; the overlay is
mounted in a mount namespace of its own, so it goes when the machine goes, however it dies.
"""

import json
import os
import sys
from pathlib import Path

from .cgroup import MachineGroup
from .command import run

# Docker inside a node needs the keyring calls; Slurm and systemd need bpf.
SYSTEM_CALLS = "add_key keyctl bpf"

# Inside a unit of someone else's, systemd-nspawn ends with 133 when its machine reboots and leaves
# it to that unit to start it again; here there is none. A shell costs less than a waiting Python.
REBOOTING = 133
START_AGAIN_ON_REBOOT = (
    "sh",
    "-c",
    f'while :; do "$@"; code=$?; [ "$code" = {REBOOTING} ] || exit "$code"; done',
    "machine",
)


def enter_network(namespace: str) -> None:
    """Move this process into a named network namespace."""
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    os.setns(descriptor, os.CLONE_NEWNET)
    os.close(descriptor)


def main(argument: str) -> None:
    """Start the machine that the file describes, in the background."""
    machine = json.loads(Path(argument).read_text())
    if os.fork():
        os._exit(0)
    os.setsid()
    MachineGroup(machine["cluster"], machine["node"]).enter()
    os.unshare(os.CLONE_NEWNS)
    run(["mount", "--make-rprivate", "/"])
    root = machine["root"]
    layers = f"lowerdir={machine['image']},upperdir={machine['upper']},workdir={machine['work']}"
    run(["mount", "-t", "overlay", "overlay", "-o", layers, root])
    enter_network(machine["namespace"])
    # systemd-nspawn keeps locks and sockets in /run; in a private one none stays on the host.
    run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    arguments = [
        *START_AGAIN_ON_REBOOT,
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--directory",
        root,
        f"--machine={machine['machine']}",
        f"--hostname={machine['node']}",
        "--network-namespace-path=/proc/self/ns/net",
        "--capability=all",
        f"--system-call-filter={SYSTEM_CALLS}",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        *(f"--bind={source}:{target}" for source, target in machine["binds"]),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1",
        "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    }
    os.execvpe(arguments[0], arguments, environment)  # noqa: S606  this is the machine


if __name__ == "__main__":
    main(sys.argv[1])
