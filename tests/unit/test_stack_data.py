"""The shipped data is whole: every rule is wired and can fail, every set is complete and proved."""

import re
import string
from datetime import date

import pytest

from gpufleet.catalog import get as instance_type
from gpufleet.simgpu.describe import describe
from gpufleet.stack import get, names, rules, universe
from gpufleet.stack.environment import lock_file, locked, mismatches
from gpufleet.stack.kinds import KINDS, scope
from gpufleet.stack.rules import FOLDER, Rule
from gpufleet.stack.universe import DATA
from gpufleet.stack.versions import is_version, parse_range

COHERENT = [name for name in names() if name != "tutorial"]
BY_ID = {rule.id: rule for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_every_rule_has_the_keys_of_its_kind_and_words_that_can_be_filled(rule: Rule) -> None:
    kind = KINDS[rule.kind]
    assert set(rule.options) <= kind.options
    about = scope(rule)
    assert about <= set(universe().components)
    assert rule.explanation
    assert rule.source.title
    named = {
        x for text in (rule.message, rule.fix) for _, x, _, _ in string.Formatter().parse(text)
    }
    assert named - {None} <= about | kind.words


def test_every_kind_of_rule_is_used() -> None:
    assert {rule.kind for rule in rules()} == set(KINDS)


def test_the_rule_about_whole_versions_is_about_every_pin() -> None:
    pins = {x.name for x in universe().components.values() if not x.target}
    assert set(BY_ID["pins.exact"].options["pins"]) == pins


def test_every_requirement_in_the_data_has_a_rule_that_reads_it() -> None:
    read = {
        (rule.options["pin"], rule.options["of"])
        for rule in rules()
        if rule.kind == "exact-requirement"
    }
    stated = set()
    for component in universe().components.values():
        facts = [x.facts for x in component.series] + [x.facts for x in component.releases]
        stated |= {(component.name, of) for row in facts for of in row.get("requires", {})}
    assert read == stated


def test_every_version_and_requirement_in_the_data_can_be_parsed() -> None:
    for component in universe().components.values():
        for release in component.releases:
            assert is_version(component.scheme, release.version), (component.name, release)
        facts = [x.facts for x in component.series] + [x.facts for x in component.releases]
        for row in facts:
            for of, text in row.get("requires", {}).items():
                parse_range(universe()[of].scheme, text)
        found = [release.version for release in component.releases]
        assert len(found) == len(set(found)), component.name


def test_releases_are_not_from_the_future() -> None:
    for component in universe().components.values():
        assert component.source.date <= date(2026, 12, 31)
        for release in component.releases:
            assert release.released is None or release.released <= component.source.date


def test_sources_name_documents_and_no_package_index() -> None:
    text = DATA.read_text() + "".join(path.read_text() for path in FOLDER.glob("*.yaml"))
    for url in re.findall(r"https?://[^\s\"]+", text):
        assert url.startswith("https://")
        assert not re.search(r"pypi|pythonhosted|proxy\.golang|npmjs|debian\.org", url), url


@pytest.mark.parametrize("name", names())
def test_every_set_is_called_as_its_file(name: str) -> None:
    assert get(name).name == name


@pytest.mark.parametrize("name", COHERENT)
def test_every_set_but_the_tutorials_pins_what_a_node_needs(name: str) -> None:
    pins = get(name).pins
    always = {
        *("os", "python", "python_source", "torch", "nccl", "ray", "engine_otel", "etcd", "docker"),
        *("driver", "fabricmanager", "nscq", "imex", "cuda", "dcgm", "slurm", "slurm_source"),
        *("container_toolkit", "container_toolkit_base"),
        *("libnvidia_container_tools", "libnvidia_container1"),
    }
    assert always <= set(pins)
    assert ("vllm" in pins) != ("vllm_cpu" in pins)
    if "efa" in get(name).targets["fabric"]:
        assert {"efa_installer", "libfabric", "ofi_nccl"} <= set(pins)


@pytest.mark.parametrize("name", COHERENT)
def test_pinned_versions_are_known_to_the_solver(name: str) -> None:
    for pin, version in get(name).pins.items():
        assert universe()[pin].by_version[version].unproved == ""


def test_the_local_set_pins_the_driver_that_simulated_gpus_report() -> None:
    description = describe("c", "n", instance_type("sim.h200x1"))
    assert get("local-cpu").pins["driver"] == description.driver_version
    assert "driver" in get("local-cpu").simulated


@pytest.mark.parametrize("name", COHERENT)
def test_the_python_parts_of_every_set_are_proved_by_what_a_resolver_found(name: str) -> None:
    text = lock_file(get(name)).read_text()
    found = locked(text)
    assert mismatches(get(name), found) == []
    assert text.count("--hash=sha256:") >= len(found) > 100
    assert "://" not in text


def test_a_set_whose_lock_is_another_ones_is_noticed() -> None:
    found = locked(lock_file(get("current")).read_text())
    assert any("vllm is 0.11.0" in x for x in mismatches(get("cuda128"), found))
    assert any("nccl is 2.27.3" in x for x in mismatches(get("cuda128"), found))


def test_known_traps_of_the_lock_are_bounded() -> None:
    found = locked(lock_file(get("tutorial-coherent")).read_text())
    assert found["transformers"].startswith("4.53.")
