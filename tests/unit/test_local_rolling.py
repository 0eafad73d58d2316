"""Replacements go one by one, and stop after one that failed."""

import threading

import pytest

from infra.local.rolling import RollingGate, RollingStopped

URN = "urn:pulumi:c::gpufleet::gpufleet-local:index:Machine::{}"
A, B = URN.format("a-001"), URN.format("b-001")


def begin_in_thread(gate: RollingGate, urn: str) -> tuple[threading.Thread, list[str]]:
    outcome: list[str] = []

    def body() -> None:
        try:
            gate.begin(urn)
            outcome.append("begun")
        except RollingStopped as error:
            outcome.append(str(error))

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, outcome


def test_second_replacement_waits_for_the_first() -> None:
    gate = RollingGate()
    gate.announce(A)
    gate.announce(B)
    gate.begin(A)
    thread, outcome = begin_in_thread(gate, B)
    thread.join(0.1)
    assert outcome == []
    gate.end(A, failed=False)
    thread.join(5)
    assert outcome == ["begun"]


def test_plain_delete_does_not_wait() -> None:
    gate = RollingGate()
    gate.announce(A)
    gate.begin(A)
    thread, outcome = begin_in_thread(gate, B)
    thread.join(5)
    assert outcome == ["begun"]


def test_nothing_is_replaced_after_a_failure() -> None:
    gate = RollingGate()
    gate.announce(A)
    gate.announce(B)
    gate.begin(A)
    thread, outcome = begin_in_thread(gate, B)
    gate.end(A, failed=True)
    thread.join(5)
    assert outcome == ["kept as it was: the replacement of a-001 failed"]


def test_cancelled_run_begins_no_further_replacement() -> None:
    gate = RollingGate()
    gate.announce(A)
    gate.stop("the operation was cancelled")
    with pytest.raises(RollingStopped, match="cancelled"):
        gate.begin(A)
