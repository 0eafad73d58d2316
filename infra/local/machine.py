"""One machine: made, found, checked and removed; each step may be cut short and done again.

A machine's folder is STATE/nodes/NAME:

    machine.json   who it is; written last before the start, so a folder without it is debris
    upper/ work/   its disk over the image          root/      mount point, used only inside
    scratch/       its scratch disk                 console.log
"""

import secrets
import socket
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from sys import executable

from gpufleet.paths import repo_root, state_dir

from . import address as addresses
from .cgroup import MachineGroup
from .command import HostError, run
from .files import read_json, remove_tree, write_json
from .layer import BirthFile, Layer
from .network import NetworkSpec, connect, ensure_node_link, remove_node_link
from .resolver import host_nameservers
from .simulated import lay_gpus

BOOT_DEADLINE = 90.0


@dataclass(frozen=True)
class MachineSpec:
    """What decides a machine; any change of it is another machine."""

    network: NetworkSpec
    node: str
    image: Path
    user: str
    shared_mount: str
    scratch_mount: str
    dns: tuple[str, ...] = ()
    gpus: int = 0
    sim_gpu: str = field(default="", repr=False)
    birth_files: tuple[BirthFile, ...] = field(default=(), repr=False)

    @property
    def cluster(self) -> str:
        """Name of the cluster the machine belongs to."""
        return self.network.cluster

    @property
    def folder(self) -> Path:
        """Where its state lies on the host."""
        return state_dir(self.cluster) / "nodes" / self.node

    @property
    def group(self) -> MachineGroup:
        """Its control group."""
        return MachineGroup(self.cluster, self.node)


@dataclass(frozen=True)
class Machine:
    """A machine that exists."""

    provider_id: str
    address: str
    machine_id: str
    host_key: str


def create(spec: MachineSpec) -> Machine:
    """Make the machine, boot it, and return once its SSH server answers.

    Whatever a former life of the same name left behind is removed first: a machine that is asked
    for is a new one, with a new identity, at the address its name had.
    """
    delete(spec.network, spec.node)
    address = addresses.allocate(state_dir(spec.cluster), spec.network.cidr, spec.node)
    machine = Machine(
        provider_id=f"local-{spec.node}-{secrets.token_hex(4)}",
        address=address,
        machine_id=uuid.uuid4().hex,
        host_key=_lay_disk(spec, address),
    )
    _lay_identity(spec, machine)
    ensure_node_link(spec.network, spec.node, address)
    spec.group.create()
    _record(spec, machine)
    _start(spec)
    wait_for_ssh(spec, address)
    return machine


def find(network: NetworkSpec, node: str) -> Machine | None:
    """The running machine of that name, or None where it is dead, half made or absent."""
    folder = state_dir(network.cluster) / "nodes" / node
    record = read_json(folder / "machine.json")
    if record is None or not MachineGroup(network.cluster, node).populated():
        return None
    return Machine(**record["identity"])


def delete(network: NetworkSpec, node: str) -> None:
    """End the machine and remove all that it had, its scratch data included."""
    group = MachineGroup(network.cluster, node)
    group.kill()
    group.remove()
    remove_node_link(network, node)
    remove_tree(state_dir(network.cluster) / "nodes" / node)


def wait_for_ssh(spec: MachineSpec, address: str, timeout: float = BOOT_DEADLINE) -> None:
    """Return when the machine's SSH server greets; raise HostError with its console's end."""
    deadline = time.monotonic() + timeout
    started = False
    while time.monotonic() < deadline:
        populated = spec.group.populated()
        started = started or populated
        if started and not populated:
            break
        if _greets(spec.network.namespace, address):
            return
        time.sleep(0.05)
    console = (spec.folder / "console.log").read_text(errors="replace").splitlines()[-8:]
    raise HostError(
        f"machine {spec.node} did not answer on SSH within {timeout:g} s; its console ended: "
        + " | ".join(line.strip() for line in console)
    )


def _greets(namespace: str, address: str) -> bool:
    """Whether an SSH server answers, seen from the bridge: the way that every user comes."""
    try:
        with connect(namespace, address, 22, 1.0) as link:
            link.settimeout(2.0)
            return link.recv(4, socket.MSG_WAITALL) == b"SSH-"
    except OSError:
        return False


def _lay_disk(spec: MachineSpec, address: str) -> str:
    """Fill the upper layer; returns the public host key."""
    for name in ("upper", "work", "root", "scratch"):
        (spec.folder / name).mkdir(parents=True)
    (spec.folder / "upper").chmod(0o755)
    (spec.folder / "scratch").chmod(0o1777)
    layer = Layer(spec.folder / "upper", spec.image)
    key = spec.folder / "host_key"
    comment = f"{spec.node}@{spec.cluster}"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(key)])
    public = key.with_suffix(".pub")
    layer.put(BirthFile("/etc/ssh/ssh_host_ed25519_key", key.read_bytes(), 0o600))
    layer.put(BirthFile("/etc/ssh/ssh_host_ed25519_key.pub", public.read_bytes()))
    host_key = " ".join(public.read_text().split()[:2])
    key.unlink()
    public.unlink()
    authorized = (state_dir(spec.cluster) / "ssh/id_ed25519.pub").read_bytes()
    home = f"/home/{spec.user}/.ssh"
    layer.folder(home, 0o700, spec.user)
    layer.put(BirthFile(f"{home}/authorized_keys", authorized, 0o600, spec.user, spec.user))
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{address} {spec.node}\n"
    layer.put(BirthFile("/etc/hosts", hosts.encode()))
    nameservers = spec.dns or host_nameservers()
    resolver = "".join(f"nameserver {server}\n" for server in nameservers)
    layer.put(BirthFile("/etc/resolv.conf", resolver.encode()))
    if spec.gpus:
        lay_gpus(layer, spec.sim_gpu, spec.gpus)
    for file in spec.birth_files:
        layer.put(file)
    return host_key


def _lay_identity(spec: MachineSpec, machine: Machine) -> None:
    layer = Layer(spec.folder / "upper", spec.image)
    layer.put(BirthFile("/etc/hostname", f"{spec.node}\n".encode()))
    layer.put(BirthFile("/etc/machine-id", f"{machine.machine_id}\n".encode(), 0o444))
    layer.put(BirthFile("/etc/gpufleet/provider-id", f"{machine.provider_id}\n".encode()))


def _record(spec: MachineSpec, machine: Machine) -> None:
    folder = spec.folder
    shared = state_dir(spec.cluster) / "fsx"
    write_json(
        folder / "machine.json",
        {
            "cluster": spec.cluster,
            "node": spec.node,
            "machine": spec.node,
            "namespace": spec.network.node_namespace(spec.node),
            "image": str(spec.image),
            "upper": str(folder / "upper"),
            "work": str(folder / "work"),
            "root": str(folder / "root"),
            "binds": [
                [str(shared), spec.shared_mount],
                [str(folder / "scratch"), spec.scratch_mount],
            ],
            "identity": vars(machine),
        },
    )


def _start(spec: MachineSpec) -> None:
    with (spec.folder / "console.log").open("ab") as console:
        launcher = Popen(
            [executable, "-m", "infra.local.launch", str(spec.folder / "machine.json")],
            stdin=DEVNULL,
            stdout=console,
            stderr=STDOUT,
            cwd=repo_root(),
        )
    if launcher.wait(timeout=20) != 0:
        raise HostError(f"machine {spec.node} could not be launched")
