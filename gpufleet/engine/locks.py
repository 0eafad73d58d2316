"""Locks that a killed engine left on a stack, told apart from those of one still at work."""

import json
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """Who holds a stack's lock."""

    file: Path
    pid: int
    host: str
    since: datetime

    def alive(self) -> bool:
        """Whether that very process still runs on this host; another host's always counts."""
        if self.host != os.uname().nodename:
            return True
        started = _started(self.pid)
        # A process that began after the lock was taken merely got the same number.
        return started is not None and started <= self.since.timestamp() + 1.0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since:%Y-%m-%d %H:%M:%S}"


def holders(backend: Path, project: str, stack: str) -> list[Holder]:
    """Who holds the stack's lock in a file backend, as recorded there."""
    folder = backend / ".pulumi/locks/organization" / project / stack
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            row = json.loads(path.read_text())
            since = datetime.fromisoformat(row["timestamp"])
            found.append(Holder(path, int(row["pid"]), str(row["hostname"]), since))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError):
            # Written by a process that died while writing: it cannot be at work any more.
            found.append(Holder(path, 0, os.uname().nodename, datetime.fromtimestamp(0)))
    return found


def _started(pid: int) -> float | None:
    """When a process began, in seconds since the epoch; None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rsplit(")", 1)[1].split()
    if fields[0] == "Z":
        return None
    ticks = int(fields[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
