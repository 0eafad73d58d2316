"""Broken specs are refused with everything that is wrong in them, and nothing else."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.spec import ClusterSpec, Problem, SpecError, json_schema
from gpufleet.spec.document import NOTHING, Odd, parse_document
from gpufleet.spec.load import build_spec

TABLE: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "broken_specs.yaml").read_text()
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
def test_broken_spec_is_refused_with_every_fault_named(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").write_text("x")
    (tmp_path / "out").symlink_to("/etc/hostname")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as refused:
        build_spec(parse_document(row["spec"], "c.yaml"))
    assert [str(x).removeprefix("c.yaml:") for x in refused.value.problems] == row["said"]


def test_table_is_large_enough() -> None:
    assert len(TABLE) >= 40


PLAIN = "c local 12.10 no 10:30 012345 ~ 1_0 0x1f .inf 2026-01-01 '' -.inf 1:2. = << *a null"
ODD = ["0b_", "0x_", "9" * 4400, "!!int x", "!x y", "2026-99-99", "[*a]", "&a [*a]", '"\\0\\n"']
SCALARS = st.sampled_from([*PLAIN.split(), *ODD])
KEYS = st.sampled_from([*ClusterSpec.model_fields, "count", "mount", "mode", "path", "rule", "x"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda x: "[" + ", ".join(x) + "]")
        | st.dictionaries(KEYS, inner, max_size=4).map(
            lambda x: "{" + ", ".join(f"{a}: {b}" for a, b in x.items()) + "}"
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_whatever_is_written_ends_in_a_spec_or_in_problems(data: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in data.items())
    problems = judged(text or "{}")
    assert all(x.line >= 1 and x.column >= 1 and x.message for x in problems)
    assert all("\n" not in str(x) for x in problems)


def judged(text: str) -> list[Problem]:
    """Every problem of a spec; none where it is accepted."""
    try:
        build_spec(parse_document(text, "c.yaml"))
    except SpecError as error:
        return error.problems
    return []


@given(st.text(max_size=60))
def test_any_text_at_all_ends_in_a_spec_or_in_problems(text: str) -> None:
    with pytest.raises(SpecError):
        build_spec(parse_document(text, "c.yaml"))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
def test_schema_refuses_the_broken_specs_that_a_schema_can_see(row: dict[str, Any]) -> None:
    view = schema_view(row["spec"])
    if view is None:
        assert row["schema"] == "unreadable"
    else:
        refused = not jsonschema.Draft202012Validator(json_schema()).is_valid(view)
        assert ("refuses" if refused else "accepts") == row["schema"]


def test_schema_sees_what_is_wrong_with_a_single_value() -> None:
    assert sum(row["schema"] == "refuses" for row in TABLE) >= 50


def schema_view(text: str) -> Any:
    """What a schema judges: the data as an editor hands it over; None where there is none."""
    try:
        return _plain(parse_document(text, "c.yaml").data)
    except SpecError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, Odd):
        # Every loader agrees that nothing is nothing; else the words are as YAML 1.1 reads them.
        return None if value.reading == NOTHING else _read(value.text)
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _read(text: str) -> Any:
    try:
        found = yaml.safe_load(text)
    except ValueError:
        return text
    return found if isinstance(found, int | float) else text
