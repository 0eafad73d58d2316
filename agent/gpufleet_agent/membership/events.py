"""What goes into the core and what comes out of it."""

from dataclasses import dataclass

from gpufleet_agent.membership.records import Facts, Status


@dataclass(frozen=True, slots=True)
class Start:
    """The process starts; `former_life` is the last one that was persisted, 0 for none."""

    former_life: int


@dataclass(frozen=True, slots=True)
class Persisted:
    """The life of a Persist effect is durable."""

    life: int


@dataclass(frozen=True, slots=True)
class Received:
    """A datagram came from an address (opened, where the edge encrypts)."""

    source: str
    datagram: bytes


@dataclass(frozen=True, slots=True)
class Wake:
    """The time `wake_at` has come."""


@dataclass(frozen=True, slots=True)
class FactsChanged:
    """The owner's facts are these now; told with the next round of gossip."""

    facts: Facts


@dataclass(frozen=True, slots=True)
class Leave:
    """Say goodbye; `Finished` follows."""


type Event = Start | Persisted | Received | Wake | FactsChanged | Leave


@dataclass(frozen=True, slots=True)
class Send:
    """Send a datagram to an address."""

    address: str
    datagram: bytes


@dataclass(frozen=True, slots=True)
class Persist:
    """Make a life durable, then hand in Persisted; it is not used before."""

    life: int


@dataclass(frozen=True, slots=True)
class Changed:
    """The status of a member is another one now (a first ALIVE is a join)."""

    name: str
    status: Status
    incarnation: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another process uses our name, at this address. An operator has to end one of them."""

    address: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The goodbye is said; nothing more is sent."""


type Effect = Send | Persist | Changed | Conflict | Finished
