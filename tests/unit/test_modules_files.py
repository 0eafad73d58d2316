"""`gpufleet.node.files`: all entries or none, by renames, with modes set before a file is seen."""

import base64
import os
import signal
import stat
import subprocess
from typing import Any

import pytest
from nodebox import NodeBox


def file(dest: str, text: str = "new\n", **more: Any) -> dict[str, Any]:
    return {"dest": dest, "content_base64": base64.b64encode(text.encode()).decode(), **more}


def mode(box: NodeBox, name: str) -> int:
    return stat.S_IMODE((box.root / name.lstrip("/")).stat().st_mode)


def names(box: NodeBox, folder: str) -> list[str]:
    return sorted(os.listdir(box.root / folder.lstrip("/")))


ENTRIES = [
    file("/etc/demo/a.conf"),
    file("/etc/demo/secret", "S3NTINEL\n", mode="0600", owner="nobody", group="nogroup"),
    {"dest": "/etc/demo/folder", "folder": True, "mode": "0750"},
    {"dest": "/etc/demo/link", "link": "a.conf"},
    {"dest": "/etc/demo/gone", "absent": True},
]


def test_everything_is_laid_and_a_second_run_changes_nothing(box: NodeBox) -> None:
    box.write("/etc/demo/gone", "old")
    first = box.module("files", files=ENTRIES)
    assert first["changed_files"] == [entry["dest"] for entry in ENTRIES]
    assert box.read("/etc/demo/a.conf") == "new\n"
    assert (mode(box, "/etc/demo/a.conf"), mode(box, "/etc/demo/secret")) == (0o644, 0o600)
    assert (box.root / "etc/demo/secret").stat().st_uid == 65534
    assert mode(box, "/etc/demo/folder") == 0o750
    assert os.readlink(box.root / "etc/demo/link") == "a.conf"
    assert names(box, "/etc/demo") == ["a.conf", "folder", "link", "secret"]
    again = box.module("files", files=ENTRIES)
    assert (again["changed"], again["changed_files"], again["diff"]) == (False, [], [])


def test_a_dry_run_tells_the_same_and_touches_nothing(box: NodeBox) -> None:
    box.write("/etc/demo/a.conf", "old\n")
    would = box.module("files", check=True, files=ENTRIES)
    assert would["changed_files"] == [entry["dest"] for entry in ENTRIES[:-1]]
    assert (box.read("/etc/demo/a.conf"), names(box, "/etc/demo")) == ("old\n", ["a.conf"])
    did = box.module("files", files=ENTRIES)
    assert did["diff"] == would["diff"]
    assert did["diff"][0]["before"].endswith("old\n")
    assert did["diff"][0]["after"].endswith("new\n")


def test_mode_and_owner_alone_are_a_change(box: NodeBox) -> None:
    box.write("/etc/demo/a.conf", "new\n", 0o666)
    assert box.module("files", files=[file("/etc/demo/a.conf")])["changed"]
    assert mode(box, "/etc/demo/a.conf") == 0o644
    os.chown(box.root / "etc/demo/a.conf", 65534, 65534)
    assert box.module("files", files=[file("/etc/demo/a.conf")])["changed"]
    assert (box.root / "etc/demo/a.conf").stat().st_uid == 0


def test_no_diff_and_no_log_has_the_text_of_a_secret(box: NodeBox) -> None:
    box.write("/etc/demo/key", "S3NTINEL-a1\n", 0o600)
    entry = file("/etc/demo/key", "S3NTINEL-b2\n", mode="0600", secret=True)
    (diff,) = box.module("files", files=[entry])["diff"]
    assert diff["before"] != diff["after"]
    assert "S3NTINEL" not in diff["before"] + diff["after"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (file("/etc/demo/folder"), "/etc/demo/folder is a folder; a file is to be there"),
        ({"dest": "/etc/demo/folder", "link": "x"}, "a link is to be there"),
        ({"dest": "/etc/demo/taken", "folder": True}, "is a file; a folder is to be there"),
        ({"dest": "/etc/demo/folder", "absent": True}, "with something in it"),
        (file("/etc/demo/pipe"), "neither file, folder nor link"),
        (file("/etc/demo/taken/below"), "a part of its path is no folder"),
        (file("/etc/demo/x", owner="nobody-knows-him"), "nobody-knows-him"),
    ],
)
def test_one_entry_that_cannot_be_refuses_all_of_them(
    box: NodeBox, entry: dict[str, Any], said: str
) -> None:
    box.write("/etc/demo/folder/inner", "kept")
    box.write("/etc/demo/taken", "kept")
    os.mkfifo(box.root / "etc/demo/pipe")
    before = names(box, "/etc/demo")
    refused = box.module("files", files=[file("/etc/demo/first"), entry])
    assert refused["failed"]
    assert said in refused["msg"]
    assert refused["changed_files"] == []
    assert names(box, "/etc/demo") == before
    assert box.read("/etc/demo/folder/inner") == box.read("/etc/demo/taken") == "kept"


def test_in_a_dry_run_an_account_may_come_later(box: NodeBox) -> None:
    entry = file("/etc/demo/x", owner="nobody-knows-him")
    assert box.module("files", check=True, files=[entry])["changed"]


def test_a_text_that_its_check_refuses_is_never_in_place(box: NodeBox) -> None:
    box.write("/etc/demo/a.conf", "old\n")
    entry = file("/etc/demo/a.conf", "broken\n", validate="sh -c '! grep broken %s >&2'")
    refused = box.module("files", files=[entry])
    assert "refused the new text: broken" in refused["msg"]
    assert refused["changed_files"] == []
    assert (box.read("/etc/demo/a.conf"), names(box, "/etc/demo")) == ("old\n", ["a.conf"])
    good = file("/etc/demo/a.conf", validate="grep -q new %s")
    assert box.module("files", files=[good])["changed"]


def test_a_planted_link_is_replaced_and_its_target_is_left_alone(box: NodeBox) -> None:
    box.write("/var/victim", "kept")
    box.path("/etc/demo/a.conf").symlink_to("/var/victim")
    box.path("/etc/demo/folder").symlink_to("/var")
    assert box.module("files", files=ENTRIES)["changed"]
    assert not (box.root / "etc/demo/a.conf").is_symlink()
    assert not (box.root / "etc/demo/folder").is_symlink()
    assert (box.read("/var/victim"), mode(box, "/var")) == ("kept", 0o755)


def test_once_keeps_what_is_there(box: NodeBox) -> None:
    entry = file("/etc/demo/a.conf", once=True)
    assert box.module("files", files=[entry])["changed"]
    box.write("/etc/demo/a.conf", "mine\n", 0o600)
    assert not box.module("files", files=[entry])["changed"]
    assert (box.read("/etc/demo/a.conf"), mode(box, "/etc/demo/a.conf")) == ("mine\n", 0o600)


def test_killed_in_the_midst_it_leaves_old_or_new_and_the_next_run_ends_it(box: NodeBox) -> None:
    box.write("/etc/demo/a.conf", "old\n")
    box.write("/etc/demo/b.conf", "old\n")
    wait = f"sh -c 'echo at %s > {box.folder}/reached; exec cat {box.folder}/gate'"
    os.mkfifo(box.folder / "gate")
    os.mkfifo(box.folder / "reached")
    entries = [file("/etc/demo/a.conf"), file("/etc/demo/b.conf", mode="0600", validate=wait)]
    running = subprocess.Popen(
        box.module_command("files", {"files": entries}),
        env=box.module_environment(), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    candidate = (box.folder / "reached").read_text().split()[1]
    # What is about to be put in place has its final mode already.
    assert mode(box, candidate) == 0o600
    running.send_signal(signal.SIGKILL)
    assert running.wait(20) == -signal.SIGKILL
    with (box.folder / "gate").open("w"):
        pass  # lets the check end
    assert (box.read("/etc/demo/a.conf"), box.read("/etc/demo/b.conf")) == ("new\n", "old\n")
    entries[1].pop("validate")
    assert box.module("files", files=entries)["changed_files"] == ["/etc/demo/b.conf"]
    assert box.read("/etc/demo/b.conf") == "new\n"
    # Nothing of the one that was killed stays, which for a secret would be a second copy.
    assert names(box, "/etc/demo") == ["a.conf", "b.conf"]
