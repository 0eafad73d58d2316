"""Checks of Docker, Slurm, etcd and Ray."""

import json
import re
import shlex
from collections.abc import Iterator

from .model import Check, Finding, Output, Verdict, Want
from .reading import contained, judge_active

SLURM = frozenset({"slurm_compute", "slurm_controller"})
COMPUTE = frozenset({"slurm_compute"})
# States of Slurm's nodes in which they take work or carry it out; a suffix says more.
WORKING = frozenset(
    {"idle", "mixed", "allocated", "completing", "planned", "reserved", "maint", "blocked"}
)
ENGINE = "/opt/gpufleet/engine"
ETCD_PORT = 2379
RAY_PORT = 6379
RAY_ALIVE = "0"
RAY_NODES = """\
import os
from ray._raylet import GcsClient
for node in GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_node_info(timeout=10).values():
    print(node.node_manager_address, node.state, dict(node.resources_total).get("GPU", 0))
"""


def _judge_docker(output: Output, want: Want) -> Iterator[Finding]:
    yield from judge_active(output, "docker")
    lines = output.out.splitlines()
    version = lines[1].strip() if len(lines) > 1 else ""
    pin = want.pins.get("docker", "")
    if not version:
        yield Finding(f"the Docker daemon does not answer: {output.said}")
    elif pin and not re.match(re.escape(pin) + r"(?![0-9])", version):
        yield Finding(f"Docker is {version}, the lock has {pin}")


def _judge_daemon(output: Output, _: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"daemon.json cannot be read: {output.said}")
        return
    try:
        value = json.loads(output.out)
    except ValueError as error:
        yield Finding(f"daemon.json is damaged: {error}")
        return
    features = value.get("features") if isinstance(value, dict) else None
    runtimes = value.get("runtimes") if isinstance(value, dict) else None
    by_cdi = isinstance(features, dict) and features.get("cdi") is True
    if not by_cdi and not (isinstance(runtimes, dict) and "nvidia" in runtimes):
        yield Finding("daemon.json has neither `features: {cdi: true}` nor the runtime `nvidia`")


def _judge_munge(output: Output, _: Want) -> Iterator[Finding]:
    if not re.search(r"^STATUS:\s+Success", output.out, re.MULTILINE):
        yield Finding(f"a credential of this node is not accepted by itself: {output.said}")


def _judge_slurm_state(output: Output, _: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"Slurm's controller does not answer: {output.said}")
        return
    rows = dict.fromkeys(line.strip() for line in output.out.splitlines() if line.strip())
    if not rows:
        yield Finding("Slurm does not know this node")
    for row in rows:
        state, reason = [*row.split("|", 1), ""][:2]
        base = re.sub(r"[^a-z]+$", "", state.lower())
        # `*`: the controller cannot reach it. `idle~` and such are states of power saving.
        if base not in WORKING or "*" in state:
            why = f": {reason}" if reason and reason != "none" else ""
            yield Finding(f"Slurm has it as {state}{why}")


def _judge_memlock(output: Output, _: Want) -> Iterator[Finding]:
    container, rest = contained(output)
    found = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", rest, re.MULTILINE)
    if found is None:
        yield Finding(f"the limits of slurmd cannot be read: {output.said}")
        return
    soft, hard = found[1], found[2]
    # A container gets no more than its host allows; it has to use all of that.
    if soft != (hard if container else "unlimited"):
        allowed = hard if container else "unlimited"
        yield Finding(f"slurmd may lock {soft} bytes of memory, allowed has to be {allowed}")


def _judge_controller(output: Output, _: Want) -> Iterator[Finding]:
    for line in output.out.splitlines():
        if "is DOWN" in line:
            yield Finding(line.strip())
    if "is UP" not in output.out:
        yield Finding(f"no Slurm controller answers: {output.said}")


def _judge_etcd(output: Output, _: Want) -> Iterator[Finding]:
    if output.code != 0 or "is healthy" not in output.out + output.err:
        yield Finding(f"this member of etcd is not healthy: {output.said}")
    elif re.search("NOSPACE|CORRUPT", output.out):
        yield Finding(f"etcd has raised an alarm: {output.said}")


def _etcd_command(want: Want) -> str:
    member = f"timeout 15 etcdctl --endpoints {shlex.quote(_endpoint(want))}"
    return f"{member} endpoint health && {member} alarm list"


def _endpoint(want: Want) -> str:
    address = want.node.address
    return f"http://{f'[{address}]' if ':' in address else address}:{ETCD_PORT}"


def _ray_command(_: Want) -> str:
    inner = (
        "set -a; . /etc/gpufleet/ray.env; "
        f"exec timeout 18 {ENGINE}/bin/python -I -c {shlex.quote(RAY_NODES)}"
    )
    return f"sudo -n sh -c {shlex.quote(inner)}"


def _judge_ray(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0:
        head = f"{want.ray_head}:{RAY_PORT}"
        yield Finding(f"Ray's head at {head} cannot be asked: {output.said}")
        return
    rows = [line.split() for line in output.out.splitlines()]
    own = [row for row in rows if len(row) == 3 and row[0] == want.node.address]
    alive = [row for row in own if row[1] == RAY_ALIVE]
    if not alive:
        state = "as dead" if own else "not at all"
        yield Finding(f"Ray's head knows this node {state}")
    elif int(float(alive[0][2])) != len(want.node.gpus):
        yield Finding(f"Ray has {alive[0][2]} GPUs of it, the contract {len(want.node.gpus)}")


def _judge_engine(output: Output, want: Want) -> Iterator[Finding]:
    seen, pin = output.out.strip(), want.pins["ray"]
    if output.code != 0:
        yield Finding(f"{ENGINE} has no Ray that could be asked: {output.said}")
    elif seen != pin:
        yield Finding(f"{ENGINE} has ray {seen}, the lock has {pin}")


CHECKS = (
    Check(
        "container.docker",
        "Docker runs and is of the pinned version",
        Verdict.DEGRADED,
        "look at `journalctl -u docker`",
        lambda _: (
            "systemctl is-active docker.service; "
            "sudo -n timeout 15 docker version --format '{{.Server.Version}}'"
        ),
        _judge_docker,
    ),
    Check(
        "container.daemon",
        "Docker's configuration gives containers their GPUs",
        Verdict.DEGRADED,
        "run `bin/gpufleet configure CLUSTER --limit NODE --tags container`",
        lambda _: "cat /etc/docker/daemon.json",
        _judge_daemon,
        frozenset({"gpu_nodes"}),
    ),
    Check(
        "slurm.munge",
        "a munge credential goes round",
        Verdict.DEGRADED,
        "`Invalid credential`: another key, or a service older than its key; `Expired`: a clock",
        lambda _: "munge -n | timeout 10 unmunge",
        _judge_munge,
        SLURM,
    ),
    Check(
        "slurm.slurmd",
        "slurmd runs",
        Verdict.DEGRADED,
        "look at `journalctl -u slurmd`",
        lambda _: "systemctl is-active slurmd.service",
        lambda output, _: judge_active(output, "slurmd"),
        COMPUTE,
    ),
    Check(
        "slurm.state",
        "Slurm has the node in service",
        Verdict.DEGRADED,
        "`sinfo -R` says who drained it and why; `bin/gpufleet play CLUSTER resume` gives it back",
        lambda want: f"timeout 15 sinfo -h -N -n {want.node.name} -o '%T|%E'",
        _judge_slurm_state,
        COMPUTE,
    ),
    Check(
        "slurm.memlock",
        "jobs may lock memory, as RDMA needs",
        Verdict.DEGRADED,
        "run `bin/gpufleet configure CLUSTER --limit NODE --tags slurm`; limits.conf is not read",
        lambda _: (
            "systemd-detect-virt --container; "
            "cat /proc/$(systemctl show -p MainPID --value slurmd.service)/limits"
        ),
        _judge_memlock,
        COMPUTE,
    ),
    Check(
        "slurm.controller",
        "Slurm's controllers answer",
        Verdict.DEGRADED,
        "look at `journalctl -u slurmctld`",
        lambda _: "timeout 15 scontrol ping",
        _judge_controller,
        frozenset({"slurm_controller"}),
    ),
    Check(
        "etcd.health",
        "the etcd member is healthy, and no alarm is raised",
        Verdict.DEGRADED,
        "look at `journalctl -u etcd`; NOSPACE: compact, defragment, then `etcdctl alarm disarm`",
        _etcd_command,
        _judge_etcd,
        frozenset({"etcd"}),
    ),
    Check(
        "ray.service",
        "Ray runs",
        Verdict.DEGRADED,
        "look at `journalctl -u gpufleet-ray`",
        lambda want: "systemctl is-active gpufleet-ray.service" if "ray" in want.pins else "",
        lambda output, _: judge_active(output, "gpufleet-ray"),
    ),
    Check(
        "ray.joined",
        "Ray's head has the node, with all its GPUs",
        Verdict.DEGRADED,
        "look at `journalctl -u gpufleet-ray` here and on the head",
        lambda want: _ray_command(want) if "ray" in want.pins else "",
        _judge_ray,
    ),
    Check(
        "engine.ray",
        "the engine's environment has the pinned Ray",
        Verdict.DEGRADED,
        "is shared storage mounted? `bin/gpufleet configure CLUSTER --tags engine` builds it",
        lambda want: (
            f"timeout 15 {ENGINE}/bin/python -I -c "
            "'import importlib.metadata as m; print(m.version(\"ray\"))'"
            if "ray" in want.pins
            else ""
        ),
        _judge_engine,
    ),
)
