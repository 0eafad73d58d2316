"""Filters for Slurm's configuration, from what the inventory declares of the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.errors import AnsibleFilterError

CHECKOUT = str(Path(__file__).resolve().parents[6])
if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)

from gpufleet import slurmconf  # noqa: E402  the checkout has to be on the path first

DOCUMENTATION = r"""
name: slurm
short_description: Lines of Slurm's configuration from hosts and their variables
description:
  - C(slurm_lines) takes the names of hosts, C(hostvars) and the share of memory for jobs, and gives
    C(nodes), C(gres), C(topology) (lists of lines) and C(partitions) (name to host list).
  - C(slurm_vanishing) takes host lists that a configuration has, names of hosts, C(hostvars) and
    names that may go, and gives the names that would vanish.
"""


def _declared(names, hostvars):
    try:
        return [slurmconf.declared(name, hostvars[name]) for name in names]
    except slurmconf.SlurmConfError as error:
        raise AnsibleFilterError(str(error)) from error


def slurm_lines(names, hostvars, share=1.0):
    """Lines of the files."""
    nodes = _declared(names, hostvars)
    return {
        "nodes": slurmconf.node_lines(nodes, share),
        "gres": slurmconf.gres_lines(nodes),
        "topology": slurmconf.topology_lines(nodes),
        "partitions": slurmconf.partitions(nodes),
    }


def slurm_vanishing(present, names, hostvars, leaving=()):
    """Names that would vanish."""
    return slurmconf.vanishing(present, _declared(names, hostvars), leaving)


class FilterModule:
    """The filters."""

    def filters(self):
        """Name to function."""
        return {"slurm_lines": slurm_lines, "slurm_vanishing": slurm_vanishing}
