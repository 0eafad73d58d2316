"""What has to hold between fields. Each check looks at plain data and skips what is not there.

They run on the data rather than on the finished model, so that a wrong value somewhere does not
hide what is wrong elsewhere.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from difflib import get_close_matches
from ipaddress import IPv4Network
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from gpufleet import catalog
from gpufleet.filemode import known_secret, parse_mode, wider_than_private

from .addresses import capacity
from .document import Document
from .errors import Path
from .model import Access, Network, ScratchStorage, SharedStorage


class Finding(NamedTuple):
    """A fault between fields, before its place in the file is known."""

    path: Path
    message: str
    seen: str = ""
    allowed: str = ""
    fix: str = ""


def findings(document: Document) -> Iterator[Finding]:
    """Every fault between fields of a spec."""
    data = document.data if isinstance(document.data, dict) else {}
    for check in (_name, _pools, _capacity, _nodes_fit, _provider, _mounts, _access, _expiry):
        yield from check(data)
    yield from _folder(data, FilePath(document.file))
    yield from _files(data, FilePath(document.file).parent)


def _name(data: dict[str, Any]) -> Iterator[Finding]:
    name = data.get("name")
    if isinstance(name, str) and name.endswith("-"):
        yield Finding(("name",), "ends in a hyphen", name, "a letter or digit at the end")


def _folder(data: dict[str, Any], file: FilePath) -> Iterator[Finding]:
    name, folder = data.get("name"), file.resolve().parent.name
    if file.name == "cluster.yaml" and isinstance(name, str) and name != folder:
        yield Finding(
            ("name",),
            "not the name of the folder that the spec is in",
            name,
            folder,
            f"write {folder}, or rename the folder",
        )


def _pools(data: dict[str, Any]) -> Iterator[Finding]:
    provider = data.get("provider")
    known = catalog.names(provider) if isinstance(provider, str) else ()
    seen: dict[str, int] = {}
    for index, pool in _rows(data, "pools"):
        name = pool.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Finding(
                    ("pools", index, "name"),
                    f"the name of pools[{seen[name]}] as well",
                    name,
                    fix="give each pool a name of its own",
                )
            seen.setdefault(name, index)
        kind = pool.get("instance_type")
        if isinstance(kind, str) and known and kind not in known:
            near = get_close_matches(kind, known, 1)
            yield Finding(
                ("pools", index, "instance_type"),
                f"{provider} has no such type",
                kind,
                ", ".join(known),
                f"did you mean {near[0]}?" if near else "",
            )


def _capacity(data: dict[str, Any]) -> Iterator[Finding]:
    for index, pool in _rows(data, "pools"):
        asked = pool.get("capacity")
        if not isinstance(asked, dict):
            continue
        path: Path = ("pools", index, "capacity")
        strategy = asked.get("strategy", "on-demand")
        if data.get("provider") == "local":
            fix = "leave `capacity` out"
            yield Finding(path, "a local cluster has no market to buy from", fix=fix)
            continue
        reserved = strategy in ("reservation", "block")
        if reserved and asked.get("reservation_id") is None:
            fix = "name the reservation: `reservation_id: cr-...`"
            yield Finding((*path, "reservation_id"), f"needed by strategy {strategy}", fix=fix)
        if not reserved and asked.get("reservation_id") is not None:
            seen = str(asked["reservation_id"])
            allowed = "reservation, block"
            message = f"excluded by {_at(path)}.strategy, which is {strategy}"
            fix = "change the strategy, or leave `reservation_id` out"
            yield Finding((*path, "reservation_id"), message, seen, f"with {allowed} only", fix)
        if strategy != "spot" and asked.get("max_price") is not None:
            message = f"excluded by {_at(path)}.strategy, which is {strategy}"
            fix = "change the strategy to spot, or leave `max_price` out"
            yield Finding((*path, "max_price"), message, str(asked["max_price"]), "with spot", fix)


def _nodes_fit(data: dict[str, Any]) -> Iterator[Finding]:
    counts = [pool.get("count") for _, pool in _rows(data, "pools")]
    whole = [x for x in counts if isinstance(x, int) and not isinstance(x, bool) and x >= 0]
    if counts and len(whole) == len(counts) and sum(whole) == 0:
        yield Finding(("pools",), "the cluster has no nodes", "0", "1 or more", "raise a count")
    cidr = _dict(data, "network").get("cidr", str(Network().cidr))
    if data.get("provider") != "local" or not isinstance(cidr, str):
        return
    try:
        room = capacity(IPv4Network(cidr))
    except ValueError:
        return  # said already, by the field itself
    if sum(whole) > room:
        yield Finding(
            ("network", "cidr"),
            f"has addresses for {room} nodes; the pools ask for {sum(whole)}",
            cidr,
            fix="widen the range, or ask for fewer nodes",
        )


def _provider(data: dict[str, Any]) -> Iterator[Finding]:
    provider, image = data.get("provider"), _dict(data, "image")
    kind = _dict(_dict(data, "storage"), "shared").get("kind", "posix")
    if provider == "local" and image.get("id") is not None:
        yield Finding(("image", "id"), "local nodes have no machine image", str(image["id"]),
                      fix="leave it out")  # fmt: skip
    if provider == "local" and kind in ("lustre", "fsx-lustre"):
        yield Finding(("storage", "shared", "kind"), "a local cluster has no Lustre", kind,
                      "posix", "leave it out")  # fmt: skip
    if provider in ("aws", "baremetal") and kind == "posix":
        allowed = "fsx-lustre" if provider == "aws" else "lustre"
        message = f"{provider} nodes have no folder of one host in common"
        yield Finding(("storage", "shared", "kind"), message, "posix", allowed,
                      f"write `kind: {allowed}`")  # fmt: skip


def _mounts(data: dict[str, Any]) -> Iterator[Finding]:
    storage = _dict(data, "storage")
    shared = _dict(storage, "shared").get("mount", SharedStorage().mount)
    scratch = _dict(storage, "scratch").get("mount", ScratchStorage().mount)
    for name, mount in (("shared", shared), ("scratch", scratch)):
        taken = isinstance(mount, str) and mount.split("/")[1:2]
        if taken and taken[0] in SYSTEM_FOLDERS:
            yield Finding(("storage", name, "mount"), "belongs to the system", mount,
                          "a folder of its own, such as /fsx or /scratch")  # fmt: skip
    if not (isinstance(shared, str) and isinstance(scratch, str)):
        return
    one, other = PurePosixPath(shared), PurePosixPath(scratch)
    if one == other or one in other.parents or other in one.parents:
        yield Finding(
            ("storage", "scratch", "mount"),
            "the same as, or inside, storage.shared.mount",
            f"{scratch} and {shared}",
            fix="give each a folder of its own",
        )


SYSTEM_FOLDERS = frozenset(
    {"bin", "boot", "dev", "etc", "home", "lib", "lib64", "proc", "root", "run", "sbin", "sys"}
    | {"tmp", "usr", "var"}
)


def _access(data: dict[str, Any]) -> Iterator[Finding]:
    user = _dict(data, "access").get("user", Access().user)
    if user in RESERVED_USERS:
        yield Finding(("access", "user"), "a user that the system has for itself", user,
                      "a name of its own, such as fleet")  # fmt: skip


RESERVED_USERS = frozenset(
    {"backup", "bin", "daemon", "etcd", "games", "irc", "list", "lp", "mail", "man", "messagebus"}
    | {"munge", "news", "nobody", "proxy", "root", "slurm", "sshd", "sync", "sys"}
    | {"systemd-network", "uucp", "www-data"}
)


def _expiry(data: dict[str, Any]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, row in _rows(_dict(data, "preflight"), "suppress"):
        rule, expires = row.get("rule"), row.get("expires")
        path: Path = ("preflight", "suppress", index)
        if isinstance(rule, str) and rule in seen:
            yield Finding((*path, "rule"), f"suppressed by suppress[{seen[rule]}] already", rule)
        if isinstance(rule, str):
            seen.setdefault(rule, index)
        today = datetime.now(UTC).date()
        if isinstance(expires, date) and expires < today:
            yield Finding(
                (*path, "expires"),
                "this suppression has ended",
                str(expires),
                "today or later",
                "satisfy the rule, or give a new date with a reason that still holds",
            )


def _files(data: dict[str, Any], folder: FilePath) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, row in _rows(data, "files"):
        path: Path = ("files", index)
        target, source, mode = row.get("path"), row.get("source"), row.get("mode", "0644")
        if isinstance(target, str):
            if target in seen:
                yield Finding((*path, "path"), f"laid by files[{seen[target]}] as well", target)
            seen.setdefault(target, index)
        if isinstance(source, str) and source:
            yield from _source((*path, "source"), source, folder)
        if not isinstance(mode, str):
            continue
        try:
            number = parse_mode(mode)
        except ValueError as error:
            yield Finding((*path, "mode"), "not a file mode", mode, str(error))
            continue
        secret = row.get("secret") is True or (isinstance(target, str) and known_secret(target))
        if secret and wider_than_private(number):
            yield Finding(
                (*path, "mode"),
                "wider than a secret may be",
                f"{mode} = {number:04o}",
                "0600 or narrower",
                'write "0400" or "0600"',
            )


def _source(path: Path, source: str, folder: FilePath) -> Iterator[Finding]:
    inside = PurePosixPath(source)
    if inside.is_absolute() or ".." in inside.parts:
        yield Finding(path, "outside the cluster's folder", source, f"a file in {folder}")
    elif not (folder / source).is_file():
        yield Finding(path, "there is no such file", source, f"a file in {folder}")


def _rows(data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = data.get(key)
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, dict):
            yield index, row


def _dict(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _at(path: Path) -> str:
    from .errors import dotted

    return dotted(path)
