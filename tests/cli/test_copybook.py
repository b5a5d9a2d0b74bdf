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
