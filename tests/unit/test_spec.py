"""A right spec is read as it was meant."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from gpufleet import catalog
from gpufleet.filemode import known_secret, parse_mode
from gpufleet.paths import repo_root
from gpufleet.spec import ClusterSpec, SpecError, json_schema, load_spec
from gpufleet.spec.addresses import capacity
from gpufleet.spec.document import parse_document
from gpufleet.spec.explain import PATTERNS
from gpufleet.spec.load import build_spec
from gpufleet.spec.model import Capacity
from gpufleet.spec.providers import PROVIDERS, STRATEGIES

WHOLE = """\
name: c
provider: local
stack: local-cpu
pools:
  - name: infer
    partition: inference
    instance_type: sim.h200x2
    count: 2
  - {name: train, partition: training, instance_type: sim.h200x8, count: 1}
network: {cidr: 10.9.0.0/24, dns: [10.9.9.9], egress: none}
storage: {shared: {mount: /fsx, kind: posix}, scratch: {mount: /scratch}}
image: {suite: trixie, extra_packages: [tree]}
budget: {hourly_usd: 12}
access: {user: fleet, front_port: 8400}
files:
  - {path: /etc/munge/munge.key, source: here, mode: "0400", owner: munge, secret: true}
  - {path: /y, source: here, mode: "u=rw"}
preflight:
  suppress: [{rule: local.disk, reason: small test host, expires: TOMORROW}]
"""


def models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """A model and all that are part of it."""
    found = {model}
    for field in model.model_fields.values():
        stack = [field.annotation]
        while stack:
            annotation = stack.pop()
            stack += get_args(annotation)
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                found |= models(annotation)
    return found


def whole() -> str:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    return WHOLE.replace("TOMORROW", str(tomorrow))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").write_text("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_shipped_cluster_is_right() -> None:
    paths = sorted((repo_root() / "inventories").glob("*/cluster.yaml"))
    assert paths
    for path in paths:
        assert load_spec(path).name == path.parent.name


def test_spec_with_everything_is_read(folder: Path) -> None:
    spec = build_spec(parse_document(whole(), "c.yaml"))
    assert [node.name for node in spec.nodes()] == ["infer-001", "infer-002", "train-001"]
    assert spec.network.cidr == IPv4Network("10.9.0.0/24")
    assert spec.files[1].mode == "u=rw"


def test_schema_accepts_what_the_model_accepts(folder: Path) -> None:
    data = yaml.load(whole(), Loader=yaml.BaseLoader)  # all scalars stay text
    for pool in data["pools"]:
        pool["count"] = int(pool["count"])
    data["budget"]["hourly_usd"] = 12
    data["access"]["front_port"] = 8400
    data["files"][0]["secret"] = True
    jsonschema.Draft202012Validator(json_schema()).validate(data)


def test_every_field_is_described_in_the_schema_and_the_manual() -> None:
    manual = (repo_root() / "docs/cluster-spec.md").read_text()
    for model in models(ClusterSpec):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert f"`{name}`" in manual, f"{name} is not in docs/cluster-spec.md"


def test_every_pattern_is_explained_in_words() -> None:
    explained = {path.split(".")[-1].removesuffix("[]") for path in PATTERNS}
    for model in models(ClusterSpec):
        for name, field in model.model_fields.items():
            text = repr(field.metadata) + repr(field.annotation)
            if "pattern=" in text and "pattern=None" not in text:
                assert name in explained, f"{model.__name__}.{name}"


def test_spec_is_in_the_folder_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "other/cluster.yaml"
    path.parent.mkdir()
    path.write_text(whole().split("files:")[0])
    with pytest.raises(SpecError, match="not the name of the folder"):
        load_spec(path)


@pytest.mark.parametrize("make", ["absent", "folder", "latin"])
def test_unreadable_file_is_one_sentence(tmp_path: Path, make: str) -> None:
    path = tmp_path / "cluster.yaml"
    if make == "folder":
        path.mkdir()
    elif make == "latin":
        path.write_bytes(b"name: \xe9\n")
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert len(refused.value.problems) == 1


def test_small_file_cannot_stand_for_a_huge_one() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]\n" for n in range(1, 9)
    )
    with pytest.raises(SpecError, match="aliases"):
        parse_document(text, "c.yaml")


def test_place_of_a_byte_that_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"name: c\nstack: \xe9\n")
    with pytest.raises(SpecError, match=r"x\.yaml:2:8: not UTF-8 text: byte 0xe9"):
        load_spec(path)


@pytest.mark.parametrize("name", ["absent/x.yaml", "a" * 300, "file/x.yaml"])
def test_path_that_leads_nowhere_is_a_problem_and_no_crash(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError):
        load_spec(tmp_path / name)


@pytest.mark.parametrize(
    ("provider", "stack", "kind"),
    [("local", "local-cpu", "posix"), ("aws", "current", "fsx-lustre"),
     ("baremetal", "current", "lustre")],
)  # fmt: skip
def test_defaults_are_those_of_the_provider(provider: str, stack: str, kind: str) -> None:
    kinds = {"local": "sim.cpu"}
    pool = {"name": "a", "partition": "training", "count": 1,
            "instance_type": kinds.get(provider, "p5en.48xlarge")}  # fmt: skip
    spec = ClusterSpec.model_validate({"name": "c", "provider": provider, "pools": [pool]})
    assert (spec.stack, spec.storage.shared.kind) == (stack, kind)


def test_every_choice_of_the_model_has_its_row() -> None:
    assert set(PROVIDERS) == set(get_args(ClusterSpec.model_fields["provider"].annotation))
    strategies = {name for row in PROVIDERS.values() for name in row.strategies}
    assert set(STRATEGIES) == set(get_args(Capacity.model_fields["strategy"].annotation))
    assert strategies <= set(STRATEGIES)


def test_money_is_exact() -> None:
    text = WHOLE.replace("hourly_usd: 12", "hourly_usd: 98.40").split("files:")[0]
    assert build_spec(parse_document(text, "c.yaml")).budget.hourly_usd == Decimal("98.40")


def test_range_of_a_local_cluster_keeps_six_addresses() -> None:
    assert capacity(IPv4Network("10.0.0.0/28")) == 10


def test_type_is_added_by_data_alone(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "name": "sim.invented", "provider": "local", "simulated": True, "vcpus": 1,
        "memory_mib": 1, "gpus": 3, "source": "this test", "date": "2026-12-01",
    }  # fmt: skip
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"instance_types": [row]}))
    assert catalog.names("local", tmp_path) == ("sim.invented",)
    assert catalog.get("sim.invented", tmp_path).gpus == 3
    with pytest.raises(catalog.CatalogError, match=r"did you mean sim\.invented"):
        catalog.get("sim.invnted", tmp_path)


def test_every_type_says_where_it_is_from_and_whether_it_is_simulated() -> None:
    for itype in catalog.load().values():
        assert itype.source
        assert itype.date
        assert itype.simulated == (itype.provider == "local")


@pytest.mark.parametrize(
    ("text", "mode"),
    [("0644", 0o644), ("0400", 0o400), ("u=rw", 0o600), ("u=rwx,go=rx", 0o755), ("a=r", 0o444)],
)
def test_modes_mean_what_they_say(text: str, mode: int) -> None:
    assert parse_mode(text) == mode


@pytest.mark.parametrize("text", ["644", "", "0888", "u+rw", "rw", "06444444"])
def test_other_forms_of_modes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="octal with its leading zero"):
        parse_mode(text)


def test_secrets_are_known_by_their_paths() -> None:
    assert known_secret("/etc/munge/munge.key")
    assert known_secret("/etc/agent/token")
    assert not known_secret("/etc/hosts")
