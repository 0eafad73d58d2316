"""One version for the whole cluster: variables that give hosts or groups versions of their own.

Components of scope `cluster` talk to one another in protocols that change with every release. A
worker with another Ray or Python seems to start, and its processes die with a message in a log file
of that node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .universe import Universe, universe


@dataclass(frozen=True)
class Override:
    """A variable that gives some hosts a version of their own."""

    place: str
    """Where it is set, such as `host_vars/infer-002` or `group_vars/head`."""
    variable: str
    value: str
    wanted: str

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.variable} is {self.value}, the cluster's pin is {self.wanted} "
            f"(all nodes need the same; fix: remove {self.variable} from {self.place}, "
            f"or change the stack set)"
        )

    def to_dict(self) -> dict[str, str]:
        """For JSON output."""
        return {
            "place": self.place,
            "variable": self.variable,
            "value": self.value,
            "wanted": self.wanted,
        }


def cluster_wide(known: Universe | None = None) -> tuple[str, ...]:
    """Names of the pins of which a cluster has one version."""
    world = known or universe()
    return tuple(x.name for x in world.components.values() if x.scope == "cluster")


def overrides(
    pins: Mapping[str, str],
    variables: Mapping[str, Mapping[str, Any]],
    known: Universe | None = None,
) -> list[Override]:
    """Every variable of a cluster-wide pin that differs from the pin, by place and name.

    `variables` maps a place to what is set there; a variable has the name of its pin, or that name
    after `gpufleet_`. Where the set does not pin the component, the first value in the order of the
    places is what the others are compared with.
    """
    wide = {name: name for name in cluster_wide(known)}
    wide |= {f"gpufleet_{name}": name for name in wide}
    wanted = dict(pins)
    found = []
    for place, assigned in sorted(variables.items()):
        for variable, value in sorted(assigned.items()):
            if variable not in wide:
                continue
            expected = wanted.setdefault(wide[variable], str(value))
            if str(value) != expected:
                found.append(Override(place, variable, str(value), expected))
    return found
