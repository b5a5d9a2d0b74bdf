"""The statements of public documents, with the tests that show them; run as a program, it writes docs/conformance.md.

Each ``*.toml`` beside this module is one document: ``document`` (its title), ``cited`` (a short one) and ``about``. A
``statement`` has an ``id`` of its own within the document; ``place``, its chapter; ``text``, in our words; ``state``,
one of ``STATES``; ``tests``, pytest's node ids; ``decision``, the number of the decision where it differs; and a ``note``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent
PAGE: Final = FOLDER.parents[1] / "docs/conformance.md"
ORDER: Final = (
    "adapter-guide",
    "capture-properties",
    "event-publications",
    "xml-publications",
    "json-formatter",
    "debezium-events",
    "trail-internals",
    "trail-appendix",
    "header-fields",
)
STATES: Final = ("holds", "differs", "refused", "not yet")

_HEAD: Final = """\
# Conformance

What public documents state about the capture of messages and about trails, statement by statement, in our words: whether Trailgate does it, and the tests that show it. A test is
named as pytest takes it: `pytest 'tests/...::test_case[...]'`. What documents leave open is listed under [assumptions](assumptions.md).

- **holds**: the tests show it
- **differs**: Trailgate does something else on purpose; the decision gives the reason
- **refused**: Trailgate stops with an error that names it
- **not yet**: Trailgate does not do it; the note states what happens instead

This page is made of `tests/conformance/*.toml` by `make conformance`.
"""


class Statement(NamedTuple):
    """One statement of a document."""

    id: str
    place: str
    text: str
    state: str
    tests: tuple[str, ...] = ()
    decision: str = ""
    note: str = ""


class Document(NamedTuple):
    """A public document with its statements, in its order."""

    title: str
    cited: str
    about: str
    statements: tuple[Statement, ...]


def read_documents() -> tuple[Document, ...]:
    """Return all documents, in the order of the page."""
    return tuple(_document(tomllib.loads((FOLDER / f"{name}.toml").read_text())) for name in ORDER)


def _document(file: dict[str, Any]) -> Document:
    rows = (Statement(**row | {"tests": tuple(row.get("tests", ()))}) for row in file["statement"])
    return Document(file["document"], file["cited"], file["about"], tuple(rows))


def as_markdown(documents: Sequence[Document]) -> str:
    """Return the page docs/conformance.md."""
    every = [one for document in documents for one in document.statements]
    totals = [
        _line(["document", "statements", *STATES]),
        _line(["---"] * (2 + len(STATES))),
        *(_totals(_link(one.cited), one.statements) for one in documents),
        _totals("all", every),
    ]
    return "\n".join([_HEAD, *totals, *_open(documents), *map(_section, documents)]) + "\n"


def _open(documents: Sequence[Document]) -> list[str]:
    rows = [
        _line([_link(document.cited), one.place, one.text, _state(one)])
        for document in documents
        for one in document.statements
        if one.state != "holds"
    ]
    head = [_line(["document", "place", "statement", "state"]), "| --- " * 4 + "|"]
    return ["", "## Statements that do not hold", "", *head, *rows] if rows else []


def _totals(name: str, statements: Sequence[Statement]) -> str:
    counts = [sum(one.state == state for one in statements) for state in STATES]
    return _line([name, *map(str, (len(statements), *counts))])


def _link(title: str) -> str:
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def _section(document: Document) -> str:
    lines = ["", f"## {document.cited}", "", f"*{document.title}*: {document.about}."]
    for place, rows in groupby(document.statements, lambda one: one.place):
        head = ["", f"### {place}", "", "| id | statement | state | shown by |", "| --- " * 4 + "|"]
        lines += [*head, *(_row(one) for one in rows)]
    return "\n".join(lines)


def _row(one: Statement) -> str:
    tests = "<br>".join(f"`{test}`" for test in one.tests)
    return _line([one.id, one.text, _state(one), tests])


def _state(one: Statement) -> str:
    state = "holds" if one.state == "holds" else f"**{one.state}**"
    if one.decision:
        page = next((PAGE.parent / "decisions").glob(f"{one.decision}-*.md"))
        state += f", [decision {one.decision}](decisions/{page.name})"
    return f"{state}; {one.note}" if one.note else state


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(as_markdown(read_documents()))
