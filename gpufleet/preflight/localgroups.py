"""The facts about a host that is to carry a local fleet: only data, nothing looks at a host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from .facts import FactGroup


@dataclass(frozen=True)
class Identity(FactGroup):
    """Who runs this process: its effective user id."""

    name: ClassVar[str] = "identity"
    euid: int


@dataclass(frozen=True)
class Probe:
    """Whether the kernel does a thing: tried out. `works` is None where it could not be tried."""

    works: bool | None
    detail: str = ""


@dataclass(frozen=True)
class Kernel(FactGroup):
    """What the running kernel lets this process do, feature by feature."""

    name: ClassVar[str] = "kernel"
    release: str
    probes: Mapping[str, Probe]


@dataclass(frozen=True)
class Cgroups(FactGroup):
    """How control groups are laid out: unified (v2 alone), hybrid (v2 beside v1), v1 or none.

    `path` is where the v2 hierarchy is mounted; `writable`, whether it is mounted so.
    """

    name: ClassVar[str] = "cgroups"
    layout: Literal["unified", "hybrid", "v1", "none"]
    path: str
    writable: bool


@dataclass(frozen=True)
class Tools(FactGroup):
    """Where each tool that was looked for lies; None where it is not installed."""

    name: ClassVar[str] = "tools"
    found: Mapping[str, str | None]


@dataclass(frozen=True)
class Place:
    """A folder and its file system; `free_mib` leaves out the blocks kept for the superuser."""

    path: str
    filesystem: str
    device: int
    free_mib: int
    read_only: bool = False


@dataclass(frozen=True)
class Disk(FactGroup):
    """Where the state and the cache lie."""

    name: ClassVar[str] = "disk"
    state: Place
    cache: Place


@dataclass(frozen=True)
class Memory(FactGroup):
    """Memory that can be had without swapping, in MiB."""

    name: ClassVar[str] = "memory"
    available_mib: int


@dataclass(frozen=True)
class OwnFleet(FactGroup):
    """What this cluster already has on this host: it needs no second helping of it."""

    name: ClassVar[str] = "own fleet"
    laid_nodes: frozenset[str] = frozenset()
    running_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Neighbour:
    """An address range that is in use; `interface` is the device of the host it is bound to."""

    kind: Literal["address", "route", "fleet"]
    network: str
    interface: str = ""
    owner: str = ""


@dataclass(frozen=True)
class Ranges(FactGroup):
    """IPv4 ranges that the host and other local fleets use, default routes left out."""

    name: ClassVar[str] = "ranges"
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Holder:
    """The process that holds a port; `own` where it belongs to the cluster that is checked."""

    pid: int
    command: str
    own: bool


@dataclass(frozen=True)
class FrontPort(FactGroup):
    """Whether the front's port can be had on the loopback address 127.0.0.1."""

    name: ClassVar[str] = "front port"
    port: int
    free: bool
    holder: Holder | None = None


@dataclass(frozen=True)
class Gate:
    """A firewall chain on forwarded packets that drops what it does not know.

    `lets_out` and `lets_back`: whether its table has rules that accept what comes from the
    cluster's uplink, and what goes to it.
    """

    name: str
    lets_out: bool
    lets_back: bool


@dataclass(frozen=True)
class Forwarding(FactGroup):
    """Chains of other firewalls that drop forwarded packets by default."""

    name: ClassVar[str] = "forwarding"
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True)
class Resolver(FactGroup):
    """Name servers the host is told to ask, and where that is written."""

    name: ClassVar[str] = "resolver"
    source: str
    nameservers: tuple[str, ...]


@dataclass(frozen=True)
class RealGpus(FactGroup):
    """Device files of real NVIDIA GPUs."""

    name: ClassVar[str] = "real GPUs"
    devices: tuple[str, ...] = ()
