"""Chains of other firewalls that drop forwarded packets, read from nft and from old iptables.

This is a reading, not a simulation: a rule counts as opening a chain when it stands in the same
table, accepts, and matches nothing but the fleet's interface and the state of the connection.
"""

import fnmatch
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .facts import FactError
from .hosttool import output
from .localgroups import Forwarding, Gate

LEGACY_TABLES = Path("/proc/net/ip_tables_names")


def forwarding(uplink: str) -> Forwarding:
    """Chains that drop by default. Raises FactError where the rules cannot be listed."""
    gates = nft_gates(json.loads(output(["nft", "--json", "list", "ruleset"])), uplink)
    if LEGACY_TABLES.exists() and "filter" in LEGACY_TABLES.read_text().split():
        if shutil.which("iptables-legacy") is None:
            raise FactError("old iptables rules are loaded, and iptables-legacy is not installed")
        gates += legacy_gates(output(["iptables-legacy", "-S"]), uplink)
    return Forwarding(tuple(gates))


def nft_gates(ruleset: Mapping[str, Any], uplink: str) -> list[Gate]:
    """Gates in what `nft --json list ruleset` prints, seen from the interface `uplink`."""
    entries = ruleset.get("nftables", [])
    chains = [entry["chain"] for entry in entries if "chain" in entry]
    rules = [entry["rule"] for entry in entries if "rule" in entry]
    gates = []
    for chain in chains:
        if chain.get("hook") != "forward" or chain["family"] not in ("ip", "inet"):
            continue
        inside = [rule for rule in rules if _same(rule, chain) and rule["chain"] == chain["name"]]
        if any(_unconditional(rule, "accept") for rule in inside):
            continue
        shut = chain.get("policy") == "drop" or any(
            _unconditional(rule, verdict) for rule in inside for verdict in ("drop", "reject")
        )
        if shut:
            table = [rule["expr"] for rule in rules if _same(rule, chain)]
            gates.append(
                Gate(
                    f"nft chain {chain['family']} {chain['table']} {chain['name']}",
                    lets_out=any(_lets_out(expr, uplink) for expr in table),
                    lets_back=any(_lets_back(expr, uplink) for expr in table),
                )
            )
    return gates


def legacy_gates(rules: str, uplink: str) -> list[Gate]:
    """Gates in what `iptables-legacy -S` prints."""
    lines = [line.split() for line in rules.splitlines()]
    if ["-P", "FORWARD", "DROP"] not in lines or ["-A", "FORWARD", "-j", "ACCEPT"] in lines:
        return []
    accepting = [words for words in lines if words[:1] == ["-A"] and words[-2:] == ["-j", "ACCEPT"]]
    return [
        Gate(
            "iptables-legacy chain filter FORWARD",
            lets_out=any(_legacy_matches(words, {"-i": uplink}) for words in accepting),
            lets_back=any(_legacy_matches(words, {"-o": uplink}) for words in accepting),
        )
    ]


def _same(rule: Mapping[str, Any], chain: Mapping[str, Any]) -> bool:
    return bool(rule["family"] == chain["family"] and rule["table"] == chain["table"])


def _unconditional(rule: Mapping[str, Any], verdict: str) -> bool:
    kinds = [next(iter(part)) for part in rule["expr"]]
    return verdict in kinds and set(kinds) <= {verdict, "counter", "log", "comment"}


def _lets_out(expr: Iterable[Mapping[str, Any]], uplink: str) -> bool:
    return _accepts(expr, "iifname", uplink, states=False)


def _lets_back(expr: Iterable[Mapping[str, Any]], uplink: str) -> bool:
    return _accepts(expr, "oifname", uplink, states=True)


def _accepts(
    expr: Iterable[Mapping[str, Any]], direction: str, uplink: str, *, states: bool
) -> bool:
    """Whether the rule accepts by interface; with `states`, also by an established connection."""
    accepts = named = stateful = False
    for part in expr:
        kind = next(iter(part))
        if kind == "accept":
            accepts = True
        elif kind == "match":
            left, right = part["match"]["left"], part["match"]["right"]
            if left == {"meta": {"key": direction}} and part["match"]["op"] == "==":
                if not _interface(right, uplink):
                    return False
                named = True
            elif states and left == {"ct": {"key": "state"}} and "established" in _members(right):
                stateful = True
            else:
                return False
        elif kind == "xt":
            # iptables-nft writes its connection state match this way, and nft cannot read it.
            if not states:
                return False
        elif kind not in ("counter", "comment"):
            return False
    return accepts and (named or stateful)


def _interface(right: Any, uplink: str) -> bool:
    return any(fnmatch.fnmatchcase(uplink, pattern) for pattern in _members(right))


def _members(right: Any) -> list[str]:
    if isinstance(right, Mapping):
        right = right.get("set", [])
    members = right if isinstance(right, list) else [right]
    return [member for member in members if isinstance(member, str)]


def _legacy_matches(words: list[str], wanted: Mapping[str, str]) -> bool:
    """Whether the rule matches the wanted interface, or only the state of the connection."""
    options = words[2:-2]
    state = "ESTABLISHED" in ",".join(options).split(",")
    if state and "-o" in wanted and not {"-i", "-o"} & set(options):
        return True
    for flag, name in wanted.items():
        if flag in options:
            pattern = options[options.index(flag) + 1]
            inverted = options[options.index(flag) - 1] == "!"
            hit = fnmatch.fnmatchcase(name, pattern.replace("+", "*"))
            narrow = set(options) - {flag, pattern}
            return hit and not inverted and (not narrow or (state and flag == "-o"))
    return False
