"""Readers of outputs that several checks share. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping

from .model import Finding, Output

PACKAGE_FORMAT = "${db:Status-Abbrev}|${Package}|${Version}\\n"


def package_query(names: Mapping[str, str]) -> str:
    """The command that lists state and version of packages; empty for none."""
    if not names:
        return ""
    return f"dpkg-query -W -f {shlex.quote(PACKAGE_FORMAT)} {shlex.join(names)}"


def packages(output: Output) -> dict[str, tuple[str, str]]:
    """Package -> (state such as `hi`, version) from `package_query`; what is not known is absent.

    The first letter of a state is what is wanted (`h`: held), the second what is (`i`: installed).
    """
    found = {}
    for line in output.out.splitlines():
        parts = line.split("|")
        if len(parts) == 3:
            found[parts[1]] = (parts[0].strip(), parts[2])
    return found


def judge_packages(output: Output, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Packages that are not installed, not of the locked version, or not held.

    A wanted version may be empty: then any does.
    """
    seen = packages(output)
    for name, version in wanted.items():
        state, found = seen.get(name, ("", ""))
        if state[1:2] != "i":
            yield Finding(f"{name} is not installed, the lock has {version or 'it'}")
        elif version and found != version:
            yield Finding(f"{name} is {found}, the lock has {version}")
        elif state[:1] != "h":
            yield Finding(f"{name} is not held: an upgrade of the system would move it")


def upstream(version: str) -> str:
    """A Debian version without epoch and revision: `1:580.105.08-1` is `580.105.08`."""
    return re.sub(r"-[^-]*$", "", version.rpartition(":")[2])


def judge_active(output: Output, unit: str) -> Iterator[Finding]:
    """The first line has to be `active`, as of `systemctl is-active`."""
    state = (output.out.splitlines() or [""])[0].strip()
    if state != "active":
        yield Finding(f"{unit} is {state or output.said}")


def contained(output: Output) -> tuple[bool, str]:
    """(the node is a container, all other lines) where the first is of `systemd-detect-virt -c`."""
    first, _, rest = output.out.partition("\n")
    return first.strip() not in ("", "none"), rest
