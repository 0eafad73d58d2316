"""Groups and variables of a fleet's nodes, as Ansible's roles expect them: pure, from the contract.

A role is switched on by membership of the group of its name.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from . import stack
from .fleet import Fleet, FleetError, FleetNode
from .ssh import ansible_arguments
from .stack import lockstep

ETCD_MEMBERS = 3
"""Members of the etcd cluster; with fewer nodes there is one, since two outlive no loss."""

_MODEL_NUMBER = re.compile(r"[A-Za-z]*[0-9][A-Za-z0-9]*")
_SWITCHED = re.compile(r"NV[0-9]+")


def groups(fleet: Fleet, controllers: Sequence[str] = ()) -> dict[str, list[str]]:
    """Names of nodes by group, in the contract's order; no group is empty.

    `controllers` names the Slurm controllers, main one first; without it that is the first
    training node or, where there is none, the first node. Raises UnknownNodeError for one that the
    fleet lacks.
    """
    found: dict[str, list[str]] = {}
    for node in fleet.nodes:
        for group in sorted(_groups(fleet, node)):
            found.setdefault(group, []).append(node.name)
    training = [node.name for node in fleet.nodes if node.partition == "training"]
    names = [node.name for node in fleet.nodes]
    named = [fleet.node(name).name for name in controllers]
    found["slurm_controller"] = named or (training or names)[:1]
    found["slurm_compute"] = names
    found["etcd"] = names[: ETCD_MEMBERS if len(names) >= ETCD_MEMBERS else 1]
    return {group: members for group, members in found.items() if members}


def variables(fleet: Fleet, node: FleetNode) -> dict[str, object]:
    """Variables of one node: how Ansible reaches it, and the contract's facts as `gpufleet_*`."""
    facts = node.model_dump(mode="json")
    return {
        "ansible_host": node.address,
        "ansible_user": fleet.access.user,
        # ansible-runner switches checking off in the environment; a host's variable wins over it.
        "ansible_host_key_checking": True,
        "ansible_ssh_common_args": ansible_arguments(fleet.access, node.name),
        "ansible_control_path": _control_path(fleet, node),
        **{
            f"gpufleet_{key}": facts[key]
            for key in (
                "failure_domain",
                "gpus",
                "instance_type",
                "memory_mib",
                "mounts",
                "nics",
                "partition",
                "pool",
                "provider_id",
                "scratch",
                "simulated",
                "vcpus",
            )
        },
    }


def fleet_variables(fleet: Fleet) -> dict[str, object]:
    """Variables that are the same for all nodes."""
    mounts = [mount.model_dump(mode="json") for mount in fleet.shared_mounts]
    pinned = lockstep.complete(_pins(fleet))
    return {
        "gpufleet_cluster": fleet.cluster,
        "gpufleet_provider": fleet.provider,
        "gpufleet_shared_mounts": mounts,
        "gpufleet_stack": fleet.stack,
        "gpufleet_pins": dict(pinned.pins),
        "gpufleet_simulated_pins": list(pinned.simulated),
        "gpufleet_packages": lockstep.packages(pinned),
        "gpufleet_pin_packages": {
            name: sorted(lockstep.packages(replace(pinned, pins={name: version})))
            for name, version in pinned.pins.items()
        },
        "gpufleet_lock_steps": [
            [rule.options["leader"], *rule.options["followers"]] for rule in lockstep.lock_steps()
        ],
    }


def _pins(fleet: Fleet) -> stack.StackSet:
    try:
        return stack.get(fleet.stack)
    except stack.UnknownSet as error:
        raise FleetError([f"stack: {error}"]) from error


def gpu_group(model: str) -> str:
    """Group of a GPU model: `gpu_h200` for `NVIDIA H200 141GB HBM3e`, by its first number."""
    found = _MODEL_NUMBER.search(model)
    return f"gpu_{_safe(found[0] if found else model)}"


def _groups(fleet: Fleet, node: FleetNode) -> set[str]:
    found = {f"provider_{fleet.provider}", node.partition, f"pool_{_safe(node.pool)}"}
    found |= {f"fabric_{nic.fabric}" for nic in node.nics}
    found |= {gpu_group(gpu.model) for gpu in node.gpus}
    if node.gpus:
        found.add("gpu_nodes")
        if node.simulated:
            found.add("simulated_gpus")
    if any(_SWITCHED.fullmatch(gpu.link_class) for gpu in node.gpus):
        found.add("nvswitch")
    return found


def _control_path(fleet: Fleet, node: FleetNode) -> str:
    # Ansible's own name for the shared connection is made of address, port and user: with it a
    # machine made anew, or one of another cluster at the same address, would be spoken to through
    # the dead connection of the old one. Ansible expands `%(directory)s` and turns `%%` into `%`.
    identity = hashlib.sha256(f"{fleet.cluster}\n{node.provider_id}".encode()).hexdigest()[:16]
    return f"%(directory)s/gpufleet-{identity}-%%r"


def _safe(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")


def parse_controllers(value: object) -> list[str]:
    """The option `controllers` of the inventory configuration: a list of node names."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise FleetError([f"controllers: a list of node names is expected (seen {value!r})"])
    if len(set(value)) != len(value):
        raise FleetError([f"controllers: a node stands twice (seen {value!r})"])
    return list(value)
