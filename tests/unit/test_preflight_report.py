"""Outcomes: nothing passes that was not judged, and nothing is hidden."""

import json
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from preflight_fixtures import GOOD, NOW, good, outcome_of, spec_of, suppressing

from gpufleet.preflight import RULES, Facts, Finding, Rule, Status, lines, run
from gpufleet.preflight.facts import FactGroup
from gpufleet.preflight.localgroups import FrontPort, Identity, Kernel, Memory, Probe, RealGpus
from gpufleet.spec import ClusterSpec


class Broken(Rule):
    """A rule with a bug."""

    id = "test.broken"
    level = "error"
    title = "never true"
    why = look = fix = "for a test"

    def check(self, spec: ClusterSpec, facts: Facts) -> Iterable[Finding]:
        raise ZeroDivisionError("oops")


def test_all_rules_pass_on_a_good_host(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path), good(), NOW)
    assert {outcome.status for outcome in report.outcomes} == {Status.PASSED}
    assert report.ok


def test_rule_without_its_facts_is_skipped_with_the_reason(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path), Facts.of(absent={"memory": "the tool hangs"}), NOW)
    judged = {x.rule for x in report.outcomes if x.status is not Status.SKIPPED}
    assert judged == {"suppression.known", "suppression.current"}
    why = outcome_of(report, "local.memory").why
    assert why == "the tool hangs; no own fleet facts were gathered"
    text = "\n".join(lines(report))
    assert re.search(rf"(?m)^skipped +local.memory +{re.escape(why)}$", text)


@given(missing=st.sets(st.sampled_from([type(group) for group in GOOD])))
def test_no_rule_passes_while_a_fact_it_needs_is_missing(
    missing: set[type[FactGroup]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    spec = spec_of(tmp_path_factory.mktemp("s"))
    facts = Facts.of(*(group for group in GOOD if type(group) not in missing))
    for rule, outcome in zip(RULES, run(spec, facts, NOW).outcomes, strict=True):
        lacking = bool(missing & set(rule.needs))
        assert outcome.status is (Status.SKIPPED if lacking else Status.PASSED)


def test_feature_that_could_not_be_tried_does_not_pass(tmp_path: Path) -> None:
    kernel = Kernel("6.1", {"bridges": Probe(True), "veth pairs": Probe(None, "no ip")})
    outcome = outcome_of(run(spec_of(tmp_path), good(kernel), NOW), "local.kernel")
    assert (outcome.status, outcome.why) == (Status.SKIPPED, "could not try veth pairs (no ip)")


def test_port_with_a_hidden_holder_does_not_pass(tmp_path: Path) -> None:
    facts = good(FrontPort(8400, False))
    outcome = outcome_of(run(spec_of(tmp_path), facts, NOW), "local.front-port")
    assert outcome.status is Status.SKIPPED
    assert outcome.why == (
        "127.0.0.1:8400 is in use, and by which process cannot be seen; run as root"
    )


def test_rule_that_breaks_is_an_error_that_names_it(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path), good(), NOW, rules=[Broken(), *RULES])
    outcome = outcome_of(report, "test.broken")
    assert outcome.status is Status.ERROR
    assert outcome.why == "test.broken: ZeroDivisionError: oops"
    assert not report.ok
    assert report.count(Status.PASSED) == len(RULES)


def test_warning_does_not_block(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path), good(RealGpus(("/dev/nvidia0",))), NOW)
    assert report.count(Status.WARNED) == 1
    assert report.ok


def test_suppressed_error_does_not_block_and_is_always_shown(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, **suppressing("local.root"))
    report = run(spec, good(Identity(1000)), NOW)
    outcome = outcome_of(report, "local.root")
    assert outcome.status is Status.SUPPRESSED
    assert outcome.reason == "this host is a test bench"
    assert report.ok
    text = "\n".join(lines(report))
    assert "(until 2026-12-31: this host is a test bench)" in text
    assert "seen user id 1000" in text


def test_suppressed_rule_that_would_pass_is_shown_as_suppressed(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path, **suppressing("local.root")), good(), NOW)
    outcome = outcome_of(report, "local.root")
    assert (outcome.status, outcome.findings) == (Status.SUPPRESSED, ())


@pytest.mark.parametrize(
    ("rule", "expires", "reason"),
    [
        ("local.root", "2026-11-30", "this host is a test bench"),
        ("local.rooot", "2026-12-31", "this host is a test bench"),
        ("local.root", "2026-12-31", " " * 12),
    ],
    ids=["expired", "misspelt", "no reason"],
)
def test_suppression_that_does_not_hold_leaves_the_rule_failed(
    rule: str, expires: str, reason: str, tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, **suppressing(rule, expires, reason))
    report = run(spec, good(Identity(1000)), NOW)
    assert outcome_of(report, "local.root").status is Status.FAILED
    assert not report.ok


def test_suppression_holds_to_the_end_of_its_last_day_in_utc(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, **suppressing("local.root", "2026-12-01"))
    last = datetime(2026, 12, 1, 23, 59, 59, tzinfo=UTC)
    east = timezone(timedelta(hours=9))
    for now, status in (
        (last, Status.SUPPRESSED),
        (last.astimezone(east), Status.SUPPRESSED),
        (last + timedelta(seconds=1), Status.FAILED),
    ):
        report = run(spec, good(Identity(1000)), now)
        assert outcome_of(report, "local.root").status is status


def test_rules_about_suppressions_cannot_be_suppressed(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path, **suppressing("suppression.known")), good(), NOW)
    assert outcome_of(report, "suppression.known").status is Status.FAILED


def test_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs its time zone"):
        run(spec_of(tmp_path), good(), NOW.replace(tzinfo=None))


def test_other_providers_get_their_own_rules_only(tmp_path: Path) -> None:
    pool = {"name": "a", "partition": "inference", "instance_type": "p5.48xlarge", "count": 1}
    report = run(spec_of(tmp_path, provider="aws", pools=[pool]), Facts(), NOW)
    assert [x.rule for x in report.outcomes] == ["suppression.known", "suppression.current"]


def test_report_for_machines_is_plain_json_with_a_version(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, **suppressing("local.root"))
    report = run(spec, good(Memory(1), Identity(5)), NOW)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["schema_version"] == 1
    assert data["cluster"] == "tiny"
    assert data["checked_at"] == "2026-12-01T12:00:00+00:00"
    assert data["ok"] is False
    assert data["counts"] == {
        "passed": len(RULES) - 2, "failed": 1, "warned": 0, "skipped": 0, "suppressed": 1,
        "error": 0,
    }  # fmt: skip
    rows = {row["rule"]: row for row in data["outcomes"]}
    assert rows["local.root"]["expires"] == "2026-12-31"
    assert rows["local.memory"]["doc"] == "docs/preflight.md#local-memory"
    assert set(rows["local.memory"]["findings"][0]) == {"path", "message", "seen", "allowed", "fix"}


def test_plain_text_ends_with_the_sum(tmp_path: Path) -> None:
    report = run(spec_of(tmp_path), good(Memory(1)), NOW)
    text = lines(report)
    assert text[-1] == f"tiny: not ok ({len(RULES) - 1} passed, 1 failed)"
    assert len(text) == len(RULES) + 2


def test_thousand_nodes_are_judged_at_once(tmp_path: Path) -> None:
    pool = {"name": "a", "partition": "inference", "instance_type": "sim.cpu", "count": 1000}
    spec = spec_of(tmp_path, pools=[pool], network={"cidr": "10.9.0.0/20"})
    begun = time.monotonic()
    report = run(spec, good(), NOW)
    assert time.monotonic() - begun < 0.2
    assert outcome_of(report, "local.memory").status is Status.FAILED
