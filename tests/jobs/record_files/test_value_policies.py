"""Bytes that a copybook does not allow: each policy through the front ends, and the counts of what they decided on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trailgate.cli.main import run
from trailgate.cobol.records.fields import Tally
from trailgate.errors import DecodeError
from trailgate.jobs.record_files import CopybookOptions, read_all_records, read_records

COPYBOOK = "01 R. 05 A PIC X(3). 05 N PIC 9(4). 05 Q PIC S9(3) COMP-3."
RECORDS = [
    "abc  12".encode("cp037") + b"\x12\x3c",
    "abc0012".encode("cp037") + b"\x40\x40",
    "x      ".encode("cp037") + b"\x00\x00",
    "zz 7   ".encode("cp037") + b"\x12\x3d",
]
ALL = {"padding": "trim", "blank": "null", "low_values": "zero"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"".join(RECORDS))
    return [str(tmp_path / "data"), str(tmp_path / "r.cpy")]


def rows(files: list[str], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_records(*files, **options).read_all().to_pylist()
    return found


def tally(files: list[str], **options: Any) -> Tally:
    found = Tally()
    options = {"copybook": files[1], **options}
    read_all_records(files[0], CopybookOptions.of(options), tally=found).read_all()
    return found


def test_a_number_after_blanks_is_read_and_others_are_errors_that_name_the_option(
    files: list[str],
) -> None:
    found = rows(files, errors="column")

    assert [row["N"] for row in found] == [12, 12, None, None]
    assert found[3]["_errors"][0]["reason"].endswith("by the option padding")
    with pytest.raises(DecodeError, match=r"not a zoned number.*record 1.*option padding"):
        rows(files, padding="error")


def test_each_decision_is_counted_by_option_and_item(files: list[str]) -> None:
    assert [(row["N"], row["Q"]) for row in rows(files, **ALL)] == [
        (12, 123),
        (12, None),
        (None, 0),
        (7, -123),
    ]
    assert list(tally(files, **ALL).lines()) == [
        "blank=null: 2 values (N 1, Q 1)",
        "lowValues=zero: 1 value (Q 1)",
        "padding=trim: 2 values (N 2)",
    ]
    assert tally(files, errors="column")["errors=column", "R", "N"] == 2


def test_a_chunk_that_is_read_again_is_counted_once(files: list[str]) -> None:
    found = Tally()
    options = CopybookOptions.of({"copybook": files[1], "blank": "null", "padding": "trim"})
    reader = read_all_records(files[0], options, 1, found)
    with pytest.raises(DecodeError, match="record 3"):
        reader.read_all()
    assert found["padding=trim", "R", "N"] == 1


def test_the_command_prints_the_counts(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["records", files[0], "--copybook", files[1], "-o", "errors=column"]
    expected = ["errors=column: 4 values (N 2, Q 2)", "padding=left: 1 value (N 1)"]

    assert run([*command, "--format", "csv"]) == 0
    assert capsys.readouterr().err.splitlines() == expected
    assert run([*command, "--to", str(tmp_path / "out"), "-o", "splitBytes=9"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == expected


def test_dropped_bytes_and_skipped_kinds_are_counted(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[0]).write_bytes("A1..B2..C3..".encode("cp037"))
    Path(files[1]).write_text("01 A. 05 K PIC X. 05 N PIC 9.\n01 B. 05 K PIC X. 05 M PIC 9.")
    found = tally(files, kinds="K: A=A, B=B, *", record_length=4)
    assert list(found.lines()) == [
        "kinds, *: 1 record (skipped 1)",
        "surplus=drop: 2 records (A 1, B 1)",
    ]
