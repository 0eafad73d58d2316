"""Checks of the system itself: units, time, memory, storage, and what upgrades may touch."""

import json
import re
import shlex
from collections.abc import Iterator

from .model import Check, Finding, Output, Verdict, Want
from .reading import contained

OFFSET = 0.5
"""Seconds by which a clock may be off; munge itself takes up to 300."""
AGENT_USER = "gpufleet"
# What an unattended upgrade must never move: the driver, its kernel, and what jobs run by.
GUARDED = ("nvidia-", "libnvidia-", "linux-image-", "slurm", "munge", "docker", "etcd")
MIB = 1 << 20


def _judge_units(output: Output, _: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"systemd cannot be asked: {output.said}")
        return
    failed = [line.split()[0] for line in output.out.splitlines() if line.strip()]
    if failed:
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        yield Finding(f"failed units: {', '.join(failed[:5])}{more}")


def _judge_reboot(output: Output, _: Want) -> Iterator[Finding]:
    lines = [line.strip() for line in output.out.splitlines() if line.strip()]
    if lines:
        yield Finding(f"the system asks for a reboot: {', '.join(dict.fromkeys(lines))[:160]}")


def _judge_clock(output: Output, _: Want) -> Iterator[Finding]:
    container, rest = contained(output)
    row = (rest.strip().splitlines() or [""])[-1].split(",")
    try:
        # Columns of `chronyc -c tracking`: the 5th is the offset in seconds, the last the state.
        offset, state = float(row[4]), row[13].strip()
    except (IndexError, ValueError):
        yield Finding(f"chrony does not answer: {output.said}")
        return
    if abs(offset) > OFFSET:
        yield Finding(f"the clock is off by {offset:+.3f} s, allowed are {OFFSET:g} s")
    # A container's clock is its host's, which is not for it to keep.
    if not container and state != "Normal":
        yield Finding(f"the clock is not synchronised: chrony says {state!r}")


def _least_shm(want: Want) -> int:
    """MiB of /dev/shm that engines need: 1 GiB a GPU, but never more than half of the memory."""
    return min(1024 * max(1, len(want.node.gpus)), want.node.memory_mib // 2)


def _judge_shm(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0 or not output.out.strip().isdigit():
        yield Finding(f"shared memory, /dev/shm, is no mount point: {output.said}")
        return
    size, least = int(output.out) // MIB, _least_shm(want)
    if size < least:
        yield Finding(f"shared memory has {size} MiB, {least} MiB are needed")


def _mounts_command(want: Want) -> str:
    return "; ".join(
        f"timeout 10 findmnt -rn -o TARGET,OPTIONS --mountpoint {shlex.quote(mount.path)}"
        for mount in want.shared_mounts
    )


def _judge_mounts(output: Output, want: Want) -> Iterator[Finding]:
    # A path may stand there twice; the last one mounted is the one that is seen.
    seen = dict(line.split(" ", 1) for line in output.out.splitlines() if " " in line)
    for mount in want.shared_mounts:
        found = seen.get(_escaped(mount.path))
        if found is None:
            yield Finding(f"{mount.path} is not mounted: {mount.source} ({mount.kind}) belongs")
        elif "ro" in found.split(","):
            yield Finding(f"{mount.path} is mounted for reading only")


def _escaped(path: str) -> str:
    """A path as `findmnt --raw` writes it."""
    return re.sub(r"[^\x21-\x7e]|\\", lambda c: "".join(f"\\x{b:02x}" for b in c[0].encode()), path)


def _checkpoints(want: Want) -> str:
    folder = want.shared_mounts[0].path if want.shared_mounts else ""
    return f"{folder}/gpufleet/checkpoints" if folder else "/var/lib/gpufleet/shared/checkpoints"


def _judge_writable(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0:
        why = f": {output.said}" if output.err.strip() else ""
        yield Finding(f"{AGENT_USER} may not write to {_checkpoints(want)}{why}")


def _judge_guard(output: Output, _: Want) -> Iterator[Finding]:
    seen = set(re.findall(r':: "\^?([^"]+)";', output.out))
    missing = [name for name in GUARDED if name not in seen]
    if missing:
        yield Finding(f"unattended upgrades may touch {', '.join(missing)}")


def _judge_identity(output: Output, want: Want) -> Iterator[Finding]:
    try:
        seen = json.loads(output.out)
        rows = {key: seen[key] for key in ("node", "provider_id", "stack")}
    except (ValueError, KeyError, TypeError):
        yield Finding("the node has never been configured", Verdict.ISOLATE)
        return
    wanted = {
        "node": want.node.name,
        "provider_id": want.node.provider_id,
        "stack": want.stack,
    }
    for key, value in wanted.items():
        if rows[key] != value:
            yield Finding(f"it was configured with {key} {rows[key]}, wanted is {value}")


CHECKS = (
    Check(
        "system.identity",
        "the node was configured as what it is",
        Verdict.DEGRADED,
        "run `bin/gpufleet configure CLUSTER --limit NODE`",
        lambda _: "cat /etc/gpufleet/node.json",
        _judge_identity,
    ),
    Check(
        "system.units",
        "no unit of systemd has failed",
        Verdict.DEGRADED,
        "look at `systemctl status UNIT`; `systemctl reset-failed UNIT` once it is understood",
        lambda _: "systemctl list-units --failed --no-legend --plain",
        _judge_units,
    ),
    Check(
        "system.reboot",
        "no reboot is asked for",
        Verdict.REBOOT,
        "drain the node, then `bin/gpufleet play CLUSTER reboot --limit NODE`",
        lambda _: "cat /run/reboot-required /run/reboot-required.pkgs 2> /dev/null || true",
        _judge_reboot,
    ),
    Check(
        "system.guard",
        "unattended upgrades leave driver, kernel and services alone",
        Verdict.DEGRADED,
        "run `bin/gpufleet configure CLUSTER --limit NODE --tags apt_pins`",
        lambda _: "apt-config dump Unattended-Upgrade::Package-Blacklist",
        _judge_guard,
    ),
    Check(
        "system.clock",
        "the clock is right",
        Verdict.DEGRADED,
        "look at `chronyc -n sources`",
        lambda _: "systemd-detect-virt --container; timeout 10 chronyc -c tracking",
        _judge_clock,
    ),
    Check(
        "memory.shm",
        "shared memory (/dev/shm) is large enough",
        Verdict.DEGRADED,
        "`mount -o remount,size=SIZE /dev/shm`, and the same in /etc/fstab",
        lambda _: "findmnt -nb -o SIZE --mountpoint /dev/shm",
        _judge_shm,
        frozenset({"gpu_nodes"}),
    ),
    Check(
        "storage.shared",
        "shared storage is mounted, for writing",
        Verdict.ISOLATE,
        "look at `findmnt` and at the mount's unit; what writes there now fills the root disk",
        _mounts_command,
        _judge_mounts,
    ),
    Check(
        "storage.writable",
        "agents may write their checkpoints",
        Verdict.DEGRADED,
        "look at owner and mode of the folder and of those above it",
        lambda want: (
            f"sudo -n timeout 10 runuser -u {AGENT_USER} -- "
            f"test -w {shlex.quote(_checkpoints(want))}"
        ),
        _judge_writable,
    ),
)
