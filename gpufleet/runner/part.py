"""One start of ansible-playbook under ansible-runner: command, signals, and what it leaves."""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_runner import Runner, RunnerConfig  # type: ignore[import-untyped]

from gpufleet.paths import repo_root

from .environment import environment
from .result import RunError
from .tally import Tally

Event = Mapping[str, Any]
# How long an Ansible that was told to stop at once may take before it is killed.
GRACE = 5.0


@dataclass(frozen=True)
class Order:
    """What to run: absolute paths of playbook and inventory, and on what terms.

    The nodes are `hosts` or, without those, the ones of `limit` that are not in `without`.
    """

    playbook: Path
    inventory: Path
    hosts: Sequence[str] | None = None
    limit: str | None = None
    without: Sequence[str] = ()
    tags: str | None = None
    check: bool = False
    budget: str = "0"
    spent: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


class Part:
    """A start of Ansible with its own folder; `play` returns when it has ended."""

    def __init__(self, order: Order, folder: Path) -> None:
        self.order = order
        self.folder = folder
        self.tally = Tally()
        self.code: int | None = None
        self._killed: float | None = None
        self._error: BaseException | None = None

    def play(self, on_event: Callable[[Event], None] | None) -> None:
        """Run to the end; raises what `on_event` raised, once nodes are in no middle of a task."""
        extra = self._extra_file()
        try:
            config = self._config(extra)
            runner = Runner(
                config,
                event_handler=lambda event: self._take(event, on_event),
                cancel_callback=self._overdue,
            )
            try:
                runner.run()
            except BaseException:
                self.kill()
                raise
            self.code = runner.rc
        finally:
            if extra is not None:
                extra.unlink(missing_ok=True)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Ask Ansible to end before the next task: what is under way on the nodes is finished."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "stop").touch(mode=0o600)

    def kill(self) -> None:
        """End Ansible now. A module that already runs on a node ends there by itself."""
        self._killed = self._killed or time.monotonic()
        pid = self.plan.get("pid")
        if pid is not None and self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    @property
    def killed(self) -> bool:
        """Whether it was ended in the middle."""
        return self._killed is not None

    @property
    def plan(self) -> dict[str, Any]:
        """Hosts, plays and budget; empty before Ansible has read the playbook."""
        return self._read("plan.json")

    @property
    def watch(self) -> dict[str, Any]:
        """Who is through; empty before Ansible has read the playbook."""
        return self._read("watch.json")

    def output_tail(self) -> str:
        """The end of what Ansible printed, for when it failed apart from any node."""
        path = self.folder / "stdout"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join([line for line in lines if line.strip()][-12:])

    def _take(self, event: Event, on_event: Callable[[Event], None] | None) -> bool:
        self.tally.add(event)
        if on_event is not None and self._error is None:
            try:
                on_event(event)
            except BaseException as error:
                # Thrown through ansible-runner it would leave Ansible running alone.
                self._error = error
                self.stop()
        return True

    def _overdue(self) -> bool:
        if self._killed is None:
            return False
        # Without a plan there is no process id to signal, and no node has been touched yet.
        return not self.plan or time.monotonic() - self._killed > GRACE

    def _config(self, extra: Path | None) -> RunnerConfig:
        config = RunnerConfig(
            private_data_dir=str(self.folder),
            artifact_dir=str(self.folder.parent),
            ident=self.folder.name,
            project_dir=str(repo_root()),
            playbook=str(self.order.playbook),
            inventory=str(self.order.inventory),
            quiet=True,
            settings={"pexpect_timeout": 0.2},
            # Facts of nodes are nobody's business once the run is over.
            fact_cache_type="memory",
        )
        config.prepare()
        config.env = self._environment(config.env, extra)
        # When this process dies, Ansible is asked to end.
        config.command = [
            "setpriv", "--pdeathsig", "TERM", "--", sys.executable, "-m", "ansible", "playbook",
            *self._arguments(extra),
        ]  # fmt: skip
        return config

    def _environment(self, prepared: Mapping[str, str], extra: Path | None) -> dict[str, str]:
        # What ansible-runner has put there for its own callback.
        own = {name: prepared[name] for name in prepared if name not in os.environ}
        mine = environment(os.environ, self.folder)
        callbacks = f"{mine['ANSIBLE_CALLBACK_PLUGINS']}:{prepared['ANSIBLE_CALLBACK_PLUGINS']}"
        return {
            **own,
            **mine,
            "ANSIBLE_CALLBACK_PLUGINS": callbacks,
            "ANSIBLE_STDOUT_CALLBACK": prepared["ANSIBLE_STDOUT_CALLBACK"],
            "AWX_ISOLATED_DATA_DIR": prepared["AWX_ISOLATED_DATA_DIR"],
            "GPUFLEET_RUN_BUDGET": self.order.budget,
            "GPUFLEET_RUN_SPENT": str(self.order.spent),
            **({"GPUFLEET_RUN_EXTRA": str(extra)} if extra else {}),
        }

    def _arguments(self, extra: Path | None) -> list[str]:
        order = self.order
        arguments = ["-i", str(order.inventory)]
        if order.hosts is not None or order.limit or order.without:
            wanted = order.hosts if order.hosts is not None else (order.limit or "all").split(",")
            lines = [*wanted, *(f"!{name}" for name in order.without)]
            # By a file: the names of a large cluster do not fit one argument.
            names = self.folder / "hosts"
            names.write_text("".join(f"{line}\n" for line in lines))
            arguments += ["--limit", f"@{names}"]
        if order.tags:
            arguments += ["--tags", order.tags]
        if order.check:
            arguments += ["--check", "--diff"]
        if extra is not None:
            arguments += ["--extra-vars", f"@{extra}"]
        return [*arguments, str(order.playbook)]

    def _extra_file(self) -> Path | None:
        if not self.order.extra:
            return None
        # Beside the runs, not in one: artifacts are kept, and this is removed once it is read.
        folder = self.folder.parent.parent
        descriptor, path = tempfile.mkstemp(prefix="extra-", suffix=".json", dir=folder)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(dict(self.order.extra), stream)
        return Path(path)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            value: dict[str, Any] = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise RunError(f"{self.folder / name} is damaged: {error}") from error
        return value
