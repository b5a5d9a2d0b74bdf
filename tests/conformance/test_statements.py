"""Every statement is whole, its tests and decisions exist, and docs/conformance.md is made of it."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from conformance.statements import (
    FOLDER,
    ORDER,
    PAGE,
    STATES,
    Statement,
    as_markdown,
    read_documents,
)

ROOT = PAGE.parents[1]
DOCUMENTS = read_documents()
STATEMENTS = [
    pytest.param(one, id=f"{name}: {one.id}")
    for name, document in zip(ORDER, DOCUMENTS, strict=True)
    for one in document.statements
]


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a module of tests."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


@cache
def cases_of(folder: Path) -> frozenset[str]:
    """Return the ids that files of cases give: the file's name, and those of the cases within it."""
    found = set()
    for path in [*folder.rglob("*.toml"), *folder.rglob("*.txt")]:
        found.add(path.stem)
        if path.suffix == ".toml":
            file = tomllib.loads(path.read_text())
            names = [one["name"] for one in file.get("case", ()) if "fails" not in one]
            found |= {*names, *(f"{path.stem}: {name}" for name in names)}
            found |= {one["why"] for one in file.get("field", ())}
    return frozenset(found)


def exists(test: str) -> bool:
    """Return whether a node id names a test, as far as its module and its cases show without running them."""
    match = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)(?:\[(.+)\])?", test)
    path = ROOT / match[1] if match else ROOT
    if match is None or not path.is_file() or match[2] not in functions_of(path):
        return False
    given = match[3]
    folders = (path.parent, path.parents[1])
    if given is None or any(given in cases_of(folder) for folder in folders):
        return True
    # Not a file's: its parts are in the module's text, as names, literals or keys.
    text = path.read_text()
    return all(
        re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) for part in re.split(r"[- ]", given)
    )


@pytest.mark.parametrize("one", STATEMENTS)
def test_the_tests_of_a_statement_exist(one: Statement) -> None:
    assert [test for test in one.tests if not exists(test)] == []


@pytest.mark.parametrize("one", STATEMENTS)
def test_a_statement_is_whole(one: Statement) -> None:
    assert all((one.id, one.place, one.text))
    assert one.state in STATES
    assert one.tests or one.state == "not yet"
    assert one.note or one.state != "not yet"
    assert bool(one.decision) == (one.state == "differs")
    if one.decision:
        assert list((ROOT / "docs/decisions").glob(f"{one.decision}-*.md"))


def test_every_document_is_on_the_page_and_its_ids_are_its_own() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(ORDER)
    for document in DOCUMENTS:
        ids = [one.id for one in document.statements]
        assert len(set(ids)) == len(ids)


def test_a_test_that_is_not_there_is_found() -> None:
    here = "tests/conformance/test_statements.py::test_a_statement_is_whole"

    assert exists(here)
    assert not exists(here.replace("whole", "broken"))
    assert not exists(here.replace("test_statements", "test_nothing"))
    assert not exists(
        "tests/trail/test_trail_cases.py::test_a_record_reads_and_writes_as_its_case[nosuch]"
    )


def test_the_page_is_made_of_the_statements() -> None:
    """If this fails: make conformance."""
    assert PAGE.read_text() == as_markdown(DOCUMENTS)
