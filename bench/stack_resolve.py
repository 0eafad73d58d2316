"""Proves the Python parts of stack sets: `python bench/stack_resolve.py [--check] [SET ...]`.

For each set, or for all whose pins go together, a resolver (uv) works out the engine's whole
environment for the set's Python on Linux x86_64 from the package index, by metadata alone; nothing
is installed. What comes out is kept with hashes in gpufleet/stack/resolved/SET.txt. With --check
nothing is written, and a difference to what is kept fails. One row a set is printed: seconds,
packages, bytes, verdict. About a quarter of a minute a set.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpufleet.stack import StackSet, get  # noqa: E402
from gpufleet.stack.check import coherent_names  # noqa: E402
from gpufleet.stack.environment import locked, mismatches, requirements  # noqa: E402

KEPT = ROOT / "gpufleet/stack/resolved"
# The oldest C library of the systems that sets name is glibc 2.35.
PLATFORM = "x86_64-manylinux_2_35"


@dataclass(frozen=True)
class Row:
    """What came of one set."""

    name: str
    seconds: float
    packages: int
    size: int
    verdict: str


def resolve(pinned: StackSet, folder: Path) -> tuple[str, str]:
    """Text of the lock and what the resolver said; the text is empty where it found no way."""
    wanted = requirements(pinned)
    files = {
        "required.in": wanted.required,
        "constraints.txt": wanted.constraints,
        "overrides.txt": wanted.overrides,
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = [
        uv(), "pip", "compile", "required.in", "--quiet", "--no-header", "--no-emit-index-url",
        "--no-emit-find-links", "--no-annotate", "--generate-hashes",
        "--constraints", "constraints.txt", "--overrides", "overrides.txt",
        "--python-version", wanted.python, "--python-platform", PLATFORM,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    return (done.stdout if done.returncode == 0 else "", done.stderr.strip())


def uv() -> str:
    """The resolver: beside this interpreter, or on PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv is not there; it is in the development requirements")
    return found


def prove(name: str, *, check: bool) -> Row:
    """Resolve one set and keep or compare what came out."""
    pinned = get(name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpufleet-resolve-") as temporary:
        text, said = resolve(pinned, Path(temporary))
    seconds = round(time.monotonic() - began, 1)
    if not text:
        return Row(name, seconds, 0, 0, f"no solution: {said}")
    wrong = mismatches(pinned, locked(text))
    if wrong:
        return Row(name, seconds, len(locked(text)), len(text), "; ".join(wrong))
    kept = KEPT / f"{name}.txt"
    verdict = "resolved"
    if check:
        same = kept.exists() and locked(kept.read_text()) == locked(text)
        verdict = "as kept" if same else "differs from what is kept"
    else:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text)
    return Row(name, seconds, len(locked(text)), len(text), verdict)


def main() -> int:
    """Resolve the named sets, or all whose pins go together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    parser.add_argument("sets", nargs="*", metavar="SET")
    asked = parser.parse_args()
    good = True
    for name in asked.sets or coherent_names(datetime.now(UTC).date()):
        row = prove(name, check=asked.check)
        print(json.dumps(asdict(row)), flush=True)
        good = good and row.verdict in ("resolved", "as kept")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
