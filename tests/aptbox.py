"""A real apt and dpkg on a throwaway node, with nothing to ask but repositories made for a test."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodebox import NodeBox

from gpufleet.simdebs import Built, build
from gpufleet.simdebs.deb import Package

PLACE = "/var/lib/demo-repository"
URI = f"file:{PLACE}"


def package(name: str, version: str, *depends: str, **more: Sequence[str]) -> Package:
    return Package(
        name=name, version=version, summary="demo", depends=depends,
        **{key: tuple(value) for key, value in more.items()},  # type: ignore[arg-type]
    )  # fmt: skip


def bare(box: NodeBox) -> None:
    """No source, no list; fewer writes to disk, as nothing here has to outlive a power cut."""
    for name in ("etc/apt/sources.list.d", "var/lib/apt/lists", "etc/apt/preferences.d"):
        for path in (box.root / name).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (box.root / "var/lib/apt/lists/partial").mkdir()
    box.write("/etc/apt/sources.list", "")
    box.write("/etc/dpkg/dpkg.cfg.d/demo", "force-unsafe-io\n")
    # A policy of the machine that runs the tests is none of the node.
    (box.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)


def publish(box: NodeBox, packages: Sequence[Package], key: str = "key") -> Built:
    """A signed repository at `URI`, instead of the one that is there."""
    folder = box.folder / f"repository-{key}"
    built = build(folder, box.folder / key, list(packages))
    place = box.root / PLACE.lstrip("/")
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(folder, place)
    return built


def source(box: NodeBox, built: Built, name: str = "demo") -> None:
    """A source of the repository, laid by the module."""
    result = box.module(
        "apt_source", name=name, uri=URI, suite="simulated", components=["main"],
        key_file=f"{PLACE}/key.asc", fingerprint=built.fingerprint,
    )  # fmt: skip
    assert not result.get("failed"), result


def installed(box: NodeBox) -> Mapping[str, tuple[str, str]]:
    """Version and wish (`install`, `hold`) of the packages whose names begin with `demo`."""
    form = "${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\n"
    rows = box.run("dpkg-query", "-W", "-f", form, "demo*").stdout.split("\n")
    found = [row.split() for row in rows if row.endswith(" installed")]
    return {name: (version, wish) for name, version, wish, _ in found}


def sources(box: NodeBox) -> list[Path]:
    """Files in which apt looks for sources, less empty ones."""
    folder = box.root / "etc/apt"
    found = [folder / "sources.list", *sorted((folder / "sources.list.d").iterdir())]
    return [path for path in found if path.exists() and path.read_text().strip()]
