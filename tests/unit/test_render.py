"""Templates are rendered for all hosts or for none, and every gap is found in one pass."""

import stat
from pathlib import Path

import pytest

from gpufleet.render import Finding, Rendered, RenderError, render, scan_templates, write_rendered


def problems(folder: Path, text: str, **variables: object) -> list[str]:
    (folder / "x.j2").write_text(text)
    with pytest.raises(RenderError) as caught:
        render(folder, ["x.j2"], {"h1": variables})
    return str(caught.value).splitlines()


def rendered(folder: Path, text: str, **variables: object) -> str:
    (folder / "x.j2").write_text(text)
    (found,) = render(folder, ["x.j2"], {"h1": variables})
    return found.text


def test_all_gaps_of_all_hosts_and_templates_come_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.j2").write_text("{{ one }}\n{{ two }}\n")
    (tmp_path / "b.j2").write_text("{{ three }}\n")
    with pytest.raises(RenderError) as caught:
        render(tmp_path, ["a.j2", "b.j2"], {"h1": {"one": 1}, "h2": {"two": 2}})
    assert [(x.host, x.variable, x.template, x.line) for x in caught.value.problems] == [
        ("h1", "two", "a.j2", 2),
        ("h2", "one", "a.j2", 1),
        ("h1", "three", "b.j2", 1),
        ("h2", "three", "b.j2", 1),
    ]


@pytest.mark.parametrize(
    "use",
    [
        "{{ gone }}",
        "{{ gone | upper }}",
        "{{ gone | int }}",
        "{{ gone + 1 }}",
        "{{ 1 + gone }}",
        "{{ 'a' ~ gone }}",
        "{{ -gone }}",
        "{{ gone.deeper.still }}",
        "{{ gone['x'] }}",
        "{{ gone(1) }}",
        "{% if gone %}{% endif %}",
        "{% if gone == 1 %}{% endif %}",
        "{% if gone > 1 %}{% endif %}",
        "{% if 1 in gone %}{% endif %}",
        "{% for x in gone %}{% endfor %}",
        "{{ gone | length }}",
        "{{ [1, gone] | join(',') }}",
        "{{ gone | round }}",
        "{{ gone | abs }}",
        "{{ gone | tojson }}",
        "{{ {'a': [gone]} | tojson }}",
        "{{ [gone] }}",
        "{{ 'abc'[gone:] }}",
        "{{ {gone: 1} }}",
        "{{ [gone] | sort }}",
        "{% set x = gone %}{{ x }}",
    ],
)
def test_every_use_of_an_undefined_variable_is_an_error(tmp_path: Path, use: str) -> None:
    found = problems(tmp_path, f"line\n{use}\n")
    assert found
    assert set(found) == {"h1: x.j2:2: variable gone is not defined"}


def test_asking_whether_a_variable_is_defined_is_no_use(tmp_path: Path) -> None:
    text = "{% if gone is defined %}a{% else %}b{% endif %}{{ gone | default('c') }}"
    assert rendered(tmp_path, text) == "bc"


def test_nested_variable_is_named_whole_with_its_nearest(tmp_path: Path) -> None:
    found = problems(tmp_path, "{{ net.fabric.mtu }}", net={"fabric": {"mut": 9000}})
    assert found == [
        "h1: x.j2:1: variable net.fabric.mtu is not defined; did you mean net.fabric.mut?"
    ]


def test_element_of_a_list_is_named_with_its_place(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "{% for n in nics %}{{ n.rate }}{% endfor %}", nics=[{"rate": 1}, {"speed": 1}]
    )
    assert found == ["h1: x.j2:1: variable nics[1].rate is not defined"]


def test_host_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path, "{{ hosts['h11'] }}") == [
        "h1: x.j2:1: variable hosts.h11 is not defined; did you mean hosts.h1?"
    ]


def test_line_is_that_of_the_included_file_or_macro(tmp_path: Path) -> None:
    (tmp_path / "part.j2").write_text("\n\n{{ gone }}\n")
    (tmp_path / "lib.j2").write_text("\n{% macro m() %}\n{{ zzz }}\n{% endmacro %}\n")
    text = "{% include 'part.j2' %}\n{% from 'lib.j2' import m %}\n{{ m() }}"
    assert problems(tmp_path, text) == [
        "h1: part.j2:3: variable gone is not defined",
        "h1: lib.j2:3: variable zzz is not defined",
    ]


def test_broken_and_absent_templates_are_named(tmp_path: Path) -> None:
    assert problems(tmp_path, "ok\n{% if %}")[0].startswith("h1: x.j2:2: is no template: ")
    assert problems(tmp_path, "ok\n{% include 'y.j2' %}") == [
        "h1: x.j2:2: there is no template y.j2"
    ]
    with pytest.raises(RenderError, match=r"z\.j2: there is no template z\.j2"):
        render(tmp_path, ["z.j2"], {"h1": {}})


def test_other_mistakes_have_their_place_too(tmp_path: Path) -> None:
    assert problems(tmp_path, "\n{{ 1 / zero }}", zero=0) == ["h1: x.j2:2: division by zero"]
    assert problems(tmp_path, "\n\n{{ n + 'x' }}", n=1)[0].startswith("h1: x.j2:3: unsupported")


def test_variables_of_a_host_win_over_shared_ones(tmp_path: Path) -> None:
    (tmp_path / "x.j2").write_text("{{ a }}{{ b }}{{ inventory_hostname }}\n")
    found = render(tmp_path, ["x.j2"], {"h1": {"a": 1}}, {"a": 0, "b": 2})
    assert found == [Rendered("h1", "x.j2", "12h1\n")]


def test_second_write_changes_nothing_and_touches_nothing(tmp_path: Path) -> None:
    items = [Rendered("h1", "etc/x.conf.j2", "text\n")]
    (path,) = write_rendered(items, tmp_path, 0o640)
    assert path == tmp_path / "h1/etc/x.conf"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = path.stat()
    assert write_rendered(items, tmp_path, 0o640) == []
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert write_rendered(items, tmp_path, 0o600) == [path]


@pytest.mark.parametrize("host", ["..", "", ".", "a/b", "../x"])
def test_host_cannot_lead_out_of_the_folder(tmp_path: Path, host: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        write_rendered([Rendered("ok", "x", ""), Rendered(host, "x", "")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_empty_defaults_are_found_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/x.j2").write_text(
        "{{ a | default('') }}\n{{ b.c | d(\"\") }}\n{{ e | default }}\n"
        "{{ f | default('', true) }}\n{{ g['h'] | default(default_value='') }}\n"
        "{{ ok | default('none') }} {{ ok | d(0) }} {{ default('') if 0 }} {# x | default('') #}\n"
    )
    (tmp_path / "broken.j2").write_text("\n{% endif %}\n")
    found = scan_templates(tmp_path)
    assert [(x.template, x.line) for x in found] == [
        ("broken.j2", 2),
        *(("deep/x.j2", line) for line in range(1, 6)),
    ]
    assert found[2] == Finding("deep/x.j2", 2, "an empty default hides that b.c is missing")
    assert "g[h]" in found[5].message
