"""Which firewalls are seen to be in the way of nodes, read from rules that nft itself prints."""

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from gpufleet.paths import repo_root
from gpufleet.preflight.firewall import legacy_gates, nft_gates
from gpufleet.preflight.localgroups import Forwarding, Gate

UPLINK = "gf-0123abcd"
needs_nft = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="needs root and nft"
)

DOCKER = """\
table ip filter {
  chain DOCKER-USER {
    %s
    counter return
  }
  chain FORWARD {
    type filter hook forward priority filter; policy drop;
    counter jump DOCKER-USER
    oifname "docker0" ct state related,established accept
    iifname "docker0" accept
  }
}
"""


def printed(rules: str) -> Any:
    """The rules as nft prints them, from a namespace that vanishes again."""
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", "nft -f - && nft --json list ruleset"],
        input=rules, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@needs_nft
def test_docker_is_in_the_way_in_both_directions() -> None:
    (gate,) = nft_gates(printed(DOCKER % ""), UPLINK)
    assert gate.name == "nft chain ip filter FORWARD"
    assert (gate.lets_out, gate.lets_back) == (False, False)


OUT = f'iifname "{UPLINK}" accept'
BACK = f'oifname "{UPLINK}" ct state related,established accept'


@needs_nft
@pytest.mark.parametrize(
    ("rules", "out", "back"),
    [
        (OUT, True, False),
        (BACK, False, True),
        (f"{OUT}; {BACK}", True, True),
        ('iifname "gf-*" counter accept; oifname "gf-*" accept', True, True),
        ('iifname { "eth7", "gf-0123abcd" } accept', True, False),
        ("ct state established,related accept", False, True),
        ("ct state new accept", False, False),
        ('iifname "gf-ffffffff" accept', False, False),
        (f'iifname != "{UPLINK}" accept', False, False),
        (f'iifname "{UPLINK}" tcp dport 22 accept', False, False),
        (f'iifname "{UPLINK}" drop', False, False),
    ],
)
def test_rules_that_open_a_firewall_are_seen(rules: str, out: bool, back: bool) -> None:
    (gate,) = nft_gates(printed(DOCKER % rules), UPLINK)
    assert (gate.lets_out, gate.lets_back) == (out, back)


@needs_nft
@pytest.mark.parametrize(
    "chain",
    [
        "type filter hook forward priority filter; policy accept; iifname eth9 drop",
        "type filter hook input priority filter; policy drop",
        "type filter hook forward priority filter; policy drop; counter accept",
    ],
    ids=["accepts by default", "not about forwarding", "accepts everything"],
)
def test_chain_that_lets_packets_through_is_not_in_the_way(chain: str) -> None:
    assert nft_gates(printed(f"table inet t {{ chain c {{ {chain}; }}; }}"), UPLINK) == []


@needs_nft
@pytest.mark.parametrize("verdict", ["drop", "reject", "counter drop", 'log prefix "no" drop'])
def test_chain_that_ends_in_a_refusal_is_in_the_way(verdict: str) -> None:
    rules = (
        f"type filter hook forward priority filter; policy accept; iifname eth9 accept; {verdict}"
    )
    (gate,) = nft_gates(printed(f"table inet t {{ chain c {{ {rules}; }}; }}"), UPLINK)
    assert gate.name == "nft chain inet t c"


@needs_nft
def test_firewall_of_the_host_is_read_as_it_is() -> None:
    code = f"from gpufleet.preflight.firewall import forwarding; print(forwarding('{UPLINK}'))"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", 'nft -f - && exec "$0" -c "$1"', sys.executable, code],
        input=DOCKER % BACK, env={**os.environ, "PYTHONPATH": str(repo_root())},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    gate = Gate("nft chain ip filter FORWARD", lets_out=False, lets_back=True)
    assert done.stdout.strip() == repr(Forwarding((gate,)))


def test_match_that_nft_cannot_read_counts_for_the_way_back_only() -> None:
    def gate(direction: str) -> tuple[bool, bool]:
        match = {"op": "==", "left": {"meta": {"key": direction}}, "right": "gf-*"}
        base = {"family": "ip", "table": "filter"}
        ruleset = [
            {"chain": {**base, "name": "FORWARD", "hook": "forward", "policy": "drop"}},
            {"rule": {**base, "chain": "X",
                      "expr": [{"match": match}, {"xt": None}, {"accept": None}]}},
        ]  # fmt: skip
        (found,) = nft_gates({"nftables": ruleset}, UPLINK)
        return found.lets_out, found.lets_back

    assert gate("iifname") == (False, False)
    assert gate("oifname") == (False, True)


LEGACY = "-P INPUT ACCEPT\n-P FORWARD DROP\n-P OUTPUT ACCEPT\n-N DOCKER-USER\n"


@pytest.mark.parametrize(
    ("rules", "out", "back"),
    [
        ("-A FORWARD -i docker0 -j ACCEPT", False, False),
        ("-A DOCKER-USER -i gf-+ -j ACCEPT", True, False),
        ("-A FORWARD -o gf-+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", False, True),
        ("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", False, True),
        (f"-A FORWARD -i {UPLINK} -j ACCEPT\n-A FORWARD -o {UPLINK} -j ACCEPT", True, True),
        ("-A FORWARD ! -i gf-+ -j ACCEPT", False, False),
        ("-A FORWARD -i gf-+ -p tcp -m tcp --dport 22 -j ACCEPT", False, False),
        ("-A FORWARD -i gf-+ -j DROP", False, False),
    ],
)
def test_old_iptables_rules_are_seen(rules: str, out: bool, back: bool) -> None:
    (gate,) = legacy_gates(LEGACY + rules + "\n", UPLINK)
    assert gate.name == "iptables-legacy chain filter FORWARD"
    assert (gate.lets_out, gate.lets_back) == (out, back)


@pytest.mark.parametrize(
    "rules", ["-P FORWARD ACCEPT\n", LEGACY + "-A FORWARD -j ACCEPT\n"], ids=["policy", "rule"]
)
def test_old_iptables_that_accept_are_not_in_the_way(rules: str) -> None:
    assert legacy_gates(rules, UPLINK) == []
