"""The collection's filters, as templates call them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import contracts

from gpufleet.fleet import validate
from gpufleet.groups import fleet_variables, variables

ROOT = Path(__file__).resolve().parents[2]
# From another folder and without the checkout on the path, as a play of a user's may be.
PROGRAM = """
import json, sys
from ansible.plugins.loader import filter_loader, init_plugin_loader
init_plugin_loader([sys.argv[1]])
found = []
for name, arguments in json.load(sys.stdin):
    try:
        found.append(filter_loader.get("gpufleet.node." + name).j2_function(*arguments))
    except Exception as error:
        found.append("error: " + type(error).__name__ + ": " + str(error))
print(json.dumps(found))
"""


def ask(tmp_path: Path, *calls: tuple[str, list[Any]]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "collections")], input=json.dumps(calls),
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def hostvars() -> dict[str, Any]:
    fleet = validate(contracts.contract())
    return {node.name: variables(fleet, node) | fleet_variables(fleet) for node in fleet.nodes}


def test_lines_of_slurm_from_host_variables(tmp_path: Path) -> None:
    names = ["infer-001", "infer-002", "train-001"]
    lines, vanishing, missing = ask(
        tmp_path,
        ("slurm_lines", [names, hostvars(), 0.5]),
        ("slurm_vanishing", [["infer-[001-003]"], names, hostvars(), []]),
        ("slurm_lines", [["gpu-002"], {"gpu-002": {}}]),
    )
    assert lines["nodes"] == [
        "NodeName=infer-[001-002],train-001 CPUs=2 RealMemory=1024 Gres=gpu:h200:2 State=UNKNOWN"
    ]
    assert lines["gres"] == [
        "NodeName=infer-[001-002],train-001 Name=gpu Type=h200 File=/dev/nvidia[0-1]"
    ]
    assert lines["partitions"] == {"inference": "infer-[001-002]", "training": "train-001"}
    assert vanishing == ["infer-003"]
    assert re.match("error: Ansible\\w+: gpu-002: no ansible_host, gpufleet_vcpus", missing)


def test_packages_that_differ(tmp_path: Path) -> None:
    wanted = {"a": "1", "b": "2:1-1", "c": "3"}
    lines = ["a=1", "b=2:1-2", "", "noise", "d=4"]
    assert ask(tmp_path, ("packages_differing", [wanted, lines])) == [["b", "c"]]


def installed(controller: str, node: str, target: str | None) -> dict[str, Any]:
    found = {
        "train-001": [f"slurmdbd={controller}", f"slurmctld={controller}"],
        "infer-001": [f"slurmd={node}"],
    }
    pins = {} if target is None else {"slurm": target}
    return {
        name: {"gpufleet_pins": pins, "upgrade_installed": {"stdout_lines": lines}}
        for name, lines in found.items()
    }


def test_steps_of_a_slurm_upgrade(tmp_path: Path) -> None:
    names = ["train-001", "infer-001"]

    def call(there: dict[str, Any]) -> tuple[str, list[Any]]:
        return "slurm_upgrade", [names, there, "train-001"]

    unknown = installed("23.11.4-1", "23.11.4-1", "24.05.2-1")
    del unknown["infer-001"]["upgrade_installed"]
    steps, same, unpinned, refused, missing = ask(
        tmp_path,
        call(installed("23.11.4-1", "23.11.4-1", "24.05.2-1")),
        call(installed("24.05.2-1", "24.05.2-1", "24.05.2-1")),
        call(installed("23.11.4-1", "23.11.4-1", None)),
        call(installed("20.11.4-1", "20.11.4-1", "24.05.2-1")),
        call(unknown),
    )
    daemons = [row.split(":")[0] for row in steps["steps"]]
    assert steps["refused"] == ""
    # Accounting first, then the controller, then the nodes: an older one may talk to a newer one.
    order = [daemons.index(name) for name in ("slurmdbd", "slurmctld", "slurmd")]
    assert order == sorted(order)
    assert unpinned == {"steps": [], "refused": ""}
    assert same["refused"] == ""
    assert not [row for row in same["steps"] if "upgrade" in row]
    assert refused["steps"] == []
    assert refused["refused"]
    assert "infer-001: nothing is known of its packages" in missing
