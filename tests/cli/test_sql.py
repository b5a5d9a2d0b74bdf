"""``trailgate sql``: statements from the command line, from standard input, and typed at a prompt."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from trailgate.cli.main import run
from trailgate.sql.command import split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT ';' AS a; SELECT", ["SELECT ';' AS a"], "SELECT"),
        ("SELECT 'it''s;'; ", ["SELECT 'it''s;'"], ""),
        ('SELECT 1 AS "a;b";', ['SELECT 1 AS "a;b"'], ""),
        ("SELECT 1; SELECT ';", ["SELECT 1"], "SELECT ';"),
        ("-- one; two\nSELECT 1;", ["SELECT 1"], ""),
        ("/* one; */ SELECT 4 /* two", [], "SELECT 4 "),
        ("SELECT 3-1, 4/2;", ["SELECT 3-1, 4/2"], ""),
        (";;", [], ""),
    ],
)
def test_statements_end_at_semicolons(text: str, statements: list[str], rest: str) -> None:
    found, left = split_statements(text)

    assert ([one.text for one in found], left.text) == (statements, rest)


class Input:
    """Standard input of some bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


def test_statements_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"SELECT 1 AS a;\nSELECT 'x;y' AS b"))

    assert run(["sql", "-", "--format", "json"]) == 0
    assert capsys.readouterr().out.split("\n") == ['{"a": 1}', '{"b": "x;y"}', ""]


@pytest.mark.parametrize(
    ("content", "arguments", "problem"),
    [
        (b"", ["-"], "standard input has no statement"),
        (b"SELECT '\xff'", ["-"], "byte 8 is 0xff"),
        (b"SELECT 1; SELECT 2", ["-", "--to", "rows.csv"], "one statement, but there are 2"),
        (b"SELECT 1", [], "a SELECT statement is missing"),
        (b"", ["  ;"], "there is no statement"),
    ],
)
def test_input_that_is_no_statement_is_refused(
    content: bytes,
    arguments: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(content))

    assert run(["sql", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "statement"),
    [
        ("SELECT 1;\n\nSELECT nope;\nSELECT 2", "statement 2 (line 3): "),
        ("-- all\nSELECT nope", "statement 1 (line 2): "),
        ("/* a;\nb */ SELECT 1; SELECT\n\nnope;", "statement 2 (line 2): "),
        ("SELECT 1; SELECT * FROM 'nowhere/ot'", "statement 2 (line 1): "),
    ],
)
def test_an_error_of_standard_input_names_the_statement_and_its_line(
    content: str,
    statement: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Input(content.encode()))

    assert run(["sql", "-"]) in (1, 2)

    assert capsys.readouterr().err.startswith(f"error: {statement}")


def test_a_terminal_gets_a_prompt_that_survives_errors(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "trailgate", "sql", "--format", "csv"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        os.write(ours, b"SELECT nope;\rSELECT 40 +\r2 AS answer;\r\\q\r")
        out, error = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert process.returncode == 0, error
    assert b"answer\r\n42" in out or b"answer\n42" in out
    assert b"nope" in error


def test_help_and_version_are_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "show"]) == 0
    assert "Usage: trailgate show" in capsys.readouterr().out
    assert run(["help"]) == 0
    assert "Usage: trailgate [OPTIONS] COMMAND" in capsys.readouterr().out
    assert run(["-h"]) == 0
    assert "Usage: trailgate [OPTIONS] COMMAND" in capsys.readouterr().out
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith("trailgate ")


def test_lines_of_json_have_only_numbers_that_json_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = "SELECT '-inf'::double AS a, {'b': 'NaN'::double} AS c"

    assert run(["sql", statement, "--format", "json"]) == 0
    assert run(["sql", statement, "--to", str(tmp_path / "a.jsonl")]) == 0

    line = '{"a": "-Infinity", "c": {"b": "NaN"}}'
    assert capsys.readouterr().out.splitlines() == [line, f"1 row: {tmp_path / 'a.jsonl'}"]
    assert (tmp_path / "a.jsonl").read_text() == f"{line}\n"
