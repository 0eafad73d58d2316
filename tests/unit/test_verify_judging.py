"""What each check makes of a node's answer: pure, from texts as programs print them."""

import json
import re
import shlex

import contracts
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.verify.catalog import BY_NAME, CHECKS
from gpufleet.verify.model import Check, NodeReport, Output, Row, Verdict, Want, by_hand, worst
from gpufleet.verify.reading import upstream
from gpufleet.verify.want import wants
from gpufleet.verify.xid import MEANINGS, OF_PROGRAMS, meaning

WANT = wants(contracts.fleet())["infer-001"]
GPUS = [gpu.uuid for gpu in WANT.node.gpus]
DRIVER = WANT.pins["driver"]
GOOD_GPU = "{index}, {uuid}, 0, No, No, Completed, 0x0000000000000001"


def gpu_rows(**changes: str) -> str:
    """Rows of nvidia-smi of which the second GPU has changed fields, by position name."""
    names = ("index", "uuid", "uncorrected", "pending", "failure", "fabric", "clocks")
    rows = []
    for index, uuid in enumerate(GPUS):
        fields = GOOD_GPU.format(index=index, uuid=uuid).split(", ")
        if index == 1:
            fields = [changes.get(name, field) for name, field in zip(names, fields, strict=True)]
        rows.append(", ".join(fields))
    return "\n".join(rows)


def package_rows(*pins: str, state: str = "hi ", version: str = "") -> str:
    packages = WANT.packages_of(*pins)
    return "".join(f"{state}|{name}|{version or pinned}\n" for name, pinned in packages.items())


def cdi(names: list[str]) -> str:
    return json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": name} for name in names]})


def chrony(offset: float, state: str = "Normal", virt: str = "none") -> str:
    row = f"0A2A0103,10.42.1.3,9,1.0,{offset},0,0,0,0,0,0,0,129.0,{state}"
    return f"{virt}\n{row}\n"


def limits(soft: str, hard: str, virt: str = "none") -> str:
    return (
        f"{virt}\nLimit  Soft Limit  Hard Limit  Units\nMax locked memory  {soft}  {hard}  bytes\n"
    )


FABRIC = package_rows("fabricmanager")
BLACKLIST = "".join(
    f'Unattended-Upgrade::Package-Blacklist:: "^{name}";\n'
    for name in ("nvidia-", "libnvidia-", "linux-image-", "slurm", "munge", "docker", "etcd")
)
NODE_JSON = json.dumps(
    {"node": WANT.node.name, "provider_id": WANT.node.provider_id, "stack": WANT.stack}
)
ETCD = "http://10.42.9.2:2379 is healthy: successfully committed proposal: took = 2ms\n"

Case = tuple[str, str | Output, Verdict, str]
# check, output, verdict, a part of the reason
CASES: list[Case] = [
    ("driver.packages", package_rows("driver", "nscq"), Verdict.OK, ""),
    ("driver.packages", package_rows("driver", "nscq", state="ii "), Verdict.DEGRADED, "not held"),
    ("driver.packages", package_rows("driver", "nscq", version="1-1"), Verdict.DEGRADED, "is 1-1"),
    ("driver.packages", Output(1, "", "no packages found"), Verdict.DEGRADED, "not installed"),
    ("driver.packages", package_rows("driver", "nscq", state="hc "), Verdict.DEGRADED, "not inst"),
    ("driver.loaded", package_rows("driver") + f"Kernel Module  {DRIVER}", Verdict.OK, ""),
    ("driver.loaded", package_rows("driver") + "Kernel Module  550.1", Verdict.REBOOT, "550.1 is"),
    (
        "driver.loaded",
        package_rows("driver")
        + f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build",
        Verdict.OK,
        "",
    ),
    ("driver.loaded", package_rows("driver"), Verdict.REBOOT, "no driver is loaded"),
    ("driver.loaded", "Kernel Module  550.1", Verdict.ISOLATE, "is not installed"),
    ("fabric.manager", f"active\n{FABRIC}", Verdict.OK, ""),
    ("fabric.manager", f"inactive\n{FABRIC}", Verdict.ISOLATE, "nvidia-fabricmanager is inactive"),
    (
        "fabric.manager",
        "active\n" + package_rows("fabricmanager", version="570.1-1"),
        Verdict.ISOLATE,
        "570.1, the driver",
    ),
    ("fabric.manager", "active\n", Verdict.ISOLATE, "not installed"),
    ("gpu.present", "\n".join(GPUS), Verdict.OK, ""),
    ("gpu.present", "\n".join(reversed(GPUS)).upper(), Verdict.OK, ""),
    ("gpu.present", GPUS[0], Verdict.ISOLATE, GPUS[1]),
    ("gpu.present", "\n".join([*GPUS, "GPU-other"]), Verdict.DEGRADED, "GPU-other is here"),
    ("gpu.present", Output(9, "", "couldn't communicate"), Verdict.ISOLATE, "couldn't comm"),
    ("gpu.present", Output(124, "", "no answer within 20 s"), Verdict.ISOLATE, "no answer"),
    ("gpu.errors", gpu_rows(), Verdict.OK, ""),
    ("gpu.errors", gpu_rows(uncorrected="[N/A]"), Verdict.OK, ""),
    ("gpu.errors", gpu_rows(uncorrected="3"), Verdict.ISOLATE, "3 uncorrected"),
    ("gpu.errors", gpu_rows(failure="Yes"), Verdict.ISOLATE, "could not be remapped"),
    ("gpu.errors", gpu_rows(pending="Yes"), Verdict.REBOOT, "waits to be remapped"),
    ("gpu.errors", gpu_rows(fabric="In Progress"), Verdict.ISOLATE, "In Progress"),
    ("gpu.errors", gpu_rows(clocks="0x0000000000000008"), Verdict.DEGRADED, "hardware slowdown"),
    ("gpu.errors", "what?", Verdict.ISOLATE, "cannot be read"),
    ("gpu.xid", "", Verdict.OK, ""),
    ("gpu.xid", "  xid = 13, 43\n", Verdict.OK, ""),
    ("gpu.xid", "xid = 79\n", Verdict.ISOLATE, "XID 79"),
    (
        "gpu.xid",
        "2026 n kernel: NVRM: Xid (PCI:0000:1b:00): 94, pid=1, x\n" * 3,
        Verdict.DEGRADED,
        "XID 94 of GPU 0000:1b:00 since boot: contained memory error, 3 times",
    ),
    ("gpu.xid", Output(1, "", "sudo: a password is required"), Verdict.DEGRADED, "a password"),
    ("container.cdi", cdi([*GPUS, "all"]), Verdict.OK, ""),
    ("container.cdi", cdi(["0", "1", "all"]), Verdict.OK, ""),
    ("container.cdi", cdi(GPUS[:1]), Verdict.DEGRADED, GPUS[1]),
    ("container.cdi", Output(1, "", "cat: x: No such file"), Verdict.DEGRADED, "No such file"),
    ("container.cdi", "a: [", Verdict.DEGRADED, "no CDI specification"),
    ("container.docker", f"active\n{WANT.pins['docker']}+dfsg1\n", Verdict.OK, ""),
    ("container.docker", f"active\n{WANT.pins['docker']}0\n", Verdict.DEGRADED, "the lock has"),
    ("container.docker", "failed\n", Verdict.DEGRADED, "docker is failed"),
    ("container.daemon", '{"features": {"cdi": true}}', Verdict.OK, ""),
    ("container.daemon", '{"runtimes": {"nvidia": {}}}', Verdict.OK, ""),
    ("container.daemon", '{"features": {"cdi": false}}', Verdict.DEGRADED, "neither"),
    ("container.daemon", "{", Verdict.DEGRADED, "damaged"),
    ("slurm.munge", "STATUS:          Success (0)\n", Verdict.OK, ""),
    ("slurm.munge", Output(1, "", "unmunge: Error: Invalid"), Verdict.DEGRADED, "Invalid"),
    ("slurm.slurmd", "active\n", Verdict.OK, ""),
    ("slurm.slurmd", "failed\n", Verdict.DEGRADED, "slurmd is failed"),
    ("slurm.state", "idle|none\nidle|none\n", Verdict.OK, ""),
    ("slurm.state", "mixed-|none\n", Verdict.OK, ""),
    ("slurm.state", "drained|gpufleet: GPU|x lost\n", Verdict.DEGRADED, "drained: gpufleet: GPU|x"),
    ("slurm.state", "down*|Not responding\n", Verdict.DEGRADED, "down*: Not responding"),
    ("slurm.state", "idle*|none\n", Verdict.DEGRADED, "idle*"),
    ("slurm.state", "", Verdict.DEGRADED, "does not know"),
    ("slurm.state", Output(1, "", "slurm_load: Unable"), Verdict.DEGRADED, "Unable"),
    ("slurm.memlock", limits("unlimited", "unlimited"), Verdict.OK, ""),
    ("slurm.memlock", limits("8388608", "8388608"), Verdict.DEGRADED, "8388608"),
    ("slurm.memlock", limits("8388608", "8388608", "systemd-nspawn"), Verdict.OK, ""),
    ("slurm.memlock", limits("65536", "8388608", "systemd-nspawn"), Verdict.DEGRADED, "65536"),
    ("slurm.memlock", Output(1, "none\n", "cat: no"), Verdict.DEGRADED, "cannot be read"),
    ("etcd.health", ETCD, Verdict.OK, ""),
    ("etcd.health", Output(1, "", "context deadline exceeded"), Verdict.DEGRADED, "deadline"),
    ("etcd.health", ETCD + "memberID:1 alarm:NOSPACE\n", Verdict.DEGRADED, "alarm"),
    ("ray.service", "activating\n", Verdict.DEGRADED, "gpufleet-ray is activating"),
    ("ray.joined", "10.42.9.2 0 2.0\n10.42.9.3 0 2.0\n", Verdict.OK, ""),
    ("ray.joined", "10.42.9.2 1 2.0\n10.42.9.2 0 2.0\n", Verdict.OK, ""),
    ("ray.joined", "10.42.9.2 1 2.0\n", Verdict.DEGRADED, "as dead"),
    ("ray.joined", "10.42.9.3 0 2.0\n", Verdict.DEGRADED, "not at all"),
    ("ray.joined", "10.42.9.2 0 1.0\n", Verdict.DEGRADED, "1.0 GPUs"),
    ("engine.ray", f"{WANT.pins['ray']}\n", Verdict.OK, ""),
    ("engine.ray", "1.0\n", Verdict.DEGRADED, "ray 1.0"),
    ("system.identity", NODE_JSON, Verdict.OK, ""),
    ("system.identity", NODE_JSON.replace("-cpu", "-old"), Verdict.DEGRADED, "local-old"),
    ("system.identity", Output(1, "", "No such file"), Verdict.ISOLATE, "never been configured"),
    ("system.units", "", Verdict.OK, ""),
    ("system.units", "a.service loaded failed failed A\n", Verdict.DEGRADED, "a.service"),
    ("system.reboot", "", Verdict.OK, ""),
    ("system.reboot", "*** System restart required ***\nlinux\n", Verdict.REBOOT, "linux"),
    ("system.guard", BLACKLIST, Verdict.OK, ""),
    ("system.guard", BLACKLIST.replace("^slurm", "^other"), Verdict.DEGRADED, "slurm"),
    ("system.clock", chrony(0.001), Verdict.OK, ""),
    ("system.clock", chrony(-0.75), Verdict.DEGRADED, "-0.750 s"),
    ("system.clock", chrony(0.0, "Not synchronised"), Verdict.DEGRADED, "not synchronised"),
    ("system.clock", chrony(0.0, "Not synchronised", "lxc"), Verdict.OK, ""),
    ("system.clock", Output(1, "none\n", "506 Cannot talk"), Verdict.DEGRADED, "506"),
    ("memory.shm", f"{1 << 30}\n", Verdict.OK, ""),
    ("memory.shm", f"{64 << 20}\n", Verdict.DEGRADED, "64 MiB, 1024 MiB"),
    ("storage.shared", "/fsx rw,relatime\n", Verdict.OK, ""),
    ("storage.shared", "/fsx ro,relatime\n", Verdict.ISOLATE, "reading only"),
    ("storage.shared", Output(1), Verdict.ISOLATE, "/fsx is not mounted"),
    ("storage.writable", Output(0), Verdict.OK, ""),
    ("storage.writable", Output(1), Verdict.DEGRADED, "gpufleet may not write"),
]


def judged(name: str, output: str | Output, want: Want = WANT) -> tuple[Verdict, str]:
    answer = output if isinstance(output, Output) else Output(0, output)
    found = BY_NAME[name].examine(answer, want)
    return worst(x.verdict for x in found if x.verdict), "; ".join(x.reason for x in found)


@pytest.mark.parametrize(("name", "output", "verdict", "reason"), CASES)
def test_an_answer_has_its_verdict_and_reason(
    name: str, output: str | Output, verdict: Verdict, reason: str
) -> None:
    found, text = judged(name, output)
    assert found is verdict, text
    assert reason in text
    assert bool(text) is (verdict is not Verdict.OK)


def test_every_check_has_a_good_and_a_bad_answer_here() -> None:
    tested = {name for name, *_ in CASES}
    assert {check.name for check in CHECKS} - tested == {"container.toolkit", "slurm.controller"}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_no_answer_is_never_a_good_one(check: Check) -> None:
    # Silence with a failure: the program is not there, or did not end in time.
    for output in (Output(127, "", "sh: 1: x: not found"), Output(124, "", "no answer")):
        name = check.name
        if name == "system.reboot":  # a file that is not there is what is wanted
            continue
        verdict, text = judged(name, output)
        assert verdict is not Verdict.OK, name
        assert text


@given(code=st.integers(0, 255), out=st.text(), err=st.text())
def test_no_answer_whatever_breaks_a_check(code: int, out: str, err: str) -> None:
    for check in CHECKS:
        for finding in check.examine(Output(code, out, err), WANT):
            assert finding.verdict is not None
            assert finding.verdict is not Verdict.OK
            assert finding.reason


@given(st.lists(st.sampled_from(Verdict)))
def test_the_worst_wins(verdicts: list[Verdict]) -> None:
    found = worst(verdicts)
    assert all(found.rank >= verdict.rank for verdict in verdicts)
    assert found in verdicts or (not verdicts and found is Verdict.OK)
    rows = tuple(Row("c", "t", verdict, (), "true", "") for verdict in verdicts)
    report = NodeReport("n", rows, 0)
    assert report.verdict is (found if verdicts else Verdict.ISOLATE)
    assert [row.verdict.rank for row in report.bad] == sorted(
        (verdict.rank for verdict in verdicts if verdict is not Verdict.OK), reverse=True
    )


def test_isolation_is_worse_than_a_reboot_and_that_than_a_look() -> None:
    assert list(Verdict) == ["ok", "degraded", "reboot", "isolate"]


def test_checks_follow_the_groups_of_a_node() -> None:
    bare = contracts.node("cpu-001", 9, gpus=0, partition="training")
    nodes = [contracts.node(f"infer-00{i}", 1 + i) for i in (1, 2, 3)]
    found = wants(contracts.fleet(*nodes, bare))
    names = {n: {c.name for c in CHECKS if c.applies(want)} for n, want in found.items()}
    assert not [name for name in names["cpu-001"] if name.startswith(("gpu.", "driver."))]
    assert "slurm.controller" in names["cpu-001"]
    assert "slurm.controller" not in names["infer-001"]
    assert "etcd.health" in names["infer-003"]
    assert "etcd.health" not in names["cpu-001"]
    assert names["infer-001"] >= {"fabric.manager", "gpu.present", "ray.joined", "storage.shared"}


def test_a_fabric_manager_is_asked_for_only_where_there_is_a_switch() -> None:
    direct = [contracts.gpu("infer-001", 0, link_class="PCIe")]
    node = contracts.node("infer-001", 2) | {"gpus": direct}
    want = wants(contracts.fleet(node))["infer-001"]
    assert not BY_NAME["fabric.manager"].applies(want)
    assert judged("gpu.errors", gpu_rows(fabric="Not Started"), want)[0] is Verdict.OK


READ_ONLY = re.compile(
    r"\b(rm|mv|cp|tee|install|apt-get|restart|reload|start|stop|enable|set|reset-failed|kill)\b"
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_commands_change_nothing_and_can_be_run_by_hand(check: Check) -> None:
    text = check.command(WANT)
    assert not READ_ONLY.search(text.replace("set -a", "").replace("test -w", "")), text
    assert not re.search(r">(?! *(/dev/null|&))", text.replace("2>", ">")), text
    line = shlex.split(by_hand("demo", "infer-001", text))
    assert line == ["bin/gpufleet", "ssh", "demo", "infer-001", text]


@pytest.mark.parametrize(
    ("version", "plain"),
    [("1:580.105.08-1", "580.105.08"), ("580.105.08-0ubuntu1", "580.105.08"), ("1.2", "1.2")],
)
def test_versions_lose_epoch_and_revision(version: str, plain: str) -> None:
    assert upstream(version) == plain


def test_errors_of_programs_say_nothing_about_a_node() -> None:
    assert not OF_PROGRAMS & set(MEANINGS)
    assert {meaning(number)[0] for number in OF_PROGRAMS} == {Verdict.OK}
    assert meaning(9999)[0] is Verdict.DEGRADED
