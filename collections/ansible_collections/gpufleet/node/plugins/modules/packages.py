"""Module `gpufleet.node.packages`: exact versions of packages, and their holds, in one call."""

from __future__ import annotations

import os
import re
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.node.plugins.module_utils import aptlock
from ansible_collections.gpufleet.node.plugins.module_utils.atomic import replace_file

DOCUMENTATION = r"""
module: packages
short_description: Packages of a node at exact versions, with holds
description:
  - C(packages) maps a package to its Debian version; an empty one means any version that is there.
  - Asks dpkg first; where nothing differs, apt is not run at all.
  - Waits for a first boot's own upgrades and for package locks, and names the holder at the limit.
  - No service is started by an installation; roles start what they have configured.
  - Refuses when apt would change a held package that is not listed, or remove anything.
options:
  packages:
    description: Package to version.
    type: dict
    default: {}
  absent:
    description: Packages that must not be there.
    type: list
    elements: str
    default: []
  hold:
    description: Hold the listed packages, so that no other run of apt moves them.
    type: bool
    default: false
  lock_timeout:
    description: Seconds to wait for package locks.
    type: int
    default: 300
  cache_seconds:
    description: Age up to which package lists are used without asking the repositories.
    type: int
    default: 86400
"""

RETURN = r"""
installed:
  description: Packages that were installed, upgraded or downgraded, or would be in check mode.
  type: list
  returned: always
"""

POLICY = "/usr/sbin/policy-rc.d"
LISTS = "/var/lib/apt/lists"
NO_STARTS = b"#!/bin/sh\n# No service starts by being installed; written by gpufleet.\nexit 101\n"
OPTIONS = ["-q", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confdef",
           "-o", "Dpkg::Options::=--force-confold"]  # fmt: skip
HELD = "held and not listed; release it (apt-mark unhold {}) or pin it in the stack set"
CHANGE = re.compile(r"^(Inst|Remv) (\S+) (?:\[(\S+)\])? ?(?:\((\S+))?", re.MULTILINE)


class Refused(Exception):
    """Something that this module will not do, or that apt could not; the text says why."""


def run(arguments, limit=1800):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        arguments, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=limit, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def installed():
    """Version of every installed package, and the held ones."""
    form = "${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\n"
    code, out, err = run(["dpkg-query", "-W", "-f", form])
    if code != 0:
        raise Refused(f"dpkg-query failed: {err.strip()}")
    versions, held = {}, set()
    for row in out.splitlines():
        words = row.split()
        if len(words) == 4 and words[3] == "installed":
            versions[words[0]] = words[1]
            if words[2] == "hold":
                held.add(words[0])
    return versions, held


def known(names):
    """Versions of packages that the lists have, by package."""
    found = {name: [] for name in names}
    if not names:
        return found
    _, out, _ = run(["apt-cache", "madison", *sorted(names)])
    for row in out.splitlines():
        words = [word.strip() for word in row.split("|")]
        if len(words) >= 3 and words[2].endswith("Packages"):
            versions = found.setdefault(words[0], [])
            # An index may be there for several architectures.
            if words[1] not in versions:
                versions.append(words[1])
    return found


def lists_age():
    """Seconds since apt last brought its lists, or since a source was changed after that."""
    try:
        stamps = [os.stat(os.path.join(LISTS, "partial")).st_mtime]
        stamps += [os.stat(os.path.join(LISTS, x)).st_mtime for x in os.listdir(LISTS) if "_" in x]
    except FileNotFoundError:
        return float("inf")
    if len(stamps) == 1:
        return float("inf")
    newest = max(stamps)
    for folder in ("/etc/apt/sources.list.d", "/etc/apt/trusted.gpg.d", "/etc/apt/keyrings"):
        if os.path.isdir(folder):
            for path in [folder, *(os.path.join(folder, x) for x in os.listdir(folder))]:
                if os.stat(path).st_mtime > newest:
                    return float("inf")
    return time.time() - newest


def wait_for_first_boot(module):
    """A cloud image's first boot upgrades packages on its own; it is let finish."""
    if os.path.exists("/run/cloud-init") and module.get_bin_path("cloud-init"):
        run(["cloud-init", "status", "--wait"], limit=module.params["lock_timeout"])


def update(module):
    aptlock.wait(module.params["lock_timeout"])
    code, out, err = run(["apt-get", "-q", *lock_option(module), "update"])
    if code != 0:
        raise Refused("apt-get update failed:\n" + (err or out).strip()[-2000:])


def lock_option(module):
    return ["-o", f"DPkg::Lock::Timeout={module.params['lock_timeout']}"]


def arguments(wanted, absent):
    named = [f"{name}={version}" if version else name for name, version in sorted(wanted.items())]
    return [*named, *(f"{name}-" for name in sorted(absent))]


def examine(wanted, absent, held):
    """What apt would do; raises Refused where it goes beyond what was asked for."""
    code, out, err = run(
        ["apt-get", "-s", *OPTIONS, "--allow-downgrades", "--allow-change-held-packages",
         "install", *arguments(wanted, absent)]
    )  # fmt: skip
    if code != 0:
        # Apt does not say that a hold is in the way; the packages that it names do.
        kept = [x for x in sorted(held - set(wanted)) if re.search(rf"\s{re.escape(x)}\s", out)]
        text = "".join(f"\n{x} is {HELD.format(x)}" for x in kept)
        raise Refused("apt cannot do it:\n" + (out + err).strip()[-2000:] + text)
    steps = CHANGE.findall(out)
    for action, name, old, new in steps:
        name = name.split(":")[0]
        if action == "Remv" and name not in absent:
            because = ", ".join(arguments(wanted, absent))
            raise Refused(
                f"apt would remove {name} {old} to install {because}; "
                "remove it yourself if it may go"
            )
        if action == "Inst" and name in held and name not in wanted:
            raise Refused(
                f"apt would change {name} from {old} to {new}, but it is {HELD.format(name)}"
            )
    return steps


def install(module, wanted, absent):
    """Install without starting anything: a policy that forbids starts stands meanwhile."""
    aptlock.wait(module.params["lock_timeout"])
    mine = not os.path.exists(POLICY)
    if mine:
        replace_file(POLICY, NO_STARTS, 0o755, 0, 0)
    try:
        code, out, err = run(
            ["apt-get", *OPTIONS, *lock_option(module), "--allow-downgrades",
             "--allow-change-held-packages", "install", *arguments(wanted, absent)]
        )  # fmt: skip
    finally:
        if mine or is_ours(POLICY):
            os.unlink(POLICY)
    if code != 0:
        raise Refused("apt-get install failed:\n" + (out + err).strip()[-3000:])


def is_ours(path):
    # A run that was killed left it; it would keep packages from starting for ever.
    with open(path, "rb") as stream:
        return stream.read() == NO_STARTS


def check_known(module, wanted, versions):
    """Bring lists if they are old or lack something; raise Refused for versions nobody has."""
    there = known(wanted)

    def lacking():
        return {
            name: version
            for name, version in wanted.items()
            if not there[name] or (version and version not in there[name])
        }

    fresh = False
    if lists_age() > module.params["cache_seconds"] or lacking():
        if module.check_mode:
            # A dry run changes nothing, lists included: what they lack may well be there.
            return False
        update(module)
        there, fresh = known(wanted), True
    missing = lacking()
    if missing:
        rows = [
            f"{name} {version or '(any version)'}: the repositories have "
            f"{', '.join(there[name]) or 'no version of it'}"
            + (f"; installed is {versions[name]}" if name in versions else "")
            for name, version in sorted(missing.items())
        ]
        raise Refused("not to be had:\n" + "\n".join(rows))
    return fresh


def hold(names):
    text = "".join(f"{name} hold\n" for name in sorted(names))
    done = subprocess.run(
        ["dpkg", "--set-selections"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(f"dpkg --set-selections failed: {done.stderr.strip()}")


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "default": {}},
            "absent": {"type": "list", "elements": "str", "default": []},
            "hold": {"type": "bool", "default": False},
            "lock_timeout": {"type": "int", "default": 300},
            "cache_seconds": {"type": "int", "default": 86400},
        },
        supports_check_mode=True,
    )
    wanted = {name: version or "" for name, version in module.params["packages"].items()}
    result = {"changed": False, "installed": [], "diff": []}
    try:
        versions, held = installed()
        needed = {
            name: version
            for name, version in wanted.items()
            if name not in versions or (version and versions[name] != version)
        }
        absent = [name for name in module.params["absent"] if name in versions]
        holding = set(wanted) - held if module.params["hold"] else set()
        for name, version in sorted(needed.items()):
            result["diff"].append(row(name, versions.get(name, "absent"), version or "any version"))
        result["diff"] += [row(name, versions[name], "absent") for name in absent]
        result["diff"] += [row(name, "not held", "held") for name in sorted(holding)]
        result["installed"] = sorted(needed)
        result["changed"] = bool(needed or absent or holding)
        if needed or absent:
            wait_for_first_boot(module)
            fresh = check_known(module, needed, versions)
            if module.check_mode:
                if all(known(needed).values()):
                    examine(needed, absent, held)
            else:
                try:
                    examine(needed, absent, held)
                except Refused:
                    # Lists of yesterday may name what the mirror no longer has.
                    if fresh:
                        raise
                    update(module)
                    examine(needed, absent, held)
                # Apt takes the hold away from what it changes.
                holding |= held & set(needed)
                install(module, needed, absent)
        if holding and not module.check_mode:
            aptlock.wait(module.params["lock_timeout"])
            hold(holding)
    except (Refused, aptlock.LockHeld) as error:
        module.fail_json(msg=str(error), **result)
    except subprocess.TimeoutExpired as error:
        module.fail_json(msg=f"{error.cmd[0]} did not end within {error.timeout:g} s", **result)
    module.exit_json(**result)


def row(name, before, after):
    return {"before_header": f"package {name}", "after_header": f"package {name}",
            "before": f"{before}\n", "after": f"{after}\n"}  # fmt: skip


if __name__ == "__main__":
    main()
