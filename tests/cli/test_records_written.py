"""``trailgate records --write``: rows of Parquet and JSON lines become the records that they were read from."""

from __future__ import annotations

import gzip
import json
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


FLOATS = """
       01  R.
           05  X        PIC X(3).
           05  A        COMP-1.
           05  G        OCCURS 2.
               10  B    COMP-2.
           05  T        COMP-1 OCCURS 2.
"""


def test_floats_without_a_number_in_json_are_text_there_and_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    special = "7FC00000 7FF0000000000000 C05DA80000000000 42C80000 FF800000"
    usual = "42C80000 C05DA80000000000 C05DA80000000000 42C80000 42C80000"
    data = b"".join(b"\xd5\x81\xd5" + bytes.fromhex(text) for text in (special, usual))
    (folder / "account.cpy").write_text(FLOATS)
    (folder / "data").write_bytes(data)

    assert records("data", "--format", "json", "-o", "floats=ieee") == 0
    lines = capsys.readouterr().out
    (folder / "rows.jsonl").write_text(lines)
    assert records("rows.jsonl", "--write", "--to", "new", "-o", "floats=ieee") == 0

    first = json.loads(lines.splitlines()[0], parse_constant=pytest.fail)
    assert first == {
        "X": "NaN",
        "A": "NaN",
        "G": [{"B": "Infinity"}, {"B": -118.625}],
        "T": [100.0, "-Infinity"],
    }
    assert (folder / "new").read_bytes() == data


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


KINDS = """
       01  CLAIM.
           05  SEG      PIC X.
           05  OWNER.
               10  NAME     PIC X(6).
           05  PART REDEFINES OWNER.
               10  NUM      PIC 9(6).
"""
CLAIMS = [text.encode("cp037") for text in ("OSMITH ", "P000001", "P000002", "OJONES ")]
OF_KINDS = ["--copybook", "claim.cpy", "-o", "kinds=SEG: O=OWNER, P=PART"]


@pytest.fixture
def claims(folder: Path) -> Path:
    (folder / "claim.cpy").write_text(KINDS)
    (folder / "claims").write_bytes(b"".join(CLAIMS))
    return folder


@pytest.mark.parametrize(("kind", "rows"), [("OWNER", (0, 3)), ("PART", (1, 2))])
def test_the_folder_of_each_kind_becomes_its_records(
    claims: Path, kind: str, rows: tuple[int, int]
) -> None:
    assert run(["records", "claims", *OF_KINDS, "--to", "out"]) == 0

    own = [*OF_KINDS, "-o", f"segment={kind}", "--write", "--to", "new"]
    assert run(["records", f"out/{kind}", *own]) == 0

    assert (claims / "new").read_bytes() == b"".join(CLAIMS[row] for row in rows)


def test_json_lines_keep_the_order_of_several_kinds(
    claims: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["records", "claims", *OF_KINDS, "--format", "json"]) == 0
    (claims / "rows.jsonl").write_text(capsys.readouterr().out)

    assert run(["records", "rows.jsonl", *OF_KINDS, "--write", "--to", "new"]) == 0

    assert (claims / "new").read_bytes() == b"".join(CLAIMS)


@pytest.mark.parametrize(
    ("path", "more", "hint"),
    [
        ("out", [], "Write one kind, from out/OWNER with -o segment=OWNER"),
        ("out", ["-o", "segment=PART"], "Write one kind, from out/PART with -o segment=PART"),
        ("out/PART", [], "the option segment=PART writes rows of this kind alone"),
        ("out/**", [], "the option segment=OWNER writes rows of this kind alone"),
    ],
)
def test_folders_of_several_kinds_are_refused_with_what_to_do(
    claims: Path, capsys: pytest.CaptureFixture[str], path: str, more: list[str], hint: str
) -> None:
    assert run(["records", "claims", *OF_KINDS, "--to", "out"]) == 0

    assert run(["records", path, *OF_KINDS, *more, "--write", "--to", "new"]) == 1

    assert hint in capsys.readouterr().err
    assert not list(claims.glob("new*"))


@pytest.mark.parametrize(
    "more",
    [["--format", "json"], ["--to", "out"], ["--verify"], ["--set", "NUM=1", "--to", "new"]],
)
def test_an_empty_file_of_records_is_named(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    more: list[str],
) -> None:
    (folder / "in").mkdir()
    (folder / "in/1").write_bytes(b"".join(RECORDS))
    (folder / "in/2").write_bytes(b"")
    with gzip.open("in/3.gz", "wb"):
        pass
    if "--set" in more:
        (folder / "in/3.gz").unlink()
        text = "in/2 is empty (0 bytes): was it written completely?"
    else:
        text = "2 files are empty (0 bytes): in/2, in/3.gz: were they written completely?"

    assert records("in", *more) == 0

    assert [one.getMessage() for one in caplog.records if "empty" in one.getMessage()] == [text]
