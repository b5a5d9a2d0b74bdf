"""If a value cannot be read, its cell says so; the rest of its row, and other rows, are shown."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browse.test_operation_pages import asking, plain
from sample_trail import NOTES, Op, write_trail
from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.shown_operations import MISSING, ShownCell, ShownOperation
from trailgate.errors import DecodeError
from trailgate.storage.reading.trails import read_trail

MARK = "@"  # becomes a byte that is not UTF-8
LATIN_1 = b"\xe9"


def damaged_trail(folder: Path, ops: list[Op]) -> str:
    """Write a trail whose texts have Latin-1 bytes for each mark."""
    prefix = write_trail(folder / "aa", [[ops]])
    file = Path(f"{prefix}000000000")
    file.write_bytes(file.read_bytes().replace(MARK.encode(), LATIN_1))
    return str(prefix)


def operations(index: TrailIndex, **filters: Any) -> list[ShownOperation]:
    rows = OperationSearch(index, OperationFilters(**filters), rows=1000).run().rows
    assert all(isinstance(row, ShownOperation) for row in rows), rows
    return [row for row in rows if isinstance(row, ShownOperation)]


def texts(cell: ShownCell) -> list[str | None]:
    """Return the values of a cell, None for one that cannot be read."""
    sides = [side for side in (cell.before, cell.after) if side not in (None, MISSING)]
    return [None if side.state == "unread" else side.text for side in sides if side is not None]


CASES = {
    "one of many": [*(Op("I", n, f"row {n}") for n in range(45)), Op("I", 99, f"caf{MARK}")],
    "the first": [Op("I", 1, f"{MARK}1"), Op("I", 2, "two")],
    "the middle": [Op("I", 1, "one"), Op("I", 2, MARK), Op("I", 3, "three")],
    "each": [Op("I", n, f"{MARK}{n}") for n in range(40)],
    "before alone": [Op("U", 1, "new", f"ol{MARK}")],
    "after alone": [Op("U", 1, f"ne{MARK}", "old")],
    "both": [Op("U", 1, f"ne{MARK}", f"ol{MARK}")],
    "of a delete": [Op("D", 1, before=f"gone{MARK}")],
    "beside values that are missing": [Op("U", 1, ...), Op("U", 2, f"x{MARK}"), Op("U", 3, "y")],
    "beside NULL": [Op("I", 1, None), Op("I", 2, f"x{MARK}"), Op("I", 3, "")],
    "of two tables": [Op("I", 1, f"a{MARK}"), Op("I", 2, f"b{MARK}", table=NOTES), Op("I", 3, "c")],
}


def expected(op: Op) -> list[str | None]:
    sides = [op.before] if op.kind == "D" else [op.before, op.text]
    texts = ["" if side is None else str(side) for side in sides if side is not ...]
    return [None if MARK in text else text for text in texts]


@pytest.mark.parametrize("name", CASES)
def test_only_the_cell_is_not_read(tmp_path: Path, name: str) -> None:
    ops = CASES[name]
    with TrailIndex(damaged_trail(tmp_path, ops)) as index:
        index.build()
        rows = operations(index)
        page = asking(index)("operations")

    assert [(row.kind, row.cells[0].after.text) for row in rows] == [
        (op.kind, str(op.key)) for op in ops
    ]
    assert [texts(row.cells[1]) for row in rows] == [expected(op) for op in ops]
    unread = sum(expected(op).count(None) for op in ops)
    assert plain(page).count("cannot be read: text is not UTF-8 (bytes 00 00 ") == unread
    assert 'class="unread"' not in page


@given(st.lists(st.sampled_from(["a", "", None, ..., MARK, f"b{MARK}"]), min_size=1, max_size=80))
def test_any_mix_of_good_and_bad_values_is_shown(
    tmp_path_factory: pytest.TempPathFactory, values: list[object]
) -> None:
    ops = [Op("U", number, value) for number, value in enumerate(values)]
    with TrailIndex(damaged_trail(tmp_path_factory.mktemp("mix"), ops)) as index:
        index.build()

        assert [texts(row.cells[1]) for row in operations(index)] == [expected(op) for op in ops]


def test_filters_work_beside_values_that_are_not_read(tmp_path: Path) -> None:
    """A value that cannot be read may have the text, so its row is shown too."""
    ops = [Op("I", 1, "green"), Op("I", 2, f"{MARK}"), Op("I", 3, "red"), Op("D", 4, before="x")]
    with TrailIndex(damaged_trail(tmp_path, ops)) as index:
        index.build()

        assert [row.cells[0].after.text for row in operations(index, text="green")] == ["1", "2"]
        assert len(operations(index, text="green", column="ID")) == 0
        assert len(operations(index, kinds="D")) == 1
        assert [
            len(OperationSearch(index, OperationFilters(), rows=n).run().rows) for n in (1, 2, 3)
        ] == [1, 2, 3]


def test_each_page_of_the_row_has_the_rest_of_it(tmp_path: Path) -> None:
    ops = [Op("I", 1, "one"), Op("I", 4711, f"{MARK}")]
    with TrailIndex(damaged_trail(tmp_path, ops)) as index:
        index.build()
        ask: Any = asking(index)
        place = OperationSearch(index, OperationFilters()).run().rows[1].place
        at = f"{place.number}:{place.offset}"
        for page in (f"bytes?at={at}", f"transaction?at={at}", "table?name=MY.ORDERS"):
            text = html.unescape(plain(ask(page)))
            assert "ID 4711" in text
            assert "NAME cannot be read: text is not UTF-8" in text
        ask(f"value?at={at}&column=NAME&image=after", 400)


def test_reading_a_trail_is_not_lenient(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="text is not UTF-8"):
        read_trail(damaged_trail(tmp_path, CASES["the first"]), table="MY.ORDERS").read_all()
