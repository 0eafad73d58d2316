"""What the provider answers the engine."""

from typing import Any

from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2

from infra.local.protocol import UNKNOWN, Servicer, changed
from infra.local.resources import KINDS

URN = "urn:pulumi:c::gpufleet::gpufleet-local:index:LocalFleet$gpufleet-local:index:{}::x"


def struct(value: dict[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    json_format.ParseDict(value, made)
    return made


def diff(kind: str, old: dict[str, Any], new: dict[str, Any]) -> Any:
    request = provider_pb2.DiffRequest(
        urn=URN.format(kind), old_inputs=struct(old), news=struct(new)
    )
    return Servicer("0", KINDS).Diff(request, None)


def test_every_input_of_a_machine_that_changes_replaces_it_old_one_first() -> None:
    for name in KINDS["Machine"].replace_on:
        answer = diff("Machine", {name: "old"}, {name: "new"})
        assert list(answer.replaces) == [name]
        assert answer.deleteBeforeReplace


def test_new_names_change_the_directory_in_place() -> None:
    answer = diff("Directory", {"nodes": []}, {"nodes": [{"name": "a"}]})
    assert list(answer.diffs) == ["nodes"]
    assert not answer.replaces


def test_equal_inputs_are_no_change() -> None:
    answer = diff("Machine", {"gpus": 2, "node": "a"}, {"gpus": 2, "node": "a"})
    assert answer.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_input_that_is_not_known_yet_counts_as_changed() -> None:
    assert changed({"network": "gf.c"}, {"network": UNKNOWN}) == ["network"]
    assert changed({"nodes": [{"a": "1"}]}, {"nodes": [{"a": UNKNOWN}]}) == ["nodes"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=5),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_properties_survive_the_wire(value: dict[str, Any]) -> None:
    from infra.local.protocol import _dict, _struct

    assert _dict(_struct(value)) == value


class Never:
    """A resource that must not be touched."""

    replace_on = frozenset[str]()
    delete_first = True
    computed = frozenset({"address"})

    def create(self, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        raise AssertionError("created")

    def read(self, outputs: dict[str, Any]) -> dict[str, Any] | None:
        raise AssertionError("read")

    def update(self, inputs: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("updated")

    def delete(self, outputs: dict[str, Any]) -> None:
        raise AssertionError("deleted")


def test_preview_touches_nothing_and_says_what_is_not_known_yet() -> None:
    servicer = Servicer("0", {"Machine": Never()})
    urn, inputs = URN.format("Machine"), struct({"node": "a"})
    made = servicer.Create(
        provider_pb2.CreateRequest(urn=urn, properties=inputs, preview=True), None
    )
    changed_ = servicer.Update(provider_pb2.UpdateRequest(urn=urn, news=inputs, preview=True), None)
    for answer in (made, changed_):
        assert json_format.MessageToDict(answer.properties) == {"node": "a", "address": UNKNOWN}
