"""Addresses of local nodes: given once, kept, reused last."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.spec.addresses import FIRST_NODE
from infra.local.address import RangeFull, choose

CIDR = "10.9.0.0/28"
NAMES = st.lists(st.sampled_from([f"n-{i}" for i in range(12)]), max_size=30)


@given(NAMES)
def test_nodes_never_share_an_address(names: list[str]) -> None:
    record: dict[str, str] = {}
    for name in names:
        try:
            _, record = choose(record, set(record), CIDR, name)
        except RangeFull:
            continue
    assert len(set(record.values())) == len(record)


@given(NAMES, st.sampled_from([f"n-{i}" for i in range(12)]))
def test_address_of_a_node_is_kept_whatever_comes_after(names: list[str], first: str) -> None:
    address, record = choose({}, set(), CIDR, first)
    for name in names:
        try:
            _, record = choose(record, {*record, first}, CIDR, name)
        except RangeFull:
            continue
    assert choose(record, {first}, CIDR, first)[0] == address


def test_bridge_and_link_addresses_are_never_given_out() -> None:
    record: dict[str, str] = {}
    network = ipaddress.IPv4Network(CIDR)
    for number in range(network.num_addresses - FIRST_NODE - 4):
        _, record = choose(record, set(record), CIDR, f"n-{number}")
    given_out = {ipaddress.IPv4Address(x) for x in record.values()}
    assert not given_out & {network[0], network[1], *list(network)[-4:]}
    with pytest.raises(RangeFull, match=r"widen network\.cidr"):
        choose(record, set(record), CIDR, "one-more")


def test_address_of_a_removed_node_is_given_out_only_when_all_others_are_used() -> None:
    _, record = choose({}, set(), CIDR, "gone")
    address, record = choose(record, set(), CIDR, "new")
    assert address != record["gone"]
    for number in range(8):
        _, record = choose(record, set(record), CIDR, f"n-{number}")
    address, record = choose(record, set(record) - {"gone"}, CIDR, "last")
    assert address == "10.9.0.2"
    assert "gone" not in record


def test_recorded_address_outside_a_changed_range_is_given_up() -> None:
    assert choose({"n": "10.8.0.2"}, {"n"}, CIDR, "n")[0] == "10.9.0.2"
