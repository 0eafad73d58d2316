"""SIMULATED systemctl for a throwaway node: units in a file, and a log of what was asked of it."""

import json
import time
from typing import Any

from nodebox import NodeBox

DEFAULTS = {
    "LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "Type": "simple",
    "UnitFileState": "disabled", "NeedDaemonReload": "no", "Result": "success",
    "ActiveEnterTimestamp": "n/a", "InactiveExitTimestamp": "n/a", "RemainAfterExit": "no",
}  # fmt: skip
PROGRAM = """\
#!/usr/bin/python3 -SE
import datetime, json, os, sys
path = @STATE@
state = json.load(open(path))
words = [word for word in sys.argv[1:] if word != "--"]
verb, units = words[0], state["units"]
blank = {**state["defaults"], "LoadState": "not-found" if state["strict"] else "loaded"}
def unit(name):
    return units.setdefault(name, dict(blank))
if verb == "show":
    wanted = next(w for w in words if w.startswith("--property="))[11:].split(",")
    names = [w for w in words[1:] if not w.startswith("--")]
    print("\\n\\n".join(
        "\\n".join(f"{key}={name if key == 'Id' else unit(name)[key]}" for key in wanted)
        for name in names))
    sys.exit(0)
state["calls"].append(" ".join(words))
code = 0
if verb == "daemon-reload":
    for found in units.values():
        found["NeedDaemonReload"] = "no"
else:
    found = unit(words[-1])
    broken = words[-1] in state["broken"]
    if verb in ("start", "restart") and broken:
        found.update(ActiveState="failed", Result="exit-code")
        print(f"Job for {words[-1]} failed", file=sys.stderr)
        code = 1
    elif verb in ("start", "restart"):
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp = now.strftime("%a %Y-%m-%d %H:%M:%S.%f UTC")
        found.update(ActiveState="active", SubState="running", InactiveExitTimestamp=stamp)
    elif verb == "stop":
        found.update(ActiveState="inactive", SubState="dead")
    elif verb in ("enable", "disable"):
        found["UnitFileState"] = verb + "d"
    elif verb == "mask":
        found.update(LoadState="masked", UnitFileState="masked")
    elif verb == "unmask":
        found.update(LoadState="loaded", UnitFileState="disabled")
json.dump(state, open(path + ".new", "w"))
os.rename(path + ".new", path)
sys.exit(code)
"""


class Systemctl:
    """Units of a node. `strict`: a unit that was not declared is not found."""

    def __init__(self, box: NodeBox, *, strict: bool = True) -> None:
        self.path = box.folder / "systemctl.json"
        self._write(
            {"units": {}, "defaults": DEFAULTS, "calls": [], "broken": [], "strict": strict}
        )
        program = box.bin / "systemctl"
        program.write_text(PROGRAM.replace("@STATE@", repr(str(self.path))))
        program.chmod(0o755)
        journal = box.bin / "journalctl"
        journal.write_text("#!/bin/sh\necho 'last words of the unit'\n")
        journal.chmod(0o755)

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def _write(self, state: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(state))

    def unit(self, name: str, **properties: str) -> None:
        """Declare a unit, or change what it is."""
        state = self._read()
        state["units"][name] = {**DEFAULTS, **state["units"].get(name, {}), **properties}
        self._write(state)

    def running(self, name: str, seconds_ago: float = 3600, **properties: str) -> None:
        """A unit that has been active for a while."""
        moment = time.time() - seconds_ago
        stamp = time.strftime("%a %Y-%m-%d %H:%M:%S", time.gmtime(moment))
        stamp += f"{moment % 1:.6f}"[1:] + " UTC"
        self.unit(
            name, ActiveState="active", SubState="running", UnitFileState="enabled",
            InactiveExitTimestamp=stamp, **properties,
        )  # fmt: skip

    def breaks(self, name: str) -> None:
        """A unit that fails whenever it is started."""
        state = self._read()
        state["broken"].append(name)
        self._write(state)

    def calls(self) -> list[str]:
        """What was asked since the last time, `show` left out."""
        state = self._read()
        found: list[str] = state["calls"]
        self._write({**state, "calls": []})
        return found
