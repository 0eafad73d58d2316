"""The lookup `gpufleet.node.secret`: made once, kept by the operator, closed to others."""

import base64
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# As a template would ask; several at once, as forks of a play do.
PROGRAM = """
import json, os, sys
from ansible.plugins.loader import init_plugin_loader, lookup_loader
init_plugin_loader([sys.argv[1]])
folder, names, count = sys.argv[2], sys.argv[3].split(" "), int(sys.argv[4])
options = json.loads(sys.argv[5])
def ask(name=names[0]):
    try:
        plugin = lookup_loader.get("gpufleet.node.secret")
        return plugin.run([name], variables={"inventory_dir": folder or None}, **options)[0]
    except Exception as error:
        return "error: " + str(error)
ends = []
for _ in range(count - 1):
    mine, other = os.pipe()
    if os.fork() == 0:
        os.write(other, ask().encode())
        os._exit(0)
    os.close(other)
    ends.append(mine)
found = [ask(name) for name in names]
for end in ends:
    found.append(os.read(end, 100000).decode())
    os.wait()
print(json.dumps(found))
"""


def ask(folder: Path | str, name: str = "demo", count: int = 1, **options: Any) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "collections"), str(folder), name, str(count),
         json.dumps(options)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_made_once_and_closed(tmp_path: Path) -> None:
    (first,) = ask(tmp_path)
    assert len(bytes.fromhex(first)) == 32
    assert (mode(tmp_path / ".secrets"), mode(tmp_path / ".secrets/demo")) == (0o700, 0o600)
    assert [path.name for path in (tmp_path / ".secrets").iterdir()] == ["demo"]
    assert ask(tmp_path) == [first]
    assert ask(tmp_path, "other") != [first]


def test_size_and_form(tmp_path: Path) -> None:
    (text,) = ask(tmp_path, bytes=128, form="base64")
    assert len(base64.b64decode(text)) == 128


def test_those_who_ask_at_once_get_the_same_one(tmp_path: Path) -> None:
    assert len(set(ask(tmp_path, count=12))) == 1


def test_what_others_may_read_is_not_used(tmp_path: Path) -> None:
    ask(tmp_path)
    (tmp_path / ".secrets/demo").chmod(0o640)
    (said,) = ask(tmp_path)
    assert "may be read by others; chmod 600 it, and rotate it" in said


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    ask(tmp_path)
    (tmp_path / ".secrets/demo").write_text("\n")
    assert "is empty; remove it" in ask(tmp_path)[0]


def test_a_name_is_no_path(tmp_path: Path) -> None:
    names = ["../demo", "a/b", "", "Demo", "demo-1", "1st"]
    found = ask(tmp_path, " ".join(names))
    assert len(found) == len(names)
    assert all("is no name of a secret" in said for said in found)
    assert list(tmp_path.iterdir()) == []


def test_a_secret_belongs_to_a_cluster() -> None:
    assert "use an inventory folder" in ask("")[0]
