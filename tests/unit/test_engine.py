"""Reading the engine's events, and telling dead locks from live ones."""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpufleet.engine.events import Message, Step, follow, parse
from gpufleet.engine.locks import holders

URN = "urn:pulumi:c::gpufleet::gpufleet-local:index:LocalFleet$gpufleet-local:index:{0}::{1}"


def line(key: str, operation: str, kind: str = "Machine", name: str = "a-001") -> str:
    metadata = {
        "op": operation,
        "type": f"gpufleet-local:index:{kind}",
        "urn": URN.format(kind, name),
    }
    return json.dumps({"sequence": 1, key: {"metadata": metadata}})


def test_steps_are_read_from_their_events() -> None:
    assert parse(line("resourcePreEvent", "create")) == Step("begun", "create", "Machine", "a-001")
    assert parse(line("resOutputsEvent", "delete")) == Step("done", "delete", "Machine", "a-001")
    assert parse(line("resOpFailedEvent", "update")) == Step("failed", "update", "Machine", "a-001")
    assert parse(line("resourcePreEvent", "same")) is None


def test_errors_of_the_engine_are_told_and_chatter_is_not() -> None:
    event = {"diagnosticEvent": {"severity": "error", "message": "boom<{%reset%}>\n"}}
    assert parse(json.dumps(event)) == Message("error", "boom")
    event["diagnosticEvent"]["ephemeral"] = True
    assert parse(json.dumps(event)) is None


def test_log_is_followed_to_its_end_across_partial_lines(tmp_path: Path) -> None:
    log = tmp_path / "events"
    text = line("resourcePreEvent", "create") + "\n" + line("resOutputsEvent", "create") + "\n"
    log.write_text(text[:30])
    turns = iter([text[30:300], text[300:], ""])

    def ended() -> bool:
        more = next(turns)
        with log.open("a") as stream:
            stream.write(more)
        return not more

    assert [event.state for event in follow(log, ended) if isinstance(event, Step)] == [
        "begun",
        "done",
    ]


def lock(backend: Path, pid: int, since: datetime, host: str | None = None) -> None:
    folder = backend / ".pulumi/locks/organization/gpufleet/c"
    folder.mkdir(parents=True, exist_ok=True)
    row = {"pid": pid, "hostname": host or os.uname().nodename, "timestamp": since.isoformat()}
    (folder / "lock.json").write_text(json.dumps(row))


def test_lock_of_a_dead_process_is_dead(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    lock(tmp_path, process.pid, datetime.now(UTC))
    assert [x.alive() for x in holders(tmp_path, "gpufleet", "c")] == [False]


def test_lock_of_a_live_process_is_live(tmp_path: Path) -> None:
    lock(tmp_path, os.getpid(), datetime.now(UTC))
    assert [x.alive() for x in holders(tmp_path, "gpufleet", "c")] == [True]


def test_number_taken_by_a_younger_process_does_not_keep_a_lock(tmp_path: Path) -> None:
    lock(tmp_path, os.getpid(), datetime.now(UTC) - timedelta(days=30))
    assert [x.alive() for x in holders(tmp_path, "gpufleet", "c")] == [False]


def test_lock_of_another_host_counts_as_live(tmp_path: Path) -> None:
    lock(tmp_path, 1, datetime.now(UTC), host="elsewhere")
    assert [x.alive() for x in holders(tmp_path, "gpufleet", "c")] == [True]


def test_half_written_lock_is_dead(tmp_path: Path) -> None:
    lock(tmp_path, 1, datetime.now(UTC))
    (tmp_path / ".pulumi/locks/organization/gpufleet/c/lock.json").write_text('{"pid": 1')
    assert [x.alive() for x in holders(tmp_path, "gpufleet", "c")] == [False]
