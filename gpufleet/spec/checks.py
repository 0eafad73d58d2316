"""What has to hold between fields. Each check looks at plain data and skips what is not there.

They run on the data rather than on the finished model, so that a wrong value somewhere does not
hide what is wrong elsewhere.
"""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from ipaddress import IPv4Network
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from gpufleet import catalog
from gpufleet.filemode import kept_for_gpufleet, known_secret, parse_mode, wider_than_private

from .addresses import capacity
from .document import Document, Odd
from .errors import Path, dotted
from .model import (
    Access,
    Capacity,
    Image,
    Network,
    NodeFile,
    ScratchStorage,
    SharedStorage,
)
from .providers import PROVIDERS, STRATEGIES, ProviderRow, with_defaults

KINDS = frozenset(kind for row in PROVIDERS.values() for kind in row.shared_kinds)
NO_PROVIDER = ProviderRow(stack="", shared_kinds=())
DEFAULT_MODE: str = NodeFile.model_fields["mode"].default


class Finding(NamedTuple):
    """A fault between fields, before its place in the file is known."""

    path: Path
    message: str
    seen: str = ""
    allowed: str = ""
    fix: str = ""


def findings(document: Document) -> Iterator[Finding]:
    """Every fault between fields of a spec."""
    data = with_defaults(document.data) if isinstance(document.data, dict) else {}
    for check in (
        _name,
        _stack,
        _pools,
        _capacity,
        _nodes_fit,
        _provider,
        _mounts,
        _access,
        _suppressions,
    ):
        yield from check(data)
    yield from _folder(data, FilePath(document.file))
    yield from _files(document, data, FilePath(document.file).parent)


def _name(data: dict[str, Any]) -> Iterator[Finding]:
    name = data.get("name")
    if isinstance(name, str) and name.endswith("-"):
        yield Finding(("name",), "ends in a hyphen", name, "a letter or digit at the end")


def _stack(data: dict[str, Any]) -> Iterator[Finding]:
    # Sets are read with the spec's own reader, so they are only asked for once it is loaded.
    from gpufleet.stack import names

    wanted, known = data.get("stack"), names()
    if isinstance(wanted, str) and wanted not in known:
        near = get_close_matches(wanted, known, 1)
        fix = f"did you mean {near[0]}?" if near else ""
        yield Finding(("stack",), "no such set of versions", wanted, ", ".join(known), fix)


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
        if not isinstance(kind, str):
            continue
        other = catalog.load().get(kind)
        if not known and other is not None and provider in PROVIDERS:
            yield Finding(
                ("pools", index, "instance_type"),
                f"a type of provider {other.provider}, not of {provider}",
                kind,
                f"a type of {provider}",
                "name such a type, or change the provider",
            )
        if known and kind not in known:
            near = get_close_matches(kind, known, 1)
            yield Finding(
                ("pools", index, "instance_type"),
                f"{provider} has no such type",
                kind,
                ", ".join(known),
                f"did you mean {near[0]}?" if near else "",
            )


def _capacity(data: dict[str, Any]) -> Iterator[Finding]:
    provider = data.get("provider")
    row = PROVIDERS.get(provider) if isinstance(provider, str) else None
    for index, pool in _rows(data, "pools"):
        asked = pool.get("capacity")
        if not isinstance(asked, dict):
            continue
        path: Path = ("pools", index, "capacity")
        strategy = asked.get("strategy", Capacity().strategy)
        if row is not None and not row.strategies:
            fix = "leave `capacity` out"
            yield Finding(path, f"{provider} has no market to buy from", fix=fix)
        elif isinstance(strategy, str) and strategy in STRATEGIES:
            yield from _strategy(asked, path, strategy)


def _strategy(asked: dict[str, Any], path: Path, strategy: str) -> Iterator[Finding]:
    for name in ("reservation_id", "max_price"):
        given = asked.get(name) is not None
        row = STRATEGIES[strategy]
        if name in row.needs and not given:
            fix = f"add `{name}: ...`"
            yield Finding((*path, name), f"needed by strategy {strategy}", fix=fix)
        if given and name not in row.needs | row.takes:
            fitting = [x for x, y in STRATEGIES.items() if name in y.needs | y.takes]
            yield Finding(
                (*path, name),
                f"excluded by {dotted(path)}.strategy, which is {strategy}",
                _shown(asked[name]),
                f"with strategy {' or '.join(fitting)} only",
                f"change the strategy, or leave `{name}` out",
            )


def _nodes_fit(data: dict[str, Any]) -> Iterator[Finding]:
    counts = [pool.get("count") for _, pool in _rows(data, "pools")]
    whole = [x for x in counts if isinstance(x, int) and not isinstance(x, bool) and x >= 0]
    if counts and len(whole) == len(counts) and sum(whole) == 0:
        yield Finding(("pools",), "the cluster has no nodes", "0", "1 or more", "raise a count")
    cidr = _dict(data, "network").get("cidr", str(Network().cidr))
    provider = data.get("provider")
    row = PROVIDERS.get(provider, NO_PROVIDER) if isinstance(provider, str) else NO_PROVIDER
    if not row.keeps_addresses or not isinstance(cidr, str):
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
    provider = data.get("provider")
    row = PROVIDERS.get(provider) if isinstance(provider, str) else None
    if row is None:
        return
    for name, value in _dict(data, "image").items():
        if name in Image.model_fields and name not in row.image_fields and value is not None:
            message = f"means nothing to provider {provider}"
            allowed = ", ".join(sorted(row.image_fields)) or "no field of `image`"
            yield Finding(("image", name), message, _shown(value), allowed, "leave it out")
    kind = _dict(_dict(data, "storage"), "shared").get("kind")
    if isinstance(kind, str) and kind in KINDS and kind not in row.shared_kinds:
        message = f"not what nodes of provider {provider} share"
        allowed = ", ".join(row.shared_kinds)
        yield Finding(("storage", "shared", "kind"), message, kind, allowed, "leave it out")


def _mounts(data: dict[str, Any]) -> Iterator[Finding]:
    shared, scratch = _mounted(data)
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
    {"root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy"}
    | {"www-data", "backup", "list", "irc", "nobody", "messagebus", "sshd", "systemd-network"}
    | {"munge", "slurm", "etcd"}
)


def _suppressions(data: dict[str, Any]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, row in _rows(_dict(data, "preflight"), "suppress"):
        rule = row.get("rule")
        path: Path = ("preflight", "suppress", index)
        if isinstance(rule, str) and rule in seen:
            yield Finding((*path, "rule"), f"suppressed by suppress[{seen[rule]}] already", rule)
        if isinstance(rule, str):
            seen.setdefault(rule, index)


def _files(document: Document, data: dict[str, Any], folder: FilePath) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    mounts = [x for x in _mounted(data) if isinstance(x, str)]
    for index, row in _rows(data, "files"):
        path: Path = ("files", index)
        target, source, mode = row.get("path"), row.get("source"), row.get("mode")
        if isinstance(target, str):
            if target in seen:
                yield Finding((*path, "path"), f"laid by files[{seen[target]}] as well", target)
            seen.setdefault(target, index)
            yield from _hidden((*path, "path"), target, mounts)
            if kept_for_gpufleet(target):
                message = "gpufleet lays a file of its own there"
                yield Finding((*path, "path"), message, target, fix="choose another path")
        if isinstance(source, str) and source:
            yield from _source((*path, "source"), source, folder)
        if not isinstance(mode, str | None):
            continue
        written = document.written.get((*path, "mode"))
        faults = list(_mode((*path, "mode"), row, mode))
        yield from faults
        if mode is not None and not faults and written is not None and not written.quoted:
            message, allowed = "a mode without quotes", "a mode in quotes"
            yield Finding((*path, "mode"), message, mode, allowed, f'quote it: "{mode}"')
    inside = {target: [str(x) for x in PurePosixPath(target).parents] for target in seen}
    for target, index in seen.items():
        folders = [x for x in inside[target] if x in seen]
        if folders:
            message = f"inside files[{seen[folders[0]]}].path, which is a file"
            yield Finding(("files", index, "path"), message, target, fix="move one of them")


def _mode(path: Path, row: dict[str, Any], mode: str | None) -> Iterator[Finding]:
    target = row.get("path")
    secret = row.get("secret") is True or (isinstance(target, str) and known_secret(target))
    text = DEFAULT_MODE if mode is None else mode
    try:
        number = parse_mode(text)
    except ValueError as error:
        yield Finding(path, "not a file mode", text, str(error))
        return
    if secret and wider_than_private(number):
        seen = f"no mode, which is {text}" if mode is None else f"{text} = {number:04o}"
        message, allowed = "wider than a secret may be", "0600 or narrower"
        yield Finding(path, message, seen, allowed, 'write mode: "0400" or "0600"')


def _hidden(path: Path, target: str, mounts: list[str]) -> Iterator[Finding]:
    parents = [target, *(str(x) for x in PurePosixPath(target).parents)]
    for mount in mounts:
        if mount in parents:
            allowed = "a path outside the mounts of storage"
            yield Finding(path, f"hidden by the mount {mount}", target, allowed)


def _source(path: Path, source: str, folder: FilePath) -> Iterator[Finding]:
    inside, allowed = PurePosixPath(source), f"a file in {folder}"
    if inside.is_absolute() or ".." in inside.parts:
        yield Finding(path, "outside the cluster's folder", source, allowed)
        return
    try:
        # A link must not be a way out of the folder either.
        place = (folder / source).resolve(strict=True)
    except FileNotFoundError:
        yield Finding(path, "there is no such file", source, allowed)
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        yield Finding(path, f"cannot be read: {text}", source, allowed)
    else:
        if not place.is_relative_to(folder.resolve()):
            yield Finding(path, "a link out of the cluster's folder", source, allowed)
        elif not place.is_file():
            yield Finding(path, "not a file", source, allowed)
        elif not os.access(place, os.R_OK):
            yield Finding(path, "this user may not read it", source, allowed)


def _rows(data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = data.get(key)
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, dict):
            yield index, row


def _dict(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _mounted(data: dict[str, Any]) -> tuple[Any, Any]:
    """Where shared and scratch storage are mounted, as given or by default."""
    storage = _dict(data, "storage")
    return (
        _dict(storage, "shared").get("mount", SharedStorage().mount),
        _dict(storage, "scratch").get("mount", ScratchStorage().mount),
    )


def _shown(value: Any) -> str:
    if isinstance(value, Odd):
        return value.text
    return "a list" if isinstance(value, list) else str(value)
