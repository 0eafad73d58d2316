"""A variable that one host lacks is found before anything is written, wherever it is used."""

from pathlib import Path

import pytest

import gpufleet
from gpufleet.render import RenderError, render, scan_templates, write_rendered

TEMPLATE = """\
# peers of {{ inventory_hostname }}
{% for host in hosts %}
peer {{ host }} {{ hosts[host].fabric_ip }}
{% endfor %}
"""
HOSTS = {
    "gpu-001": {"fabric_ip": "10.0.0.1"},
    "gpu-002": {"fabric_ip": "10.0.0.2"},
    "gpu-003": {"fabric_ip": "10.0.0.3"},
}


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "peers.conf.j2").write_text(TEMPLATE)
    return folder


def test_c50_whole_inventory_renders_for_every_host(templates: Path, tmp_path: Path) -> None:
    written = write_rendered(render(templates, ["peers.conf.j2"], HOSTS), tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in written] == [
        f"{host}/peers.conf" for host in HOSTS
    ]
    assert written[1].read_text() == (
        "# peers of gpu-002\npeer gpu-001 10.0.0.1\npeer gpu-002 10.0.0.2\npeer gpu-003 10.0.0.3\n"
    )


def test_c50_missing_variable_names_host_variable_template_and_line(templates: Path) -> None:
    with pytest.raises(RenderError) as caught:
        render(templates, ["peers.conf.j2"], {**HOSTS, "gpu-002": {"rack": 1}})
    (problem,) = caught.value.problems
    assert (problem.host, problem.variable) == ("gpu-002", "fabric_ip")
    assert (problem.template, problem.line) == ("peers.conf.j2", 3)
    assert str(caught.value) == "gpu-002: peers.conf.j2:3: variable fabric_ip is not defined"


def test_c50_near_miss_spelling_is_suggested(templates: Path) -> None:
    with pytest.raises(RenderError, match="did you mean fabric-ip") as caught:
        render(templates, ["peers.conf.j2"], {**HOSTS, "gpu-002": {"fabric-ip": "10.0.0.2"}})
    assert caught.value.problems[0].nearest == "fabric-ip"


def test_c50_nothing_is_written_for_any_host(templates: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RenderError):
        write_rendered(
            render(templates, ["peers.conf.j2"], {**HOSTS, "gpu-002": {}}), tmp_path / "out"
        )
    assert sorted(tmp_path.rglob("*")) == before


def test_c50_no_template_of_the_product_hides_a_missing_variable() -> None:
    root = Path(gpufleet.__file__).resolve().parents[1]
    tops = ("gpufleet", "infra", "roles", "playbooks", "inventories")
    findings = [finding for top in tops for finding in scan_templates(root / top)]
    assert findings == []
