"""Promises about what a reader leaves out or guesses: it is logged once, with the place and what helps."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from raw_trail import inserts, write_files
from trailgate.cli.main import run
from trailgate.errors import OptionError
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.findings import NEWER

HELD = "the last operation of an open transaction is skipped"


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """Return a trail that ends inside a transaction, and has no manifest."""
    return write_files(tmp_path / "ot", [[*inserts([1]), *inserts([2, 3, 4], tx=2)[:2]]])


def ids(prefix: Path, **options: Any) -> list[str]:
    rows = read_trail(prefix, **options).read_all()["after"].to_pylist()
    return [dict(row)["ID"] for row in rows]


def test_what_is_held_back_of_an_open_transaction_is_logged_with_its_place(
    growing: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert ids(growing) == ["1", "2"]
    (notice,) = [record.getMessage() for record in caplog.records]
    last = len(inserts([2, 3, 4], tx=2)[1])
    size = Path(f"{growing}000000000").stat().st_size
    assert notice.startswith(f"{growing}000000000, byte {size - last}: {HELD}")


def test_an_open_transaction_is_shown_when_asked_for(
    growing: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert ids(growing, open_transactions="show") == ["1", "2", "3"]
    assert not caplog.records
    with pytest.raises(OptionError, match="open transactions applies to operations"):
        read_trail(growing, records="all", open_transactions="show")


def test_the_command_line_shows_and_counts_open_transactions(
    growing: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run(["show", str(growing), "--format", "json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert HELD in caplog.text
    assert run(["show", str(growing), "--format", "json", "--open-transactions", "show"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run(["check", str(growing), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["open_transactions"] == 1


@pytest.mark.parametrize("options", [{"open_transactions": "show"}, {"records": "all"}])
def test_a_record_that_is_not_whole_is_logged_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1, 2, 3])])
    path = Path(f"{prefix}000000000")
    size, last = path.stat().st_size, len(inserts([1, 2, 3])[2])
    os.truncate(path, size - 1)
    assert read_trail(prefix, **options).read_all().num_rows == 2
    messages = [record.getMessage() for record in caplog.records]
    assert any(
        f"{path}, byte {size - last}: the file ends inside a record" in text for text in messages
    )


@pytest.mark.parametrize("records", ["operations", "all"])
def test_a_file_shorter_than_its_header_states_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, records: str
) -> None:
    demo = tmp_path / "demo"
    assert run(["demo", "--no-spark", "--dir", str(demo)]) == 0
    path = demo / "dirdat" / "ot000000000"
    for other in path.parent.iterdir():
        if other not in (path, path.with_name("ot.def")):
            other.unlink()
    size = path.stat().st_size
    os.truncate(path, size - 1)
    read_trail(path, records=records).read_all()  # type: ignore[arg-type]
    assert f"the file has {size - 1:,} bytes, 1 fewer than its header states" in caplog.text


def test_tables_that_nothing_defines_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [inserts([number]) for number in range(5)]
    prefix = write_files(tmp_path / "ot", files, definitions=False)
    assert read_trail(prefix, threads=2).read_all().num_rows == 5
    (notice,) = caplog.records
    assert notice.levelno == logging.WARNING
    assert "MY.ORDERS is not defined: columns are numbered" in notice.getMessage()
    assert "--definitions FILE" in notice.getMessage()


@pytest.mark.parametrize("records", ["operations", "all"])
def test_a_level_newer_than_those_known_is_logged_and_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, records: str
) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1])], level=99)
    assert read_trail(prefix, records=records).read_all().num_rows == 1  # type: ignore[arg-type]
    assert "the trail has level 99, but only levels up to 7 are known" in caplog.text
    report = check_trail(str(prefix))
    assert NEWER.name in {found.kind for found in report.findings}
    assert report.whole


def test_tables_named_twice_all_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1])])
    more = ["--table", "MY.ORDERS", "--table", "my.orders", "--tables", "NO.*", "--tables", "X.Y"]
    assert run(["show", str(prefix), "--format", "json", *more]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run(["show", str(prefix), "--format", "json", *more[4:]]) == 0
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "notices"),
    [
        (
            {"after": "0:700", "to_position": "0:800"},
            [
                "position 0:700 is before the trail's beginning, which is 1:0",
                "position 0:800 is before the trail's beginning, which is 1:0",
            ],
        ),
        ({"from_position": "7:0"}, ["position 7:0 is after the trail's end, which is 2:"]),
        ({"after": "2:99999"}, ["position 2:99999 is after the trail's end, which is 2:"]),
        (
            {"to_position": "0:700"},
            ["position 0:700 is before the trail's beginning, which is 1:0"],
        ),
        ({"tables": "NO.*,MY.NO"}, ["tables NO.*: no table", "tables MY.NO: no table"]),
        ({"from_position": "1:0", "to_position": "2:99999", "tables": "MY.*"}, []),
    ],
)
def test_a_choice_of_nothing_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], notices: list[str]
) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([number]) for number in range(3)])
    Path(f"{prefix}000000000").unlink()

    rows = read_trail(prefix, **options).read_all().num_rows

    assert rows == (0 if notices else 2)
    assert len(caplog.messages) == len(notices)
    for message, notice in zip(caplog.messages, notices, strict=True):
        assert f"{prefix}: {notice}" in message
