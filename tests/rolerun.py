"""Gpufleet's roles, run by Ansible on a throwaway node: what they lay there is then looked at."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml
from nodebox import ROOT, NodeBox

from gpufleet.fleet import validate, write_fleet

# Programs that check a file before it is put in place; here only roles are looked at.
CHECKERS = ("promtool", "dockerd", "visudo")
ACCOUNTS = ("slurm", "etcd", "prometheus", "gpufleet", "munge")


class RoleRun:
    """An inventory folder whose nodes all are the throwaway one, and plays of roles on them."""

    def __init__(self, box: NodeBox, contract: Mapping[str, Any], **variables: Any) -> None:
        self.box = box
        self.inventory = box.folder / "inventories/demo"
        (self.inventory / "group_vars").mkdir(parents=True)
        self.declare(contract)
        (self.inventory / "gpufleet.yml").write_text("plugin: gpufleet\n")
        local = {
            "ansible_connection": "local", "ansible_become": False,
            "ansible_python_interpreter": sys.executable, **variables,
        }  # fmt: skip
        (self.inventory / "group_vars/all.json").write_text(json.dumps(local))
        for name in CHECKERS:
            box.stub(name, "exit 0")
        for number, name in enumerate(ACCOUNTS):
            box.account(name, 830 + number)

    def declare(self, contract: Mapping[str, Any]) -> None:
        """The fleet contract from now on."""
        write_fleet(self.inventory / ".fleet.json", validate(dict(contract)))

    def ansible(self, tool: str, *arguments: str) -> CompletedProcess[str]:
        return self.box.run(
            sys.executable, "-m", f"ansible.cli.{tool}", "-i", str(self.inventory), *arguments,
            env={
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_HOME": str(self.box.folder / "ansible"), "LC_ALL": "C.UTF-8",
                "ANSIBLE_LOCALHOST_WARNING": "False",
            },
        )  # fmt: skip

    def play(
        self,
        steps: Sequence[tuple[str, str]],
        *arguments: str,
        node: Mapping[str, Any] | None = None,
    ) -> CompletedProcess[str]:
        """Parts of roles, each `(role, tasks file)`, on all nodes or those of `--limit`.

        `node` changes facts of the node, before any role sees them.
        """
        facts = self.box.module("facts")
        facts["clock_offset"] = {"seconds": 0.0, "within": 0.1}
        for key, value in (node or {}).items():
            both = isinstance(value, dict) and isinstance(facts.get(key), dict)
            facts[key] = {**facts[key], **value} if both else value
        given = self.box.folder / "facts.json"
        given.write_text(json.dumps({"node": facts}))
        tasks: list[dict[str, Any]] = [
            {"name": role, "import_role": {"name": role, "tasks_from": part}}
            for role, part in steps
        ]
        play = {"name": "Case", "hosts": "all", "gather_facts": False, "tasks": tasks}
        # Beside the product's playbooks in the tree, as roles look for files from there.
        path = self.box.folder / "playbooks/case.yml"
        path.parent.mkdir(exist_ok=True)
        checkout = path.parent.parent / "gpufleet"
        if not checkout.exists():
            checkout.symlink_to(ROOT / "gpufleet")
        path.write_text(yaml.safe_dump([play], sort_keys=False, width=1000))
        return self.ansible("playbook", "-e", f"@{given}", *arguments, str(path))


def templates() -> list[Path]:
    """All templates of all roles."""
    return sorted((ROOT / "roles").glob("*/templates/*.j2"))
