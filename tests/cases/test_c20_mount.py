"""Field case: a shared mount that is attempted before the network is up.

The table of mounts is read by systemd's own generator; systemctl, apt-cache and lfs are stubs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine, Played, host, machine

KERNEL = "6.8.0-1018-aws"
FSX = {"path": "/fsx", "kind": "lustre", "source": "fs-0d.example@tcp:/ab12cdef"}
POSIX = {"path": "/fsx", "kind": "posix", "source": "/var/lib/c/shared"}
AGENT = """[Unit]
Description=agent %i
[Service]
ExecStart=/bin/true
"""
LFS = """#!/bin/sh
# STUB: remembers stripes.
[ "$1" = setstripe ] && { echo "$3 $5" > /srv/stripes; echo x >> /srv/stripes.log; exit; }
case "$3" in -c) want=1 ;; *) want=2 ;; esac
{ cat /srv/stripes 2> /dev/null || echo "1 1048576"; } | cut -d' ' -f$want
"""
SKIP = ("--skip-tags", "install,verify")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("c20")) as made:
        made.program(
            "/usr/local/bin/apt-cache", f"#!/bin/sh\necho lustre-client-modules-{KERNEL}\n"
        )
        made.program("/usr/local/bin/lfs", LFS)
        made.write("/etc/systemd/system/gpufleet-agent@.service", AGENT)
        yield made


@pytest.fixture(scope="module")
def first(cloud: Machine) -> Played:
    facts = {"mounts": {"/fsx": "none"}}
    return cloud.play(
        ["storage_lustre"],
        {
            "aws": host(mounts=[FSX]),
            "nameless": host(mounts=[{**FSX, "source": "fs-0d.example"}]),
            "bound": host(facts, mounts=[POSIX], storage_lustre_consumers=[]),
            "unbound": host(mounts=[POSIX]),
            "alone": host(),
        },
        *SKIP,
    )


def entry(made: Machine) -> list[str]:
    (line,) = [x for x in made.read("/etc/fstab").splitlines() if " lustre " in x]
    return line.split()


def test_c20_entry_waits_for_the_network_and_has_the_contracts_mount_name(
    first: Played, cloud: Machine
) -> None:
    assert "aws" not in first.failed, first.text
    source, path, kind, options, *numbers = entry(cloud)
    assert (source, path, kind, numbers) == (FSX["source"], "/fsx", "lustre", ["0", "0"])
    assert {"_netdev", "nofail", "flock", "x-systemd.automount"} <= set(options.split(","))
    assert cloud.read("/etc/fstab").startswith("# the system's own\n")


def test_c20_systemd_orders_the_mount_after_the_network_and_never_fails_the_boot(
    first: Played, cloud: Machine, tmp_path: Path
) -> None:
    made = cloud.fstab_units(tmp_path / "units")
    unit = (made / "fsx.mount").read_text()
    assert "Requires=network-online.target" in unit
    assert "After=network-online.target" in unit
    assert "Before=remote-fs.target" not in unit
    assert (made / "remote-fs.target.wants/fsx.automount").is_symlink()
    assert not (made / "remote-fs.target.requires").exists()


def test_c20_agent_waits_for_the_mount(first: Played, cloud: Machine, tmp_path: Path) -> None:
    folder = "/etc/systemd/system/gpufleet-agent@.service.d"
    assert "RequiresMountsFor=/fsx\n" in cloud.read(f"{folder}/20-gpufleet-mounts.conf")
    made = cloud.fstab_units(tmp_path / "units")
    cloud.verify("/etc/systemd/system/gpufleet-agent@0.service", generated=made)


def test_c20_agent_on_a_plain_folder_is_refused_in_words(first: Played, cloud: Machine) -> None:
    text = cloud.read("/etc/systemd/system/gpufleet-agent@.service.d/20-gpufleet-mounts.conf")
    (line,) = [x for x in text.splitlines() if x.startswith("ExecStartPre=+")]
    (cloud.root / "fsx").mkdir(exist_ok=True)
    done = cloud.run(*line.removeprefix("ExecStartPre=+").split(), check=False)
    assert done.returncode == 1
    assert "/fsx is not a mount point" in done.stderr
    assert cloud.run("/usr/local/lib/gpufleet/mounted", "/proc").stderr == ""


def test_c20_source_without_a_mount_name_is_refused(first: Played) -> None:
    assert "nameless" in first.failed
    assert "SERVER@NETWORK:/NAME is expected" in first.said("nameless")


def test_c20_shared_storage_of_others_has_to_be_a_mount_point(first: Played) -> None:
    assert not {"bound", "alone"} & first.failed, first.text
    assert "unbound" in first.failed
    assert "/fsx is not a mount point on unbound" in first.said("unbound")


def test_c20_stripes_are_set_once(first: Played, cloud: Machine) -> None:
    assert cloud.read("/srv/stripes") == "-1 4194304\n"
    again = cloud.play(["storage_lustre"], {"aws": host(mounts=[FSX])}, *SKIP)
    assert not again.failed, again.text
    assert "changed=0" in again.text, again.text
    assert cloud.read("/srv/stripes.log") == "x\n"
