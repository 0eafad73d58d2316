"""Field case: a mode without quotes, or too wide for a secret."""

from pathlib import Path

import pytest

from gpufleet.spec import ClusterSpec, SpecError
from gpufleet.spec.document import parse_document
from gpufleet.spec.load import build_spec

SPEC = """\
name: c
provider: local
pools: [{name: a, partition: training, instance_type: sim.cpu, count: 1}]
files: [{path: PATH, source: here, mode: MODE}]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").write_text("x")
    monkeypatch.chdir(tmp_path)


def build(path: str, mode: str) -> ClusterSpec:
    return build_spec(parse_document(SPEC.replace("PATH", path).replace("MODE", mode), "c.yaml"))


def test_c49_decimal_mode_is_refused_with_the_mode_that_was_meant() -> None:
    with pytest.raises(SpecError, match=r'files\[0\]\.mode.*quote it: "0400"'):
        build("/etc/munge/munge.key", "400")


def test_c49_octal_number_is_refused_like_every_unquoted_mode() -> None:
    with pytest.raises(SpecError, match=r'reads 0600 as the number 384.*quote it: "0600"'):
        build("/etc/agent/token", "0600")


@pytest.mark.parametrize("mode", ['"0640"', '"u=rw"'])
def test_c49_quoted_octal_and_symbolic_modes_are_taken(mode: str) -> None:
    assert build("/x", mode).files[0].mode == mode.strip('"')


@pytest.mark.parametrize("mode", ['"0640"', '"u=rw,g=r"', '"0700"'])
def test_c49_secret_wider_than_0600_is_refused(mode: str) -> None:
    with pytest.raises(SpecError, match="wider than a secret may be"):
        build("/etc/munge/munge.key", mode)
