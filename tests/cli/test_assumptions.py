"""``trailgate assumptions``: a table, JSON lines, or the page; every row names code and tests that exist."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from trailgate.cli.commands.assumptions import Assumption, as_markdown, read_assumptions
from trailgate.cli.main import run

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ASSUMPTIONS = read_assumptions()


def named(row: Assumption) -> object:
    return pytest.param(row, id=row.name)


@cache
def sources_of_tests() -> str:
    return "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))


def exists(name: str) -> bool:
    """Return whether a test function, a case, a case within its file, or a file of tests exists."""
    if name.startswith("test_"):
        return bool(re.search(rf"^\s*def {name}\(", sources_of_tests(), re.MULTILINE))
    file, colon, title = name.partition(": ")
    if colon:
        return any(title in path.read_text() for path in TESTS.rglob(file))
    return (ROOT / name).is_file() or (TESTS / f"trail/cases/{name}.toml").is_file()


@pytest.mark.parametrize("row", [named(row) for row in ASSUMPTIONS])
def test_the_tests_of_an_assumption_exist(row: Assumption) -> None:
    assert row.tests
    assert [name for name in row.tests if not exists(name)] == []


@pytest.mark.parametrize("row", [named(row) for row in ASSUMPTIONS])
def test_the_code_of_an_assumption_exists(row: Assumption) -> None:
    assert row.where
    for place in row.where:
        file, _, word = place.partition(": ")
        assert word in (ROOT / "src/trailgate" / file).read_text(), place


def test_rows_are_whole_and_have_names_of_their_own() -> None:
    assert all(row.name and row.area and row.statement and row.why for row in ASSUMPTIONS)
    assert len({row.name for row in ASSUMPTIONS}) == len(ASSUMPTIONS)
    assert all("|" not in f"{row.statement}{row.why}{row.source}" for row in ASSUMPTIONS)


def test_the_page_is_the_table() -> None:
    """If this fails: trailgate assumptions --markdown > docs/assumptions.md."""
    assert (ROOT / "docs/assumptions.md").read_text() == as_markdown()


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["assumptions", *arguments]) == 0
    return capsys.readouterr().out


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in shown(capsys, "--json").splitlines()]

    assert [row["name"] for row in rows] == [row.name for row in ASSUMPTIONS]
    assert set(rows[0]) == {"name", "area", "statement", "why", "source", "where", "tests"}


def test_the_page_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--markdown") == as_markdown()


def test_the_table_has_all_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")

    text = shown(capsys)

    assert [row.name for row in ASSUMPTIONS if row.name not in text] == []


def test_two_forms_at_once_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["assumptions", "--json", "--markdown"]) == 2
    assert "exclude each other" in capsys.readouterr().err
