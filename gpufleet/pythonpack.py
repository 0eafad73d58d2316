"""A standalone Python as an archive for nodes whose system has another one.

`python -m gpufleet.pythonpack FOLDER VERSION` prints {archive, sha256, version} of a Python of that
version (3.12). It packs the interpreter that runs it where that one is of the version and has a
folder of its own; else it takes an archive that somebody put into the folder, with its SHA-256 in a
file beside it; else it has uv fetch a standalone build. Tests, caches and installed packages are
left out. The same interpreter gives the same bytes; an archive that is there is kept.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

LEFT_OUT = frozenset(
    {"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages"}
)
LEFT_OUT_ENDINGS = (".a", ".pyc", ".pyo")
KEPT = ("bin", "include", "lib")
# A distribution's prefixes: its interpreter shares them with everything else that is installed.
SHARED = frozenset({Path("/"), Path("/usr"), Path("/usr/local")})
ARCHIVE = re.compile(r"python-(\d+\.\d+\.\d+)-[0-9a-f]+\.tar\.gz")
FETCH_DEADLINE = 600.0
"""Seconds that fetching an interpreter may take."""
# Where an executable looks for its libraries, relative to itself: holds wherever it is unpacked.
RELATIVE = b"$ORIGIN/../lib"


class PackError(RuntimeError):
    """The interpreter cannot be made to run at another place; the text says why."""


def relocated(content: bytes, prefix: Path) -> bytes:
    """An executable that looks for its libraries beside itself instead of in the prefix.

    The path is overwritten where it stands, so the new one must not be longer.
    """
    built_for = str(prefix / "lib").encode() + b"\0"
    if not content.startswith(b"\x7fELF") or built_for not in content:
        return content
    if len(RELATIVE) >= len(built_for):
        raise PackError(f"{prefix} is too short a path to be replaced by {RELATIVE.decode()}")
    return content.replace(built_for, RELATIVE.ljust(len(built_for), b"\0"))


def wanted(path: Path) -> bool:
    """Whether a path, relative to the interpreter's folder, belongs into the archive."""
    if path.name.endswith(LEFT_OUT_ENDINGS) or LEFT_OUT & set(path.parts):
        return False
    # Scripts of the operator's own packages are no part of the interpreter.
    return path.parts[0] != "bin" or path.name.startswith("python")


def pack(prefix: Path, target: Path) -> None:
    """Write the archive of an interpreter's folder; appears whole, by a rename."""
    handle, name = tempfile.mkstemp(dir=target.parent)
    try:
        with (
            os.fdopen(handle, "wb") as raw,
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
            tarfile.open(fileobj=packed, mode="w|") as archive,
        ):
            for path in sorted(p for part in KEPT for p in (prefix / part).rglob("*")):
                relative = path.relative_to(prefix)
                if wanted(relative):
                    _add(archive, path, relative, prefix)
    except BaseException:
        Path(name).unlink()
        raise
    Path(name).rename(target)


def _add(archive: tarfile.TarFile, path: Path, relative: Path, prefix: Path) -> None:
    row = archive.gettarinfo(str(path), str(relative))
    row.mtime = row.uid = row.gid = 0
    row.uname = row.gname = "root"
    if row.isreg():
        archive.addfile(row, io.BytesIO(relocated(path.read_bytes(), prefix)))
    else:
        archive.addfile(row)


def packed(folder: Path, prefix: Path) -> dict[str, str]:
    """Archive of the interpreter of a prefix, made if it is not in the folder yet."""
    version = _version_of(prefix)
    binary = prefix / "bin" / f"python{version.rpartition('.')[0]}"
    stat = binary.stat()
    identity = (
        f"{prefix}\n{version}\n{stat.st_size}\n{stat.st_mtime_ns}\n{Path(__file__).read_text()}"
    )
    name = f"python-{version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.tar.gz"
    target = folder / name
    if not (target.exists() and _digest_file(target).exists()):
        folder.mkdir(parents=True, exist_ok=True)
        pack(prefix, target)
        with target.open("rb") as stream:
            _digest_file(target).write_text(hashlib.file_digest(stream, "sha256").hexdigest())
    return _row(target, version)


def _version_of(prefix: Path) -> str:
    """Whole version of the interpreter in a prefix, such as 3.12.7."""
    code = "import platform; print(platform.python_version())"
    done = subprocess.run(
        [str(prefix / "bin/python3"), "-I", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise PackError(f"{prefix}/bin/python3 does not run: {done.stderr.strip()}")
    return done.stdout.strip()


def _digest_file(archive: Path) -> Path:
    return archive.with_suffix(".sha256")


def _row(archive: Path, version: str) -> dict[str, str]:
    digest = _digest_file(archive).read_text().split()[0]
    return {"archive": str(archive), "sha256": digest, "version": version}


def brought(folder: Path, version: str) -> dict[str, str] | None:
    """The newest archive of a version that lies in the folder with its checksum."""
    found = [
        (tuple(map(int, match.group(1).split("."))), path, match.group(1))
        for path in folder.glob("python-*.tar.gz")
        if (match := ARCHIVE.fullmatch(path.name)) and match.group(1).startswith(f"{version}.")
        if _digest_file(path).exists()
    ]
    return _row(*max(found)[1:]) if found else None


def fetched(folder: Path, version: str) -> Path:
    """Prefix of a standalone build that uv puts below the folder, by checksums that uv knows."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if uv is None:
        raise PackError("uv is not installed")
    place = folder / "fetched"
    _uv_python(uv, place, "install", "--no-bin", version)
    found = _uv_python(
        uv, place, "find", "--managed-python", "--no-python-downloads", "--no-project", version
    )
    return Path(found).resolve().parent.parent


def _uv_python(uv: str, place: Path, *words: str) -> str:
    """What `uv python` printed, with a folder of its own for interpreters."""
    try:
        done = subprocess.run(
            [uv, "python", *words],
            env={**os.environ, "UV_PYTHON_INSTALL_DIR": str(place)},
            capture_output=True,
            text=True,
            timeout=FETCH_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PackError(f"uv did not fetch it within {FETCH_DEADLINE:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise PackError(f"uv could not fetch one ({said[-1].strip()})")
    return done.stdout.strip()


def archive(folder: Path, version: str) -> dict[str, str]:
    """An archive of a Python of a version; raises PackError with what can be done about it."""
    own = Path(sys.base_prefix)
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running == version and own not in SHARED:
        return packed(folder, own)
    found = brought(folder, version)
    if found is not None:
        return found
    try:
        return packed(folder, fetched(folder, version))
    except PackError as error:
        raise PackError(
            f"nodes get a Python {version} of their own, and there is none to give them: gpufleet"
            f" runs by Python {running} in {own}, and {error}. Put an archive"
            f" python-{version}.N-HASH.tar.gz of a standalone build, with its SHA-256 in a file"
            f" .tar.sha256 beside it, into {folder}; or set python_archive and"
            " python_archive_sha256; or let gpufleet run by a Python of uv or pyenv"
        ) from None


def main(words: list[str]) -> int:
    """Print the archive as JSON, or what keeps us from it."""
    try:
        found = archive(Path(words[0]), words[1])
    except PackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
