"""Files are whole or absent; removing a tree never leaves its file system."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from gpufleet.atomic import write_atomic
from infra.local.directory import Entry, hosts_block, with_block
from infra.local.files import read_json, remove_tree, write_json
from infra.local.layer import BirthFile, Layer
from infra.local.resolver import nameservers


def test_written_file_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomic(tmp_path / "open", "x", 0o644)
        write_json(tmp_path / "private", {"a": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_failed_write_keeps_the_old_file_and_leaves_no_debris(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_damaged_json_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": ')
    assert read_json(tmp_path / "x") is None
    assert read_json(tmp_path / "y") is None


def test_tree_is_removed_with_odd_modes_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data").write_text("x")
    tree = tmp_path / "tree"
    (tree / "work").mkdir(parents=True)
    (tree / "work").chmod(0)
    (tree / "link").symlink_to(kept)
    remove_tree(tree)
    assert not tree.exists()
    assert (kept / "data").exists()
    remove_tree(tree)


def test_tree_with_a_mount_in_it_is_not_removed(tmp_path: Path) -> None:
    mounted = tmp_path / "tree/mounted"
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(mounted)], check=True)
    try:
        (mounted / "data").write_text("x")
        with pytest.raises(OSError, match="mount of another file system"):
            remove_tree(tmp_path / "tree")
        assert (mounted / "data").exists()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.fixture
def layer(tmp_path: Path) -> Layer:
    image, upper = tmp_path / "image", tmp_path / "upper"
    (image / "etc/ssh").mkdir(parents=True)
    (image / "etc/ssh").chmod(0o750)
    (image / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nfleet:x:1000:1000::/:/bin/sh\n")
    (image / "etc/group").write_text("root:x:0:\nfleet:x:1000:\n")
    (image / "lib").symlink_to("usr/lib")
    upper.mkdir()
    return Layer(upper, image)


def test_laid_folder_keeps_the_mode_that_the_image_gives_it(layer: Layer) -> None:
    layer.put(BirthFile("/etc/ssh/key", b"k", 0o600))
    assert stat.S_IMODE((layer.upper / "etc/ssh").stat().st_mode) == 0o750
    assert stat.S_IMODE((layer.upper / "etc/ssh/key").stat().st_mode) == 0o600


def test_laid_file_belongs_to_its_owner(layer: Layer) -> None:
    layer.put(BirthFile("/etc/x", b"", owner="fleet", group="fleet"))
    assert (layer.upper / "etc/x").stat().st_uid == 1000
    with pytest.raises(LookupError, match="no user or group 'nobody-here'"):
        layer.put(BirthFile("/etc/x", b"", owner="nobody-here"))


def test_file_is_never_laid_outside_the_node_or_through_a_link(layer: Layer) -> None:
    with pytest.raises(ValueError, match="leaves"):
        layer.put(BirthFile("/etc/../../x", b""))
    with pytest.raises(ValueError, match="is a link in the image"):
        layer.put(BirthFile("/lib/x", b""))


def test_hosts_block_replaces_itself_and_keeps_the_rest() -> None:
    first = with_block("127.0.0.1 localhost\n", hosts_block([Entry("a", "10.0.0.2")]))
    edited = first + "10.9.9.9 mine\n"
    second = with_block(edited, hosts_block([Entry("a", "10.0.0.2"), Entry("b", "10.0.0.3")]))
    assert second.startswith("127.0.0.1 localhost\n")
    assert second.endswith("10.9.9.9 mine\n")
    assert second.count("10.0.0.2 a") == 1
    assert "10.0.0.3 b" in second
    assert with_block(second, hosts_block([Entry("a", "10.0.0.2"), Entry("b", "10.0.0.3")])) == (
        second
    )


def test_name_servers_of_the_hosts_loopback_are_left_out() -> None:
    text = "# stub\nnameserver 127.0.0.53\nnameserver 10.1.1.1\nnameserver ::1\noptions x\n"
    assert nameservers(text) == ("10.1.1.1",)
