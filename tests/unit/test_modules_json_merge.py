"""`gpufleet.node.json_merge`: keys are set in a file that belongs to others, too."""

import json
import stat

import pytest
from nodebox import NodeBox

PATH = "/etc/docker/daemon.json"
VALUES = {"features": {"cdi": True}, "log-opts": {"max-size": "50m"}}


def found(box: NodeBox) -> object:
    return json.loads(box.read(PATH))


def test_keys_of_others_stay_and_a_second_run_changes_nothing(box: NodeBox) -> None:
    box.write(PATH, '{"runtimes": {"nvidia": {}}, "log-opts": {"max-size": "1m", "tag": "x"}}')
    assert box.module("json_merge", path=PATH, values=VALUES)["changed"]
    assert found(box) == {
        "features": {"cdi": True},
        "log-opts": {"max-size": "50m", "tag": "x"},
        "runtimes": {"nvidia": {}},
    }
    before = (box.root / PATH[1:]).stat().st_ino
    again = box.module("json_merge", path=PATH, values=VALUES)
    assert (again["changed"], again["diff"]) == (False, [])
    assert (box.root / PATH[1:]).stat().st_ino == before


def test_a_file_that_is_not_there_is_made_but_not_in_a_dry_run(box: NodeBox) -> None:
    would = box.module("json_merge", check=True, path=PATH, values=VALUES)
    assert would["changed"]
    assert not box.exists(PATH)
    did = box.module("json_merge", path=PATH, values=VALUES)
    assert did["diff"] == would["diff"]
    assert found(box) == VALUES


def test_what_is_closed_to_others_stays_closed(box: NodeBox) -> None:
    box.write(PATH, '{"proxies": {"http-proxy": "http://user:S3NTINEL@proxy"}}', 0o600)
    assert box.module("json_merge", path=PATH, values=VALUES)["changed"]
    assert stat.S_IMODE((box.root / PATH[1:]).stat().st_mode) == 0o600


def test_dotted_paths_are_removed_and_nothing_beside_them(box: NodeBox) -> None:
    box.write(PATH, '{"a": {"b": 1, "c": 2}, "d": 3, "e": [1]}')
    absent = ["a.b", "d", "nowhere", "e.x", "a.b.c"]
    assert box.module("json_merge", path=PATH, values={}, absent=absent)["changed"]
    assert found(box) == {"a": {"c": 2}, "e": [1]}
    assert not box.module("json_merge", path=PATH, values={}, absent=absent)["changed"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1,\n "b" 2}', f"{PATH}:2:6: not JSON"),
        (b"[1]", "an object is expected"),
        (b'{"a": "\xff"}', "can't decode byte"),
    ],
)
def test_what_is_no_object_is_left_alone_and_its_place_named(
    box: NodeBox, content: bytes, said: str
) -> None:
    box.path(PATH).write_bytes(content)
    refused = box.module("json_merge", path=PATH, values=VALUES)
    assert refused["failed"]
    assert said in refused["msg"]
    assert "it was left alone, mend or remove it" in refused["msg"]
    assert (box.root / PATH[1:]).read_bytes() == content


def test_what_its_check_refuses_is_not_put_in_place(box: NodeBox) -> None:
    box.write(PATH, '{"a": 1}')
    box.stub(
        "dockerd", 'grep -q \'"bad"\' "$3" && { echo "unknown key: bad" >&2; exit 1; }; exit 0'
    )
    check = "dockerd --validate --config-file %s"
    refused = box.module("json_merge", path=PATH, values={"bad": 1}, validate=check)
    assert "refused it: unknown key: bad" in refused["msg"]
    assert found(box) == {"a": 1}
    assert [path.name for path in (box.root / "etc/docker").iterdir()] == ["daemon.json"]
    assert box.module("json_merge", path=PATH, values={"good": 1}, validate=check)["changed"]
