"""Field case: the kernel moved on, the Lustre client did not.

apt and dpkg are real, on a repository of empty packages; uname, update-grub and systemctl are
stubs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine, Played, host, machine

OLD, PINNED, NEWEST = "6.8.0-1015-aws", "6.8.0-1018-aws", "6.8.0-1021-aws"
MOUNT = [{"path": "/fsx", "kind": "lustre", "source": "fs-0d.example@tcp:/ab12cdef"}]
UPDATE_GRUB = """#!/bin/sh
# STUB: a menu of what is in /boot.
for x in /etc/default/grub.d/*.cfg; do . "$x"; done
{ echo "set default=\\"$GRUB_DEFAULT\\""
  for x in /boot/vmlinuz-*; do echo "menuentry 'gnulinux-${x#/boot/vmlinuz-}-advanced-'"; done
} > /boot/grub/grub.cfg
"""


def node(pinned: str, **variables: object) -> dict[str, object]:
    facts = {"kernel": NEWEST, "kernels": [NEWEST]}
    pins = {"kernel": pinned} if pinned else {}
    return host(facts, pins=pins, mounts=MOUNT, storage_lustre_uri="", **variables)


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("c21")) as made:
        made.program("/usr/local/bin/uname", f"#!/bin/sh\n# STUB\necho {NEWEST}\n")
        made.program("/usr/sbin/update-grub", UPDATE_GRUB)
        made.program("/usr/local/bin/lfs", "#!/bin/sh\n# STUB\necho 1\n")
        made.write("/boot/grub/grub.cfg", "")
        kernels = [f"linux-{kind}-{release}" for kind in ("image", "modules", "headers")
                   for release in (OLD, PINNED, NEWEST)]  # fmt: skip
        clients = [f"lustre-client-modules-{release}" for release in (OLD, PINNED)]
        made.repository(dict.fromkeys([*kernels, *clients, "linux-image-aws", "linux-headers-aws",
                                       "lustre-client-utils"], "1"))  # fmt: skip
        made.run("apt-get", "-qq", "-y", "install", "linux-image-aws", "linux-headers-aws",
                 f"linux-image-{NEWEST}", f"linux-headers-{NEWEST}")  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def first(booted: Machine) -> Played:
    return booted.play(
        ["kernel", "storage_lustre"],
        {
            "moved": node(NEWEST),
            "pinned": node(PINNED),
            "unpinned": node(""),
            "inside": {**node(""), "gpufleet_mounts": [], "gpufleet_simulated": True},
        },
    )


def test_c21_kernel_without_a_client_stops_with_both_lists(first: Played) -> None:
    said = first.said("moved")
    assert "moved" in first.failed
    assert f"headers of {OLD}, {PINNED}, {NEWEST} and Lustre clients for {OLD}, {PINNED}" in said
    assert f"pin a kernel that is in both lists ({PINNED})" in said


def test_c21_pinned_kernel_and_its_client_are_installed_and_held(
    first: Played, booted: Machine
) -> None:
    assert "pinned" not in first.failed, first.text
    held = set(booted.run("apt-mark", "showhold").stdout.split())
    assert held >= {f"linux-image-{PINNED}", f"linux-headers-{PINNED}", "linux-image-aws",
                    "linux-headers-aws", f"lustre-client-modules-{PINNED}",
                    "lustre-client-utils"}  # fmt: skip
    assert f"linux-modules-{NEWEST}" not in held


def test_c21_no_client_of_another_kernel_is_installed(first: Played, booted: Machine) -> None:
    found = booted.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", "lustre-*")
    there = [x.split()[1] for x in found.stdout.splitlines() if x.startswith("installed")]
    assert there == [f"lustre-client-modules-{PINNED}", "lustre-client-utils"]


def test_c21_pinned_kernel_boots_next_and_a_reboot_is_flagged(
    first: Played, booted: Machine
) -> None:
    assert "REBOOT NEEDED on pinned" in first.text
    assert f"kernel {NEWEST} runs, {PINNED} is to" in first.said("pinned")
    assert f"gnulinux-{PINNED}-advanced" in booted.read("/boot/grub/grub.cfg").splitlines()[0]
    log = booted.read("/run/systemctl.log")
    assert "reboot" not in log
    # The running kernel has no client: mounting waits for the reboot.
    assert "automount" not in log


def test_c21_without_a_pin_the_client_is_for_the_kernel_that_will_boot_or_none(
    first: Played,
) -> None:
    assert "pins no kernel" in first.said("unpinned")
    assert "unpinned" in first.failed
    assert f"will boot kernel {NEWEST}" in first.said("unpinned")


def test_c21_container_keeps_its_hosts_kernel(first: Played) -> None:
    assert "inside" not in first.failed
    assert "it shares the kernel of its host" in first.said("inside")


def test_c21_second_run_changes_nothing(first: Played, booted: Machine) -> None:
    again = booted.play(["kernel", "storage_lustre"], {"pinned": node(PINNED)})
    assert not again.failed, again.text
    assert "changed=0" in again.text, again.text


def test_c21_dry_run_needs_nothing_of_an_earlier_run(booted: Machine, tmp_path: Path) -> None:
    dry = booted.play(["kernel"], {"dry": node(OLD)}, "--check")
    assert not dry.failed, dry.text
    assert not (booted.root / f"boot/vmlinuz-{OLD}").exists()
