"""`gpufleet.node.etcd_member`: data is kept, members are replaced, and no second cluster begins."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from nodebox import NodeBox

ENVIRONMENT = "/var/lib/etcd/first-start.env"
MEMBERS = {"a": "http://10.0.0.1:2380", "b": "http://10.0.0.2:2380", "c": "http://10.0.0.3:2380"}


class Etcd(ThreadingHTTPServer):
    """What a cluster's JSON gateway answers, as far as it is asked here."""

    def __init__(self, *names: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.members = [
            {"ID": name, "name": name, "peerURLs": [MEMBERS.get(name, f"http://{name}:2380")]}
            for name in names
        ]
        self.asked: list[tuple[str, Any]] = []
        self.refuses = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, what: str, value: Any) -> dict[str, Any]:
        self.asked.append((what, value))
        if what == "remove":
            self.members = [row for row in self.members if row["ID"] != value["ID"]]
        if what == "add":
            self.members.append({"ID": "new", "peerURLs": value["peerURLs"]})
        return {"members": self.members}


class Handler(BaseHTTPRequestHandler):
    server: Etcd

    def do_POST(self) -> None:
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        what = self.path.removeprefix("/v3/cluster/member/")
        bad = what == self.server.refuses
        content = (
            b"unhealthy cluster" if bad else json.dumps(self.server.answer(what, value)).encode()
        )
        self.send_response(503 if bad else 200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running(*names: str) -> Iterator[Etcd]:
    with Etcd(*names) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def join(box: NodeBox, *endpoints: str, check: bool = False, **more: Any) -> dict[str, Any]:
    box.path(ENVIRONMENT)
    return box.module(
        "etcd_member", check=check, name="a", members=MEMBERS, endpoints=list(endpoints),
        data_dir="/var/lib/etcd/demo", environment_file=ENVIRONMENT, token="gpufleet-demo", **more,
    )  # fmt: skip


def written(box: NodeBox) -> dict[str, str]:
    rows = [row for row in box.read(ENVIRONMENT).splitlines() if not row.startswith("#")]
    return dict(row.split("=", 1) for row in rows)


@pytest.fixture
def silent() -> str:
    """An address where nobody answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return f"http://127.0.0.1:{server.server_port}"


def test_a_member_with_data_is_left_alone_and_asks_nobody(box: NodeBox) -> None:
    (box.root / "var/lib/etcd/demo/member").mkdir(parents=True)
    with running("b", "c") as etcd:
        result = join(box, etcd.address, bootstrap=True)
        assert (result["decision"], result["changed"], etcd.asked) == ("keep", False, [])
    assert not box.exists(ENVIRONMENT)


def test_a_member_that_lost_its_data_takes_its_own_place_again(box: NodeBox, silent: str) -> None:
    with running("a", "b", "c") as etcd:
        result = join(box, silent, etcd.address, bootstrap=True)
        assert (result["decision"], result["changed"]) == ("replace", True)
        changes = [row for row in etcd.asked if row[0] != "list"]
        # Its old entry goes first: with it the cluster would count a member that is lost.
        assert changes == [("remove", {"ID": "a"}), ("add", {"peerURLs": [MEMBERS["a"]]})]
        assert etcd.asked[0] == ("list", {"linearizable": True})
    assert written(box) == {
        "ETCD_INITIAL_CLUSTER": ",".join(f"{name}={peer}" for name, peer in MEMBERS.items()),
        "ETCD_INITIAL_CLUSTER_STATE": "existing",
        "ETCD_INITIAL_CLUSTER_TOKEN": "gpufleet-demo",
    }


def test_one_that_was_killed_between_adding_and_writing_is_made_good(box: NodeBox) -> None:
    with running("b", "c") as etcd:
        etcd.answer("add", {"peerURLs": [MEMBERS["a"]]})
        join(box, etcd.address)
        peers = [row["peerURLs"] for row in etcd.members]
    assert peers.count([MEMBERS["a"]]) == 1
    assert written(box)["ETCD_INITIAL_CLUSTER_STATE"] == "existing"


def test_others_that_have_not_started_keep_the_names_of_the_inventory(box: NodeBox) -> None:
    with running("b") as etcd:
        etcd.answer("add", {"peerURLs": [MEMBERS["c"]]})
        etcd.members[-1]["ID"] = "c-new"
        join(box, etcd.address)
    assert f"c={MEMBERS['c']}" in written(box)["ETCD_INITIAL_CLUSTER"]


def test_a_new_cluster_begins_only_when_asked_for(box: NodeBox, silent: str) -> None:
    refused = join(box, silent)
    assert refused["failed"]
    assert "a has no data, and no other member answers" in refused["msg"]
    assert silent in refused["msg"]
    assert "-e etcd_bootstrap=true" in refused["msg"]
    assert not box.exists(ENVIRONMENT)
    assert join(box, silent, bootstrap=True)["decision"] == "bootstrap"
    assert written(box)["ETCD_INITIAL_CLUSTER_STATE"] == "new"


def test_a_cluster_that_refuses_is_not_taken_for_one_that_is_gone(box: NodeBox) -> None:
    with running("a", "b", "c") as etcd:
        for step in ("list", "remove", "add"):
            etcd.refuses = step
            refused = join(box, etcd.address, bootstrap=True)
            assert refused["failed"]
            assert "unhealthy cluster" in refused["msg"]
            assert not box.exists(ENVIRONMENT)


def test_a_dry_run_asks_and_changes_nothing(box: NodeBox) -> None:
    with running("a", "b", "c") as etcd:
        would = join(box, etcd.address, check=True)
        assert (would["decision"], would["changed"]) == ("replace", True)
        assert [what for what, _ in etcd.asked] == ["list"]
    assert not box.exists(ENVIRONMENT)


def test_members_are_never_asked_by_a_proxy(
    box: NodeBox, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**box.module_environment(), "http_proxy": silent}
    monkeypatch.setattr(box, "module_environment", lambda: environment)
    with running("b", "c") as etcd:
        assert join(box, etcd.address)["decision"] == "replace"
