"""``trailgate copybook``: the layout for people and for machines, errors with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trailgate.cli.main import run

TEXT = """
       01  ACCOUNT.
      * KEY
           05  NUM    PIC 9(8).
               88  OURS VALUES 1 THRU 9.
           COPY PARTS.
           05  TAGS   PIC X OCCURS 3.
"""


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    (tmp_path / "parts.cpy").write_text("           05  BAL PIC S9(7)V99 COMP-3.\n")
    path = tmp_path / "account.cpy"
    path.write_text(TEXT)
    return path


def test_a_layout_is_a_table(copybook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["copybook", str(copybook)]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["01", "ACCOUNT", "group", "0", "16"]
    assert lines[2][:6] == ["05", "NUM", "9(8)", "zoned(8)", "0", "8"]
    assert lines[2][6] == "key"
    assert lines[3][:7] == ["05", "BAL", "S9(7)V99", "packed(9,2)", "signed", "8", "5"]


def test_a_layout_is_json(copybook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["copybook", str(copybook), "--format", "json"]) == 0

    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fact["name"] for fact in facts] == ["ACCOUNT", "NUM", "BAL", "TAGS"]
    assert facts[1]["conditions"] == {"OURS": [["1", "9"]]}
    assert (facts[2]["offset"], facts[2]["length"], facts[2]["scale"]) == (8, 5, 2)
    assert facts[3]["occurs"] == "3"


def test_a_wrong_copybook_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.cpy"
    bad.write_text("01 A.\n   05 B PIC 9(4) COMP-7.\n")

    assert run(["copybook", str(bad)]) == 1
    assert "line 2, column 18" in capsys.readouterr().err
    assert run(["copybook", str(tmp_path / "none.cpy")]) == 1
    assert run(["copybook", str(bad), "--source-format", "odd"]) == 2


UNUSED = "       01  R.\n       COPY M REPLACING ==NONE== BY ==X==.\n"


@pytest.mark.parametrize(
    "more", [[], ["--to", "arrow"], ["--to", "sql"], ["--dialects"], ["--format", "json"]]
)
@pytest.mark.parametrize("second", ["", "       01  S.\n           05 Z PIC X.\n"])
def test_a_warning_is_given_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, more: list[str], second: str
) -> None:
    (tmp_path / "m.cpy").write_text("           05 A PIC X.\n")
    (tmp_path / "r.cpy").write_text(UNUSED + second)

    assert run(["copybook", str(tmp_path / "r.cpy"), *more]) == 0

    (message,) = (record.getMessage() for record in caplog.records)
    assert "==NONE== replaces nothing" in message


MEMBERS = {
    "cb/a2.cpy": ("cb/a2.cpy", "write COPY a2.cpy. Searched: {0}. Add the member's folder"),
    '"cb/a2.cpy"': ("cb/a2.cpy", "write COPY a2.cpy. Searched: {0}. Add the member's folder"),
    "A2": ("A2", "Searched: {0}. Add the member's folder: --copy-path FOLDER"),
    "ORDRS": ("ORDRS", "Did you mean ORDERS? Searched: {0}. Add the member's folder"),
    "NOTES": ("NOTES", "notes.txt exists, but a member's file ends in .cpy, .cbl, .cob, .copy, .inc"),
}  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS)
def test_a_missing_member_is_named_with_what_was_searched_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], member: str
) -> None:
    (tmp_path / "cb").mkdir()
    (tmp_path / "cb/a2.cpy").write_text("           05 A PIC X.\n")
    (tmp_path / "ORDERS.CPY").write_text("           05 A PIC X.\n")
    (tmp_path / "notes.txt").write_text("           05 A PIC X.\n")
    (tmp_path / "r.cpy").write_text(f"       01  R.\n       COPY {member}.\n")

    assert run(["copybook", str(tmp_path / "r.cpy")]) == 1

    error = capsys.readouterr().err
    name, hint = MEMBERS[member]
    assert f"the member {name} was not found" in error
    assert hint.format(tmp_path) in error
    assert run(["records", "x", "--copybook", str(tmp_path / "r.cpy")]) == 1
    assert "copyPath=FOLDER" in capsys.readouterr().err or "notes.txt" in hint


def test_a_member_in_another_folder_is_found_in_any_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cb").mkdir()
    (tmp_path / "cb/A2.CPY").write_text("           05 A PIC X.\n")
    (tmp_path / "r.cpy").write_text("       01  R.\n       COPY a2.\n")

    assert run(["copybook", str(tmp_path / "r.cpy"), "--copy-path", str(tmp_path / "cb")]) == 0
    assert " A " in capsys.readouterr().out


def line(text: str, last: int = 72) -> str:
    """Return a line of fixed format with the last character of a text in a column."""
    return text.rjust(last)


@pytest.mark.parametrize(
    ("text", "cut", "code"),
    [
        (line("05  A PIC X(5)") + ".", "'.'", 1),
        (line("05  A PIC X(5)", 70) + "  OCCURS 3.", "'OCCURS 3.'", 1),
        (line("05  A PIC X(5).") + "CHG00123", "", 0),
        (line("05  A PIC X(5).") + "00012345", "", 0),
        (line("05  A PIC X(5)", 71) + ". ABC-1", "", 0),
        (line("05  A PIC X(5).", 70) + "  OCCURS 3.", "'OCCURS 3.'", 0),
        (line("COPY M") + ".", "'.'", 1),
    ],
)
def test_text_of_an_entry_after_column_72_is_a_warning_with_its_line(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    text: str,
    cut: str,
    code: int,
) -> None:
    (tmp_path / "m.cpy").write_text("           05 C PIC X.\n")
    path = tmp_path / "r.cpy"
    path.write_text(f"       01  R.\n{text}\n           05  B PIC X(7).\n")

    assert run(["copybook", str(path)]) == code

    warned = [record.getMessage() for record in caplog.records]
    place = f"({path}, line 2, column 73)"
    assert len(warned) == bool(cut)
    assert all(f"text after column 72 is not read: {cut} {place}" in one for one in warned)
    assert not code or "Text after column 72 is not read" in capsys.readouterr().err
