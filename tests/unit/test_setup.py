"""Setup finds what is there, asks for what is missing, never takes half for whole."""

import os
import subprocess
from pathlib import Path

import pytest

from gpufleet.paths import repo_root

ROOT = repo_root()


def bash(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with the parts of setup sourced, as setup/bootstrap has them."""
    head = f'set -euo pipefail; gpufleet_root="{ROOT}"; . "$gpufleet_root/setup/common.sh"; '
    head += '. "$gpufleet_root/setup/progress.sh"; . "$gpufleet_root/setup/steps.sh"; total=1; '
    clean = {name: os.environ[name] for name in ("HOME", "PATH")}
    return subprocess.run(
        ["bash", "-c", head + script],
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_python(version: str) -> str:
    # Says yes to the question whether it is of the version that it is.
    return f"""case "$*" in *"'{version}'"*) exit 0 ;; *) exit 1 ;; esac"""


def test_python_of_another_name_than_python3_is_found(tmp_path: Path) -> None:
    wanted = program(tmp_path / ".pyenv/versions/3.12.9/bin/python3.12", fake_python("3.12"))
    done = bash("find_python", HOME=str(tmp_path), PATH="/bin:/usr/bin")
    assert done.stdout.strip() == str(wanted)


def test_shim_that_only_says_that_it_is_not_set_up_is_passed_over(tmp_path: Path) -> None:
    shim = program(tmp_path / "shims/python3.12", "echo 'python3.12: not set up' >&2; exit 127")
    wanted = program(tmp_path / ".pyenv/versions/3.12.9/bin/python3.12", fake_python("3.12"))
    path = f"{shim.parent}:/bin:/usr/bin"
    assert bash("find_python", HOME=str(tmp_path), PATH=path).stdout.strip() == str(wanted)


def test_python_3_12_is_preferred_and_3_13_taken_where_it_is_the_only_one(tmp_path: Path) -> None:
    newer = program(tmp_path / "bin/python3.13", fake_python("3.13"))
    path = f"{newer.parent}:/bin:/usr/bin"
    assert bash("find_python", HOME=str(tmp_path), PATH=path).stdout.strip() == str(newer)
    older = program(tmp_path / "bin/python3.12", fake_python("3.12"))
    assert bash("find_python", HOME=str(tmp_path), PATH=path).stdout.strip() == str(older)


@pytest.mark.parametrize(("version", "taken"), [("v3.90.0", False), ("v3.274.1", True)])
def test_engine_on_path_is_taken_unless_it_is_too_old(
    tmp_path: Path, version: str, taken: bool
) -> None:
    engine = program(tmp_path / "bin/pulumi", f"echo {version}")
    done = bash(
        "find_pulumi || echo none",
        GPUFLEET_CACHE=str(tmp_path / "cache"),
        PATH=f"{engine.parent}:{os.environ['PATH']}",
    )
    assert done.stdout.strip() == (str(engine) if taken else "none")


def test_engine_in_the_cache_counts_only_once_it_was_finished(tmp_path: Path) -> None:
    program(tmp_path / "bin/pulumi", "echo v3")
    cache = {"GPUFLEET_CACHE": str(tmp_path), "PATH": "/bin:/usr/bin"}
    assert bash("find_pulumi || echo none", **cache).stdout.strip() == "none"
    wanted = (ROOT / "setup/pulumi/version").read_text()
    (tmp_path / "bin/pulumi.version").write_text(wanted)
    assert bash("find_pulumi", **cache).stdout.strip() == str(tmp_path / "bin/pulumi")


def test_failed_step_ends_with_one_sentence_and_its_log(tmp_path: Path) -> None:
    (tmp_path / "logs/setup").mkdir(parents=True)
    script = 'broken() { echo "no space left"; return 1; }; step 1 "a step" broken; echo after'
    done = bash(script, GPUFLEET_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert "after" not in done.stdout
    assert "no space left" in done.stderr
    log = tmp_path / "logs/setup/step-1.log"
    assert done.stderr.splitlines()[-1] == (
        f"gpufleet setup: a step failed; the log is {log}. Run it again to go on from here"
    )


def test_check_names_what_is_missing_and_makes_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = subprocess.run(
        [str(ROOT / "setup/bootstrap"), "--check"],
        env={**os.environ, "GPUFLEET_CACHE": str(cache), "GPUFLEET_LOCK": "run"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "missing: Python packages" in done.stdout
    assert "missing: the node image" in done.stdout
    assert not cache.exists()


def test_somebody_who_is_not_root_is_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "bash", str(ROOT / "setup/bootstrap")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GPUFLEET_CACHE": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "run it with sudo" in done.stderr.splitlines()[-1]


def test_locks_pin_every_package_by_hash_and_name_no_index() -> None:
    for name in ("run", "dev"):
        text = (ROOT / f"setup/requirements/{name}.txt").read_text()
        packages = [x for x in text.splitlines() if x and not x.startswith((" ", "#"))]
        assert packages
        assert all("==" in x for x in packages)
        assert text.count("--hash=sha256:") >= len(packages)
        assert "://" not in text
