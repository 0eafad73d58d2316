"""Filter for NCCL's socket interfaces, from the interfaces that a node has."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = str(Path(__file__).resolve().parents[6])
if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)

from gpufleet import nccl  # noqa: E402  the checkout has to be on the path first

DOCUMENTATION = r"""
name: nccl
short_description: Which interfaces a filter of NCCL takes on a node
description:
  - C(nccl_interfaces) takes the names of a node's interfaces, a value of C(NCCL_SOCKET_IFNAME)
    (empty for the default) and the node's name, and gives C(value), C(names), C(warnings) and
    C(errors).
"""


def nccl_interfaces(interfaces, wanted, host):
    """What the filter takes."""
    taken = nccl.take(wanted, interfaces, host)
    return {
        "value": taken.value,
        "names": list(taken.names),
        "warnings": list(taken.warnings),
        "errors": list(taken.errors),
    }


class FilterModule:
    """The filter."""

    def filters(self):
        """Name to function."""
        return {"nccl_interfaces": nccl_interfaces}
