"""Every assumption names what is there, and the page about them is the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trailgate.model.assumptions import ASSUMPTIONS, Assumption, as_markdown

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
WITHOUT_TEST: frozenset[str] = frozenset()  # names of rows that no test names yet


def named(row: Assumption) -> object:
    return pytest.param(row, id=row.name)


def is_there(name: str) -> bool:
    """Tell whether a test function, a case, a case within a file or a file of tests exists."""
    if name.startswith("test_"):
        pattern = re.compile(rf"^\s*def {name}\(", re.MULTILINE)
        return any(pattern.search(path.read_text()) for path in TESTS.rglob("test_*.py"))
    file, colon, title = name.partition(": ")
    if colon:
        return any(title in path.read_text() for path in TESTS.rglob(file))
    return (ROOT / name).is_file() or (TESTS / f"trail/cases/{name}.toml").is_file()


@pytest.mark.parametrize("row", [named(row) for row in ASSUMPTIONS])
def test_the_tests_of_an_assumption_exist(row: Assumption) -> None:
    assert [name for name in row.tests if not is_there(name)] == []


@pytest.mark.parametrize("row", [named(row) for row in ASSUMPTIONS])
def test_the_code_of_an_assumption_exists(row: Assumption) -> None:
    places = [place.partition(": ") for place in row.where]

    assert places
    for file, _, word in places:
        assert word in (ROOT / "src/trailgate" / file).read_text(), (file, word)


def test_rows_are_whole_and_have_names_of_their_own() -> None:
    assert all(row.name and row.statement and row.why for row in ASSUMPTIONS)
    assert len({row.name for row in ASSUMPTIONS}) == len(ASSUMPTIONS)
    assert all("|" not in "".join(map(str, row[2:5])) for row in ASSUMPTIONS)


def test_only_these_are_without_a_test() -> None:
    assert {row.name for row in ASSUMPTIONS if not row.tests} == WITHOUT_TEST


def test_the_page_is_the_table() -> None:
    """If this fails: trailgate assumptions --markdown > docs/assumptions.md."""
    assert (ROOT / "docs/assumptions.md").read_text() == as_markdown()
