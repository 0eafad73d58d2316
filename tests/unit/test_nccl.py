"""Interfaces that NCCL's socket filter takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import nccl

THERE = ["lo", "docker0", "ens32", "ens320", "veth12", "bond0", "bond0.5"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("bond0", ("bond0", "bond0.5")),
        ("=bond0", ("bond0",)),
        ("ens32,bond", ("bond0", "bond0.5", "ens32", "ens320")),
        ("=ens32,bond0", ("bond0", "ens32")),
        ("=ens32:4000", ("ens32",)),
        ("^lo,docker,veth,bond", ("ens32", "ens320")),
        ("^=bond0,lo,docker0,veth12,ens32", ("bond0.5", "ens320")),
        (" =ens320 ", ("ens320",)),
    ],
)
def test_filter_takes_what_nccl_takes(wanted: str, names: tuple[str, ...]) -> None:
    taken = nccl.take(wanted, THERE, "a")
    assert taken.names == names
    assert taken.errors == ()


@pytest.mark.parametrize("wanted", ["^", "=", "^=,", ","])
def test_filter_without_a_name_is_an_error(wanted: str) -> None:
    assert "names no interface" in nccl.take(wanted, THERE, "a").errors[0]


def test_loopback_alone_is_an_error() -> None:
    assert "loopback alone" in nccl.take("=lo", THERE, "a").errors[0]


def test_exact_filter_is_not_warned_of() -> None:
    assert nccl.take("=ens32", THERE, "a").warnings == ()


def test_host_without_interfaces_says_so() -> None:
    assert "it has none" in nccl.take("", [], "a").errors[0]


names = st.lists(st.text("abc0.", min_size=1, max_size=5), max_size=8, unique=True)


@given(names, names.filter(bool), st.sampled_from(["", "="]))
def test_filter_and_its_inverse_share_nothing_and_leave_nothing_out(
    there: list[str], wanted: list[str], mark: str
) -> None:
    value = mark + ",".join(wanted)
    one, other = nccl.take(value, there, "a").names, nccl.take("^" + value, there, "a").names
    assert sorted([*one, *other]) == sorted(there)


@given(names, names.filter(bool))
def test_exact_is_a_part_of_prefix(there: list[str], wanted: list[str]) -> None:
    exact = nccl.take("=" + ",".join(wanted), there, "a").names
    assert set(exact) == set(there) & set(wanted)
    assert set(exact) <= set(nccl.take(",".join(wanted), there, "a").names)
