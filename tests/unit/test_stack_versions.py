"""Versions compare by their own scheme and never as decimal numbers."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.stack.debversion import DebVersion
from gpufleet.stack.slurm_upgrade import release
from gpufleet.stack.versions import BadRange, BadVersion, has_prefix, head, parse, parse_range

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg"), reason="dpkg is not here")
KNOWN = """
    24.11.5 24.11.5-4 24.11.5-4+deb13u1 24.11.6 24.5.1 1:4.5.2-1 4.5.3-1 1.0~rc1 1.0 1.0-1 1.0-0
    1.00 1.0a 1.0+b 1.0. 2.7.0amzn2.0 2.7.0amzn10.0 0:1.0 26.1.5+dfsg1-9 1.0-1~bpo12+1 1.2-3-4
    560.35.03-0ubuntu1 560.35.03-1
""".split()  # noqa: SIM905  a table
PART = st.text("0123456789abzA.+~", min_size=0, max_size=6)


def dpkg_says_older(a: str, b: str) -> bool:
    done = subprocess.run(["dpkg", "--compare-versions", a, "lt", b], check=False)
    assert done.returncode in (0, 1)
    return done.returncode == 0


@needs_dpkg
def test_known_versions_are_in_the_order_of_dpkg() -> None:
    for a in KNOWN:
        for b in KNOWN:
            assert (DebVersion(a) < DebVersion(b)) == dpkg_says_older(a, b), (a, b)


@needs_dpkg
@settings(max_examples=120, deadline=None)
@given(PART, PART, PART, PART)
def test_any_two_versions_are_in_the_order_of_dpkg(a: str, b: str, c: str, d: str) -> None:
    first, second = f"1{a}-{b}0", f"1{c}-{d}0"
    assert (DebVersion(first) < DebVersion(second)) == dpkg_says_older(first, second)


@pytest.mark.parametrize("text", ["", "a1", "1 2", "1:", "1.0-", "1_0", ":1"])
def test_what_is_no_debian_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Debian version"):
        DebVersion(text)


def test_slurm_releases_are_months_and_no_fractions() -> None:
    assert release("24.11.5-4+deb13u1") == (24, 11)
    assert release("24.5.1") < release("24.11.0")
    assert parse("deb", "24.5.1") < parse("deb", "24.11.0")


def test_a_prefix_ends_at_a_boundary() -> None:
    assert has_prefix("24.11.5-4+deb13u1", "24.11.5")
    assert not has_prefix("24.11.5", "24.1")
    assert not has_prefix("580.126.20", "58")


@pytest.mark.parametrize(
    ("scheme", "text", "version", "inside"),
    [
        ("dotted", "580", "580.126.20", True),
        ("dotted", "580", "58.0", False),
        ("dotted", ">=570.26", "570.124.06", True),
        ("dotted", ">=570.124.06", "570.26", False),
        ("deb", "24.11", "24.11.5-4+deb13u1", True),
        ("deb", "<24.11.6", "24.11.5-4+deb13u1", True),
        ("pep440", ">=2.43.0,!=2.44.*", "2.44.1", False),
        ("pep440", ">=2.43.0,!=2.44.*", "2.46.0", True),
        ("pep440", "==2.13.0", "2.13.0+cpu", True),
        ("pep440", ">=1.26.0,<1.27.0", "1.30.0", False),
        ("pep440", "0.8", "0.8.5.post1", True),
        ("pep440", "~=2.46", "2.60.0", True),
        ("choice", "==os", "archive", False),
    ],
)
def test_ranges(scheme: str, text: str, version: str, inside: bool) -> None:
    assert parse_range(scheme, text).allows(version) is inside


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("dotted", ">=580.*"),
        ("dotted", "~=580"),
        ("dotted", "*"),
        ("dotted", ">=580,"),
        ("dotted", ""),
        ("dotted", ">=latest"),
        ("choice", ">=os"),
        ("pep440", "5*0"),
    ],
)
def test_what_is_no_range_is_refused(scheme: str, text: str) -> None:
    with pytest.raises(BadRange):
        parse_range(scheme, text)


def test_a_star_is_no_version() -> None:
    with pytest.raises(BadVersion):
        parse("dotted", "560.*")


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_the_head_of_a_version_is_a_prefix_of_it(parts: list[int]) -> None:
    text = ".".join(map(str, parts))
    assert has_prefix(text, head(text, 2))
