"""One operation of the Pulumi engine at a time, with its events, surviving any death of ours."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet.paths import cache_dir, repo_root, state_root

from .events import Event, Message, Step, follow
from .locks import holders

PROJECT = "gpufleet"
# How long an engine whose operator vanished may take to finish what it has begun.
WIND_DOWN = 120.0
KEPT_LOGS = 20


class EngineError(RuntimeError):
    """The engine could not be run, or an operation failed; the text is for the operator."""


@dataclass
class Operation:
    """A running operation: iterate over its events, then ask whether it succeeded."""

    process: "subprocess.Popen[bytes]"
    log: Path
    events_file: Path
    failed: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        """Events as they happen; ends with the operation."""
        for event in follow(self.events_file, lambda: self.process.poll() is not None):
            if isinstance(event, Step) and event.state == "failed":
                self.failed.append(event)
            if isinstance(event, Message) and event.severity == "error":
                self.errors.append(event.text)
            yield event
        self.events_file.unlink(missing_ok=True)

    def cancel(self) -> None:
        """Ask the engine to finish what is under way and begin nothing more."""
        self.process.send_signal(signal.SIGINT)

    def check(self) -> None:
        """Raise EngineError unless the operation succeeded."""
        if self.process.wait() != 0:
            reasons = self.errors or self.log.read_text(errors="replace").splitlines()[-5:]
            raise EngineError("\n".join(reasons) + f"\n(log: {self.log})")


class Engine:
    """The Pulumi stack of one cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.environment = dict(os.environ)
        self.environment.setdefault("PULUMI_BACKEND_URL", f"file://{state_root()}/pulumi")
        if "PULUMI_CONFIG_PASSPHRASE_FILE" not in self.environment:
            self.environment.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
        self.environment["PULUMI_SKIP_UPDATE_CHECK"] = "true"
        # The event log is an option that the engine offers to programs only.
        self.environment["PULUMI_DEBUG_COMMANDS"] = "true"

    @property
    def backend(self) -> Path | None:
        """Folder of the state where the backend is files on this host."""
        url = self.environment["PULUMI_BACKEND_URL"]
        return Path(url.removeprefix("file://")) if url.startswith("file://") else None

    def exists(self) -> bool:
        """Whether the stack has been made."""
        if self.backend is not None:
            return self._state_file(self.backend).exists()
        rows = json.loads(self._simple("stack", "ls", "--json"))
        return any(row["name"] == self.cluster for row in rows)

    def prepare(self, notify: Any = None) -> None:
        """Make the stack if needed, and clear what an earlier, killed operation left on it."""
        if self.backend is not None:
            self.backend.mkdir(parents=True, exist_ok=True)
            self.backend.chmod(0o700)
            self._recover_lock(self.backend, notify)
        if not self.exists():
            self._simple("stack", "init", self.cluster, "--no-select")
        if self._pending_creates():
            # Creating is idempotent here: what a killed create has begun is taken up or removed
            # by the next one, so the engine may forget it.
            self._simple(
                "refresh", "--yes", "--skip-preview", "--clear-pending-creates",
                "--stack", self.cluster, timeout=600,
            )  # fmt: skip

    def up(self) -> Operation:
        """Begin to bring the cluster to its spec, looking at what is really there first."""
        return self._start("up", "--yes", "--skip-preview", "--refresh")

    def preview(self) -> Operation:
        """Begin to work out what `up` would do."""
        return self._start("preview", "--refresh")

    def destroy(self) -> Operation:
        """Begin to remove everything of the cluster."""
        return self._start("destroy", "--yes", "--skip-preview", "--refresh")

    def forget(self) -> None:
        """Remove the empty stack, its history and settings."""
        self._simple("stack", "rm", "--yes", "--force", "--stack", self.cluster)
        (repo_root() / "infra" / f"Pulumi.{self.cluster}.yaml").unlink(missing_ok=True)
        if self.backend is not None and not any((self.backend / ".pulumi/stacks").glob("*/*.json")):
            shutil.rmtree(self.backend)
            if not any(state_root().iterdir()):
                state_root().rmdir()

    def outputs(self) -> dict[str, Any]:
        """Outputs of the stack."""
        text = self._simple("stack", "output", "--json", "--stack", self.cluster)
        value: dict[str, Any] = json.loads(text)
        return value

    def _start(self, command: str, *options: str) -> Operation:
        folder = cache_dir() / "logs" / self.cluster
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{command}-{os.getpid()}"
        log, events_file = folder / f"{stamp}.log", folder / f"{stamp}.events"
        events_file.touch()
        _prune(folder)
        arguments = [
            *self._bound(), "pulumi", command, *options,
            "--non-interactive", "--color", "never", "--suppress-progress",
            "--stack", self.cluster, "--event-log", str(events_file),
        ]  # fmt: skip
        # Into a file, not a pipe: an engine that outlives us must be able to go on writing.
        with log.open("wb") as stream:
            process = subprocess.Popen(
                arguments,
                cwd=repo_root() / "infra",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Operation(process, log, events_file)

    @staticmethod
    def _bound() -> list[str]:
        # When this process dies, however, the engine is asked to finish what it began and stop.
        return ["setpriv", "--pdeathsig", "TERM", "--"]

    def _simple(self, *arguments: str, timeout: float = 60.0) -> str:
        try:
            done = subprocess.run(
                [*self._bound(), "pulumi", *arguments, "--non-interactive", "--color", "never"],
                cwd=repo_root() / "infra",
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except FileNotFoundError as error:
            raise EngineError("pulumi is not installed; run setup/bootstrap") from error
        except subprocess.TimeoutExpired as error:
            text = f"`pulumi {' '.join(arguments)}` did not end within {timeout:g} s"
            raise EngineError(text) from error
        if done.returncode != 0:
            raise EngineError(f"`pulumi {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def _state_file(self, backend: Path) -> Path:
        return backend / ".pulumi/stacks" / PROJECT / f"{self.cluster}.json"

    def _pending_creates(self) -> bool:
        if self.backend is None:
            return False
        state = json.loads(self._state_file(self.backend).read_text())
        pending = state["checkpoint"].get("latest", {}).get("pending_operations") or []
        return any(row.get("type") == "creating" for row in pending)

    def _recover_lock(self, backend: Path, notify: Any) -> None:
        deadline = time.monotonic() + WIND_DOWN
        told = False
        while found := holders(backend, PROJECT, self.cluster):
            dead = [holder for holder in found if not holder.alive()]
            for holder in dead:
                holder.file.unlink(missing_ok=True)
            if len(dead) == len(found):
                return
            busy = next(holder for holder in found if holder not in dead)
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the stack {self.cluster} is being worked on by {busy}; "
                    "wait for it, or end that process, and run this again"
                )
            if notify is not None and not told:
                notify(f"waiting for {busy}")
                told = True
            time.sleep(0.1)


def _prune(folder: Path) -> None:
    logs = sorted(folder.glob("*.log"))
    for old in logs[:-KEPT_LOGS]:
        old.unlink(missing_ok=True)
