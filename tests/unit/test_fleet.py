"""The contract is whole, exact, and readable in its errors."""

import copy
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import contracts
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufleet.fleet as fleet_module
from gpufleet.fleet import (
    SCHEMA_VERSION,
    FleetError,
    UnknownNodeError,
    dump,
    json_schema,
    load_fleet,
    validate,
    write_fleet,
)

Change = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Change:
    """A change that sets `nodes.0.name` or the like."""

    def change(contract: dict[str, Any]) -> None:
        *parents, last = [int(x) if x.isdigit() else x for x in path.split(".")]
        place: Any = contract
        for key in parents:
            place = place[key]
        place[last] = value

    return change


def drop(path: str) -> Change:
    """A change that removes a field of the contract or of its first node."""

    def change(contract: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        del (contract["nodes"][0] if parents else contract)[last]

    return change


# What the JSON schema and the models refuse alike: change, and what the message must say.
REFUSED_BY_BOTH: dict[str, tuple[Change, str]] = {
    "unknown field": (put("nodes.0.adress", "x"), "nodes[0].adress: is no field of the contract"),
    "near miss": (put("nodes.0.adress", "x"), "did you mean address?"),
    "near miss in a GPU": (put("nodes.1.gpus.0.uid", "x"), "did you mean uuid?"),
    "missing": (drop("nodes.host_key"), "nodes[0].host_key: is missing"),
    "no version": (drop("schema_version"), "schema_version: is missing"),
    "old version": (put("schema_version", 0), "schema_version: input should be 1 (seen 0)"),
    "text for a number": (put("nodes.0.gpus.1.memory_mib", "144384"), "a number is expected"),
    "boolean for a number": (put("nodes.0.gpus.1.index", True), "nodes[0].gpus[1].index"),
    "half a megabyte": (put("nodes.0.gpus.1.memory_mib", 0.5), "(seen 0.5)"),
    "number for text": (put("nodes.0.name", 7), "nodes[0].name"),
    "text for a truth": (put("simulated", "yes"), "simulated: input should be a valid boolean"),
    "partition": (put("nodes.2.partition", "batch"), "'inference' or 'training'"),
    "provider": (put("provider", "gcp"), "provider"),
    "fabric": (put("nodes.0.nics.0.fabric", "roce"), "nodes[0].nics[0].fabric"),
    "rate": (put("nodes.0.nics.0.rate_gbps", 0), "greater than 0"),
    "uuid": (put("nodes.0.gpus.0.uuid", "0"), "nodes[0].gpus[0].uuid"),
    "bus id": (put("nodes.0.gpus.0.pci_bus_id", "1B"), "nodes[0].gpus[0].pci_bus_id"),
    "link class": (put("nodes.0.gpus.0.link_class", "fast"), "nodes[0].gpus[0].link_class"),
    "option as a name": (put("nodes.0.name", "-oProxyCommand=x"), "nodes[0].name"),
    "option as an address": (put("nodes.0.address", "-x"), "nodes[0].address"),
    "relative path": (put("nodes.0.scratch.0.path", "scratch"), "nodes[0].scratch[0].path"),
    "relative known_hosts": (put("access.known_hosts", "kh"), "access.known_hosts"),
    "user": (put("access.user", "a b"), "access.user"),
    "two keys": (put("nodes.0.host_key", "ssh-ed25519 AAAA\nssh-rsa BBBB"), "nodes[0].host_key"),
    "null": (put("nodes.0.address", None), "nodes[0].address"),
}

# What only the models know.
REFUSED_BY_MODELS: dict[str, tuple[Change, str]] = {
    "key of another type": (
        put("nodes.0.host_key", "ssh-rsa " + contracts.host_key("x").split()[1]),
        "nodes[0].host_key: the host key calls itself ssh-rsa",
    ),
    "same name": (
        put("nodes.1.name", "Infer-001"),
        "nodes[1].name: name infer-001 stands already at nodes[0].name",
    ),
    "same address": (put("nodes.1.address", "10.42.9.2"), "nodes[1].address: address 10.42.9.2"),
    "same provider id": (
        put("nodes.2.provider_id", "i-infer-001-1"),
        "nodes[2].provider_id: provider id i-infer-001-1 stands already at nodes[0].provider_id",
    ),
    "same GPU on two nodes": (
        put("nodes.2.gpus.0.uuid", contracts.gpu("infer-001", 1)["uuid"].replace("GPU", "GPU")),
        "nodes[2].gpus[0].uuid: GPU UUID",
    ),
    "same bus id in another spelling": (
        put("nodes.0.gpus.1.pci_bus_id", "0000:1b:00.0"),
        "nodes[0].gpus[1].pci_bus_id: PCI bus id on infer-001",
    ),
    "same index": (put("nodes.0.gpus.1.index", 0), "nodes[0].gpus[1].index: GPU index on infer"),
    "pool in two partitions": (put("nodes.2.pool", "infer"), "pool infer is in two partitions"),
    "simulated node of a real fleet": (put("simulated", False), "nodes[0] infer-001 is simulated"),
    "GPU that hides that it is simulated": (
        put("nodes.0.gpus.0.model", "NVIDIA H200"),
        "nodes[0].gpus[0].model: 'NVIDIA H200' of a simulated node does not say `simulated`",
    ),
}


def refused(contract: dict[str, Any]) -> FleetError:
    with pytest.raises(FleetError) as caught:
        validate(contract)
    return caught.value


def test_contract_comes_back_equal_from_json(tmp_path: Path) -> None:
    fleet = contracts.fleet()
    write_fleet(tmp_path / "new/.fleet.json", fleet)
    assert load_fleet(tmp_path / "new/.fleet.json") == fleet
    assert validate(json.loads(json.dumps(dump(fleet)))) == fleet


def test_whole_numbers_may_come_as_floats_as_the_engine_hands_them_over() -> None:
    floats = json.loads(json.dumps(contracts.contract()), parse_int=float)
    assert validate(floats) == contracts.fleet()
    assert isinstance(dump(validate(floats))["nodes"][0]["gpus"][0]["index"], int)


@pytest.mark.parametrize("case", [*REFUSED_BY_BOTH, *REFUSED_BY_MODELS])
def test_bad_contract_is_refused_with_path_and_reason(case: str) -> None:
    change, text = {**REFUSED_BY_BOTH, **REFUSED_BY_MODELS}[case]
    contract = copy.deepcopy(contracts.contract())
    change(contract)
    assert text in str(refused(contract))


@pytest.mark.parametrize("case", REFUSED_BY_BOTH)
def test_schema_refuses_what_the_models_refuse(case: str) -> None:
    contract = copy.deepcopy(contracts.contract())
    REFUSED_BY_BOTH[case][0](contract)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(contract, json_schema())


def test_schema_accepts_what_the_models_accept() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    for contract in (contracts.contract(), {**contracts.contract(), "nodes": []}):
        jsonschema.validate(contract, json_schema())
        validate(contract)


def test_exported_schema_is_that_of_the_models() -> None:
    path = Path(fleet_module.__file__).with_name("fleet.schema.json")
    assert json.loads(path.read_text()) == json_schema(), "run: python -m gpufleet.fleet"


def test_all_problems_come_in_one_run() -> None:
    contract = contracts.contract()
    for path in ("nodes.0.name", "nodes.1.address", "nodes.2.gpus.1.uuid"):
        put(path, "?")(contract)
    assert len(refused(contract).problems) == 3
    contract = contracts.contract(contracts.node("a", 2), contracts.node("a", 2))
    assert len(refused(contract).problems) >= 4


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_value_is_a_contract_or_a_readable_error(value: Any) -> None:
    with pytest.raises(FleetError):
        validate(value)


def test_no_fleet_yet_names_the_command(tmp_path: Path) -> None:
    path = tmp_path / "prod/.fleet.json"
    with pytest.raises(FleetError) as caught:
        load_fleet(path)
    assert str(caught.value) == f"no fleet yet at {path}: run `gpufleet up prod`"


def test_newer_schema_says_to_update(tmp_path: Path) -> None:
    path = tmp_path / ".fleet.json"
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1, "racks": []}))
    with pytest.raises(FleetError, match="schema version 2, this gpufleet reads 1: update") as e:
        load_fleet(path)
    assert len(e.value.problems) == 1


@pytest.mark.parametrize("content", ["", '{"schema_version": 1, "nod', "\x00\x00", "\udce9"])
def test_damaged_file_is_one_sentence_with_the_fix(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prod/.fleet.json"
    path.parent.mkdir()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(FleetError, match="is damaged .*run `gpufleet up prod` to write it") as e:
        load_fleet(path)
    assert len(e.value.problems) == 1


def test_invalid_file_names_itself_and_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "prod/.fleet.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**contracts.contract(), "cluster": "Nope"}))
    with pytest.raises(FleetError) as caught:
        load_fleet(path)
    assert str(caught.value).startswith(f"{path}: cluster: ")
    assert str(caught.value).endswith("; run `gpufleet up prod` to write it anew")
    path.write_text("[]")
    with pytest.raises(FleetError, match="a JSON object is expected"):
        load_fleet(path)


def test_write_that_fails_leaves_the_old_contract_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".fleet.json"
    write_fleet(path, contracts.fleet())

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_fleet(path, contracts.fleet(contracts.node("other", 9)))
    assert load_fleet(path) == contracts.fleet()
    assert list(tmp_path.iterdir()) == [path]


def test_contract_is_readable_by_all_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / ".fleet.json"
    write_fleet(path, contracts.fleet())
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "PRIVATE" not in path.read_text()


def test_unknown_node_error_names_the_nearest() -> None:
    fleet = contracts.fleet()
    assert fleet.node("train-001").pool == "train"
    with pytest.raises(UnknownNodeError, match="did you mean infer-001"):
        fleet.node("infer-01")
    with pytest.raises(LookupError, match="it has infer-001, infer-002, train-001"):
        fleet.node("zzz")
