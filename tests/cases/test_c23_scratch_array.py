"""Field case: the array of instance-store disks is gone after a stop and start.

Disks are loop devices, blkid, wipefs and mkfs.ext4 are real. mdadm is a stub, as the kernel here
has no RAID: it writes real superblocks, and lets one more loop device stand for the array.
"""

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from machine import Machine, Played, host, machine

MDADM = '''#!/usr/bin/python3
"""STUB of mdadm: superblocks of format 1.2 are real, the array is the device /dev/array."""
import os, struct, sys, uuid

words, log = sys.argv[1:], open("/run/mdadm.log", "a")
log.write(" ".join(words) + "\\n")
MAGIC, AT, STATE = 0xA92B4EFC, 4096, "/run/array"
devices = [x for x in words if x.startswith("/dev/loop")]
named = [x for x in words if x.startswith("/dev/md/")]

def checksum(block):
    total = sum(struct.unpack("<64I", block[:216] + b"\\0\\0\\0\\0" + block[220:]))
    return (total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF

def superblock(path):
    with open(path, "rb") as stream:
        stream.seek(AT)
        block = stream.read(256)
    return block if struct.unpack("<I", block[:4])[0] == MAGIC else None

def form(raw):
    text = raw.hex()
    return ":".join(text[x:x + 8] for x in (0, 8, 16, 24))

def start(array, member):
    os.makedirs("/dev/md", exist_ok=True)
    if not os.path.lexists(array):
        os.symlink("/dev/array", array)
    with open(STATE, "w") as stream:
        stream.write(f"ARRAY {array} metadata=1.2 UUID={form(superblock(member)[16:32])}\\n")

if "--examine" in words:
    block = superblock(words[-1])
    if block is None:
        sys.exit(1)
    print(f"MD_LEVEL=raid0\\nMD_DEVICES={struct.unpack('<I', block[92:96])[0]}")
    print(f"MD_NAME={block[32:64].rstrip(bytes(1)).decode()}\\nMD_UUID={form(block[16:32])}")
elif "--detail" in words:
    if os.path.exists(STATE):
        print(open(STATE).read(), end="")
elif "--assemble" in words:
    assert not os.path.exists(STATE), "device busy"
    start(named[0], devices[0])
elif "--zero-superblock" in words:
    with open(devices[0], "r+b") as stream:
        stream.seek(AT)
        stream.write(bytes(256))
elif "--create" in words:
    assert not os.path.exists(STATE), "device busy"
    identity = uuid.uuid4().bytes
    for number, path in enumerate(devices):
        block = bytearray(256)
        block[:8] = struct.pack("<II", MAGIC, 1)
        block[16:32] = identity
        block[32:64] = ("any:" + named[0].rsplit("/", 1)[1]).encode().ljust(32, bytes(1))
        block[92:96] = struct.pack("<I", len(devices))
        block[144:152] = struct.pack("<Q", AT >> 9)
        block[216:220] = struct.pack("<I", checksum(bytes(block)))
        with open(path, "r+b") as stream:
            stream.seek(AT)
            stream.write(block)
    # Blank disks make a blank array.
    with open("/dev/array", "r+b") as stream:
        stream.write(bytes(1 << 20))
    start(named[0], devices[0])
else:
    sys.exit(f"stub mdadm: {words}")
'''
SCRATCH = [{"path": "/opt/scratch", "size_gb": 7600}]
EBS = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol*"
BY_ID = "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"
TOOL = "/usr/local/lib/gpufleet/scratch"


@dataclass
class Disks:
    """A machine and its loop devices: an EBS volume, two disks, and the array's stand-in."""

    machine: Machine
    loops: list[str]

    def boot(self, check: bool = True) -> subprocess.CompletedProcess[str]:
        """What happens at boot: nothing is assembled, and the unit's script runs."""
        (self.machine.root / "run/array").unlink(missing_ok=True)
        return self.machine.run(TOOL, check=check)

    def blank(self, *loops: str) -> None:
        """Other disks in place of these, as after a stop and start."""
        for loop in loops:
            with open(loop, "r+b") as stream:
                stream.write(bytes(2 << 20))

    def label(self) -> str:
        return self.machine.run(
            "blkid", "-p", "-o", "value", "-s", "LABEL", "/dev/array"
        ).stdout.strip()

    def commands(self) -> list[str]:
        path = self.machine.root / "run/mdadm.log"
        rows = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [x.split()[0] for x in rows if x.startswith(("--create", "--assemble"))]


def attach(path: Path) -> str:
    with path.open("wb") as stream:
        stream.truncate(24 << 20)
    return subprocess.run(
        ["losetup", "-f", "--show", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    folder = tmp_path_factory.mktemp("c23")
    loops: list[str] = []
    with machine(folder) as found:
        try:
            for name in ("ebs", "one", "two", "array"):
                loops.append(attach(folder / name))
            ids = found.root / "dev/disk/by-id"
            ids.mkdir(parents=True)
            for loop in loops:
                number = Path(loop).stat().st_rdev
                path = (
                    found.root / loop.lstrip("/") if loop != loops[3] else found.root / "dev/array"
                )
                os.mknod(path, 0o600 | stat.S_IFBLK, number)
            (ids / "nvme-Amazon_Elastic_Block_Store_vol0").symlink_to(loops[0])
            for serial, loop in (("0A", loops[1]), ("0A_1", loops[1]), ("0B", loops[2])):
                (found.root / f"{BY_ID}{serial}".lstrip("/")).symlink_to(loop)
            (found.root / f"{BY_ID}0A-part1".lstrip("/")).symlink_to(loops[0])
            found.program("/usr/sbin/mdadm", MDADM)
            found.write("/etc/systemd/system/docker.service",
                        "[Unit]\nDescription=docker\n[Service]\nExecStart=/bin/true\n")  # fmt: skip
            yield Disks(found, loops)
        finally:
            for loop in loops:
                subprocess.run(["losetup", "-d", loop], check=False, timeout=20)


@pytest.fixture(scope="module")
def played(made: Disks) -> Played:
    there = {"instance_store": [f"{BY_ID}0A", f"{BY_ID}0B"]}
    ext4 = {"storage_scratch_filesystem": "ext4"}
    return made.machine.play(
        ["storage_scratch"],
        {
            "ebs": host(there, scratch=SCRATCH, storage_scratch_disks=[EBS]),
            "ordered": host(there, scratch=SCRATCH, storage_scratch_disks=["/dev/nvme1n1"]),
            "promised": host(scratch=SCRATCH),
            "rooted": host(there, scratch=[{"path": "/opt/scratch", "size_gb": None}]),
            "inside": host({"container": "nspawn"}, scratch=SCRATCH),
            "fast": host(there, scratch=SCRATCH, **ext4),
        },
        "--skip-tags", "install,verify",
    )  # fmt: skip


@pytest.fixture
def disks(played: Played, made: Disks) -> Disks:
    made.blank(*made.loops)
    (made.machine.root / "run/array").unlink(missing_ok=True)
    made.commands()
    return made


def test_c23_array_is_made_once_and_assembled_ever_after(disks: Disks) -> None:
    assert "making the array anew of 2 disks" in disks.boot().stdout
    assert (disks.commands(), disks.label()) == (["--create"], "gpufleet-scr")
    before = Path(disks.loops[3]).read_bytes()
    disks.machine.run(TOOL)
    assert disks.commands() == []
    disks.boot()
    assert disks.commands() == ["--assemble"]
    assert Path(disks.loops[3]).read_bytes() == before


def test_c23_blank_disks_after_a_stop_and_start_get_a_new_array(disks: Disks) -> None:
    disks.boot()
    disks.blank(*disks.loops[1:])
    disks.boot()
    assert (disks.commands(), disks.label()) == (["--create", "--create"], "gpufleet-scr")


def test_c23_one_new_disk_is_the_end_of_a_raid_0_and_it_is_made_anew(disks: Disks) -> None:
    disks.boot()
    disks.blank(disks.loops[2])
    assert "anew of 2 disks" in disks.boot().stdout
    assert disks.label() == "gpufleet-scr"


def test_c23_disk_that_is_late_does_not_cost_the_data(disks: Disks) -> None:
    disks.boot()
    late = disks.machine.root / f"{BY_ID}0B".lstrip("/")
    target = late.readlink()
    late.unlink()
    done = disks.boot(check=False)
    late.symlink_to(target)
    assert done.returncode == 1
    assert "one of 2 disks of the array, 1 are here" in done.stderr
    disks.boot()
    assert disks.commands() == ["--create", "--assemble"]


@pytest.mark.parametrize("kind", ["filesystem", "partitions"])
def test_c23_foreign_disk_is_refused_and_stays_as_it_is(disks: Disks, kind: str) -> None:
    if kind == "filesystem":
        subprocess.run(["mkfs.ext4", "-q", "-F", disks.loops[2]], check=True, timeout=60)
    else:
        with open(disks.loops[2], "r+b") as stream:
            entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little")
            stream.seek(446)
            stream.write((entry + (4096).to_bytes(4, "little")).ljust(64, b"\0") + b"\x55\xaa")
    before = Path(disks.loops[2]).read_bytes()
    done = disks.boot(check=False)
    assert done.returncode == 1
    assert "may not be wiped (storage_scratch_wipe)" in done.stderr
    assert disks.commands() == []
    assert Path(disks.loops[2]).read_bytes() == before
    text = disks.machine.read(TOOL)
    disks.machine.program("/srv/wiping", text.replace("wipe=false", "wipe=true"))
    assert f"from {disks.loops[2]}" in disks.machine.run("/srv/wiping").stdout
    assert disks.commands() == ["--create"]


def test_c23_root_volume_is_never_touched(disks: Disks) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-F", disks.loops[0]], check=True, timeout=60)
    before = Path(disks.loops[0]).read_bytes()
    disks.boot()
    assert Path(disks.loops[0]).read_bytes() == before


def test_c23_without_a_disk_the_unit_fails(disks: Disks) -> None:
    disks.machine.program(
        "/srv/none", disks.machine.read(TOOL).replace("Storage_AWS*", "Storage_GONE*")
    )
    done = disks.machine.run("/srv/none", check=False)
    assert done.returncode == 1
    assert "no disk is named" in done.stderr


def test_c23_units_are_sound_and_in_order(played: Played, made: Disks, tmp_path: Path) -> None:
    assert "fast" not in played.failed, played.text
    units = made.machine.fstab_units(tmp_path / "units")
    mount = (units / "opt-scratch.mount").read_text()
    assert "What=/dev/disk/by-label/gpufleet" in mount
    assert "Requires=gpufleet-scratch.service" in mount
    assert "After=gpufleet-scratch.service" in mount
    assert "Before=local-fs.target" not in mount
    assert (units / "local-fs.target.wants/opt-scratch.mount").is_symlink()
    made.machine.verify(
        "/etc/systemd/system/gpufleet-scratch.service", "/etc/systemd/system/docker.service",
        generated=units,
    )  # fmt: skip


def test_c23_docker_never_starts_on_the_bare_folder(played: Played, made: Disks) -> None:
    rows = made.machine.read(
        "/etc/systemd/system/docker.service.d/20-gpufleet-scratch.conf"
    ).splitlines()
    assert {"RequiresMountsFor=/opt/scratch", "AssertPathIsMountPoint=/opt/scratch"} <= set(rows)


def test_c23_names_that_may_be_the_root_disk_are_refused(played: Played) -> None:
    assert played.failed == {"ebs", "ordered", "promised"}
    for name in ("ebs", "ordered"):
        assert "without EBS volumes" in played.said(name)
    assert "has no instance-store disk" in played.said("promised")


def test_c23_scratch_on_the_root_disk_and_containers_need_nothing(played: Played) -> None:
    for name in ("rooted", "inside"):
        (row,) = [x for x in played.text.split("PLAY RECAP")[1].splitlines() if x.startswith(name)]
        assert "changed=0" in row
