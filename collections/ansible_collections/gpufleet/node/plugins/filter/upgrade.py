"""Filters for upgrades: what differs from the lock, and the order of Slurm's daemons."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.errors import AnsibleFilterError

CHECKOUT = str(Path(__file__).resolve().parents[6])
if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)

from gpufleet.stack import slurm_upgrade as planner  # noqa: E402  the checkout goes first

DOCUMENTATION = r"""
name: upgrade
short_description: What an upgrade changes, and in which order
description:
  - C(packages_differing) takes package to version and lines C(PACKAGE=VERSION) of what is
    installed, and gives the packages that are another version or absent.
  - C(slurm_upgrade) takes the names of hosts, C(hostvars) with C(upgrade_installed) of each, and
    the name of the controller, and gives C(steps) (texts in order) and C(refused) (a text, empty
    if the way is allowed).
"""


def _versions(lines):
    return dict(line.split("=", 1) for line in lines if "=" in line)


def packages_differing(wanted, lines):
    """Names of packages that are not as wanted."""
    there = _versions(lines)
    return sorted(name for name, version in wanted.items() if there.get(name) != version)


def slurm_upgrade(names, hostvars, controller):
    """Steps of a Slurm upgrade, or why it is refused."""
    there = {}
    for name in names:
        seen = hostvars[name].get("upgrade_installed")
        if seen is None:
            raise AnsibleFilterError(
                f"{name}: nothing is known of its packages; it has to be in the run"
            )
        there[name] = _versions(seen.get("stdout_lines", []))
    target = hostvars[controller]["gpufleet_pins"].get("slurm")
    daemons = {name: seen["slurmd"] for name, seen in there.items() if seen.get("slurmd")}
    if not target or not daemons or "slurmdbd" not in there[controller]:
        return {"steps": [], "refused": ""}
    installed = planner.Installed(
        there[controller]["slurmdbd"], there[controller]["slurmctld"], daemons
    )
    try:
        steps = planner.plan(installed, planner.Target(target, target, target))
    except planner.CannotUpgrade as error:
        return {"steps": [], "refused": str(error)}
    return {"steps": [f"{step.daemon}: {step.action}" for step in steps], "refused": ""}


class FilterModule:
    """The filters."""

    def filters(self):
        """Name to function."""
        return {"packages_differing": packages_differing, "slurm_upgrade": slurm_upgrade}
