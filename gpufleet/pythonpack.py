"""The operator's own Python as an archive for nodes whose system has another one.

`python -m gpufleet.pythonpack FOLDER` packs the interpreter that runs it, without its tests, caches
and installed packages, and prints {archive, sha256, version}. The same interpreter gives the same
bytes; an archive that is there is kept.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import tempfile
from pathlib import Path

LEFT_OUT = frozenset(
    {"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages"}
)
LEFT_OUT_ENDINGS = (".a", ".pyc", ".pyo")
KEPT = ("bin", "include", "lib")
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


def packed(folder: Path, prefix: Path | None = None) -> dict[str, str]:
    """Archive of an interpreter, made if it is not in the folder yet."""
    home = prefix or Path(sys.base_prefix)
    version = platform.python_version()
    folder.mkdir(parents=True, exist_ok=True)
    stat = (home / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}").stat()
    identity = (
        f"{home}\n{version}\n{stat.st_size}\n{stat.st_mtime_ns}\n{Path(__file__).read_text()}"
    )
    target = (
        folder / f"python-{version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.tar.gz"
    )
    digest = target.with_suffix(".sha256")
    if not (target.exists() and digest.exists()):
        pack(home, target)
        with target.open("rb") as stream:
            digest.write_text(hashlib.file_digest(stream, "sha256").hexdigest())
    return {"archive": str(target), "sha256": digest.read_text(), "version": version}


if __name__ == "__main__":
    print(json.dumps(packed(Path(sys.argv[1]))))  # noqa: T201
