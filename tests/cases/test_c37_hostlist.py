"""Host lists in every legal form, and errors that show the place."""

import time

import pytest

from gpufleet.hostlist import HostlistError, expand


def test_c37_plain_and_bracketed_names_mix() -> None:
    assert expand("a1,b[001,003-004],c-x[2,9]") == ["a1", "b001", "b003", "b004", "c-x2", "c-x9"]


def test_c37_two_brackets_give_four_names() -> None:
    assert expand("rack[0-1]n[0-1]") == ["rack0n0", "rack0n1", "rack1n0", "rack1n1"]


@pytest.mark.parametrize(("text", "position"), [("n[3-1]", 2), ("n[1-", 4)])
def test_c37_broken_range_is_an_error_with_its_position(text: str, position: int) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    assert [problem.position for problem in caught.value.problems] == [position]
    assert str(caught.value).splitlines()[-1] == "  " + " " * position + "^"


def test_c37_huge_range_is_refused_by_a_limit() -> None:
    began = time.monotonic()
    with pytest.raises(HostlistError, match="more than 65536 names"):
        expand("n[1-100000000]")
    assert time.monotonic() - began < 0.1


def test_c37_empty_list_is_empty() -> None:
    assert expand("") == []
