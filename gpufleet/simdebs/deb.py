"""Debian packages written without tools: the same input gives the same bytes."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

MAINTAINER = "gpufleet simulation <simulation@gpufleet.invalid>"


@dataclass(frozen=True)
class File:
    """A file of a package; `link` makes it a symbolic link instead."""

    content: str = ""
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True)
class Package:
    """A binary package of architecture `all`: fields of its control file and its files by path."""

    name: str
    version: str
    summary: str
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    section: str = "non-free/utils"
    files: Mapping[str, File] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name of the package file; an epoch does not stand in it."""
        return f"{self.name}_{self.version.split(':', 1)[-1]}_all.deb"

    def control(self) -> str:
        """Text of the control file."""
        rows = [
            f"Package: {self.name}",
            f"Version: {self.version}",
            "Architecture: all",
            f"Maintainer: {MAINTAINER}",
            f"Section: {self.section}",
            "Priority: optional",
        ]
        for key, values in (
            ("Depends", self.depends),
            ("Conflicts", self.conflicts),
            ("Provides", self.provides),
        ):
            if values:
                rows.append(f"{key}: {', '.join(values)}")
        rows += [
            f"Description: SIMULATED {self.summary}",
            " Name, version and dependencies of the vendor's package and none of its contents,",
            " made by gpufleet for nodes whose GPUs are simulated.",
        ]
        return "\n".join(rows) + "\n"

    def build(self) -> bytes:
        """The package file."""
        scripts = {name: File(text, 0o755) for name, text in self.scripts.items()}
        inner = {"control": File(self.control()), **scripts}
        readme = f"usr/share/doc/{self.name}/README.simulated"
        files = {readme: File(self.control().split("Description: ", 1)[1]), **self.files}
        return _ar(
            {
                "debian-binary": b"2.0\n",
                "control.tar.gz": _tar(inner),
                "data.tar.gz": _tar(files),
            }
        )


def stanza(package: Package, content: bytes, path: str) -> str:
    """The package's part of a repository's index."""
    digest = hashlib.sha256(content).hexdigest()
    return f"{package.control()}Filename: {path}\nSize: {len(content)}\nSHA256: {digest}\n"


def _tar(files: Mapping[str, File]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        made: set[str] = set()
        for path, file in sorted(files.items()):
            parts = path.split("/")[:-1]
            for depth in range(len(parts) + 1):
                folder = "./" + "/".join(parts[:depth])
                if folder not in made:
                    made.add(folder)
                    archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
            if file.link:
                row = _entry(f"./{path}", tarfile.SYMTYPE, 0o777)
                row.linkname = file.link
                archive.addfile(row)
            else:
                content = file.content.encode()
                row = _entry(f"./{path}", tarfile.REGTYPE, file.mode)
                row.size = len(content)
                archive.addfile(row, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    row = tarfile.TarInfo(name)
    row.type, row.mode, row.mtime = kind, mode, 0
    row.uname = row.gname = "root"
    return row


def _ar(members: Mapping[str, bytes]) -> bytes:
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        parts += [head.encode(), content, b"\n" if len(content) % 2 else b""]
    return b"".join(parts)
