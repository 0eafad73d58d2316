"""What each node of a fleet should be, from the contract and the lock."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from gpufleet import stack
from gpufleet.fleet import Fleet, FleetError
from gpufleet.groups import groups, parse_controllers
from gpufleet.stack import lockstep

from .model import Want


def wants(fleet: Fleet, controllers: Sequence[str] = ()) -> dict[str, Want]:
    """Node name -> what is wanted of it, in the contract's order.

    `controllers` as for `groups`. Raises FleetError for a stack that is not known and for a
    controller that the fleet lacks.
    """
    try:
        pinned = lockstep.complete(stack.get(fleet.stack))
        members = groups(fleet, controllers)
    except LookupError as error:
        raise FleetError([str(error.args[0])]) from error
    packages = {
        name: lockstep.packages(replace(pinned, pins={name: version}))
        for name, version in pinned.pins.items()
    }
    # Ray's head is where Slurm's main controller is: the role `ray` says so, too.
    head = fleet.node(members["slurm_controller"][0]).address if fleet.nodes else ""
    return {
        node.name: Want(
            cluster=fleet.cluster,
            stack=fleet.stack,
            node=node,
            groups=frozenset(group for group, names in members.items() if node.name in names),
            pins=dict(pinned.pins),
            packages=packages,
            shared_mounts=fleet.shared_mounts,
            ray_head=head,
        )
        for node in fleet.nodes
    }


def controllers_of(inventory: Path) -> list[str]:
    """Slurm controllers as the inventory's gpufleet.yml names them; empty where it names none.

    Raises FleetError for a file that cannot be understood.
    """
    for name in ("gpufleet.yml", "gpufleet.yaml"):
        try:
            value = yaml.safe_load((inventory / name).read_text())
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise FleetError([f"{inventory / name} cannot be read: {error}"]) from error
        return parse_controllers((value if isinstance(value, dict) else {}).get("controllers", []))
    return []
