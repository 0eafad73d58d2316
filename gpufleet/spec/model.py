"""The cluster spec: what an operator may ask for.

The descriptions of the fields are also those of the JSON schema and of the manual.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .providers import with_defaults

Partition = Literal["inference", "training"]
Provider = Literal["local", "aws", "baremetal"]

MOST_NODES = 10_000
WIDEST, NARROWEST = 16, 28
PRIVATE = tuple(IPv4Network(x) for x in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


class Part(BaseModel):
    """A part of the spec: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _range(value: Any) -> IPv4Network:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "has to be text")
    try:
        loose = IPv4Network(value, strict=False)
    except (AddressValueError, ValueError) as error:
        raise PydanticCustomError("cidr", "not an IPv4 range") from error
    if "/" not in value:
        raise PydanticCustomError("cidr", "a range without its width")
    if str(loose) != value:
        raise PydanticCustomError("cidr_host", "not the range's first address", {"fix": str(loose)})
    if not any(loose.subnet_of(block) for block in PRIVATE):
        raise PydanticCustomError("cidr_public", "not a private range")
    if not WIDEST <= loose.prefixlen <= NARROWEST:
        raise PydanticCustomError("cidr_size", "too wide or too narrow")
    return loose


def _address(value: Any) -> IPv4Address:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "has to be text")
    try:
        return IPv4Address(value)
    except AddressValueError as error:
        raise PydanticCustomError("address", "not an IPv4 address") from error


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


OCTETS = r"[0-9]{1,3}(\.[0-9]{1,3}){3}"
Sequence = BeforeValidator(_tuple)
Range = Annotated[
    IPv4Network,
    BeforeValidator(_range),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^{OCTETS}/(1[6-9]|2[0-8])$"}),
]
Address = Annotated[
    IPv4Address,
    BeforeValidator(_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^{OCTETS}$"}),
]
# No part may be "." or "..": what looks like a path inside a folder has to be one.
Place = Annotated[str, Field(pattern=r"^(/\.?[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)+$", max_length=200)]
Account = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]


def _money(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return Decimal(value) if whole else value


Usd = Annotated[
    Decimal,
    Field(gt=0, max_digits=12),
    BeforeValidator(_money),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]


class Capacity(Part):
    """How the cloud is asked for a pool's machines."""

    strategy: Literal["on-demand", "open", "reservation", "block", "spot"] = Field(
        default="on-demand",
        description="on-demand: pay as you go; open: any open reservation that fits, else on "
        "demand; reservation: only the reservation named; block: the capacity block named; spot: "
        "spare capacity that can be taken back.",
    )
    reservation_id: str | None = Field(
        default=None,
        pattern=r"^cr-[0-9a-z]+$",
        description="The reservation or capacity block; needed by, and only by, those strategies.",
    )
    max_price: Usd | None = Field(
        default=None, description="Most to pay for a spot machine, in USD an hour; only with spot."
    )


class Pool(Part):
    """Nodes of one kind."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9]{0,15}$",
        description="Nodes are called NAME-001, NAME-002 and so on.",
    )
    partition: Partition = Field(
        description="What the nodes are for; training and inference never share a node."
    )
    instance_type: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*$",
        description="A type of the provider: sim.h200x2 and others for local.",
    )
    count: int = Field(ge=0, le=MOST_NODES, description="How many nodes; 0 keeps the pool empty.")
    capacity: Capacity = Field(
        default_factory=Capacity, description="How the machines are obtained; aws only."
    )


class Network(Part):
    """The nodes' network."""

    cidr: Range = Field(
        default=IPv4Network("10.42.1.0/24"),
        description="A private IPv4 range of the cluster's own, /16 to /28, quoted. A local "
        "cluster keeps six of its addresses for itself.",
    )
    dns: Annotated[tuple[Address, ...], Sequence] = Field(
        default=(), description="Name servers for the nodes; the host's own where none is given."
    )
    egress: Literal["mirrors", "none"] = Field(
        default="mirrors",
        description="mirrors: nodes reach name servers and web ports, as package mirrors need; "
        "none: nodes reach only each other.",
    )


class SharedStorage(Part):
    """The file system that all nodes see."""

    mount: Place = Field(default="/fsx", description="Where the nodes have it.")
    kind: Literal["posix", "lustre", "fsx-lustre"] = Field(
        default="posix",
        description="posix: a folder of the host, local only; fsx-lustre: aws only; lustre: "
        "baremetal only. The provider's own where none is named.",
    )


class ScratchStorage(Part):
    """The fast disk of each node; its content goes with the node."""

    mount: Place = Field(default="/scratch", description="Where the node has it.")


class Storage(Part):
    """Storage of the cluster."""

    shared: SharedStorage = Field(
        default_factory=SharedStorage, description="The file system that all nodes see."
    )
    scratch: ScratchStorage = Field(
        default_factory=ScratchStorage, description="The fast disk of each node."
    )


class Image(Part):
    """What nodes boot from."""

    suite: Literal["trixie"] = Field(default="trixie", description="Debian release of local nodes.")
    extra_packages: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")], ...], Sequence
    ] = Field(default=(), description="Debian packages that local nodes are born with.")
    id: str | None = Field(
        default=None,
        pattern=r"^ami-[0-9a-f]+$",
        description="Machine image of cloud nodes; aws only.",
    )


class Budget(Part):
    """What the cluster may cost."""

    hourly_usd: Usd | None = Field(
        default=None, description="Most that the cluster may cost, in USD an hour."
    )


class Access(Part):
    """Who reaches the cluster, and how."""

    user: str = Field(
        default="fleet",
        pattern=r"^[a-z_][a-z0-9_-]{0,30}$",
        description="The unprivileged user of every node; may use sudo.",
    )
    front_port: int = Field(
        default=8400,
        ge=1024,
        le=65535,
        description="Port on this host's loopback that is kept for the fleet's front.",
    )


class NodeFile(Part):
    """A small file that every node is born with."""

    path: Place = Field(description="Where it lies on the node.")
    source: str = Field(
        min_length=1, description="The file to take, relative to the cluster's inventory folder."
    )
    mode: str = Field(
        default="0644",
        description='Octal with its leading zero, quoted ("0640"), or symbolic ("u=rw").',
    )
    owner: Account = Field(
        default="root", description="Owner on the node; has to exist in the image."
    )
    group: Account = Field(
        default="root", description="Group on the node; has to exist in the image."
    )
    secret: bool = Field(
        default=False,
        description="Whether nobody but the owner may read it; true for known secrets.",
    )


class Suppression(Part):
    """A preflight rule that is not to stop this cluster for a while."""

    rule: str = Field(description="Id of the rule.")
    reason: str = Field(min_length=10, description="Why the rule does not apply here.")
    expires: date = Field(description="Last day on which the rule is suppressed: YYYY-MM-DD.")


class Preflight(Part):
    """How the preflight rules are applied."""

    suppress: Annotated[tuple[Suppression, ...], Sequence] = Field(
        default=(), description="Rules to be suppressed, each with a reason and an end."
    )


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node that the spec asks for."""

    name: str
    pool: str
    partition: Partition
    instance_type: str
    index: int


class ClusterSpec(Part):
    """A cluster as its operator wants it."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,19}$", description="The cluster's name: its folder's name."
    )
    provider: Provider = Field(
        description="local: this host; aws: EC2; baremetal: machines that exist."
    )
    stack: str = Field(
        default="local-cpu",
        pattern=r"^[a-z][a-z0-9-]*$",
        description="The set of pinned versions that nodes get; local-cpu for local, current "
        "elsewhere, where none is named.",
    )
    pools: Annotated[tuple[Pool, ...], Sequence] = Field(
        min_length=1, description="The nodes, by kind."
    )
    network: Network = Field(default_factory=Network, description="The nodes' network.")
    storage: Storage = Field(default_factory=Storage, description="Storage of the cluster.")
    image: Image = Field(default_factory=Image, description="What nodes boot from.")
    budget: Budget = Field(default_factory=Budget, description="What the cluster may cost.")
    access: Access = Field(default_factory=Access, description="Who reaches it, and how.")
    files: Annotated[tuple[NodeFile, ...], Sequence] = Field(
        default=(), description="Small files that every node is born with."
    )
    preflight: Preflight = Field(
        default_factory=Preflight, description="How the preflight rules are applied."
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        return with_defaults(data) if isinstance(data, dict) else data

    def nodes(self) -> tuple[NodePlan, ...]:
        """Every node that the spec asks for, pool by pool."""
        return tuple(
            NodePlan(
                node_name(pool.name, index), pool.name, pool.partition, pool.instance_type, index
            )
            for pool in self.pools
            for index in range(1, pool.count + 1)
        )


def node_name(pool: str, index: int) -> str:
    """Name of a pool's node; the index begins with 1."""
    return f"{pool}-{index:03d}"
