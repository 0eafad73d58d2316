"""Units whose restart limits stand where systemd does not look for them."""

import configparser
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodebox import NodeBox
from rolefleet import STEPS, RoleFleet
from rolerun import templates

UNITS = "/etc/systemd/system"
KINDS = {".service", ".timer", ".slice", ".conf"}
# Units of packages, and of the runtime, that drop-ins belong to; they are not installed here.
BASE = "[Unit]\nDescription=Unit of a package\n[Service]\nExecStart=/bin/true\n"


def rendered(laid: RoleFleet) -> dict[str, str]:
    """Text of each unit file and drop-in that roles lay, by its place below the unit folder."""
    folder = laid.box.root / UNITS[1:]
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix in KINDS
        and "gpufleet" in path.name
    }  # fmt: skip


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


@pytest.fixture
def verifier(laid: RoleFleet, tmp_path: Path) -> Iterator[tuple[NodeBox, dict[str, str]]]:
    """A node with these units, those of packages beside them, and the programs they start."""
    units = rendered(laid)
    with NodeBox(tmp_path / "verifier") as box:
        folder = box.root / UNITS[1:]
        shutil.rmtree(folder)
        for name, text in units.items():
            box.write(f"{UNITS}/{name}", text)
            if ".d/" in name and name.split(".d/")[0] not in units:
                box.write(f"/usr/lib/systemd/system/{name.split('.d/')[0]}", BASE)
            for option in ("ExecStartPre", "ExecStart"):
                if ".service" in name and parsed(text).has_option("Service", option):
                    program = parsed(text)["Service"][option].split()[0].lstrip("+-")
                    box.write(program, "#!/bin/sh\n", 0o755)
        box.account("gpufleet", 833)
        yield box, units


def verify(box: NodeBox, name: str) -> str:
    done = box.run("systemd-analyze", "--man=no", "verify", f"{UNITS}/{name}")
    return done.stdout + done.stderr


def test_c58_every_template_of_a_unit_was_rendered(laid: RoleFleet) -> None:
    """What follows means something for all units, now and later."""
    texts = rendered(laid)
    sources = [
        path for path in templates()
        if path.parent.parent.name in {role for role, _ in STEPS}
        and ("[Unit]" in path.read_text() or "[Service]" in path.read_text())
    ]  # fmt: skip
    assert len(sources) >= 10
    assert len(texts) == len(sources), (sorted(texts), sorted(x.name for x in sources))


def test_c58_systemd_finds_nothing_to_say(verifier: tuple[NodeBox, dict[str, str]]) -> None:
    box, units = verifier
    names = {name.split(".d/")[0] if ".d/" in name else name for name in units}
    names.discard("systemd-journald.service")
    assert {"slurmd.service", "gpufleet-ray.service", "gpufleet-gpu-metrics.timer"} <= names
    said = {
        name: verify(box, name)
        if (box.root / f"{UNITS[1:]}/{name}").exists()
        else box.run("systemd-analyze", "--man=no", "verify", name).stderr
        for name in sorted(names)
    }
    assert {name: text for name, text in said.items() if text} == {}


def test_c58_a_limit_in_the_wrong_section_would_be_found(
    verifier: tuple[NodeBox, dict[str, str]],
) -> None:
    box, units = verifier
    text = units["gpufleet-ray.service"].replace("StartLimitIntervalSec=600\n", "")
    box.write(f"{UNITS}/gpufleet-ray.service", text.replace(
        "[Service]\n", "[Service]\nStartLimitIntervalSec=600\n"))  # fmt: skip
    assert "StartLimitIntervalSec" in verify(box, "gpufleet-ray.service")


def test_c58_what_is_restarted_has_a_limit_in_its_unit_section(laid: RoleFleet) -> None:
    """A limit of ours, where the packages' may be 5 starts in 10 s: planned restarts reach that."""
    without = []
    for name, text in rendered(laid).items():
        unit = parsed(text)
        for section in unit.sections():
            if section != "Unit":
                assert not [key for key in unit[section] if key.startswith("StartLimit")], name
        if unit.has_option("Service", "Restart"):
            if not unit.has_option("Unit", "StartLimitIntervalSec"):
                without.append(name)
                continue
            interval = int(unit["Unit"]["StartLimitIntervalSec"])
            burst = int(unit["Unit"]["StartLimitBurst"])
            pause = int(unit["Service"]["RestartSec"])
            assert interval > 0, name
            # It can be reached, so a service that never comes up ends as failed.
            assert burst * pause < interval, name
    assert without == []


def test_c58_no_template_of_any_role_has_a_limit_outside_its_unit_section() -> None:
    for path in templates():
        for part in re.split(r"^\[", path.read_text(), flags=re.MULTILINE)[1:]:
            if not part.startswith("Unit]"):
                assert "StartLimit" not in part, path
