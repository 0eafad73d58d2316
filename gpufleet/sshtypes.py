"""What we use of fabric's connections, for type checkers: fabric itself has no types."""

from types import TracebackType
from typing import Any, Protocol, Self


class Result(Protocol):
    """Outcome of a remote command."""

    stdout: str
    stderr: str
    exited: int
    ok: bool


class Connection(Protocol):
    """An open SSH connection; leaving its `with` block closes it."""

    host: str
    port: int
    user: str

    @property
    def is_connected(self) -> bool:
        """True until closed or lost."""

    def run(self, command: str, **options: Any) -> Result:
        """Run a command through the remote shell; see fabric for options such as `hide`, `warn`."""

    def sudo(self, command: str, **options: Any) -> Result:
        """Run a command as root."""

    def put(self, local: Any, remote: str | None = None) -> Any:
        """Copy a file there."""

    def get(self, remote: str, local: Any = None) -> Any:
        """Copy a file here."""

    def close(self) -> Any:
        """End the connection."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
