"""Every rule is wired, documented, and says exactly what is wrong."""

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from preflight_failures import FAILS
from preflight_fixtures import NOW, PASSES, Case, good, outcome_of, spec_of

import gpufleet.preflight
from gpufleet.paths import repo_root
from gpufleet.preflight import RULES, Rule, Status, UnknownRule, explain, find_rule, run
from gpufleet.preflight.needs import local_needs
from gpufleet.preflight.rule import EVERY_PROVIDER

IDS = [rule.id for rule in RULES]
DOC = repo_root() / "docs/preflight.md"


def every_rule_class() -> set[type[Rule]]:
    """Each subclass in the package, found by importing all of its modules."""
    for module in pkgutil.iter_modules(gpufleet.preflight.__path__):
        importlib.import_module(f"gpufleet.preflight.{module.name}")
    found, stack = set(), [Rule]
    while stack:
        for kind in stack.pop().__subclasses__():
            if kind.__module__.startswith("gpufleet."):
                found.add(kind)
            stack.append(kind)
    return found


def section(rule: Rule) -> str:
    """The part of the documentation that begins with the rule's anchor."""
    parts = re.split(r'(?m)^<a id="([a-z0-9-]+)"></a>$', DOC.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))[rule.anchor]


def cases(table: dict[str, tuple[Case, ...]]) -> list[object]:
    return [
        pytest.param(rule, case, id=f"{rule}-{number}")
        for rule, rows in table.items()
        for number, case in enumerate(rows)
    ]


def test_every_rule_class_is_wired_once() -> None:
    assert every_rule_class() == {type(rule) for rule in RULES}
    assert len(RULES) == len(every_rule_class())


def test_rule_ids_and_anchors_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)
    assert len({rule.anchor for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_rule_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(\.[a-z0-9-]+)+", rule.id)
    assert rule.level in ("error", "warning")
    assert rule.doc == f"docs/preflight.md#{rule.id.replace('.', '-')}"
    assert rule.providers
    assert rule.providers <= EVERY_PROVIDER
    assert rule.needs
    for text in (rule.title, rule.why, rule.look, rule.fix, type(rule).__doc__):
        assert text
        assert text.strip()


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_rule_has_a_pass_and_a_fail_fixture(rule: Rule) -> None:
    assert PASSES[rule.id]
    assert FAILS[rule.id]


def test_no_fixture_is_for_a_rule_that_does_not_exist() -> None:
    assert set(PASSES) == set(FAILS) == set(IDS)


@pytest.mark.parametrize(("rule_id", "case"), cases(FAILS))
def test_rule_fails_and_says_exactly_what_is_wrong(
    rule_id: str, case: Case, tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, **(case.fields or {}))
    report = run(spec, good(*case.groups), NOW)
    outcome = outcome_of(report, rule_id)
    assert "\n".join(str(finding) for finding in outcome.findings) == case.said
    level = find_rule(rule_id).level
    assert outcome.status is (Status.FAILED if level == "error" else Status.WARNED)
    assert report.ok is (level == "warning")
    others = {x.status for x in report.outcomes if x.rule != rule_id}
    assert others <= {Status.PASSED, Status.SUPPRESSED}


@pytest.mark.parametrize(("rule_id", "case"), cases(PASSES))
def test_rule_passes(rule_id: str, case: Case, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, **(case.fields or {}))
    outcome = outcome_of(run(spec, good(*case.groups), NOW), rule_id)
    assert outcome.findings == ()
    assert outcome.status is Status.PASSED


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_rule_has_its_section_in_the_documentation(rule: Rule) -> None:
    text = section(rule)
    assert f"\n## {rule.id}\n" in text
    assert f"Level: {rule.level}." in text
    for part in ("**Why.**", "**See it.**", "**Fix.**"):
        assert part in text
    assert f"```sh\n{rule.look}\n```" in text


def test_documentation_has_no_section_of_a_rule_that_does_not_exist() -> None:
    headings = re.findall(r"(?m)^## ([a-z]+\.[a-z0-9-]+)$", DOC.read_text())
    assert headings == IDS


@pytest.mark.skipif(os.geteuid() != 0, reason="some of the commands need root")
@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_commands_that_show_the_facts_work(rule: Rule) -> None:
    for command in rule.look.splitlines():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=repo_root(), capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), command


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_explain_says_why_how_to_see_and_how_to_fix(rule: Rule) -> None:
    text = explain(rule.id)
    for part in (rule.id, rule.level, rule.title, rule.why, rule.fix, rule.doc):
        assert part in text
    for command in rule.look.splitlines():
        assert command in text


def test_explain_of_a_misspelt_rule_names_the_nearest() -> None:
    with pytest.raises(UnknownRule) as caught:
        explain("local.rot")
    assert caught.value.args[0] == "no rule is called 'local.rot'; did you mean local.root?"


def test_explain_of_an_unrelated_word_lists_the_rules() -> None:
    with pytest.raises(UnknownRule, match="there are: local.cgroup2, local.disk"):
        explain("zzz")


def test_figures_have_a_source_and_a_date() -> None:
    needs = local_needs()
    for figure in (needs.image, needs.node_disk, needs.node_memory, needs.memory_margin):
        assert figure.mib > 0
        assert figure.source
        assert figure.date.year >= 2026


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="asks the package database")
def test_packages_that_rules_name_bring_their_tools() -> None:
    for tool in local_needs().tools:
        path = shutil.which(tool.name)
        if path is None:
            continue
        spelt = {path, path.removeprefix("/usr")}
        done = subprocess.run(
            ["dpkg-query", "--listfiles", tool.package],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert spelt & set(done.stdout.split()), tool


def test_importing_preflight_brings_no_heavy_module() -> None:
    code = (
        "import sys, gpufleet.preflight; heavy = {'pydantic', 'rich', 'typer', 'pulumi', 'jinja2',"
        "'grpc', 'gpufleet.spec'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(repo_root())},
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
