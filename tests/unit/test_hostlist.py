"""Host lists are read as Slurm reads them, and written so that Slurm can read them."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.hostlist import HostlistError, compress, expand

Scontrol = Callable[[str], list[str]]

stems = st.text("abz.-_09", min_size=1, max_size=5)
names = st.one_of(
    stems,
    st.tuples(stems, st.integers(0, 120), st.integers(1, 4)).map(
        lambda x: f"{x[0]}{str(x[1]).zfill(x[2])}"
    ),
)
ranges = st.tuples(st.integers(0, 99), st.integers(0, 4), st.integers(1, 3)).map(
    lambda x: str(x[0]).zfill(x[2]) + (f"-{x[0] + x[1]}" if x[1] else "")
)
brackets = st.lists(ranges, min_size=1, max_size=3).map(lambda x: f"[{','.join(x)}]")
plain = st.text("abz.-_0", min_size=1, max_size=4)
# At most two brackets: with three Slurm's order is another one, and the names are the same.
items = st.one_of(
    plain,
    st.tuples(plain, brackets).map("".join),
    st.tuples(plain, brackets, plain, brackets).map("".join),
)
hostlists = st.lists(items, max_size=4).map(",".join)


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Scontrol:
    """Slurm's own expansion; the comparison is not optional."""
    if shutil.which("scontrol") is None:
        pytest.fail("scontrol is not on PATH; install the package slurm-client")
    config = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    config.write_text("ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\n")

    def show(text: str) -> list[str]:
        # The name in front keeps a list that begins with `-` from being read as an option.
        done = subprocess.run(
            ["scontrol", "show", "hostnames", f"first,{text}"],
            env={**os.environ, "SLURM_CONF": str(config)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Invalid" not in done.stdout + done.stderr, (text, done)
        return done.stdout.split()[1:]

    return show


def test_padding_follows_the_lower_end() -> None:
    assert expand("n[08-11]") == ["n08", "n09", "n10", "n11"]
    assert expand("n[8-011]") == ["n8", "n9", "n10", "n11"]
    assert expand("n[098-101]") == ["n098", "n099", "n100", "n101"]


def test_text_after_a_bracket_is_kept() -> None:
    assert expand("n[1-2]-ib,r[1]c[2]x") == ["n1-ib", "n2-ib", "r1c2x"]


def test_white_space_and_empty_items_separate() -> None:
    assert expand(" a,,b\n[1-2]\t,") == ["a", "b", "1", "2"]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("n]", 1, "']' without"),
        ("n[1]]", 4, "']' without"),
        ("n[[1]]", 2, "'[' where a number belongs"),
        ("n[]", 2, "']' where a number belongs"),
        ("n[1,]", 4, "']' where a number belongs"),
        ("n[1-]", 4, "']' where a number belongs"),
        ("n[-1]", 2, "'-' where a number belongs"),
        ("n[1-2-3]", 5, "'-' where"),
        ("n[1 - 2]", 3, "' ' where"),
        ("n[a-c]", 2, "'a' where a number belongs"),
        ("n[1", 3, "'[' at 2 is never closed"),
        ("n[", 2, "never closed"),
        ("ok,a;b", 4, "';' cannot stand"),
        ("n{1-2}", 1, "'{' cannot stand"),
        (f"n[{'9' * 65}]", 2, "digits"),
    ],
)
def test_mistake_is_shown_at_its_place(text: str, position: int, message: str) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    (problem,) = caught.value.problems
    assert problem.position == position
    assert message in problem.message
    _, line, caret = str(caught.value).splitlines()
    assert line.strip() == text or len(text) > 60
    assert caret.index("^") - 2 == min(position, len(line))


def test_all_mistakes_come_in_one_run() -> None:
    with pytest.raises(HostlistError) as caught:
        expand("n[x,1],ok,m[3-1],p;q,r[1-2]")
    assert [problem.position for problem in caught.value.problems] == [2, 12, 18]


def test_caret_is_under_the_mistake_of_a_long_list_too() -> None:
    text = ",".join(f"node{i}" for i in range(200)) + ",bad[3-1]," + "x" * 200
    with pytest.raises(HostlistError) as caught:
        expand(text)
    _, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") :].startswith("3-1]")
    assert len(line) < 80


@pytest.mark.parametrize("text", ["n[1-100000000]", "a[0-999]b[0-999]", "n[0-999999999999999999]"])
def test_huge_list_is_counted_not_made(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(HostlistError, match="more than 65536 names"):
        expand(text)
    assert time.monotonic() - began < 0.1


def test_limit_is_for_the_whole_list() -> None:
    assert len(expand("a[1-5],b[1-5]", limit=10)) == 10
    with pytest.raises(HostlistError, match="more than 9 names"):
        expand("a[1-5],b[1-5]", limit=9)


def test_compressed_list_is_short() -> None:
    assert compress(f"gpu-{i:03}" for i in range(1, 1001)) == "gpu-[001-1000]"
    assert compress(["n2", "n1", "n01", "n02", "n5", "n1"]) == "n[1-2,01-02,5]"
    assert compress([]) == ""


def test_name_that_no_list_can_hold_is_refused() -> None:
    for name in ("a,b", "", "a[1]", "a b"):
        with pytest.raises(HostlistError):
            compress([name])


@given(st.lists(names, max_size=40))
def test_compressing_and_expanding_gives_each_name_once(given_names: list[str]) -> None:
    assert sorted(expand(compress(given_names))) == sorted(set(given_names))


@given(st.text("ab[]-,019 ;\n", max_size=30))
def test_any_text_is_a_list_or_an_error_with_a_place_in_it(text: str) -> None:
    try:
        found = expand(text, limit=1000)
    except HostlistError as error:
        assert all(0 <= problem.position <= len(text) for problem in error.problems)
    else:
        assert sorted(expand(compress(found))) == sorted(set(found))


@settings(max_examples=60, deadline=None)
@given(text=hostlists)
def test_expansion_is_that_of_slurm(scontrol: Scontrol, text: str) -> None:
    assert expand(text) == scontrol(text)


@settings(max_examples=30, deadline=None)
@given(given_names=st.lists(names, max_size=20))
def test_slurm_understands_what_we_compress(scontrol: Scontrol, given_names: list[str]) -> None:
    assert sorted(scontrol(compress(given_names))) == sorted(set(given_names))


def test_three_brackets_give_the_names_that_slurm_gives(scontrol: Scontrol) -> None:
    text = "r[0-1]n[00-02]p[7,9]"
    assert sorted(expand(text)) == sorted(scontrol(text))


def test_slurm_is_really_asked(scontrol: Scontrol, tmp_path: Path) -> None:
    assert scontrol("q[1-2]") == ["q1", "q2"]
