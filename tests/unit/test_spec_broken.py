"""Broken specs are refused with everything that is wrong in them, and nothing else."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.spec import ClusterSpec, SpecError, json_schema
from gpufleet.spec.document import parse_document
from gpufleet.spec.load import build_spec

TABLE: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "broken_specs.yaml").read_text()
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
def test_broken_spec_is_refused_with_every_fault_named(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as refused:
        build_spec(parse_document(row["spec"], "c.yaml"))
    assert [str(x).removeprefix("c.yaml:") for x in refused.value.problems] == row["said"]


def test_table_is_large_enough() -> None:
    assert len(TABLE) >= 40


SCALARS = st.sampled_from(
    ["c", "local", "12.10", "no", "10:30", "012345", "~", "1_0", "0x1f", ".inf", "2026-01-01", "''"]
)
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
    try:
        build_spec(parse_document(text or "{}", "c.yaml"))
    except SpecError as error:
        assert error.problems
        assert all(x.line >= 1 and x.column >= 1 and x.message for x in error.problems)


@given(st.text(max_size=60))
def test_any_text_at_all_ends_in_a_spec_or_in_problems(text: str) -> None:
    with pytest.raises(SpecError):
        build_spec(parse_document(text, "c.yaml"))


def test_schema_refuses_what_the_model_refuses_on_its_own() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    refused = 0
    for row in TABLE:
        try:
            document = parse_document(row["spec"], "c.yaml")
        except SpecError:
            continue
        plain = yaml.safe_load(yaml.safe_dump(_plain(document.data)))
        refused += not validator.is_valid(plain)
    assert refused >= 40


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    # What only YAML 1.1 reads in its own way is, to a schema, just another type.
    return value if isinstance(value, str | int | float | bool | type(None)) else [str(value)]
