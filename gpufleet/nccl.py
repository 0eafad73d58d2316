"""Which network interfaces NCCL's and Gloo's socket filter takes on a host. Pure.

NCCL_SOCKET_IFNAME is a list of names with a mark before it: without one every interface whose name
begins so is taken, with `=` those of equal name; `^` and `^=` take all others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

LOOPBACK = "lo"
EXCLUDED = (LOOPBACK, "docker", "veth", "br-", "virbr", "cni", "cali", "flannel", "tailscale", "wg")
"""Beginnings of names through which no other host is reached, or one by a detour."""
DEFAULT = "^" + ",".join(EXCLUDED)
"""The filter where none is given: all but loopback and the virtual ones."""


@dataclass(frozen=True)
class Taken:
    """A filter, the interfaces that it takes, and what speaks against it.

    `value` is what to write for NCCL; `names` is what to write where only plain names are known.
    """

    value: str
    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def take(wanted: str, interfaces: Iterable[str], host: str) -> Taken:
    """What a filter takes on a host; an empty one is the default."""
    value = wanted.strip() or DEFAULT
    there = sorted(interfaces)
    mark, names = _parse(value)
    if not names:
        return Taken(value, (), (), (f"{host}: the filter {value!r} names no interface",))
    inverse, exact = mark.startswith("^"), mark.endswith("=")

    def hit(name: str) -> bool:
        return any(name == x if exact else name.startswith(x) for x in names)

    found = tuple(name for name in there if hit(name) != inverse)
    errors = []
    if not found:
        errors.append(
            f"{host}: the filter {value!r} takes none of its interfaces"
            f" ({', '.join(there) or 'it has none'})"
        )
    elif found == (LOOPBACK,):
        errors.append(f"{host}: the filter {value!r} takes loopback alone; others are not reached")
    return Taken(value, found, tuple(_warnings(host, mark, names, found)), tuple(errors))


def _parse(value: str) -> tuple[str, tuple[str, ...]]:
    mark = ""
    for sign in "^=":
        if value.startswith(sign):
            mark, value = mark + sign, value[1:]
    # A name may carry a port, which says nothing of the interface.
    names = (name.strip().split(":")[0] for name in value.split(","))
    return mark, tuple(name for name in names if name)


def _warnings(
    host: str, mark: str, names: tuple[str, ...], found: tuple[str, ...]
) -> Iterable[str]:
    if not mark:
        for name in names:
            more = [x for x in found if x.startswith(name) and x != name]
            if more and name in found:
                yield (
                    f"{host}: {name} is a prefix match and takes {', '.join(more)}, too;"
                    f" make it exact: ={name}"
                )
    if LOOPBACK in found and len(found) > 1:
        way = "add lo to the exclusions" if mark.startswith("^") else "leave lo out"
        yield f"{host}: the filter lets loopback in; {way}"
