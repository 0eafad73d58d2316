"""A cluster of the tests' own: name, addresses, state and inventory apart from any user's fleet."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.paths import cache_dir, repo_root

SPEC = """\
name: {name}
provider: local
pools:
{pools}
network:
  cidr: {cidr}
access:
  front_port: {port}
{extra}"""


@dataclass
class Cluster:
    """One cluster under test, driven as a user drives it: by processes."""

    name: str
    cidr: str
    port: int
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        state = self.folder / "state"
        self.environment = {
            **os.environ,
            "GPUFLEET_STATE": str(state),
            "GPUFLEET_INVENTORIES": str(self.folder / "inventories"),
            "PULUMI_BACKEND_URL": f"file://{state}/pulumi",
            "PULUMI_CONFIG_PASSPHRASE": "",
        }

    @property
    def inventory(self) -> Path:
        return self.folder / "inventories" / self.name

    @property
    def state(self) -> Path:
        return self.folder / "state" / self.name

    def write_spec(self, extra: str = "", **pools: int) -> None:
        """Write the cluster's spec with pools of these counts, two simulated GPUs a node."""
        rows = "".join(
            f"  - name: {name}\n    partition: {'training' if name == 'train' else 'inference'}\n"
            f"    instance_type: sim.h200x2\n    count: {count}\n"
            for name, count in pools.items()
        )
        self.inventory.mkdir(parents=True, exist_ok=True)
        text = SPEC.format(
            name=self.name, pools=rows.rstrip(), cidr=self.cidr, port=self.port, extra=extra
        )
        (self.inventory / "cluster.yaml").write_text(text)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a gpufleet command in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "gpufleet.cli", *arguments],
            cwd=repo_root(),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, expect: int = 0, timeout: float = 180.0) -> str:
        """Run a gpufleet command to its end; returns what it printed."""
        process = self.start(*arguments)
        text, _ = process.communicate(timeout=timeout)
        assert process.returncode == expect, f"{arguments} ended {process.returncode}:\n{text}"
        return text

    def json(self, command: str, expect: int = 0) -> dict[str, Any]:
        """Run a reporting command and read its JSON."""
        process = subprocess.run(
            [sys.executable, "-m", "gpufleet.cli", command, self.name, "--json"],
            cwd=repo_root(),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert process.returncode == expect, process.stdout + process.stderr
        value: dict[str, Any] = json.loads(process.stdout)
        return value

    def up(self) -> dict[str, Any]:
        return self.json("up")

    def nodes(self) -> dict[str, dict[str, Any]]:
        """State of every node by name, as `status` reports it; all have to be well."""
        return {row["name"]: row for row in self.json("status")["nodes"]}

    def ssh(self, node: str, *command: str) -> str:
        return self.run("ssh", self.name, node, *command)

    def down(self) -> None:
        if self.inventory.exists():
            self.run("down", self.name, "--yes")
        shutil.rmtree(cache_dir() / "logs" / self.name, ignore_errors=True)


def wait_until(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait for a condition; fail with its name at the deadline."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.02)
