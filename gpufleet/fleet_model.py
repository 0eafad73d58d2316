"""Models of the fleet contract and what must hold between their values."""

import difflib
import ipaddress
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from .hostkeys import blob

SCHEMA_VERSION = 1
"""Raised when a reader of the old form would misread the new one."""


class UnknownNodeError(LookupError):
    """No node of the fleet has that name; the message names the nearest."""


def _number(value: object) -> object:
    # JSON knows numbers: text or a boolean in their place is a mistake of the writer.
    if isinstance(value, bool | str | bytes):
        raise PydanticCustomError("number", "a number is expected")
    return value


def _host_key(value: str) -> str:
    blob(value)
    return value


# The bounds stand before the validator: behind it they would be missing in the JSON schema.
Count = Annotated[int, Field(ge=0), BeforeValidator(_number)]
Size = Annotated[int, Field(gt=0), BeforeValidator(_number)]
Number = Annotated[float, Field(gt=0), BeforeValidator(_number)]
Truth = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(min_length=1)]
HostName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$", max_length=253)
]
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:-]*$", max_length=253)]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f]*$")]
HostKey = Annotated[
    str,
    Field(pattern=r"^(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}$"),
    AfterValidator(_host_key),
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Access(_Model):
    """How nodes are reached over SSH. Paths are of the operator's machine."""

    user: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
    ssh_config: AbsolutePath | None = None
    """OpenSSH client configuration with an entry per node; None: nodes are reached directly."""
    known_hosts: AbsolutePath | None = None
    """The fleet's own known_hosts, which alone decides on host keys."""


class Mount(_Model):
    """A file system shared by nodes: `source` is what is mounted at `path`."""

    path: AbsolutePath
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    source: Text


class Gpu(_Model):
    """One GPU. Its identity is the UUID; `index` is the driver's order at the time of writing."""

    index: Count
    uuid: Annotated[str, Field(pattern=r"^GPU-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")]
    model: Text
    """Product name as NVML gives it; one that is simulated says so."""
    memory_mib: Size
    numa_node: Count | None
    """None where the host has no NUMA nodes or does not tell."""
    pci_bus_id: Annotated[
        str, Field(pattern=r"^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]$")
    ]
    link_class: Annotated[str, Field(pattern=r"^(PCIe|NV[1-9][0-9]?(-direct)?)$")]
    """Way to its peers: `PCIe`; `NV18`: 18 NVLinks into switches; `NV4-direct`: switchless."""


class Nic(_Model):
    """One network interface; rate in Gbit/s, one direction."""

    name: Text
    fabric: Literal["efa", "infiniband", "ethernet"]
    rate_gbps: Number


class Scratch(_Model):
    """A disk of the node alone; size in GB (10^9 bytes), None: shares the root's."""

    path: AbsolutePath
    size_gb: Number | None


class FleetNode(_Model):
    """One node."""

    name: HostName
    address: Address
    provider_id: Annotated[str, Field(pattern=r"^\S+$")]
    """Identity of the machine: another id under the same name is another machine."""
    instance_type: Text
    pool: Text
    partition: Literal["inference", "training"]
    vcpus: Size
    memory_mib: Size
    """Processors and memory that a scheduler may plan with."""
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    scratch: tuple[Scratch, ...]
    mounts: tuple[Mount, ...]
    failure_domain: Text
    """Nodes of one domain may fail together."""
    host_key: HostKey
    simulated: Truth
    """Its GPUs are simulated."""


class Fleet(_Model):
    """The nodes of one cluster, in the order of its spec."""

    schema_version: Annotated[Literal[1], BeforeValidator(_number)]
    cluster: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
    provider: Literal["local", "aws", "baremetal"]
    stack: Text
    simulated: Truth
    access: Access
    shared_mounts: tuple[Mount, ...]
    nodes: tuple[FleetNode, ...]

    def node(self, name: str) -> FleetNode:
        """The node of that name; raises UnknownNodeError."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = [node.name for node in self.nodes]
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            hint = f"did you mean {near[0]}?"
        elif names:
            hint = f"it has {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}"
        else:
            hint = "it has no nodes"
        raise UnknownNodeError(f"no node {name!r} in cluster {self.cluster}: {hint}")

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        rows = [*_repeated(self), *_contradictions(self)]
        if rows:
            raise PydanticCustomError("incoherent", "incoherent", {"rows": rows})
        return self


def _identities(fleet: Fleet) -> Iterator[tuple[str, str, str]]:
    """(what must be unique, its normal form, path) of every value that names one thing."""
    for i, node in enumerate(fleet.nodes):
        path = f"nodes[{i}]"
        yield "name", node.name.lower(), f"{path}.name"
        yield "address", _normal(node.address), f"{path}.address"
        yield "provider id", node.provider_id, f"{path}.provider_id"
        for j, gpu in enumerate(node.gpus):
            yield "GPU UUID", gpu.uuid.lower(), f"{path}.gpus[{j}].uuid"
            yield f"GPU index on {node.name}", str(gpu.index), f"{path}.gpus[{j}].index"
            bus = gpu.pci_bus_id.lower().rjust(16, "0")[-16:]
            yield f"PCI bus id on {node.name}", bus, f"{path}.gpus[{j}].pci_bus_id"
        for j, nic in enumerate(node.nics):
            yield f"interface name on {node.name}", nic.name, f"{path}.nics[{j}].name"


def _repeated(fleet: Fleet) -> list[str]:
    first: dict[tuple[str, str], str] = {}
    rows = []
    for kind, value, path in _identities(fleet):
        earlier = first.setdefault((kind, value), path)
        if earlier != path:
            rows.append(f"{path}: {kind} {value} stands already at {earlier}; each is unique")
    return rows


def _contradictions(fleet: Fleet) -> list[str]:
    rows = []
    partitions: dict[str, set[str]] = defaultdict(set)
    for i, node in enumerate(fleet.nodes):
        partitions[node.pool].add(node.partition)
        if node.simulated and not fleet.simulated:
            rows.append(f"simulated: false, but nodes[{i}] {node.name} is simulated")
        for j, gpu in enumerate(node.gpus):
            if node.simulated and "simulated" not in gpu.model.lower():
                rows.append(
                    f"nodes[{i}].gpus[{j}].model: {gpu.model!r} of a simulated node does not say"
                    f" `simulated`"
                )
    for pool, seen in partitions.items():
        if len(seen) > 1:
            rows.append(f"nodes: pool {pool} is in two partitions; a pool belongs to one")
    return rows


def _normal(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower()


def model_of(field: str | None) -> type[BaseModel]:
    """The model of the objects below a field of the contract; None is the contract itself."""
    models: dict[str | None, Any] = {
        "access": Access,
        "gpus": Gpu,
        "mounts": Mount,
        "nics": Nic,
        "nodes": FleetNode,
        "scratch": Scratch,
        "shared_mounts": Mount,
    }
    model: type[BaseModel] = models.get(field, Fleet)
    return model
