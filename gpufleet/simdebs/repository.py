"""A signed repository of simulated packages in a folder, made anew when its contents change."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from gpufleet.atomic import write_atomic

from . import plan
from .deb import Package, stanza

SUITE = "simulated"
COMPONENT = "main"
KEY_NAME = "gpufleet simulated packages"
KEY_FILE = "key.asc"


@dataclass(frozen=True)
class Built:
    """A repository: its folder, its key's fingerprint, and whether this call changed it."""

    folder: Path
    fingerprint: str
    packages: int
    changed: bool


class SigningError(RuntimeError):
    """gpg could not do it; the text has what it said."""


def build(folder: Path, key: Path, packages: list[Package] | None = None) -> Built:
    """Make the repository in `folder`, signed with the secret key in the file `key`.

    The key is made when the file is not there; its file is readable by the owner alone. Takes well
    under a second. Raises SigningError where gpg fails.
    """
    rows = plan.packages() if packages is None else packages
    pool = {package.file_name: (package, package.build()) for package in rows}
    digest = hashlib.sha256()
    for name, (_, content) in sorted(pool.items()):
        digest.update(f"{name}\0".encode() + content)
    wanted = {"pool": digest.hexdigest(), "key": _key_digest(key)}
    marker = folder / "built.json"
    if marker.exists():
        found = json.loads(marker.read_text())
        if {name: found[name] for name in wanted} == wanted:
            return Built(folder, found["fingerprint"], len(pool), changed=False)
    fingerprint = _make(folder, key, pool)
    wanted = {**wanted, "key": _key_digest(key), "fingerprint": fingerprint}
    write_atomic(marker, json.dumps(wanted) + "\n", 0o644)
    return Built(folder, fingerprint, len(pool), changed=True)


def _make(folder: Path, key: Path, pool: dict[str, tuple[Package, bytes]]) -> str:
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".simdebs.", dir=parent) as scratch:
        new = Path(scratch) / "new"
        binary = new / "dists" / SUITE / COMPONENT / "binary-all"
        amd64 = binary.with_name("binary-amd64")
        for made in (new / "pool", binary, amd64):
            made.mkdir(parents=True)
        index = ""
        for name, (package, content) in sorted(pool.items()):
            (new / "pool" / name).write_bytes(content)
            index += stanza(package, content, f"pool/{name}") + "\n"
        for place in (binary, amd64):
            (place / "Packages").write_text(index)
        release = _release(new / "dists" / SUITE)
        (new / "dists" / SUITE / "Release").write_text(release)
        with _keyring(key) as home:
            _gpg(home, "--clearsign", "--output", str(new / "dists" / SUITE / "InRelease"),
                 str(new / "dists" / SUITE / "Release"))  # fmt: skip
            (new / KEY_FILE).write_text(_gpg(home, "--armor", "--export"))
            fingerprint = _fingerprint(_gpg(home, "--list-keys", "--with-colons"))
        for path in [new, *new.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    return fingerprint


def _release(dist: Path) -> str:
    rows = [
        "Origin: gpufleet simulated packages",
        "Label: SIMULATED",
        f"Suite: {SUITE}",
        f"Codename: {SUITE}",
        f"Date: {formatdate(usegmt=True)}",
        "Architectures: all amd64",
        f"Components: {COMPONENT}",
        "Description: SIMULATED packages; names and versions without contents",
        "SHA256:",
    ]
    for path in sorted(dist.rglob("Packages")):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        rows.append(f" {digest} {len(content)} {path.relative_to(dist)}")
    return "\n".join(rows) + "\n"


def _key_digest(key: Path) -> str:
    return hashlib.sha256(key.read_bytes()).hexdigest() if key.exists() else ""


@contextmanager
def _keyring(key: Path) -> Iterator[Path]:
    """A keyring for one use with the key in it; its agent ends with it."""
    # A short path: gpg's agent listens on a socket in it.
    with tempfile.TemporaryDirectory(prefix="gpufleet.") as folder:
        home = Path(folder)
        try:
            if key.exists():
                _gpg(home, "--import", str(key))
            else:
                _gpg(home, "--quick-generate-key", KEY_NAME, "ed25519", "sign", "never")
                key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomic(key, _gpg(home, "--armor", "--export-secret-keys"), 0o600)
            yield home
        finally:
            subprocess.run(
                ["gpgconf", "--homedir", str(home), "--kill", "all"],
                capture_output=True, timeout=30, check=False,
            )  # fmt: skip


def _gpg(home: Path, *arguments: str) -> str:
    command = ["gpg", "--homedir", str(home), "--batch", "--yes", "--passphrase", "",
               "--pinentry-mode", "loopback", *arguments]  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SigningError("gpg is not installed; run setup/bootstrap") from error
    if done.returncode != 0:
        raise SigningError(f"gpg {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _fingerprint(listing: str) -> str:
    rows = (row.split(":") for row in listing.splitlines())
    return next(row[9] for row in rows if row[0] == "fpr")
