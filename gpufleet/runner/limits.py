"""Which nodes an operator means: names, host lists such as infer-[001-004], and groups."""

import difflib
import re

from gpufleet.fleet import Fleet
from gpufleet.groups import groups
from gpufleet.hostlist import HostlistError, expand

from .result import RunError

# Commas part items, but not those inside a bracket.
_ITEMS = re.compile(r",(?![^\[]*\])")


def pattern(fleet: Fleet, text: str) -> str:
    """The pattern of Ansible for a limit; raises RunError for what the fleet does not have."""
    names = {node.name for node in fleet.nodes}
    known = groups(fleet)
    found: list[str] = []
    for item in (part.strip() for part in _ITEMS.split(text)):
        if item in known or item == "all":
            found.append(item)
            continue
        try:
            wanted = expand(item)
        except HostlistError as error:
            raise RunError(f"--limit: {error}") from error
        for name in wanted:
            if name not in names:
                raise RunError(_unknown(name, names, set(known)))
        found += wanted
    if not found:
        raise RunError("--limit names no node; leave it out for all of them")
    return ",".join(dict.fromkeys(found))


def _unknown(name: str, names: set[str], known: set[str]) -> str:
    near = difflib.get_close_matches(name, names | known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    shown = sorted(names)
    more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
    return (
        f"--limit {name}: no such node or group{hint}\n"
        f"nodes: {', '.join(shown[:20])}{more}\ngroups: {', '.join(sorted(known))}"
    )
