"""Module `gpufleet.node.units`: systemd units of a node in one call."""

from __future__ import annotations

import calendar
import os
import socket
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: units
short_description: Enables, starts and restarts systemd units
description:
  - Reads the state of all units in one call and changes only what differs.
  - A unit is restarted when a file in C(restart_after) changed after the unit was started. So a
    run that was killed between a file and the restart is made good by the next one.
  - The unit files are read anew only when systemd says that one of them changed.
options:
  units:
    description:
      - Entries with C(name), C(enabled) (boolean or unset), C(state) (C(started), C(stopped) or
        unset), C(restart_after) (paths), C(reload) (true - reload instead of restart),
        C(masked) (boolean or unset), C(wait_port) (C(PORT) or C(ADDRESS:PORT) that has to accept
        connections afterwards) and C(when) (false leaves it out).
    type: list
    elements: dict
    required: true
  wait:
    description: Seconds for a started unit to be active, and its port to answer.
    type: int
    default: 60
"""

RETURN = r"""
changed_units:
  description: Units with what was done, or would be in check mode.
  type: list
  returned: always
"""

PROPERTIES = ("Id", "LoadState", "ActiveState", "SubState", "Type", "UnitFileState",
              "NeedDaemonReload", "ActiveEnterTimestamp", "InactiveExitTimestamp", "Result",
              "RemainAfterExit")  # fmt: skip
KEYS = {"name", "enabled", "state", "restart_after", "reload", "masked", "wait_port", "when"}


class Failed(Exception):
    """A unit is not as it should be; the text says which and shows its log."""


def run(*arguments):
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def read(names):
    """Properties of units by name, in one call."""
    code, out, err = run(
        "systemctl",
        "show",
        "--timestamp=us+utc",
        f"--property={','.join(PROPERTIES)}",
        "--",
        *names,
    )
    if code != 0:
        raise Failed(f"systemctl show failed: {err.strip()}")
    blocks = [block for block in out.split("\n\n") if block.strip()]
    return {
        name: dict(line.split("=", 1) for line in block.strip().splitlines())
        for name, block in zip(names, blocks, strict=True)
    }


def started_at(unit):
    """When the unit's process was begun, in seconds since the epoch; None if it was not."""
    text = unit.get("InactiveExitTimestamp", "")
    if not text or text == "n/a":
        return None
    words = text.split()
    day = next(word for word in words if word.count("-") == 2)
    clock = words[words.index(day) + 1]
    whole, _, fraction = clock.partition(".")
    stamp = time.strptime(f"{day} {whole}", "%Y-%m-%d %H:%M:%S")
    return calendar.timegm(stamp) + float(f"0.{fraction or 0}")


def changed_after(paths, moment):
    """The paths that changed after a moment, by their status change, where a rename shows."""
    found = []
    for path in paths:
        try:
            if os.stat(path).st_ctime > moment:
                found.append(path)
        except FileNotFoundError:
            continue
    return found


def log_of(name):
    _, out, _ = run("journalctl", "--no-pager", "-q", "-n", "12", "-o", "cat", "-u", name)
    return out.strip() or "(nothing in its journal)"


def accepts(address):
    host, _, port = str(address).rpartition(":")
    try:
        with socket.create_connection((host or "127.0.0.1", int(port)), timeout=1):
            return True
    except OSError:
        return False


class Changes:
    """What is done, or would be in check mode."""

    def __init__(self, check_mode):
        self.check_mode = check_mode
        self.rows = []
        self.diff = []

    def note(self, name, what, before, after):
        self.rows.append(f"{name}: {what}")
        self.diff.append(
            {"before_header": f"unit {name}", "after_header": f"unit {name}",
             "before": f"{before}\n", "after": f"{after}\n"}
        )  # fmt: skip

    def do(self, *command):
        if self.check_mode:
            return
        code, out, err = run("systemctl", *command)
        if code != 0:
            name = command[-1]
            raise Failed(f"systemctl {' '.join(command)}: {(err or out).strip()}\n{log_of(name)}")


def is_on(unit):
    return unit["ActiveState"] in ("active", "activating", "reloading")


def settle_files(entry, unit, changes):
    """Masked, enabled or not."""
    name, state = entry["name"], unit["UnitFileState"]
    masked = entry.get("masked")
    if masked is not None and masked != (unit["LoadState"] == "masked"):
        changes.note(
            name,
            "mask" if masked else "unmask",
            unit["LoadState"],
            "masked" if masked else "not masked",
        )
        changes.do("mask" if masked else "unmask", name)
        if masked:
            return
        unit = unit if changes.check_mode else read([name])[name]
        state = unit["UnitFileState"]
    if entry.get("enabled") is True and state not in (
        "enabled",
        "static",
        "alias",
        "enabled-runtime",
    ):
        changes.note(name, "enable", state or "absent", "enabled")
        changes.do("enable", name)
    elif entry.get("enabled") is False and state in ("enabled", "enabled-runtime"):
        changes.note(name, "disable", state, "disabled")
        changes.do("disable", name)


def settle_state(entry, unit, changes):
    """Started, stopped or restarted; returns whether a process was begun."""
    name = entry["name"]
    if entry.get("state") == "stopped":
        if is_on(unit):
            changes.note(name, "stop", unit["ActiveState"], "stopped")
            changes.do("stop", name)
        return False
    if entry.get("state") != "started":
        return False
    oneshot = unit.get("Type") == "oneshot" and unit.get("RemainAfterExit") != "yes"
    done = oneshot and unit.get("Result") == "success" and started_at(unit) is not None
    if not is_on(unit) and not done:
        changes.note(name, "start", f"{unit['ActiveState']} ({unit['SubState']})", "active")
        if unit["ActiveState"] == "failed":
            changes.do("reset-failed", name)
        changes.do("start", name)
        return True
    moment = started_at(unit)
    newer = [] if moment is None else changed_after(entry.get("restart_after") or [], moment)
    if newer:
        verb = "reload" if entry.get("reload") else "restart"
        changes.note(
            name,
            f"{verb}, older than {', '.join(newer)}",
            "running with an older " + ", ".join(newer),
            f"{verb}ed",
        )
        changes.do(verb, name)
        if verb == "reload" and not changes.check_mode:
            # A reload does not move the time of the start by which age is judged.
            mark_reloaded(name)
        return True
    return False


def mark_reloaded(name):
    os.makedirs("/run/gpufleet/reloaded", exist_ok=True)
    with open(f"/run/gpufleet/reloaded/{name}", "w"):
        pass


def with_reload_mark(entry, unit):
    """The unit as begun when it was last reloaded, where that is how it takes changes up."""
    path = f"/run/gpufleet/reloaded/{entry['name']}"
    if entry.get("reload") and os.path.exists(path):
        stamp, begun = os.stat(path).st_mtime, started_at(unit)
        if begun is not None and stamp > begun:
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(stamp))
            fraction = f"{stamp % 1:.6f}"[1:]
            return {**unit, "InactiveExitTimestamp": f"{text}{fraction} UTC"}
    return unit


def wait_until_up(entry, limit):
    deadline = time.monotonic() + limit
    name, port = entry["name"], entry.get("wait_port")
    while True:
        unit = read([name])[name]
        state = unit["ActiveState"]
        if state == "failed":
            raise Failed(f"{name} failed ({unit['Result']}):\n{log_of(name)}")
        oneshot = unit.get("Type") == "oneshot" and state == "inactive"
        if (state == "active" or oneshot) and (not port or accepts(port)):
            return
        if time.monotonic() > deadline:
            also = f", port {port} does not answer" if port else ""
            raise Failed(f"{name} is {state} after {limit} s{also}:\n{log_of(name)}")
        time.sleep(0.1)


def settle(entries, changes, limit):
    names = [entry["name"] for entry in entries]
    if not names:
        return
    units = read(names)
    if any(unit["NeedDaemonReload"] == "yes" for unit in units.values()):
        changes.note("systemd", "read unit files anew", "older unit files", "as on disk")
        changes.do("daemon-reload")
        units = units if changes.check_mode else read(names)
    for entry in entries:
        unit = units[entry["name"]]
        if unit["LoadState"] == "not-found":
            if changes.check_mode:
                changes.note(entry["name"], "start", "absent", "active")
                continue
            if entry.get("state") == "stopped" or entry.get("enabled") is False:
                continue
            raise Failed(f"there is no unit {entry['name']}")
        if unit["LoadState"] not in ("loaded", "masked"):
            raise Failed(
                f"{entry['name']} cannot be loaded ({unit['LoadState']}):\n{log_of(entry['name'])}"
            )
        settle_files(entry, unit, changes)
        begun = settle_state(entry, with_reload_mark(entry, unit), changes)
        if (
            entry.get("state") == "started"
            and not changes.check_mode
            and (begun or entry.get("wait_port"))
        ):
            wait_until_up(entry, limit)


def main():
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "required": True},
            "wait": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    entries = [entry for entry in module.params["units"] if entry.get("when", True) is True]
    changes = Changes(module.check_mode)
    for entry in entries:
        if unknown := set(entry) - KEYS:
            module.fail_json(msg=f"{entry.get('name')}: no such key: {', '.join(sorted(unknown))}")
    try:
        settle(entries, changes, module.params["wait"])
    except (Failed, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=str(error), changed=bool(changes.rows), changed_units=changes.rows)
    module.exit_json(changed=bool(changes.rows), changed_units=changes.rows, diff=changes.diff)


if __name__ == "__main__":
    main()
