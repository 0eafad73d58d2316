"""`gpufleet.node.packages`: exact versions that move together, with the real apt and dpkg."""

import time
from dataclasses import replace
from typing import Any

import aptbox
import pytest
from aptbox import package
from nodebox import NodeBox

from gpufleet.simdebs.deb import File

DRIVER = {"demo-driver": "1.0-1", "demo-library": "1.0-1"}
NEXT = dict.fromkeys(DRIVER, "2.0-1")


def versions(number: str) -> list[Any]:
    return [
        package("demo-driver", number, f"demo-library (= {number})"),
        package("demo-library", number),
    ]


@pytest.fixture
def node(box: NodeBox) -> NodeBox:
    aptbox.bare(box)
    packages = [
        *versions("1.0-1"), *versions("2.0-1"),
        package("demo-other", "1"), package("demo-needs-old", "1", "demo-library (= 1.0-1)"),
        package("demo-rival", "1", conflicts=["demo-other"]),
    ]  # fmt: skip
    aptbox.source(box, aptbox.publish(box, packages))
    return box


def packages(box: NodeBox, check: bool = False, **arguments: Any) -> dict[str, Any]:
    return box.module("packages", check=check, **arguments)


def test_the_pinned_version_is_installed_held_and_left_alone(node: NodeBox) -> None:
    would = packages(node, check=True, packages=DRIVER, hold=True)
    assert would["installed"] == sorted(DRIVER)
    assert aptbox.installed(node) == {}
    did = packages(node, packages=DRIVER, hold=True)
    assert did["diff"] == would["diff"]
    assert aptbox.installed(node) == dict.fromkeys(DRIVER, ("1.0-1", "hold"))
    # Nothing differs, so apt is not run at all.
    for name in ("apt-get", "apt-cache", "dpkg"):
        node.stub(name, "exit 1")
    again = packages(node, packages=DRIVER, hold=True)
    assert (again["changed"], again["diff"], node.calls()) == (False, [], [])


def test_held_packages_move_together_both_ways(node: NodeBox) -> None:
    packages(node, packages=DRIVER, hold=True)
    assert node.run("apt-get", "-s", "upgrade").stdout.count("\nInst") == 0
    for wanted in (NEXT, DRIVER):
        assert packages(node, packages=wanted, hold=True)["installed"] == sorted(DRIVER)
        assert aptbox.installed(node) == {name: (x, "hold") for name, x in wanted.items()}


def test_a_hold_of_the_admins_outlives_the_change_of_its_package(node: NodeBox) -> None:
    packages(node, packages=DRIVER)
    node.run("apt-mark", "hold", *DRIVER)
    assert packages(node, packages=NEXT)["changed"]
    assert aptbox.installed(node) == dict.fromkeys(DRIVER, ("2.0-1", "hold"))


def test_a_package_that_the_admin_holds_is_not_moved_behind_his_back(node: NodeBox) -> None:
    packages(node, packages=DRIVER)
    node.run("apt-mark", "hold", "demo-library")
    before = aptbox.installed(node)
    for check in (True, False):
        refused = packages(node, check=check, packages={"demo-driver": "2.0-1"})
        assert "demo-library (= 2.0-1)" in refused["msg"]
        assert "demo-library is held and not listed" in refused["msg"]
        assert "apt-mark unhold demo-library" in refused["msg"]
    assert aptbox.installed(node) == before


def test_nothing_is_removed_that_was_not_named(node: NodeBox) -> None:
    packages(node, packages={**DRIVER, "demo-other": "", "demo-needs-old": ""})
    before = aptbox.installed(node)
    refused = packages(node, packages=NEXT)
    assert "apt would remove demo-needs-old 1" in refused["msg"]
    refused = packages(node, packages={"demo-rival": ""})
    assert "apt would remove demo-other 1 to install demo-rival" in refused["msg"]
    assert aptbox.installed(node) == before
    assert packages(node, packages={"demo-rival": ""}, absent=["demo-other"])["changed"]
    assert set(aptbox.installed(node)) == {*before, "demo-rival"} - {"demo-other"}
    assert not packages(node, packages={"demo-rival": ""}, absent=["demo-other"])["changed"]


def test_a_version_that_nobody_has_is_named_with_those_there_are(node: NodeBox) -> None:
    packages(node, packages=DRIVER)
    wanted = {**DRIVER, "demo-driver": "3.0-1", "demo-nothing": ""}
    refused = packages(node, packages=wanted)["msg"]
    assert "demo-driver 3.0-1: the repositories have 2.0-1, 1.0-1; installed is 1.0-1" in refused
    assert "demo-nothing (any version): the repositories have no version of it" in refused
    assert aptbox.installed(node) == dict.fromkeys(DRIVER, ("1.0-1", "install"))


def test_a_version_that_came_after_the_lists_is_found(node: NodeBox) -> None:
    packages(node, packages=DRIVER)
    aptbox.publish(node, [*versions("1.0-1"), *versions("3.0-1")])
    assert packages(node, packages=dict.fromkeys(DRIVER, "3.0-1"))["changed"]
    assert {version for version, _ in aptbox.installed(node).values()} == {"3.0-1"}


def test_no_service_starts_by_being_installed_and_the_policy_goes(node: NodeBox) -> None:
    script = "#!/bin/sh\ncp -p /usr/sbin/policy-rc.d /var/seen-policy\n"
    row = replace(package("demo-service", "1"), scripts={"postinst": script})
    aptbox.publish(node, [row])
    assert packages(node, packages={"demo-service": "1"})["changed"]
    assert node.run("/var/seen-policy").returncode == 101
    assert not node.exists("/usr/sbin/policy-rc.d")
    # One of the admin's own stays.
    node.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 0\n", 0o755)
    aptbox.publish(node, [row, package("demo-second", "1")])
    assert packages(node, packages={"demo-second": "1"})["changed"]
    assert node.read("/usr/sbin/policy-rc.d") == "#!/bin/sh\nexit 0\n"


def test_a_package_that_fails_says_what_apt_said(node: NodeBox) -> None:
    script = "#!/bin/sh\necho 'DKMS built no module' >&2\nexit 3\n"
    aptbox.publish(node, [replace(package("demo-broken", "1"), scripts={"postinst": script})])
    refused = packages(node, packages={"demo-broken": "1"}, hold=True)
    assert "apt-get install failed" in refused["msg"]
    assert "DKMS built no module" in refused["msg"]
    assert not node.exists("/usr/sbin/policy-rc.d")


def test_a_configuration_file_of_the_admins_is_kept_without_a_question(node: NodeBox) -> None:
    def row(number: str) -> Any:
        return replace(
            package("demo-conf", number), files={"etc/demo.conf": File(f"{number}\n")},
            scripts={"conffiles": "/etc/demo.conf\n"},
        )  # fmt: skip

    aptbox.publish(node, [row("1"), row("2")])
    packages(node, packages={"demo-conf": "1"})
    node.write("/etc/demo.conf", "mine\n")
    began = time.monotonic()
    assert packages(node, packages={"demo-conf": "2"})["changed"]
    assert (node.read("/etc/demo.conf"), time.monotonic() - began < 60) == ("mine\n", True)
