"""Checks of driver, fabric and GPUs."""

import re
import shlex
from collections.abc import Iterator

import yaml

from .model import Check, Finding, Output, Verdict, Want
from .reading import judge_active, judge_packages, package_query, packages, upstream
from .xid import meaning

GPU_NODES = frozenset({"gpu_nodes"})
DRIVER_PINS = ("driver", "nscq")
TOOLKIT_PINS = (
    "container_toolkit",
    "container_toolkit_base",
    "libnvidia_container_tools",
    "libnvidia_container1",
)
CDI_FILE = "/etc/cdi/nvidia.yaml"
# Reasons for slow clocks that mean trouble: hardware slowdown, heat, power brake.
SLOWED = {0x8: "hardware slowdown", 0x40: "heat", 0x80: "power brake"}
ERROR_FIELDS = (
    "index,uuid,ecc.errors.uncorrected.volatile.total,remapped_rows.pending,"
    "remapped_rows.failure,fabric.state,clocks_event_reasons.active"
)
XID = re.compile(r"Xid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)\): (?P<number>[0-9]+)")
SIMULATED_XID = re.compile(r"^\s*xid\s*=\s*(?P<numbers>[0-9, ]+)", re.MULTILINE)
MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([0-9][0-9.]*)")


def _kernel_package(want: Want) -> str:
    """The package whose version is that of the kernel module."""
    names = list(want.packages_of("driver"))
    for word in ("dkms", "kernel-open", "kernel-common"):
        for name in names:
            if word in name:
                return name
    return names[0] if names else ""


def _loaded_command(want: Want) -> str:
    name = _kernel_package(want)
    if not name:
        return ""
    loaded = (
        "sed -n 's/^driver = /Kernel Module  /p' /etc/gpufleet/simgpu.conf"
        if want.node.simulated
        else "cat /proc/driver/nvidia/version"
    )
    return f"{package_query({name: ''})}; {loaded}"


def _judge_loaded(output: Output, want: Want) -> Iterator[Finding]:
    name = _kernel_package(want)
    installed = upstream(packages(output).get(name, ("", ""))[1])
    loaded = MODULE.search(output.out)
    if not installed:
        yield Finding(f"{name} is not installed", Verdict.ISOLATE)
    elif loaded is None:
        yield Finding(f"no driver is loaded, {installed} is installed")
    elif loaded[1] != installed:
        yield Finding(f"driver {loaded[1]} is loaded, {installed} is installed")


def _fabric_command(want: Want) -> str:
    names = want.packages_of("fabricmanager")
    query = package_query(names)
    return f"systemctl is-active nvidia-fabricmanager.service; {query}" if query else ""


def _judge_fabric(output: Output, want: Want) -> Iterator[Finding]:
    yield from judge_active(output, "nvidia-fabricmanager")
    seen = packages(output)
    driver = want.pins.get("driver", "")
    for name in want.packages_of("fabricmanager"):
        state, version = seen.get(name, ("", ""))
        if state[1:2] != "i":
            yield Finding(f"{name} is not installed")
        elif upstream(version) != driver:
            yield Finding(f"{name} is {upstream(version)}, the driver of the lock {driver}")
        elif state[:1] != "h":
            yield Finding(f"{name} is not held", Verdict.DEGRADED)


def _judge_present(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"nvidia-smi failed ({output.code}): {output.said}")
        return
    seen = {line.strip().lower(): line.strip() for line in output.out.splitlines() if line.strip()}
    stated = {gpu.uuid.lower(): gpu for gpu in want.node.gpus}
    for uuid, gpu in stated.items():
        if uuid not in seen:
            yield Finding(f"GPU {gpu.index} does not answer: {gpu.uuid} ({gpu.pci_bus_id})")
    for uuid, text in seen.items():
        if uuid not in stated:
            yield Finding(
                f"{text} is here and not in the contract: was a GPU replaced?", Verdict.DEGRADED
            )


def _judge_errors(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"nvidia-smi failed ({output.code}): {output.said}")
        return
    for line in output.out.splitlines():
        row = [part.strip() for part in line.split(",")]
        if len(row) != 7:
            if line.strip():
                yield Finding(f"nvidia-smi said what cannot be read: {line.strip()[:80]}")
            continue
        index, uuid, uncorrected, pending, failure, fabric, clocks = row
        gpu = f"GPU {index} ({uuid})"
        if uncorrected.isdigit() and int(uncorrected):
            yield Finding(f"{gpu}: {uncorrected} uncorrected memory errors since the driver loaded")
        if failure == "Yes":
            yield Finding(f"{gpu}: a memory row could not be remapped; it has to be replaced")
        if pending == "Yes":
            yield Finding(f"{gpu}: a memory row waits to be remapped", Verdict.REBOOT)
        if "nvswitch" in want.groups and fabric not in ("Completed", "[N/A]", "N/A"):
            yield Finding(f"{gpu}: its fabric is {fabric}, which has to be Completed")
        slow = _slowed(clocks)
        if slow:
            yield Finding(f"{gpu}: clocks are slowed by {', '.join(slow)}", Verdict.DEGRADED)


def _slowed(mask: str) -> list[str]:
    try:
        bits = int(mask, 16)
    except ValueError:
        return []
    return [word for bit, word in SLOWED.items() if bits & bit]


def _xid_command(want: Want) -> str:
    if want.node.simulated:
        return "grep -E '^ *xid *=' /etc/gpufleet/simgpu.conf || [ $? = 1 ]"
    return "sudo -n journalctl -k -b -q -o short-iso --grep 'NVRM: Xid' || [ $? = 1 ]"


def _judge_xid(output: Output, _: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"the driver's messages cannot be read: {output.said}", Verdict.DEGRADED)
        return
    seen: dict[tuple[str, int], int] = {}
    for match in XID.finditer(output.out):
        key = (match["bus"], int(match["number"]))
        seen[key] = seen.get(key, 0) + 1
    for match in SIMULATED_XID.finditer(output.out):
        for number in re.findall(r"[0-9]+", match["numbers"]):
            key = ("simulated", int(number))
            seen[key] = seen.get(key, 0) + 1
    for (bus, number), count in sorted(seen.items()):
        verdict, words = meaning(number)
        if verdict is not Verdict.OK:
            times = f", {count} times" if count > 1 else ""
            yield Finding(f"XID {number} of GPU {bus} since boot: {words}{times}", verdict)


def _judge_cdi(output: Output, want: Want) -> Iterator[Finding]:
    if output.code != 0:
        yield Finding(f"{CDI_FILE} cannot be read: {output.said}")
        return
    try:
        value = yaml.safe_load(output.out)
        named = {str(device["name"]).lower() for device in value["devices"]}
    except (yaml.YAMLError, KeyError, TypeError):
        yield Finding(f"{CDI_FILE} is no CDI specification")
        return
    for gpu in want.node.gpus:
        if gpu.uuid.lower() not in named and str(gpu.index) not in named:
            yield Finding(f"{CDI_FILE} does not name GPU {gpu.index} ({gpu.uuid})")


CHECKS = (
    Check(
        "driver.packages",
        "driver packages are those of the lock, and held",
        Verdict.DEGRADED,
        "run `bin/gpufleet drift` for all differences, `bin/gpufleet configure` to end them",
        lambda want: package_query(want.packages_of(*DRIVER_PINS)),
        lambda output, want: judge_packages(output, want.packages_of(*DRIVER_PINS)),
        GPU_NODES,
    ),
    Check(
        "driver.loaded",
        "the loaded driver is the installed one",
        Verdict.REBOOT,
        "drain the node, then `bin/gpufleet play CLUSTER reboot --limit NODE`",
        _loaded_command,
        _judge_loaded,
        GPU_NODES,
    ),
    Check(
        "fabric.manager",
        "the fabric manager runs and is of the driver's version",
        Verdict.ISOLATE,
        "look at `journalctl -u nvidia-fabricmanager`; CUDA reports error 802 without it",
        _fabric_command,
        _judge_fabric,
        frozenset({"nvswitch"}),
    ),
    Check(
        "gpu.present",
        "the GPUs of the contract answer, and no others",
        Verdict.ISOLATE,
        "look at `nvidia-smi` and `dmesg`; `bin/gpufleet up` states a replaced one",
        lambda _: "timeout 15 nvidia-smi --query-gpu=uuid --format=csv,noheader",
        _judge_present,
        GPU_NODES,
    ),
    Check(
        "gpu.errors",
        "no memory errors, remaps, broken fabric or slowed clocks",
        Verdict.ISOLATE,
        "look at `nvidia-smi -q`; a GPU with uncorrected errors is reset or replaced",
        lambda _: f"timeout 15 nvidia-smi --query-gpu={ERROR_FIELDS} --format=csv,noheader,nounits",
        _judge_errors,
        GPU_NODES,
    ),
    Check(
        "gpu.xid",
        "the driver reported no errors since boot",
        Verdict.DEGRADED,
        "NVIDIA's catalogue of XIDs says what each means; they are gone after a reboot",
        _xid_command,
        _judge_xid,
        GPU_NODES,
    ),
    Check(
        "container.toolkit",
        "container toolkit packages are those of the lock, and held",
        Verdict.DEGRADED,
        "run `bin/gpufleet configure CLUSTER --limit NODE --tags container`",
        lambda want: package_query(want.packages_of(*TOOLKIT_PINS)),
        lambda output, want: judge_packages(output, want.packages_of(*TOOLKIT_PINS)),
        GPU_NODES,
    ),
    Check(
        "container.cdi",
        "the CDI specification names every GPU",
        Verdict.DEGRADED,
        "run /usr/local/lib/gpufleet/cdi-refresh on the node, as root",
        lambda _: f"cat {shlex.quote(CDI_FILE)}",
        _judge_cdi,
        GPU_NODES,
    ),
)
