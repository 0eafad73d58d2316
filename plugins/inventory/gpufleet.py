"""Ansible inventory plugin: the nodes of a fleet, from its contract."""

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

DOCUMENTATION = r"""
name: gpufleet
short_description: Nodes of a gpufleet fleet
description:
  - Reads the fleet contract that C(gpufleet up) writes and gives its nodes as hosts.
  - Groups are C(inference) and C(training), C(pool_NAME), C(gpu_nodes), C(gpu_MODEL) such as
    C(gpu_h200), C(nvswitch), C(simulated_gpus), C(fabric_efa), C(fabric_infiniband),
    C(fabric_ethernet), C(provider_NAME), C(slurm_controller), C(slurm_compute) and C(etcd).
  - Host variables are the connection, with host keys checked against the fleet's own
    known_hosts, and the facts of the contract as C(gpufleet_*).
options:
  plugin:
    description: Marks a file as configuration of this plugin.
    required: true
    choices: [gpufleet]
  fleet:
    description: Path of the contract, relative to the folder of the configuration.
    type: str
    default: .fleet.json
  controllers:
    description:
      - Names of the nodes that run the Slurm controller, main one first.
      - Without it that is the first training node or, where there is none, the first node.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
# inventories/local/gpufleet.yml
plugin: gpufleet

# another place of the contract, and a backup controller
# plugin: gpufleet
# fleet: ../shared/.fleet.json
# controllers: [train-001, train-002]
"""

CHECKOUT = Path(__file__).resolve().parents[2]


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # Ansible has no types
    """Hosts and groups of the fleet beside the configuration file."""

    NAME = "gpufleet"

    def verify_file(self, path: str) -> bool:
        """Only `gpufleet.yml` or `.yaml` is ours: nothing else in an inventory folder is."""
        return Path(path).name in ("gpufleet.yml", "gpufleet.yaml") and Path(path).is_file()

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fill the inventory; any problem is an AnsibleParserError of one sentence each."""
        super().parse(inventory, loader, path, cache)
        _refuse_unknown(self._read_config_data(path))
        try:
            self._fill(Path(path).parent)
        except ImportError as error:
            raise AnsibleParserError(
                f"the Python that runs Ansible ({sys.executable}) lacks {error.name}:"
                f" run Ansible from gpufleet's environment (`. {CHECKOUT}/env.sh`)"
            ) from error

    def _fill(self, folder: Path) -> None:
        if str(CHECKOUT) not in sys.path:
            sys.path.append(str(CHECKOUT))
        from gpufleet import groups
        from gpufleet.fleet import FleetError, UnknownNodeError, load_fleet

        try:
            fleet = load_fleet(folder / self.get_option("fleet"))
            controllers = groups.parse_controllers(self.get_option("controllers"))
            members = groups.groups(fleet, controllers)
            variables = {node.name: groups.variables(fleet, node) for node in fleet.nodes}
        except (FleetError, UnknownNodeError) as error:
            # Ansible would print the chain of causes as well, and the sentence says it all.
            raise AnsibleParserError(str(error)) from None
        for name, values in variables.items():
            self.inventory.add_host(name)
            for key, value in values.items():
                self.inventory.set_variable(name, key, value)
        for group, names in members.items():
            self.inventory.add_group(group)
            for name in names:
                self.inventory.add_child(group, name)
        for key, value in groups.fleet_variables(fleet).items():
            self.inventory.set_variable("all", key, value)


def _refuse_unknown(keys: Iterable[str]) -> None:
    known = list(yaml.safe_load(DOCUMENTATION)["options"])
    problems = []
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            problems.append(f"{key} is no option of the inventory plugin gpufleet: {hint}")
    if problems:
        raise AnsibleParserError("\n".join(problems))
