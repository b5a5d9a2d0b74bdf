"""What readers of a trail announce beside its rows."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from damaged_trails import ONLY, by_index, change, metadata, write_files
from sample_trail import NOTES
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.records.record import TrailRecord

UNREAD = replace(metadata(1), data=bytes(range(81)))


def written(folder: Path, *records: TrailRecord) -> str:
    write_files(folder / "ot", [list(records)])
    (folder / "ot.def").unlink()
    return str(folder / "ot")


def test_definitions_that_are_not_understood_are_announced_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail = written(tmp_path, UNREAD, *(by_index(change(i, ONLY), 1) for i in range(3)), UNREAD)

    with caplog.at_level(logging.WARNING):
        rows = read_trail(trail).read_all().to_pylist()

    assert dict(rows[0]["after"]) == {"#0": "0", "#1": "text"}
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path}/ot000000000, byte ")
    assert f"definitions of {NOTES.name} are not understood" in message
    assert "--definitions FILE" in message
    findings = check_trail(trail).findings
    assert [(one.kind, one.severity.value) for one in findings] == [("unread table", "note")] * 2


def test_definitions_that_are_understood_or_given_are_not_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    understood = written(tmp_path, metadata(1), by_index(change(0, ONLY), 1))
    given = tmp_path / "given"
    given.mkdir()
    write_files(given / "ot", [[UNREAD, by_index(change(0, ONLY), 1)]])

    with caplog.at_level(logging.WARNING):
        for trail in (understood, str(given / "ot")):
            assert read_trail(trail).read_all().num_rows == 1
            assert not check_trail(trail).findings

    assert not caplog.messages


def test_a_trail_without_its_definitions_announces_each_table_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path / "ot", [[change(0, ONLY), change(1, ONLY)], [change(2, ONLY)]])

    with caplog.at_level(logging.WARNING):
        assert read_trail(str(tmp_path / "ot")).read_all().num_rows == 3
        assert not caplog.messages
        (tmp_path / "ot.def").rename(tmp_path / "moved.def")
        for threads in (1, 2):
            caplog.clear()
            assert read_trail(str(tmp_path / "ot"), threads=threads).read_all().num_rows == 3
            (message,) = caplog.messages
            assert "MY.ORDERS is not defined: columns are numbered" in message
            assert "--definitions FILE" in message
