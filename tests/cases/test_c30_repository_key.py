"""A repository whose key was rotated, or that older entries claim with another key."""

from pathlib import Path
from typing import Any

import aptbox
import pytest
from aptbox import PLACE, URI, package
from nodebox import NodeBox

from gpufleet.simdebs import Built

SOURCE = "/etc/apt/sources.list.d/demo.sources"
OLD_LINE = f"deb [arch=amd64 trusted=yes] {URI}/ simulated main\n"
STANZA = (
    "Types: deb\n{}\nSuites: simulated\nComponents: main\nSigned-By: /etc/apt/keyrings/old.gpg\n"
)


@pytest.fixture
def built(box: NodeBox) -> Built:
    aptbox.bare(box)
    return aptbox.publish(box, [package("demo-a", "1")])


def lay(box: NodeBox, built: Built, check: bool = False, **more: Any) -> dict[str, Any]:
    return box.module(
        "apt_source", check=check,
        **{"name": "demo", "uri": URI, "suite": "simulated", "components": ["main"],
           "key_file": f"{PLACE}/key.asc", "fingerprint": built.fingerprint, **more},
    )  # fmt: skip


def apt_files(box: NodeBox) -> dict[str, bytes]:
    folder = box.root / "etc/apt"
    return {str(x): x.read_bytes() for x in folder.rglob("*") if x.is_file()}


def claims(box: NodeBox) -> list[str]:
    """Files that have an entry for the repository."""
    return [path.name for path in aptbox.sources(box) if URI in path.read_text()]


def test_c30_one_source_with_one_key_and_apt_takes_it(box: NodeBox, built: Built) -> None:
    would = lay(box, built, check=True)
    assert would["changed"]
    assert claims(box) == []
    assert lay(box, built)["diff"] == would["diff"]
    rows = box.read(SOURCE).splitlines()
    assert [row for row in rows if row.startswith("Signed-By")] == [
        "Signed-By: /etc/apt/keyrings/demo.asc"
    ]
    assert "1" in box.run("apt-cache", "madison", "demo-a").stdout
    box.stub("apt-get", "exit 1")
    again = lay(box, built)
    assert (again["changed"], again["diff"], box.calls()) == (False, [], [])


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        ("cuda.list", OLD_LINE, None),
        ("cuda.list", f"# kept\n{OLD_LINE}deb-src {URI} simulated main\n", "# kept\n"),
        ("more.list", f"deb file:/other ./\n{OLD_LINE}", "deb file:/other ./\n"),
        ("cuda.sources", STANZA.format(f"URIs: {URI}"), None),
        ("cuda.sources", STANZA.format(f"uris: {URI}/"), None),
        ("two.sources", STANZA.format(f"URIs: {URI}\n file:/other"),
         STANZA.format("URIs: file:/other")),
    ],
)  # fmt: skip
def test_c30_older_entries_go_and_what_stands_beside_them_stays(
    box: NodeBox, built: Built, name: str, text: str, left: str | None
) -> None:
    box.write(f"/etc/apt/sources.list.d/{name}", text)
    assert lay(box, built)["changed"]
    assert claims(box) == ["demo.sources"]
    place = f"/etc/apt/sources.list.d/{name}"
    assert (box.read(place) if box.exists(place) else None) == left
    assert not lay(box, built)["changed"]


def test_c30_the_conflict_that_two_entries_make_is_gone(box: NodeBox, built: Built) -> None:
    """Without the removal apt refuses every source: the values of Signed-By conflict."""
    lay(box, built)
    box.write("/etc/apt/sources.list", f"deb [signed-by=/etc/old.gpg] {URI} simulated main\n")
    assert "Conflicting values set for option Signed-By" in box.run("apt-get", "update").stderr
    assert lay(box, built)["changed"]
    assert box.run("apt-get", "update").returncode == 0


def test_c30_files_without_the_address_are_not_touched(box: NodeBox, built: Built) -> None:
    odd = "# theirs\n\n\n" + STANZA.format("URIs: file:/other") + " \n\n\n"
    place = box.write("/etc/apt/sources.list.d/theirs.sources", odd)
    before = place.stat().st_ino
    lay(box, built)
    assert (place.read_text(), place.stat().st_ino) == (odd, before)


def test_c30_another_key_than_the_pinned_one_ends_before_apt_is_touched(
    box: NodeBox, built: Built
) -> None:
    box.write("/etc/apt/sources.list.d/cuda.list", OLD_LINE)
    before = apt_files(box)
    box.stub("apt-get", "exit 1")
    for more, said in (
        ({"fingerprint": "0" * 40}, f"is {built.fingerprint}, pinned is {'0' * 40}"),
        ({"key_file": f"{PLACE}/dists/simulated/Release"}, "holds no key"),
        ({"key_file": f"{PLACE}/none"}, "there is no key at"),
    ):
        refused = lay(box, built, **more)
        assert refused["failed"]
        assert said in refused["msg"]
        assert (apt_files(box), box.calls()) == (before, [])


def test_c30_a_second_key_in_the_file_is_no_way_in(box: NodeBox, built: Built) -> None:
    other = aptbox.publish(box, [package("demo-a", "1")], key="other")
    both = box.read(f"{PLACE}/key.asc")
    aptbox.publish(box, [package("demo-a", "1")])
    box.write("/var/both.asc", box.read(f"{PLACE}/key.asc") + both)
    refused = lay(box, built, key_file="/var/both.asc")
    assert other.fingerprint in refused["msg"]
    assert claims(box) == []


def test_c30_a_rotated_key_is_refused_by_apt_until_its_fingerprint_is_pinned(
    box: NodeBox, built: Built
) -> None:
    lay(box, built)
    new = aptbox.publish(box, [package("demo-a", "2")], key="other")
    assert new.fingerprint != built.fingerprint
    assert "nothing was changed. If the repository has a new key" in lay(box, built)["msg"]
    kept = box.folder / "kept.asc"
    kept.write_bytes(Path(box.root / "etc/apt/keyrings/demo.asc").read_bytes())
    refused = lay(box, built, key_file=str(kept))
    assert "NO_PUBKEY" in refused["msg"]
    assert lay(box, new)["changed"]
    assert box.run("apt-get", "update").returncode == 0
    assert "2" in box.run("apt-cache", "policy", "demo-a").stdout
    # The old one is not left as a second way in.
    assert [x.name for x in (box.root / "etc/apt/keyrings").iterdir()] == ["demo.asc"]


def test_c30_the_key_is_for_this_repository_alone(box: NodeBox, built: Built) -> None:
    def trusted() -> list[str]:
        return [name for name in apt_files(box) if "/etc/apt/trusted.gpg" in name]

    before = trusted()
    box.stub("apt-key", "exit 0")
    lay(box, built)
    assert (trusted(), box.calls()) == (before, [])
