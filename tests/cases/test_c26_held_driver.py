"""An automatic upgrade moves a part of the driver under the loaded module."""

import re
from dataclasses import replace

import aptbox
import contracts
import pytest
import rolefleet
from nodebox import NodeBox
from rolerun import RoleRun
from systemctl_stub import Systemctl

from gpufleet import stack
from gpufleet.simdebs import plan
from gpufleet.simdebs.deb import Package
from gpufleet.stack import lockstep

LOCK = lockstep.complete(stack.get("local-cpu"))
DRIVER = LOCK.pins["driver"]
REBOOT = "/usr/local/lib/gpufleet/reboot-needed"


def driver_packages() -> set[str]:
    """Packages of the driver's version, fabric manager and libraries included."""
    return {name for name, version in lockstep.packages(LOCK).items() if version.startswith(DRIVER)}


def newer(package: Package) -> Package:
    """The package at a version that an upgrade would take."""
    return replace(
        package,
        version=package.version.replace(DRIVER, "999.1"),
        depends=tuple(x.replace(DRIVER, "999.1") for x in package.depends),
    )


@pytest.fixture
def node(box: NodeBox) -> NodeBox:
    """A node with the driver by the roles, and a repository that has a newer one since then."""
    aptbox.bare(box)
    made = plan.packages_of(LOCK)
    aptbox.source(box, aptbox.publish(box, made))
    roles = RoleRun(box, rolefleet.contract("infer-001"))
    steps = [("nvidia_driver", "install"), ("nvidia_fabricmanager", "install")]
    done = roles.play(steps, node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    moved = [newer(row) for row in made if DRIVER in row.version]
    aptbox.publish(box, [*made, *moved])
    assert box.run("apt-get", "-q", "update").returncode == 0
    return box


def test_c26_every_package_of_the_driver_is_held(node: NodeBox) -> None:
    form = "${Package} ${Version} ${db:Status-Want}\n"
    rows = node.run("dpkg-query", "-W", "-f", form, "*nvidia*").stdout.splitlines()
    there = {row.split()[0]: row.split()[1:] for row in rows if not row.endswith("unknown")}
    held = {name for name, (_, wish) in there.items() if wish == "hold"}
    assert len(driver_packages()) >= 12
    assert driver_packages() & set(there) == {x for x in there if "container" not in x}
    # One that is not held is enough: its library would be another version than the module.
    assert held == {x for x in there if "container" not in x}
    done = node.run("apt-get", "-s", "dist-upgrade")
    assert "Inst " not in done.stdout, done.stdout


def test_c26_unattended_upgrades_are_kept_off_all_that_moves_together(
    laid: rolefleet.RoleFleet,
) -> None:
    dump = laid.box.run(
        "apt-config", "-c", "/etc/apt/apt.conf.d/52gpufleet", "dump",
        "Unattended-Upgrade::Package-Blacklist",
    ).stdout  # fmt: skip
    patterns = re.findall(r'::Package-Blacklist:: "(.*)";', dump)
    assert patterns
    for name in (*driver_packages(), "cuda-toolkit-13-0", "linux-image-6.8.0-51-generic",
                 "linux-headers-generic", "linux-modules-6.8.0-51", "linux-aws", "lustre-client",
                 "slurmd", "munge", "libmunge2", "docker.io", "containerd",
                 "etcd-server"):  # fmt: skip
        assert any(re.match(pattern, name) for pattern in patterns), name
    assert not any(re.match(pattern, "openssl") for pattern in patterns)


def test_c26_apt_waits_for_locks_whoever_calls_it(laid: rolefleet.RoleFleet) -> None:
    assert 'DPkg::Lock::Timeout "300";' in laid.read("/etc/apt/apt.conf.d/52gpufleet")


def test_c26_the_lock_prefers_one_version_of_each_package(laid: rolefleet.RoleFleet) -> None:
    text = laid.read("/etc/apt/preferences.d/gpufleet")
    found = dict(
        re.findall(r"^Package: (\S+)\nPin: version (\S+)\nPin-Priority: 1001$", text, re.M)
    )
    assert found == lockstep.packages(LOCK)


def state(box: NodeBox, loaded: str) -> tuple[int, str]:
    box.write("/etc/gpufleet/simgpu.conf", f"driver = {loaded}\n" if loaded else "")
    done = box.run(REBOOT)
    return done.returncode, done.stdout.strip()


def test_c26_another_loaded_module_is_a_reboot_that_is_needed_and_no_failure(box: NodeBox) -> None:
    fleet = contracts.contract(contracts.node("infer-001", 2))
    roles = RoleRun(box, fleet)
    Systemctl(box, strict=False)
    box.stub("dpkg-query", f"printf '%s' {DRIVER}-0ubuntu1")
    box.stub("nvidia-smi", "echo " + fleet["nodes"][0]["gpus"][0]["uuid"])
    assert roles.play([("nvidia_driver", "configure")], node=rolefleet.FACTS).returncode == 0
    assert state(box, DRIVER) == (0, "")
    assert state(box, "") == (1, f"no driver is loaded, installed is {DRIVER}")
    assert state(box, "1.2") == (1, f"the loaded driver is 1.2, installed is {DRIVER}")
    done = roles.play([("nvidia_driver", "verify")], node=rolefleet.FACTS)
    assert done.returncode == 0, done.stdout
    assert "REBOOT NEEDED on infer-001: the loaded driver is 1.2" in done.stdout
    assert "changed=0 " in done.stdout
