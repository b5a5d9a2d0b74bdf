"""``trailgate records --write``: rows of Parquet and JSON lines become the records that they were read from."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from trailgate.cli.main import run

COPYBOOK = """
       01  ACCOUNT.
           05  NUM      PIC 9(4).
           05  HELD.
               10  SUM  PIC S9(3)V99 COMP-3 OCCURS 2.
           05  PLACE    USAGE POINTER.
           05  RATE     COMP-2.
"""
REST = bytes.fromhex("12345c 00001d 01020304 4110000000000000")
RECORDS = [b"\xf0\xf0\xf0\xf7" + REST, b"\xf0\xf0\xf0\xf8" + REST]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "account.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"".join(RECORDS))
    return tmp_path


def records(*arguments: str) -> int:
    return run(["records", *arguments, "--copybook", "account.cpy"])


def test_parquet_becomes_the_records_that_it_was_made_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records("data", "--to", "out") == 0
    assert records("out", "--write", "--to", "new") == 0
    assert records("out", "--write", "--to", "first", "--limit", "1") == 0

    assert (folder / "new").read_bytes() == b"".join(RECORDS)
    assert (folder / "first").read_bytes() == RECORDS[0]
    assert capsys.readouterr().out.splitlines()[-1] == "1 record: first"


@pytest.mark.parametrize("shape", ["tree", "flat"])
def test_json_lines_become_the_records_that_they_were_printed_from(
    folder: Path, capsys: pytest.CaptureFixture[str], shape: str
) -> None:
    assert records("data", "--format", "json", "-o", f"shape={shape}") == 0
    with gzip.open("rows.jsonl.gz", "wt") as file:
        file.write(capsys.readouterr().out)

    assert records("rows.jsonl.gz", "--write", "--to", "new", "-o", f"shape={shape}") == 0

    assert (folder / "new").read_bytes() == b"".join(RECORDS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"NUM": 12345}', "more than 4 digits: 12345 (new, record 1, field NUM)"),
        ('{"NUM": 1}', "NULL cannot be written in such a field (new, record 1, field SUM_1)"),
        ('{"NUM": 1, "HELD": {"SUM": ["1.00"]}}', "an array of 1 elements, but OCCURS states 2"),
        ('{"NUMB": 1}', "no item for the column NUMB"),
        ('{"NUM": "x"}', "not JSON lines"),
        ("{", "not JSON lines"),
    ],
)
def test_values_that_cannot_be_written_are_an_error_and_leave_no_file(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (folder / "rows.jsonl").write_text(text + "\n")

    assert records("rows.jsonl", "--write", "--to", "new") == 1

    assert problem in capsys.readouterr().err
    assert not list(folder.glob("new*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "--write", "--to", "new"],
        ["data", "--write"],
        ["data", "--write", "--to", "new", "--master", "local[1]"],
    ],
)
def test_what_is_not_rows_and_what_does_not_fit_writing_is_refused(arguments: list[str]) -> None:
    assert records(*arguments) == 2
