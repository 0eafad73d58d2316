"""What a spec may ask of each provider: one row a provider, read by the checks between fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class ProviderRow:
    """The choices that one provider has.

    `shared_kinds` begins with the default; `image_fields` are the fields of `image` that mean
    something there; `strategies` are the capacity strategies that can be bought;
    `keeps_addresses`: whether nodes, bridge and uplink share `network.cidr`, so that the range
    alone limits the number of nodes.
    """

    stack: str
    shared_kinds: tuple[str, ...]
    image_fields: frozenset[str] = frozenset()
    strategies: tuple[str, ...] = ()
    keeps_addresses: bool = False


PROVIDERS: Mapping[str, ProviderRow] = MappingProxyType(
    {
        "local": ProviderRow(
            stack="local-cpu",
            shared_kinds=("posix",),
            image_fields=frozenset({"suite", "extra_packages"}),
            keeps_addresses=True,
        ),
        "aws": ProviderRow(
            stack="current",
            shared_kinds=("fsx-lustre",),
            image_fields=frozenset({"id"}),
            strategies=("on-demand", "open", "reservation", "block", "spot"),
        ),
        "baremetal": ProviderRow(stack="current", shared_kinds=("lustre",)),
    }
)


@dataclass(frozen=True)
class StrategyRow:
    """Which fields of `capacity` a strategy needs, and which others it may have."""

    needs: frozenset[str] = frozenset()
    takes: frozenset[str] = field(default_factory=frozenset)


STRATEGIES: Mapping[str, StrategyRow] = MappingProxyType(
    {
        "on-demand": StrategyRow(),
        "open": StrategyRow(),
        "reservation": StrategyRow(needs=frozenset({"reservation_id"})),
        "block": StrategyRow(needs=frozenset({"reservation_id"})),
        "spot": StrategyRow(takes=frozenset({"max_price"})),
    }
)


def with_defaults(data: dict[str, Any]) -> dict[str, Any]:
    """The data with the defaults filled in that depend on the provider; the given stays as it is.

    Data of an unknown provider comes back unchanged: what it would get cannot be said.
    """
    provider = data.get("provider")
    row = PROVIDERS.get(provider) if isinstance(provider, str) else None
    if row is None:
        return data
    storage = data.get("storage", {})
    if isinstance(storage, dict):
        shared = storage.get("shared", {})
        if isinstance(shared, dict):
            storage = {**storage, "shared": {"kind": row.shared_kinds[0], **shared}}
    return {"stack": row.stack, **data, "storage": storage}
