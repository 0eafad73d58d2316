"""The suite as a whole: nodes are folders of fake programs behind a fake ssh, or a real sshd."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import contracts
import pytest
from typer.testing import CliRunner, Result

from gpufleet.cli import app
from gpufleet.fleet import Fleet, validate
from gpufleet.hostkeys import HostKeys
from gpufleet.verify import Job, Verdict, VerifyError, verify
from gpufleet.verify.catalog import CHECKS
from gpufleet.verify.remote import Asker, Unreachable, answers, program
from gpufleet.verify.want import wants

CASES = Path(__file__).parents[1] / "cases"
NAMES = ("infer-001", "infer-002", "train-001")
SPEC = """\
name: demo
provider: local
pools:
  - {name: infer, partition: inference, instance_type: sim.h200x2, count: 2}
  - {name: train, partition: training, instance_type: sim.h200x2, count: 1}
network: {cidr: 10.217.0.0/24}
"""
# The last two arguments of ssh are the node and the command; $NODES/NODE is what stands in.
SSH = """\
#!/bin/bash
node=${@: -2:1} command=${@: -1}
printf '%s\\n' "$*" >> "$NODES/$node.asked"
[ -e "$NODES/$node/ssh" ] && exec "$NODES/$node/ssh"
cd "$NODES/$node" && PATH=$NODES/$node/bin:$PATH exec bash -c "$command"
"""
PASS = '#!/bin/bash\nwhile [ "${1:0:1}" = - ]; do shift; done\nexec "$@"\n'


class Nodes:
    """Nodes made of programs that print what they are told; every one begins well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fleet = contracts.fleet()
        folder.mkdir()
        for name, want in wants(self.fleet).items():
            uuids = [gpu.uuid for gpu in want.node.gpus]
            rows = [f"{i}, {uuid}, 0, No, No, Completed, 0x0" for i, uuid in enumerate(uuids)]
            lines = [
                f"hi |{package}|{version}"
                for pin in want.packages
                for package, version in want.packages_of(pin).items()
            ]
            identity = {"node": name, "provider_id": want.node.provider_id, "stack": want.stack}
            cdi = {"devices": [{"name": uuid} for uuid in uuids]}
            answers = {
                "/etc/gpufleet/node.json": json.dumps(identity),
                "/etc/cdi/nvidia.yaml": json.dumps(cdi),
                "/etc/docker/daemon.json": '{"features": {"cdi": true}}',
                "/proc/12/limits": "Max locked memory  unlimited  unlimited  bytes",
            }
            (folder / name / "bin").mkdir(parents=True)
            for path, text in answers.items():
                self.write(name, f"files{path}", text)
            guarded = ("nvidia-", "libnvidia-", "linux-image-", "slurm", "munge", "docker", "etcd")
            blacklist = [f'U::Package-Blacklist:: "^{item}";' for item in guarded]
            clock = "A,a,9,1,0.001,0,0,0,0,0,0,0,1,Normal"
            ray = [f"{node.address} 0 {len(node.gpus)}" for node in self.fleet.nodes]
            # By what the command line has; `*` is what is said otherwise.
            programs: dict[str, dict[str, str]] = {
                "dpkg-query": {"*": "\n".join(lines)},
                "nvidia-smi": {"*query-gpu=uuid*": "\n".join(uuids), "*": "\n".join(rows)},
                "systemctl": {"*failed*": "", "*MainPID*": "12", "*": "active"},
                "systemd-detect-virt": {"*": "none"},
                "docker": {"*": want.pins["docker"]},
                "munge": {"*": "MUNGE:x"},
                "unmunge": {"*": "STATUS: Success (0)"},
                "sinfo": {"*": "idle|none"},
                "scontrol": {"*": "Slurmctld(primary) at train-001 is UP"},
                "etcdctl": {"*health*": "x is healthy", "*": ""},
                "chronyc": {"*": clock},
                "apt-config": {"*": "\n".join(blacklist)},
                "findmnt": {"*SIZE*": str(8 << 30), "*": "/fsx rw"},
                "sed": {"*": f"Kernel Module  {want.pins['driver']}"},
                "grep": {"*": ""},
                "sh": {},
            }
            for program_name, replies in programs.items():
                self.program(name, program_name, replies)
            self.script(name, "sudo", PASS)
            self.script(
                name, "timeout", '#!/bin/bash\n[ "$1" = -k ] && shift 2\nshift\nexec "$@"\n'
            )
            self.script(name, "runuser", "#!/bin/bash\nexit 0\n")
            self.script(
                name, "cat", f'#!/bin/bash\nexec /bin/cat "${{@/#/{folder}/{name}/files}}"\n'
            )
            shown = "\n".join(ray)
            self.script(
                name,
                "sh",
                f"#!/bin/bash\ncase $2 in *GcsClient*) echo '{shown}';; "
                f'*engine/bin/python*) echo {want.pins["ray"]};; *) exec bash "$@";; esac\n',
            )

    def script(self, node: str, name: str, text: str) -> None:
        self.write(node, f"bin/{name}", text)
        (self.folder / node / "bin" / name).chmod(0o755)

    def program(self, node: str, name: str, replies: dict[str, str], code: int = 0) -> None:
        """A program that prints the reply of the first pattern that its arguments match."""
        arms = "".join(
            f"  {pattern}) printf '%s\\n' '{text}';;\n" if text else f"  {pattern}) ;;\n"
            for pattern, text in replies.items()
        )
        self.script(node, name, f'#!/bin/bash\ncase "$*" in\n{arms}esac\nexit {code}\n')

    def write(self, node: str, path: str, text: str) -> None:
        file = self.folder / node / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def locked_out(self, node: str, text: str, code: int = 255) -> None:
        """ssh itself says this and ends."""
        self.write(node, "ssh", f"#!/bin/bash\necho '{text}' >&2\nexit {code}\n")
        (self.folder / node / "ssh").chmod(0o755)

    def asked(self, node: str) -> list[str]:
        path = self.folder / f"{node}.asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(SSH)
    (tools / "ssh").chmod(0o755)
    made = Nodes(tmp_path / "nodes")
    inventory = tmp_path / "inventories/demo"
    inventory.mkdir(parents=True)
    (inventory / "cluster.yaml").write_text(SPEC)
    (inventory / ".fleet.json").write_text(made.fleet.model_dump_json())
    monkeypatch.setenv("NODES", str(made.folder))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("GPUFLEET_INVENTORIES", str(tmp_path / "inventories"))
    # What the operator has for tests of their own must not reach ours.
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", "demo", *arguments], prog_name="gpufleet")


def by_node(done: Result) -> dict[str, dict[str, Any]]:
    value = json.loads(done.stdout)
    return {row["name"]: row for row in value["nodes"]}


def bad(row: dict[str, Any]) -> dict[str, str]:
    return {x["check"]: x["verdict"] for x in row["checks"] if x["verdict"] != "ok"}


def test_a_fleet_that_is_well_is_ok_by_one_session_a_node(nodes: Nodes) -> None:
    done = run("--json")
    assert done.exit_code == 0, done.output
    found = by_node(done)
    assert list(found) == list(NAMES)
    for name, want in wants(nodes.fleet).items():
        assert bad(found[name]) == {}
        asked = [row["check"] for row in found[name]["checks"]]
        assert asked == [check.name for check in CHECKS if check.applies(want)]
        assert len(nodes.asked(name)) == 1
        assert "StrictHostKeyChecking=yes" in nodes.asked(name)[0]
        assert "BatchMode=yes" in nodes.asked(name)[0]


def test_every_node_has_its_worst_verdict_with_reason_and_command(nodes: Nodes) -> None:
    nodes.program("infer-001", "sinfo", {"*": "drained|operator: fan"})
    nodes.program("infer-001", "sed", {"*": "Kernel Module  1.0"})
    nodes.program("infer-002", "nvidia-smi", {"*": "No devices were found"}, code=6)
    done = run("--json")
    assert done.exit_code == 1
    found = by_node(done)
    assert {name: row["verdict"] for name, row in found.items()} == {
        "infer-001": "reboot",
        "infer-002": "isolate",
        "train-001": "ok",
    }
    assert bad(found["infer-001"]) == {"slurm.state": "degraded", "driver.loaded": "reboot"}
    assert bad(found["infer-002"]) == {"gpu.present": "isolate", "gpu.errors": "isolate"}
    shown = run("--limit", "infer-001").stdout
    assert "infer-001  reboot" in shown
    assert "Slurm has it as drained: operator: fan" in shown
    assert "see   bin/gpufleet ssh demo infer-001 'timeout 15 sinfo -h -N -n infer-001 " in shown
    assert "1 nodes: 1 reboot" in shown
    assert shown.index("driver.loaded: ") < shown.index("slurm.state: ")


def test_a_node_that_keeps_us_out_is_isolated_and_the_others_are_judged(nodes: Nodes) -> None:
    nodes.locked_out("infer-002", "ssh: connect to host 10.42.9.3 port 22: No route to host")
    nodes.locked_out("train-001", "bash: python3: command not found", code=127)
    done = run("--json")
    assert done.exit_code == 1
    found = by_node(done)
    assert [row["verdict"] for row in found.values()] == ["ok", "isolate", "isolate"]
    (row,) = found["infer-002"]["checks"]
    assert row["reasons"] == ["ssh: ssh: connect to host 10.42.9.3 port 22: No route to host"]
    (row,) = found["train-001"]["checks"]
    assert "python3: command not found" in row["reasons"][0]


def test_a_node_that_says_nothing_is_given_up_at_its_time(nodes: Nodes) -> None:
    nodes.write("infer-002", "ssh", "#!/bin/bash\nexec sleep 300\n")
    (nodes.folder / "infer-002/ssh").chmod(0o755)
    began = time.monotonic()
    done = run("--json", "--node-timeout", "4")
    assert time.monotonic() - began < 30
    found = by_node(done)
    assert [row["verdict"] for row in found.values()] == ["ok", "isolate", "ok"]
    assert "within 4 s" in found["infer-002"]["checks"][0]["reasons"][0]


def test_limit_takes_names_and_groups_and_asks_nobody_else(nodes: Nodes) -> None:
    assert list(by_node(run("--json", "--limit", "training,infer-[002]"))) == list(NAMES[1:])
    assert not nodes.asked("infer-001")
    for text, said in (("infer-009", "no such node or group"), ("", "names no node")):
        done = run("--limit", text)
        assert done.exit_code == 2
        assert said in done.output


def test_no_more_nodes_than_asked_for_at_once(nodes: Nodes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"#!/bin/bash\necho + >> {log}\nsleep 0.3\necho - >> {log}\nexit 255\n"
    for name in NAMES:
        nodes.write(name, "ssh", script)
        (nodes.folder / name / "ssh").chmod(0o755)
    run("--parallel", "1")
    assert log.read_text().split() == ["+", "-"] * 3


def test_junit_has_a_failure_for_each_row_that_is_not_ok(nodes: Nodes, tmp_path: Path) -> None:
    nodes.program("infer-001", "sinfo", {"*": "down|\x1b[31m<red> & \x07"})
    file = tmp_path / "out.xml"
    assert run("--junit", str(file)).exit_code == 1
    root = ET.parse(file).getroot()
    assert [suite.get("name") for suite in root] == list(NAMES)
    failures = [(case.get("name"), x.get("type")) for case in root.iter("testcase") for x in case]
    assert failures == [("slurm.state", "degraded")]
    assert root.get("failures") == "1"
    assert "bin/gpufleet ssh demo infer-001" in (root.find(".//failure").text or "")  # type: ignore[union-attr]
    done = run("--junit", str(tmp_path / "no/such/folder.xml"))
    assert done.exit_code == 1
    assert "--junit" in done.stderr


def test_control_characters_of_a_node_do_not_reach_the_terminal(nodes: Nodes) -> None:
    nodes.program("infer-001", "sinfo", {"*": "down|\x1b[2J"})
    nodes.locked_out("infer-002", "\x1b[2Jgone")
    assert "\x1b" not in run().output


def test_tests_of_ones_own_run_beside_the_suite(nodes: Nodes, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "test_site.py").write_text(
        "def test_licence(host):\n"
        "    assert host.run('cat %s', '/etc/licence').stdout == 'x y', 'no licence'\n"
    )
    nodes.write("infer-001", "files/etc/licence", "x y")
    found = by_node(run("--json", "--tests", str(own), "--limit", "inference"))
    assert bad(found["infer-001"]) == {}
    assert bad(found["infer-002"]) == {"test_licence": "degraded"}
    row = found["infer-002"]["checks"][-1]
    assert row["reasons"][0].startswith("no licence")
    assert row["by_hand"] == "bin/gpufleet ssh demo infer-002 'cat /etc/licence'"


def test_a_suite_that_breaks_is_no_verdict(nodes: Nodes, tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("import nosuchmodule\n")
    done = run("--json", "--tests", str(broken))
    assert done.exit_code == 1
    value = json.loads(done.stdout)
    assert value["ok"] is False
    assert "without a verdict for infer-001" in value["error"]
    assert "nosuchmodule" in value["error"]
    assert not nodes.asked("infer-001")


def test_an_interrupt_leaves_no_connection_behind(nodes: Nodes, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    for name in NAMES:
        nodes.write(name, "ssh", f"#!/bin/bash\necho $$ >> {pids}\nexec sleep 300\n")
        (nodes.folder / name / "ssh").chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-m", "gpufleet.cli", "verify", "demo"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    child.send_signal(signal.SIGINT)
    assert child.wait(20) != 0
    _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))


def _until(condition: Any, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_unknown_cluster_and_missing_fleet_are_told_apart(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "inventories/demo/.fleet.json").unlink()
    done = run("--json")
    assert done.exit_code == 1
    assert "gpufleet up demo" in json.loads(done.stdout)["error"]
    other = CliRunner().invoke(app, ["verify", "nowhere"])
    assert other.exit_code == 2


def test_a_command_that_hangs_costs_only_its_own_check(tmp_path: Path) -> None:
    text = program(["echo fine; exit 3", "echo begun; sleep 100", "printf '\\377'"], timeout=1)
    done = subprocess.run(
        [sys.executable, "-"], input=text, capture_output=True, text=True, timeout=20, check=True
    )
    found = answers(f"banner of the node\n{done.stdout}")
    assert found is not None
    assert (found["echo fine; exit 3"].code, found["echo fine; exit 3"].out) == (3, "fine\n")
    assert found["echo begun; sleep 100"].code == 124
    assert found["printf '\\377'"].out == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("text", ["", "nothing", "gpufleet-verify-answer {", 'x {"a": [1]}'])
def test_no_answer_is_known_as_such(text: str) -> None:
    assert answers(text) is None


def test_the_suite_has_a_test_for_every_check() -> None:
    folder = Path(sys.modules[verify.__module__].__file__ or "").parent / "suite"
    text = "".join(path.read_text() for path in sorted(folder.glob("test_*.py")))
    named = [line.split('"')[1] for line in text.splitlines() if line.startswith("@pytest.mark.ch")]
    assert sorted(named) == sorted(check.name for check in CHECKS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    sys.path.append(str(CASES))
    try:
        from sshserver import SshServer
    finally:
        sys.path.remove(str(CASES))
    made = SshServer(tmp_path)
    yield made
    made.close()


def real_fleet(tmp_path: Path, server: Any, key: str) -> Fleet:
    """One node `train-001` on the server, known by this public key."""
    folder = tmp_path / "demo/ssh"
    folder.mkdir(parents=True)
    config = folder / "ssh_config"
    config.write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
        f"  IdentityFile {server.client_key}\n  IdentitiesOnly yes\n"
    )
    HostKeys(folder).publish({"train-001": ("127.0.0.1", "i-1", key)})
    node = contracts.node("train-001", 2, address="127.0.0.1", provider_id="i-1", host_key=key)
    access = {
        "user": server.user,
        "ssh_config": str(config),
        "known_hosts": f"{folder}/known_hosts",
    }
    return validate(contracts.contract(node, access=access))


def test_over_real_ssh_every_check_is_answered(tmp_path: Path, server: Any) -> None:
    from sshserver import make_key

    key = make_key(tmp_path / "host")
    server.start(tmp_path / "host")
    fleet = real_fleet(tmp_path, server, key)
    found = Asker(fleet, 30).ask("train-001", ["echo $((6 * 7))", "exit 3"])
    assert (found["echo $((6 * 7))"].out, found["exit 3"].code) == ("42\n", 3)
    (report,) = verify(Job(fleet, ("train-001",)))
    # This machine is no node of a fleet: it is judged, and not well.
    want = wants(fleet)["train-001"]
    assert len(report.rows) == len([check for check in CHECKS if check.applies(want)])
    assert "system.identity" in {row.check for row in report.bad}
    assert report.verdict is Verdict.ISOLATE


def test_another_host_key_is_refused_and_explained(tmp_path: Path, server: Any) -> None:
    from sshserver import make_key

    key = make_key(tmp_path / "host")
    make_key(tmp_path / "other")
    server.start(tmp_path / "other")
    fleet = real_fleet(tmp_path, server, key)
    with pytest.raises(Unreachable, match=r"host key of train-001 changed .*--accept-new-key"):
        Asker(fleet, 30).ask("train-001", ["true"])
    (report,) = verify(Job(fleet, ("train-001",)))
    assert report.verdict is Verdict.ISOLATE
    assert [row.check for row in report.rows] == ["ssh.reached"]


def test_a_node_that_the_fleet_lacks_is_no_job(nodes: Nodes) -> None:
    with pytest.raises(VerifyError, match="without a verdict for x"):
        verify(Job(nodes.fleet, ("x",)))
