"""`gpufleet.node.unpack` and `tree`: folders that are there as a whole, or as they were."""

import base64
import hashlib
import io
import os
import signal
import stat
import subprocess
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from nodebox import NodeBox

DEST = "/opt/demo/tool"


def archive(**files: str) -> bytes:
    """An archive with the files; two underscores stand for a slash."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name, text in files.items():
            row = tarfile.TarInfo(name.replace("__", "/"))
            row.size, row.mode = len(text), 0o4777
            packed.addfile(row, io.BytesIO(text.encode()))
    return stream.getvalue()


def laid(box: NodeBox, content: bytes) -> dict[str, str]:
    """Arguments for an archive that an action has sent."""
    place = box.folder / f"archive-{hashlib.sha256(content).hexdigest()[:8]}"
    place.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"src": "tool.tar.gz", "sha256": digest, "dest": DEST, "archive": str(place)}


def names(box: NodeBox, folder: str) -> list[str]:
    found = box.root / folder.lstrip("/")
    return sorted(os.listdir(found)) if found.is_dir() else []


def test_it_is_wanted_once_and_takes_the_old_ones_place(box: NodeBox) -> None:
    first = laid(box, archive(bin__tool="1", old="x"))
    asked = {key: first[key] for key in ("src", "sha256", "dest")}
    assert box.module("unpack", **asked)["wanted"]
    assert not box.exists("/opt/demo")
    assert box.module("unpack", **first)["changed"]
    assert box.read(f"{DEST}/bin/tool") == "1"
    for arguments in (asked, first):
        result = box.module("unpack", **arguments)
        assert (result["changed"], result["wanted"]) == (False, False)
    second = laid(box, archive(bin__tool="2"))
    would = box.module("unpack", check=True, **second)
    assert (would["changed"], would["wanted"]) == (True, True)
    assert box.read(f"{DEST}/bin/tool") == "1"
    box.module("unpack", **second)
    assert box.read(f"{DEST}/bin/tool") == "2"
    assert (names(box, DEST), names(box, "/opt/demo")) == ([".sha256", "bin"], ["tool"])


def test_no_file_of_it_is_writable_by_others_or_setuid(box: NodeBox) -> None:
    box.module("unpack", **laid(box, archive(bin__tool="1")))
    assert stat.S_IMODE((box.root / f"{DEST[1:]}/bin/tool").stat().st_mode) == 0o755


@pytest.mark.parametrize("content", [b"not an archive", archive(**{"..__..__evil": "x"})])
def test_what_cannot_be_unpacked_leaves_the_old_one(box: NodeBox, content: bytes) -> None:
    box.module("unpack", **laid(box, archive(bin__tool="1")))
    assert box.module("unpack", **laid(box, content))["failed"]
    assert box.read(f"{DEST}/bin/tool") == "1"
    assert names(box, "/opt/demo") == ["tool"]
    assert not box.exists("/opt/evil")


def test_another_checksum_is_never_opened(box: NodeBox) -> None:
    arguments = {**laid(box, archive(bin__tool="1")), "sha256": "0" * 64}
    refused = box.module("unpack", **arguments)
    assert f"expected {'0' * 64}; nothing was unpacked" in refused["msg"]
    assert names(box, "/opt/demo") == []


def test_an_address_is_fetched_by_the_node(box: NodeBox, tmp_path: Path) -> None:
    content = archive(bin__tool="1")
    (tmp_path / "web").mkdir()
    (tmp_path / "web/tool.tar.gz").write_bytes(content)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        arguments = {
            "src": f"http://127.0.0.1:{server.server_port}/tool.tar.gz",
            "sha256": hashlib.sha256(content).hexdigest(),
            "dest": DEST,
        }
        assert box.module("unpack", **arguments)["changed"]
        missing = {**arguments, "src": arguments["src"] + ".gone", "dest": "/opt/demo/other"}
        assert "404" in box.module("unpack", **missing)["msg"]
        server.shutdown()
    assert names(box, "/opt/demo") == ["tool"]


def test_killed_while_unpacking_the_next_run_clears_up(box: NodeBox) -> None:
    box.module("unpack", **laid(box, archive(bin__tool="1")))
    pipe = box.folder / "archive-pipe"
    os.mkfifo(pipe)
    content = archive(bin__tool="2")
    arguments = {**laid(box, content), "archive": str(pipe)}
    running = subprocess.Popen(
        box.module_command("unpack", arguments),
        env=box.module_environment(), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with pipe.open("wb"):  # it has begun to read
        assert len(names(box, "/opt/demo")) == 2
        running.send_signal(signal.SIGKILL)
        running.wait(20)
    assert box.read(f"{DEST}/bin/tool") == "1"
    assert box.module("unpack", **laid(box, content))["changed"]
    assert (box.read(f"{DEST}/bin/tool"), names(box, "/opt/demo")) == ("2", ["tool"])


def test_a_tree_is_sent_where_it_differs_and_replaced_as_a_whole(box: NodeBox) -> None:
    def arguments(content: bytes) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        return {"dest": DEST, "digest": digest, "archive": base64.b64encode(content).decode()}

    first, second = arguments(archive(a="1", b="1")), arguments(archive(a="2"))
    asked = {key: first[key] for key in ("dest", "digest")}
    assert box.module("tree", **asked)["wanted"]
    assert box.module("tree", check=True, **first)["changed"]
    assert not box.exists("/opt/demo")
    assert box.module("tree", **first)["changed"]
    assert not box.module("tree", **asked)["wanted"]
    box.module("tree", **second)
    assert (names(box, DEST), box.read(f"{DEST}/a")) == (["a"], "2")
    assert names(box, "/opt/demo") == ["tool", "tool.digest"]
    # A folder that somebody removed is wanted again, whatever its mark says.
    (box.root / f"{DEST[1:]}/a").unlink()
    (box.root / DEST[1:]).rmdir()
    assert box.module("tree", dest=DEST, digest=second["digest"])["wanted"]
