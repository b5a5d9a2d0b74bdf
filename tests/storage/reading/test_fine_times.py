"""Promises about date times with more digits than a timestamp holds: nothing is lost, and there is a way to read them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sample_trail import Op, write_trail
from trailgate.cli.main import run
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import DecodeError, OptionError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.findings import FINE_TIMES

FINE = "2026-01-02 03:04:05.123456789"
COARSE = "2026-01-02 03:04:05.123456000"
STAMPS = Table("MY.STAMPS", (Column("ID", 134, 8, nullable=False, key=True), Column("AT", 192, 29)))


@pytest.fixture
def stamps(tmp_path: Path) -> Path:
    """Return a trail of which one time has nine digits of fraction."""
    operations = [Op("I", 1, COARSE, table=STAMPS), Op("I", 2, FINE, table=STAMPS)]
    prefix = write_trail(tmp_path / "ot", [[operations]])
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(Definitions((STAMPS,))))
    return prefix


def test_a_time_that_a_timestamp_cannot_hold_is_refused_with_the_way_to_read_it(
    stamps: Path,
) -> None:
    with pytest.raises(DecodeError, match=r"field AT.*times=text"):
        read_trail(stamps, table="MY.STAMPS").read_all()


@pytest.mark.parametrize("columns", [None, ("AT",), ("id", "_op_type")])
@pytest.mark.parametrize("threads", [1, 2])
def test_as_text_all_digits_are_read(
    stamps: Path, columns: tuple[str, ...] | None, threads: int
) -> None:
    rows = read_trail(stamps, table="MY.STAMPS", times="text", columns=columns, threads=threads)
    found = rows.read_all()

    assert found["ID" if columns and "id" in columns else "AT"].to_pylist() in (
        [1, 2],
        [COARSE, FINE],
    )
    if columns is None:
        assert found.schema.field("AT").type == pa.string()
        assert found.schema.field("ID").type == pa.int64()


def test_text_is_for_the_types_of_a_table(stamps: Path) -> None:
    with pytest.raises(OptionError, match="times applies to the columns of a table"):
        read_trail(stamps, times="text")


def test_a_check_notes_what_typed_reading_refuses(stamps: Path) -> None:
    (finding,) = check_trail(str(stamps), values=True).findings
    coarse = check_trail(str(stamps)).findings

    assert finding.kind == FINE_TIMES.name
    assert f"MY.STAMPS, column AT: {FINE}" in str(finding)
    assert "times=text" in str(finding)
    assert not coarse


def test_the_command_line_shows_all_digits(
    stamps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ["show", str(stamps), "--table", "MY.STAMPS", "--format", "json"]

    assert run(shown) == 1
    assert "times=text" in capsys.readouterr().err
    assert run([*shown, "--times", "text"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["AT"] for line in lines] == [COARSE, FINE]
    assert run(["show", str(stamps), "--format", "json", "--times", "text"]) == 2
    assert "name it with --table" in capsys.readouterr().err
