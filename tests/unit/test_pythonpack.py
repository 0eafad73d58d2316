"""The operator's Python as an archive that runs wherever it is unpacked."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet import pythonpack
from gpufleet.pythonpack import PackError, archive, main, pack, packed, relocated

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Stands for an interpreter: it tells its version.
TELLS = "#!/bin/sh\necho 3.12.9\n"
# Stands for uv: lays such an interpreter where it is told to, and finds it there.
UV = """#!/bin/sh
# STUB of uv
at=$UV_PYTHON_INSTALL_DIR/cpython-3.12.9/bin
case "$2" in
install) mkdir -p "$at" && cp "$TELLS" "$at/python3.12" && ln -sf python3.12 "$at/python3" ;;
find) echo "$at/python3.12" ;;
esac
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An interpreter's folder in small: one of each kind of file."""
    home = tmp_path / "a-prefix-that-is-long-enough"
    files = {
        "bin/python3": b"#!/bin/sh\necho %s.9\n" % VERSION.encode(),
        f"bin/python{VERSION}": b"\x7fELF" + str(home / "lib").encode() + b"\0rest",
        "bin/pip": b"of the operator's packages",
        "include/Python.h": b"x",
        f"lib/python{VERSION}/os.py": b"x",
        f"lib/python{VERSION}/test/test_os.py": b"x",
        f"lib/python{VERSION}/__pycache__/os.pyc": b"x",
        f"lib/python{VERSION}/site-packages/secret.py": b"x",
        f"lib/python{VERSION}/json/tests/t.py": b"x",
        f"lib/libpython{VERSION}.a": b"x",
        "share/man/python.1": b"x",
    }
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if "bin/" in name else 0o644)
    (home / "bin/python").symlink_to(f"python{VERSION}")
    return home


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as stream:
        return {row.name for row in stream if not row.isdir()}


def test_the_interpreter_and_nothing_of_the_operators(prefix: Path, tmp_path: Path) -> None:
    pack(prefix, tmp_path / "out.tar.gz")
    assert names(tmp_path / "out.tar.gz") == {
        "bin/python", "bin/python3", f"bin/python{VERSION}", "include/Python.h",
        f"lib/python{VERSION}/os.py",
    }  # fmt: skip
    with tarfile.open(tmp_path / "out.tar.gz") as stream:
        rows = {row.name: row for row in stream}
    assert {row.uid for row in rows.values()} == {row.mtime for row in rows.values()} == {0}
    assert rows["bin/python"].linkname == f"python{VERSION}"
    assert rows[f"bin/python{VERSION}"].mode == 0o755


def test_the_same_interpreter_gives_the_same_bytes(prefix: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for target in (first, second):
        for path in prefix.rglob("*"):
            os.utime(path, ns=(hash(target) & 0xFFFF,) * 2, follow_symlinks=False)
        pack(prefix, target)
    assert first.read_bytes() == second.read_bytes()


def test_it_looks_for_its_libraries_beside_itself() -> None:
    prefix = Path("/srv/python/3.12")
    old = b"\x7fELF--/srv/python/3.12/lib\0--more"
    new = relocated(old, prefix)
    assert (len(new), b"/srv/python" in new) == (len(old), False)
    assert b"--$ORIGIN/../lib\0" in new
    assert new.endswith(b"\0--more")
    # A script or a library that does not name the folder is as it was.
    for other in (b"#!/srv/python/3.12/lib\0", b"\x7fELF-nothing"):
        assert relocated(other, prefix) == other


def test_a_path_that_is_too_short_to_be_replaced_is_an_error() -> None:
    with pytest.raises(PackError, match="/usr is too short"):
        relocated(b"\x7fELF/usr/lib\0", Path("/usr"))


def test_an_archive_is_kept_until_its_interpreter_changes(prefix: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    first = packed(folder, prefix)
    made = Path(first["archive"])
    assert hashlib.sha256(made.read_bytes()).hexdigest() == first["sha256"]
    assert first["version"] == f"{VERSION}.9"
    before = made.stat().st_mtime_ns
    assert packed(folder, prefix) == first
    assert made.stat().st_mtime_ns == before
    (prefix / f"bin/python{VERSION}").write_bytes(b"\x7fELF another build")
    assert packed(folder, prefix)["archive"] != first["archive"]


def test_one_that_was_cut_off_is_made_again(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packed"

    def cut(_: Path, target: Path) -> None:
        raise KeyboardInterrupt

    real: Callable[[Path, Path], None] = pythonpack.pack
    monkeypatch.setattr(pythonpack, "pack", cut)
    with pytest.raises(KeyboardInterrupt):
        packed(folder, prefix)
    assert list(folder.glob("*.tar.gz")) == []
    monkeypatch.setattr(pythonpack, "pack", real)
    made = packed(folder, prefix)
    # An archive without its checksum is one whose writer was killed.
    Path(made["archive"]).with_suffix(".sha256").unlink()
    assert packed(folder, prefix) == made


def test_a_pack_that_fails_leaves_nothing_behind(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packed"
    monkeypatch.setattr(pythonpack, "RELATIVE", b"$ORIGIN/../lib" * 99)
    with pytest.raises(PackError, match="is too short a path"):
        packed(folder, prefix)
    assert list(folder.iterdir()) == []


def test_the_archive_of_this_interpreter_runs_elsewhere(tmp_path: Path) -> None:
    """The real one, with its extension modules and its standard library."""
    made = packed(tmp_path / "packed", Path(sys.base_prefix))
    with tarfile.open(made["archive"]) as stream:
        stream.extractall(tmp_path / "elsewhere", filter="tar")
    done = subprocess.run(
        [str(tmp_path / f"elsewhere/bin/python{VERSION}"), "-IS", "-c",
         "import ssl, ctypes, sqlite3, json, sys; print(sys.prefix)"],
        env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "elsewhere")), done.stderr


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """gpufleet runs by a distribution's Python; no uv is there. Gives a folder for archives."""
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "tells").write_text(TELLS)
    (tmp_path / "tells").chmod(0o755)
    monkeypatch.setenv("TELLS", str(tmp_path / "tells"))
    return tmp_path / "archives"


def stub_uv(tmp_path: Path, text: str = UV) -> None:
    (tmp_path / "bin/uv").write_text(text)
    (tmp_path / "bin/uv").chmod(0o755)


def test_the_operators_own_is_packed_where_it_has_a_folder_of_its_own(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    found = archive(tmp_path / "archives", VERSION)
    assert "bin/python3" in names(Path(found["archive"]))


def test_a_distributions_own_is_never_packed(shared: Path) -> None:
    with pytest.raises(PackError) as failure:
        archive(shared, VERSION)
    text = str(failure.value)
    assert f"by Python {VERSION} in /usr, and uv is not installed" in text
    assert f"into {shared}; or set python_archive" in text
    assert not shared.exists()


def test_an_archive_that_was_brought_is_taken(shared: Path, tmp_path: Path) -> None:
    stub_uv(tmp_path, "#!/bin/sh\nexit 1\n")
    shared.mkdir()
    for name, digest in (
        ("python-3.12.9-00aa.tar.gz", "9" * 64),
        ("python-3.12.10-00bb.tar.gz", "a" * 64),
        ("python-3.12.11-00cc.tar.gz", None),
        ("python-3.13.1-00dd.tar.gz", "d" * 64),
    ):
        (shared / name).write_bytes(b"x")
        if digest:
            (shared / name).with_suffix(".sha256").write_text(f"{digest}  {name}\n")
    # Versions are numbers, and one without its checksum is not whole.
    assert archive(shared, "3.12") == {
        "archive": str(shared / "python-3.12.10-00bb.tar.gz"), "sha256": "a" * 64,
        "version": "3.12.10",
    }  # fmt: skip


def test_uv_fetches_one_where_there_is_none(shared: Path, tmp_path: Path) -> None:
    stub_uv(tmp_path)
    found = archive(shared, "3.12")
    assert found["version"] == "3.12.9"
    assert names(Path(found["archive"])) == {"bin/python3", "bin/python3.12"}


def test_what_uv_says_is_passed_on(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub_uv(tmp_path, "#!/bin/sh\necho 'error: no route' >&2\nexit 2\n")
    assert main([str(shared), "3.12"]) == 1
    said = capsys.readouterr()
    assert "uv could not fetch one (error: no route)" in said.err
    assert said.out == ""


def test_what_is_found_is_printed_as_json(
    prefix: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    assert main([str(tmp_path / "archives"), VERSION]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"archive", "sha256", "version"}
