"""The host keys that a fleet's nodes are known by: the product's own record, never the user's.

A key is bound to the identity of a machine (its provider id), not to its address. A machine made
anew has another id, and its key comes with it through the contract, so the old key goes. The same
id with another key is what an attack looks like; that is refused until an operator accepts it.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from .atomic import locked_folder, write_atomic

RECORD = "host_keys.json"
KNOWN_HOSTS = "known_hosts"
VERSION = 1


class HostKeyError(Exception):
    """Host keys do not fit; `problems` has one sentence each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class HostKeyRefusedError(HostKeyError):
    """A node that should be the same machine has another key."""


@dataclass(frozen=True)
class Entry:
    """What is known of one node; `key` is trusted, `published` is what the contract said then.

    The two differ only after an operator accepted a key that the contract does not state.
    """

    name: str
    address: str
    provider_id: str
    key: str
    published: str


class Choice(StrEnum):
    """What becomes of a node's key."""

    KEEP = "keep"
    ADD = "add"
    REPLACE = "replace"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Decision:
    """A choice with the entry that holds after it: for REFUSE the old one."""

    choice: Choice
    entry: Entry
    offered: str
    """The key that the contract states."""


def blob(key: str) -> bytes:
    """The binary form of a public key `TYPE BASE64 [COMMENT]`.

    Raises ValueError where it is no public key of OpenSSH: the type stands in both parts.
    """
    fields = key.split()
    if len(fields) < 2:
        raise ValueError("a host key is a type and base64 text, such as `ssh-ed25519 AAAA...`")
    try:
        data = base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the second part of a host key is no base64 text ({error})") from error
    kind = fields[0].encode()
    if data[:4] != len(kind).to_bytes(4) or data[4 : 4 + len(kind)] != kind:
        raise ValueError(f"the host key calls itself {fields[0]} but holds another type of key")
    return data


def fingerprint(key: str) -> str:
    """`SHA256:` and unpadded base64, as `ssh-keygen -l` prints it. Raises ValueError as `blob`."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob(key)).digest()).decode().rstrip("=")


def decide(recorded: Mapping[str, Entry], nodes: Iterable[Entry]) -> list[Decision]:
    """What becomes of each node's key, in the order of `nodes`; nodes that are gone have none.

    `key` of a node is the one that the contract states.
    """
    return [_decide(recorded.get(node.name), node) for node in nodes]


def _decide(known: Entry | None, node: Entry) -> Decision:
    if known is None:
        return Decision(Choice.ADD, node, node.key)
    if known.provider_id != node.provider_id:
        return Decision(Choice.REPLACE, node, node.key)
    kept = replace(known, address=node.address)
    if _same(known.key, node.key):
        return Decision(Choice.KEEP, replace(kept, published=node.key), node.key)
    if _same(known.published, node.key):
        return Decision(Choice.KEEP, kept, node.key)
    return Decision(Choice.REFUSE, kept, node.key)


def refusal(name: str, known: str, presented: str, cluster: str) -> str:
    """The sentence for a node whose machine should be the same but whose key is another.

    `known` and `presented` are fingerprints.
    """
    return (
        f"host key of {name} changed though it is the same machine: known {known}, now {presented};"
        f" if it was changed on purpose, compare the new fingerprint on the node's console, then"
        f" run `gpufleet ssh {cluster} {name} --accept-new-key`;"
        f" if not, somebody may be in between: do not connect"
    )


def known_hosts(entries: Iterable[Entry]) -> str:
    """The text of a known_hosts file: every node by name and address."""
    rows = [
        f"{entry.name},{entry.address} {' '.join(entry.key.split()[:2])}\n"
        for entry in sorted(entries, key=lambda x: x.name)
    ]
    return "# Host keys of this fleet's nodes; written by gpufleet, changes are lost.\n" + "".join(
        rows
    )


class HostKeys:
    """The record of one fleet in `folder` (made by its provider), and the known_hosts from it.

    The cluster's name for messages is that of the folder above.
    """

    def __init__(self, folder: Path, cluster: str | None = None) -> None:
        self.folder = folder
        self.cluster = cluster or folder.parent.name

    @property
    def known_hosts(self) -> Path:
        """The file for SSH clients."""
        return self.folder / KNOWN_HOSTS

    def publish(self, nodes: Mapping[str, tuple[str, str, str]]) -> list[Decision]:
        """Bring the record to what the contract says: name -> (address, provider id, host key).

        Nodes that are not named are forgotten, so that a reused address never finds their keys.
        Raises HostKeyRefusedError when any key is refused; those nodes keep their old key, the
        others are brought up to date all the same.
        """
        stated = [Entry(name, *row, row[2]) for name, row in nodes.items()]
        _check(stated)
        with locked_folder(self.folder):
            decisions = decide(self._read(), stated)
            self._write(decision.entry for decision in decisions)
        refused = [
            refusal(x.entry.name, fingerprint(x.entry.key), fingerprint(x.offered), self.cluster)
            for x in decisions
            if x.choice is Choice.REFUSE
        ]
        if refused:
            raise HostKeyRefusedError(refused)
        return decisions

    def accept(self, node: Entry, key: str) -> Entry | None:
        """Trust `key` for a node by decision of an operator; `node.key` is the contract's.

        Returns the entry that held before.
        """
        accepted = replace(node, key=key, published=node.key)
        _check([node, accepted])
        with locked_folder(self.folder):
            recorded = self._read()
            before = recorded.get(node.name)
            self._write({**recorded, node.name: accepted}.values())
        return before

    def entries(self) -> dict[str, Entry]:
        """What is known, by node name; empty for a fleet without a record."""
        return self._read()

    def _read(self) -> dict[str, Entry]:
        path = self.folder / RECORD
        fix = "restore it from a backup, or remove it once you trust the keys in the contract"
        try:
            value = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise HostKeyError([f"{path} is damaged ({error}): {fix}"]) from error
        try:
            if value["version"] != VERSION:
                seen = value["version"]
                raise HostKeyError(
                    [f"{path} is of version {seen!r}, only {VERSION} is known: update gpufleet"]
                )
            entries = [Entry(**row) for row in value["entries"]]
            _check(entries)
        except (KeyError, TypeError, ValueError) as error:
            raise HostKeyError([f"{path} is no record of host keys ({error}): {fix}"]) from error
        return {entry.name: entry for entry in entries}

    def _write(self, entries: Iterable[Entry]) -> None:
        rows = sorted(entries, key=lambda x: x.name)
        value = {"version": VERSION, "entries": [vars(entry) for entry in rows]}
        # The record decides; known_hosts is made from it and can be made again.
        write_atomic(self.folder / RECORD, json.dumps(value, indent=2) + "\n", 0o600)
        write_atomic(self.known_hosts, known_hosts(rows), 0o644)


def _check(entries: Iterable[Entry]) -> None:
    for entry in entries:
        blob(entry.key)
        blob(entry.published)
        for text in (entry.name, entry.address):
            if not text or any(c.isspace() or c in ",*?!|#@" for c in text):
                raise ValueError(f"{text!r} cannot be named in a known_hosts file")


def _same(one: str, other: str) -> bool:
    return one.split()[:2] == other.split()[:2]
