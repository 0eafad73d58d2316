"""A node that can be thrown away: this machine's file tree, with changes that nobody else sees."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "collections/ansible_collections/gpufleet/node/plugins"
# Layers over what a module may write to. `read` ends with the pipe, and the mounts with the shell:
# nothing is left behind even where the test is killed.
SCRIPT = """
set -eu
mount -t tmpfs -o mode=755 tmpfs "$1"
for part in etc usr var home opt; do
    mkdir -p "$1/upper/$part" "$1/work/$part"
    layers=lowerdir=/$part,upperdir=$1/upper/$part,workdir=$1/work/$part
    mount -t overlay -o "$layers" overlay "/$part"
done
mount -t tmpfs -o mode=755 tmpfs /run
echo ready
read -r _ || true
"""


class NodeBox:
    """A mount namespace; `root` shows its files, `bin` comes first on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.layers = folder / "layers"
        self.bin.mkdir(parents=True)
        self.layers.mkdir()
        self.number = 0

    def __enter__(self) -> Self:
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private",
             "sh", "-c", SCRIPT, "sh", str(self.layers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n", "no mount namespace can be made here"
        self.root = Path(f"/proc/{self.holder.pid}/root")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.holder.communicate("", timeout=20)

    def path(self, name: str) -> Path:
        """A path of the node as this process sees it; its folder is made."""
        found = self.root / name.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        found = self.path(name)
        found.write_text(text)
        found.chmod(mode)
        return found

    def read(self, name: str) -> str:
        return (self.root / name.lstrip("/")).read_text()

    def exists(self, name: str) -> bool:
        return os.path.lexists(self.root / name.lstrip("/"))

    def stub(self, name: str, text: str) -> Path:
        """A command of the node; every word it was called with is found by `calls`."""
        found = self.bin / name
        found.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"{name} $*\" >> {self.folder}/calls\n{text}\n"
        )
        found.chmod(0o755)
        return found

    def calls(self) -> list[str]:
        """Calls of stubs since they were last asked for."""
        log = self.folder / "calls"
        if not log.exists():
            return []
        found = log.read_text().splitlines()
        log.unlink()
        return found

    def account(self, name: str, number: int) -> None:
        """An account with a group of its name."""
        passwd, group = self.read("/etc/passwd"), self.read("/etc/group")
        if f"\n{name}:" not in passwd:
            self.write(
                "/etc/passwd", f"{passwd}{name}:x:{number}:{number}::/nonexistent:/bin/false\n"
            )
            self.write("/etc/group", f"{group}{name}:x:{number}:\n")

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**keep, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}

    def command(self, arguments: Sequence[str]) -> list[str]:
        """What runs a command on the node."""
        return ["nsenter", f"--target={self.holder.pid}", "--mount", "--", *arguments]

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(arguments), env=self.environment(env), input=stdin, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip

    def module_command(
        self, name: str, arguments: Mapping[str, Any], *, check: bool = False
    ) -> list[str]:
        """What runs one of the collection's modules there as Ansible does, arguments in a file."""
        self.number += 1
        given = self.folder / f"arguments-{self.number}.json"
        values = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True}
        given.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": values}))
        return self.command([sys.executable, str(PLUGINS / f"modules/{name}.py"), str(given)])

    def module_environment(self) -> dict[str, str]:
        return self.environment({"PYTHONPATH": str(ROOT / "collections")})

    def module(self, name: str, /, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """Result of a module; it has to be one JSON object, whatever happens."""
        done = subprocess.run(
            self.module_command(name, arguments, check=check),
            env=self.module_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.stdout.strip(), done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        assert bool(result.get("failed")) == (done.returncode != 0)
        return result
