"""A host key belongs to a machine: it changes with the machine's identity, or not at all."""

import json
import stat
import subprocess
import threading
from pathlib import Path

import contracts
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.hostkeys import (
    Choice,
    Entry,
    HostKeyError,
    HostKeyRefusedError,
    HostKeys,
    blob,
    decide,
    fingerprint,
    known_hosts,
)

A, B, C = (contracts.host_key(seed) for seed in "ABC")

entries = st.builds(
    Entry,
    name=st.sampled_from(["n1", "n2", "n3"]),
    address=st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    provider_id=st.sampled_from(["i-1", "i-2"]),
    key=st.sampled_from([A, B, C]),
    published=st.sampled_from([A, B, C]),
)


def entry(key: str = A, *, address: str = "10.0.0.1", provider_id: str = "i-1") -> Entry:
    return Entry("n1", address, provider_id, key, key)


def choice(known: Entry | None, node: Entry) -> tuple[Choice, Entry]:
    (decision,) = decide({known.name: known} if known else {}, [node])
    return decision.choice, decision.entry


def ssh_folder(tmp_path: Path) -> HostKeys:
    folder = tmp_path / "demo/ssh"
    folder.mkdir(parents=True)
    return HostKeys(folder)


def test_unknown_node_is_added() -> None:
    assert choice(None, entry()) == (Choice.ADD, entry())


def test_same_machine_with_same_key_is_kept_also_at_another_address() -> None:
    moved = entry(address="10.0.0.9")
    assert choice(entry(), moved) == (Choice.KEEP, moved)


def test_comment_of_a_key_is_no_difference() -> None:
    assert choice(entry(), entry(f"{A} root@n1"))[0] is Choice.KEEP


def test_new_machine_brings_its_published_key() -> None:
    new = entry(B, provider_id="i-2")
    assert choice(entry(), new) == (Choice.REPLACE, new)


def test_same_machine_with_another_key_is_refused_and_keeps_the_old() -> None:
    assert choice(entry(), entry(B)) == (Choice.REFUSE, entry())


def test_accepted_key_survives_a_contract_that_does_not_state_it() -> None:
    accepted = Entry("n1", "10.0.0.1", "i-1", key=B, published=A)
    assert choice(accepted, entry(A)) == (Choice.KEEP, accepted)
    assert choice(accepted, entry(B))[0] is Choice.KEEP
    assert choice(accepted, entry(C))[0] is Choice.REFUSE


@given(st.lists(entries, unique_by=lambda x: x.name), st.lists(entries, unique_by=lambda x: x.name))
def test_key_of_a_known_machine_never_changes_by_itself(
    known: list[Entry], nodes: list[Entry]
) -> None:
    recorded = {x.name: x for x in known}
    for node, decision in zip(nodes, decide(recorded, nodes), strict=True):
        before = recorded.get(node.name)
        assert decision.entry.name == node.name
        if before and before.provider_id == node.provider_id:
            assert decision.entry.key == before.key
            assert decision.choice in (Choice.KEEP, Choice.REFUSE)
        else:
            assert decision.entry == node


def test_fingerprint_is_that_of_openssh(tmp_path: Path) -> None:
    for kind in ("ed25519", "ecdsa", "rsa"):
        key = tmp_path / kind
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)], check=True)
        public = key.with_suffix(".pub")
        shown = subprocess.run(
            ["ssh-keygen", "-lf", str(public)], capture_output=True, text=True, check=True
        ).stdout
        assert fingerprint(public.read_text()) == shown.split()[1]


@pytest.mark.parametrize("text", ["", "ssh-ed25519", "ssh-ed25519 ?", f"ssh-rsa {A.split()[1]}"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host key"):
        blob(text)


def test_publish_writes_record_and_known_hosts(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    decisions = keys.publish({"n2": ("10.0.0.2", "i-2", B), "n1": ("10.0.0.1", "i-1", A)})
    assert [decision.choice for decision in decisions] == [Choice.ADD, Choice.ADD]
    rows = keys.known_hosts.read_text().splitlines()[1:]
    assert rows == [f"n1,10.0.0.1 {A}", f"n2,10.0.0.2 {B}"]
    assert stat.S_IMODE((keys.folder / "host_keys.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in keys.folder.iterdir()) == ["host_keys.json", "known_hosts"]


def test_openssh_finds_the_key_by_name_and_by_address(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    keys.publish({"n1": ("10.0.0.1", "i-1", A)})
    for name in ("n1", "10.0.0.1"):
        found = subprocess.run(
            ["ssh-keygen", "-F", name, "-f", str(keys.known_hosts)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert A in found


def test_refusal_names_node_fingerprints_and_the_way_to_accept(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    keys.publish({"n1": ("10.0.0.1", "i-1", A), "n2": ("10.0.0.2", "i-2", A)})
    with pytest.raises(HostKeyRefusedError) as caught:
        keys.publish(
            {
                "n1": ("10.0.0.1", "i-1", B),
                "n2": ("10.0.0.2", "i-9", C),
                "n3": ("10.0.0.3", "i-3", C),
            }
        )
    (text,) = caught.value.problems
    for part in ("n1", fingerprint(A), fingerprint(B), "`gpufleet ssh demo n1 --accept-new-key`"):
        assert part in text
    now = {name: known.key for name, known in keys.entries().items()}
    assert now == {"n1": A, "n2": C, "n3": C}


def test_accepted_key_is_trusted_from_then_on(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    keys.publish({"n1": ("10.0.0.1", "i-1", A)})
    before = keys.accept(entry(A), B)
    assert before == entry(A)
    assert f"n1,10.0.0.1 {B}" in keys.known_hosts.read_text()
    keys.publish({"n1": ("10.0.0.1", "i-1", A)})
    assert keys.entries()["n1"].key == B


def test_node_that_is_gone_leaves_no_key_for_its_address(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    keys.publish({"n1": ("10.0.0.1", "i-1", A)})
    keys.publish({"n2": ("10.0.0.1", "i-2", B)})
    assert A not in keys.known_hosts.read_text()


def test_known_hosts_is_made_again_from_the_record(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    nodes = {"n1": ("10.0.0.1", "i-1", A)}
    keys.publish(nodes)
    before = keys.known_hosts.read_text()
    keys.known_hosts.unlink()
    keys.publish(nodes)
    assert keys.known_hosts.read_text() == before


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 1, "entries": [{}]}'])
def test_damaged_record_is_never_taken_for_an_empty_one(tmp_path: Path, content: str) -> None:
    keys = ssh_folder(tmp_path)
    (keys.folder / "host_keys.json").write_text(content)
    with pytest.raises(HostKeyError, match=r"host_keys\.json .*restore it"):
        keys.publish({"n1": ("10.0.0.1", "i-1", A)})
    assert (keys.folder / "host_keys.json").read_text() == content


def test_record_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    (keys.folder / "host_keys.json").write_text(json.dumps({"version": 2, "entries": []}))
    with pytest.raises(HostKeyError, match="update gpufleet"):
        keys.publish({})


@pytest.mark.parametrize("name", ["a,b", "*", "a b", "", "!n", "|1|x", "@cert-authority"])
def test_name_with_a_meaning_in_known_hosts_is_refused(tmp_path: Path, name: str) -> None:
    keys = ssh_folder(tmp_path)
    with pytest.raises(ValueError, match="cannot be named in a known_hosts file"):
        keys.publish({name: ("10.0.0.1", "i-1", A)})
    assert list(keys.folder.iterdir()) == []


def test_writers_at_the_same_time_do_not_lose_each_others_keys(tmp_path: Path) -> None:
    keys = ssh_folder(tmp_path)
    names = [f"n{i}" for i in range(12)]

    def accept(name: str) -> None:
        HostKeys(keys.folder).accept(Entry(name, "10.0.0.1", "i", A, A), B)

    threads = [threading.Thread(target=accept, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(keys.entries()) == sorted(names)


def test_known_hosts_is_sorted_so_that_it_changes_only_with_its_keys() -> None:
    one, other = Entry("a", "1", "i", A, A), Entry("b", "2", "i", B, B)
    assert known_hosts([one, other]) == known_hosts([other, one])
