"""The overview shows whether a capture writes the trail, and what it has noted on the disk."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from browse.test_operation_pages import asking, plain
from received_messages import received
from sample_trail import DEFINITIONS, Op, changes
from trailgate.browse.capture_state import CaptureState, capture_state
from trailgate.browse.index import TrailIndex
from trailgate.live.files.journal_writer import Journal
from trailgate.live.jobs.source import SourcePosition
from trailgate.storage.files.locks import lock, lock_holder
from trailgate.storage.files.manifest import Manifest, write_manifest
from trailgate.storage.files.trail_files import list_trail
from trailgate.storage.live.appender import TrailAppender

BAD = [json.dumps({"body": "X", "reason": "unknown optype"}) + "\n"] * 2


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "rt")


@pytest.fixture
def appender(prefix: str) -> Iterator[TrailAppender]:
    with TrailAppender(prefix, DEFINITIONS) as found:
        found.append(changes([[Op("I", 1)], [Op("I", 2)]]))
        yield found


def commit(appender: TrailAppender, prefix: str, source: str = "journal") -> None:
    """Commit as a live capture does after five messages, of which two were quarantined."""
    Path(f"{prefix}.quarantine.jsonl").write_text("".join(BAD))
    position = SourcePosition(source, 5, quarantine=sum(map(len, BAD)))
    appender.commit(position.encode())


def state(prefix: str) -> CaptureState | None:
    return capture_state(list_trail(prefix))


def overview(prefix: str) -> str:
    with TrailIndex(prefix) as index:
        index.build()
        return plain(asking(index)(""))


def test_a_capture_that_runs_is_shown_with_what_it_has_committed(
    appender: TrailAppender, prefix: str
) -> None:
    with Journal(Path(f"{prefix}.journal")) as journal:
        journal.append(received([f"message {number}" for number in range(8)]))
        commit(appender, prefix)

        page = overview(prefix)

    assert re.search(r"Capture state running run by process \d+ of", page)
    assert "next message of the journal 5" in page
    assert "quarantined 2" in page
    assert "received, not captured yet 3" in page
    assert f"committed up to 0:{appender.place.offset}" in page
    assert "its last operation 2026-01-01 00:00:0" in page
    assert "Messages that the broker has not given yet are not known here" in page


def test_a_capture_that_has_ended_is_shown_so(appender: TrailAppender, prefix: str) -> None:
    commit(appender, prefix)
    appender.close()

    assert "Capture state not running next message" in overview(prefix)


def test_what_only_the_broker_knows_is_not_known(appender: TrailAppender, prefix: str) -> None:
    commit(appender, prefix, "kafka topic orders, partition 0")

    page = overview(prefix)

    assert "next message of the kafka topic orders, partition 0 5" in page
    assert "received, not captured yet not known here" in page


def test_a_trail_of_another_program_shows_its_commit_alone(
    appender: TrailAppender, prefix: str
) -> None:
    appender.commit("its own position")

    found = state(prefix)

    assert found is not None
    assert found.commit is not None
    assert found.commit.source is None
    assert "next message" not in overview(prefix)


def test_a_trail_that_nobody_captures_into_has_no_state(prefix: str) -> None:
    with lock(prefix):
        found = state(prefix)
        assert found is not None
        assert "process" in (found.holder or "")

    assert state(prefix) is None


def test_what_cannot_be_read_is_stated(appender: TrailAppender, prefix: str) -> None:
    appender.commit("position")
    Path(f"{prefix}.checkpoint.json").write_text("{")

    found = state(prefix)

    assert found is not None
    assert found.holder
    assert "the checkpoint cannot be understood" in found.problem


def test_looking_at_a_lock_keeps_no_run_from_it(tmp_path: Path) -> None:
    prefix, done = str(tmp_path / "aa"), threading.Event()

    def look() -> None:
        while not done.is_set():
            lock_holder(prefix)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(50):
            with lock(prefix):
                pass
    finally:
        done.set()
        looking.join()


def test_the_last_run_of_a_capture_is_shown_with_its_counts(
    appender: TrailAppender, prefix: str
) -> None:
    appender.close()
    Path(f"{prefix}.checkpoint.json").unlink()
    summary = {"messages": 12, "quarantined": 0, "skipped_files": 3, "late_operations": 4}
    run = "0" * 64 + "-1767225600000000"
    write_manifest(prefix, Manifest(last_run=run, summary=summary, sources=7))

    page = overview(prefix)

    assert "last run began 2026-01-01 00:00:00 messages 12 quarantined 0 skipped files 3" in page
    assert "late operations 4" in page
    assert "message files of all runs 7" in page
