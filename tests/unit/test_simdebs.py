"""Simulated packages and their repository, looked at by the tools that roles use on real ones."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet import stack
from gpufleet.simdebs import Built, build, plan
from gpufleet.simdebs.deb import File, Package
from gpufleet.simdebs.repository import SigningError
from gpufleet.stack import lockstep

SETS = [name for name in stack.names() if stack.get(name).simulated]


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fields(deb: Path) -> dict[str, str]:
    rows = re.findall(r"^(\S+): (.*)$", run("dpkg-deb", "-f", str(deb)), re.MULTILINE)
    return dict(rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("simdebs")
    return build(folder / "repository", folder / "secrets/key")


def debs(built: Built, name: str) -> list[Path]:
    return sorted((built.folder / "pool").glob(f"{name}_*.deb"))


def test_every_package_of_the_locks_is_there_at_its_exact_version(made: Built) -> None:
    there = {path.name for path in (made.folder / "pool").iterdir()}
    assert SETS
    for name in SETS:
        pinned = stack.get(name)
        whole = lockstep.complete(pinned)
        pins = {pin: whole.pins[pin] for pin in whole.simulated}
        wanted = lockstep.packages(stack.StackSet(name, "", pins))
        assert wanted
        files = {f"{x}_{version.split(':')[-1]}_all.deb" for x, version in wanted.items()}
        assert files <= there
        for x, version in wanted.items():
            assert version in [fields(path)["Version"] for path in debs(made, x)]
    assert made.packages == len(there)


def test_dpkg_reads_what_the_packages_say(made: Built) -> None:
    for path in (made.folder / "pool").iterdir():
        found = fields(path)
        version = found["Version"].split(":")[-1]  # an epoch does not stand in a file's name
        assert path.name == f"{found['Package']}_{version}_all.deb"
        assert found["Architecture"] == "all"
        # What is simulated says so, where people look.
        assert found["Description"].startswith("SIMULATED ")
        assert run("dpkg-deb", "--contents", str(path)).count(" root/root ") > 1


def test_versions_have_the_suffix_of_the_vendors_package(made: Built) -> None:
    """Driver and fabric manager are equal up to the suffix alone, which differs."""
    suffixes = {
        name: {fields(path)["Version"].split("-", 1)[1] for path in debs(made, name)}
        for name in ("nvidia-driver-580-open", "nvidia-fabricmanager-580", "libnvidia-compute-580")
    }
    assert suffixes == {
        "nvidia-driver-580-open": {"0ubuntu1"},
        "nvidia-fabricmanager-580": {"1"},
        "libnvidia-compute-580": {"0ubuntu1"},
    }


def test_the_parts_of_the_driver_depend_on_each_other_at_one_version(made: Built) -> None:
    drivers = debs(made, "nvidia-driver-580-open")
    assert len(drivers) >= 2
    for path in drivers:
        found = fields(path)
        depends = found["Depends"].split(", ")
        assert f"libnvidia-compute-580 (= {found['Version']})" in depends
        assert all(row.endswith(f" (= {found['Version']})") for row in depends)
        for row in depends:
            name = row.split()[0]
            assert (made.folder / f"pool/{name}_{found['Version']}_all.deb").exists(), name


def test_files_have_the_modes_of_what_they_are(made: Built) -> None:
    (path, *_) = debs(made, "nvidia-fabricmanager-580")
    rows = {row.split()[5]: row for row in run("dpkg-deb", "-c", str(path)).splitlines()}
    assert rows["./usr/bin/nv-fabricmanager"].startswith("-rwxr-xr-x")
    assert rows["./usr/lib/systemd/system/nvidia-fabricmanager.service"].startswith("-rw-r--r--")
    assert rows["./usr/bin/"].startswith("drwxr-xr-x")


def test_a_program_of_a_package_tells_the_version_of_the_pin(made: Built, tmp_path: Path) -> None:
    for path in debs(made, "nvidia-fabricmanager-580"):
        version = fields(path)["Version"].split("-")[0]
        run("dpkg-deb", "-x", str(path), str(tmp_path / version))
        text = (tmp_path / version / "usr/bin/nv-fabricmanager").read_text()
        assert f"version={version}\n" in text
        assert "@VERSION@" not in text


def test_the_same_input_gives_the_same_bytes() -> None:
    row = Package(
        "demo", "1:2.0-1", "demo", files={"usr/bin/x": File("y", 0o755), "a/l": File(link="../z")},
        scripts={"postinst": "#!/bin/sh\n"},
    )  # fmt: skip
    assert row.build() == row.build()
    assert row.file_name == "demo_2.0-1_all.deb"


def verify(built: Built, keyring: Path) -> subprocess.CompletedProcess[str]:
    release = built.folder / "dists/simulated/InRelease"
    return subprocess.run(
        ["gpgv", "--keyring", str(keyring), str(release)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def dearmored(built: Built, folder: Path) -> Path:
    place = folder / "ring.gpg"
    run("gpg", "--homedir", str(folder), "--yes", "-o", str(place), "--dearmor",
        str(built.folder / "key.asc"))  # fmt: skip
    return place


def test_its_signature_is_that_of_the_key_beside_it(made: Built, tmp_path: Path) -> None:
    ring = dearmored(made, tmp_path)
    assert verify(made, ring).returncode == 0
    listing = run("gpg", "--homedir", str(tmp_path), "--show-keys", "--with-colons",
                  str(made.folder / "key.asc"))  # fmt: skip
    assert f":{made.fingerprint}:" in listing
    forged = Built(tmp_path / "forged", made.fingerprint, made.packages, changed=False)
    shutil.copytree(made.folder, forged.folder)
    release = forged.folder / "dists/simulated/InRelease"
    release.write_text(release.read_text().replace("Label: SIMULATED", "Label: GENUINE"))
    assert "BAD signature" in verify(forged, ring).stderr


def test_the_release_file_has_the_digest_of_each_index_and_the_index_of_each_package(
    made: Built,
) -> None:
    dist = made.folder / "dists/simulated"
    rows = re.findall(r"^ ([0-9a-f]{64}) (\d+) (\S+)$", (dist / "Release").read_text(), re.M)
    assert {name for _, _, name in rows} == {
        "main/binary-all/Packages", "main/binary-amd64/Packages"
    }  # fmt: skip
    for digest, size, name in rows:
        assert run("sha256sum", str(dist / name)).split()[0] == digest
        assert (dist / name).stat().st_size == int(size)
    for stanza in (dist / "main/binary-all/Packages").read_text().strip().split("\n\n"):
        found = dict(re.findall(r"^(\S+): (.*)$", stanza, re.MULTILINE))
        path = made.folder / found["Filename"]
        assert run("sha256sum", str(path)).split()[0] == found["SHA256"]
        assert path.stat().st_size == int(found["Size"])


def test_the_secret_key_is_closed_and_kept(made: Built, tmp_path: Path) -> None:
    key = made.folder.parent / "secrets/key"
    assert key.stat().st_mode & 0o077 == 0
    assert "PRIVATE KEY" not in "".join(
        path.read_text() for path in made.folder.rglob("*") if path.suffix in (".asc", ".json")
    )
    before = key.read_text()
    other = build(tmp_path / "other", key, plan.packages()[:1])
    assert (other.fingerprint, key.read_text()) == (made.fingerprint, before)


def test_it_is_made_anew_only_when_its_contents_or_its_key_change(tmp_path: Path) -> None:
    folder, key = tmp_path / "repository", tmp_path / "key"
    rows = plan.packages()[:2]
    first = build(folder, key, rows)
    assert first.changed
    release = (folder / "dists/simulated/InRelease").read_text()
    again = build(folder, key, rows)
    assert (again.changed, again.fingerprint) == (False, first.fingerprint)
    assert (folder / "dists/simulated/InRelease").read_text() == release
    assert build(folder, key, rows[:1]).changed
    assert len(list((folder / "pool").iterdir())) == 1
    key.unlink()
    assert build(folder, key, rows[:1]).fingerprint != first.fingerprint
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_key_that_cannot_sign_leaves_the_old_repository(tmp_path: Path) -> None:
    folder, key = tmp_path / "repository", tmp_path / "key"
    rows = plan.packages()[:1]
    build(folder, key, rows)
    before = (folder / "dists/simulated/InRelease").read_text()
    key.write_text("no key\n")
    with pytest.raises(SigningError, match="--import failed"):
        build(folder, key, rows)
    assert (folder / "dists/simulated/InRelease").read_text() == before
