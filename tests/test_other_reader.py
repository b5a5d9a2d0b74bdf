"""The page for users of another reader: each row names a test that there is."""

from __future__ import annotations

import re
from pathlib import Path

from trailgate.mainframe.jobs.options import OPTIONS

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "howto" / "from-cobrix.md"
ROW = re.compile(r"^\| (?P<theirs>.+) \| (?P<ours>.+) \| `(?P<test>test_\w+)` \|$", re.MULTILINE)
OPTION = re.compile(r"`([a-z]+(?:[A-Z][a-z]+)*)(?:=\w+)?`")
# Words in such quotes that are not options: columns' values, formats, and names of Python.
OTHERS = {"line", "keep", "bytes", "most", "null", "nulls", "stop"}


def test_each_row_has_a_test_and_options_that_there_are() -> None:
    text = PAGE.read_text()
    rows = list(ROW.finditer(text))
    assert len(rows) == sum(line.startswith("| ") for line in text.splitlines()) - 2 * 5
    names = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    known = {row.spelling for row in OPTIONS} | OTHERS
    assert [row["test"] for row in rows if row["test"] not in names] == []
    named = {one for row in rows for one in OPTION.findall(row["ours"])}
    assert named - known == set()
