"""Promises about trails that define an index again: what is shown for a record does not depend on what was shown before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdump.sessions import answers, offsets, opened
from logdump.trails import BEGIN, LITTLE, MIDDLE, START, columns, dml, joined, little
from trailgate.arrays import CHUNK
from trailgate.logdump.completion import make_completer
from trailgate.logdump.results import CountResult, Result, ShownRecord
from trailgate.model.tables import Column, Table
from trailgate.trail.format.file_header import FileHeader, encode_header
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.table_metadata import encode_table_definition


def indexes(first: int, second: int) -> int:
    return LITTLE.number(LITTLE.raw(first, 2) + LITTLE.raw(second, 2))


def metadata(node: int, name: str, first: int, second: int, **values: Any) -> TrailRecord:
    audit_rba = indexes(first, second)
    return little(170, name=name, node=node, audit_rba=audit_rba, io_time=START, **values)


def definition(name: str, index: int, column: str) -> TrailRecord:
    table = Table(name, (Column(column, 64, 10, key=True),), 10)
    return metadata(2, name, 1, index, data=encode_table_definition(table, LITTLE))


def reference(name: str, index: int) -> TrailRecord:
    return metadata(3, name, 1, index)


def partition(name: str, index: int) -> TrailRecord:
    return metadata(4, name, index, 7, partition=0x80)


def insert(index: int, trans_ind: int = MIDDLE) -> TrailRecord:
    data = columns((0, b"\0\0\1\0x"), order=LITTLE)
    own = {"partition": 0x8C, "table_index": index, "partition_index": 7, "io_time": START}
    return little(5, name=None, data=data, trans_ind=trans_ind, **own)


# Each record, with the table, partition and column that are shown for it.
ROWS = (
    (insert(1), ("", None, None)),
    (definition("MY.A", 1, "A1"), ("MY.A", None, "A1")),
    (partition("P1", 1), ("P1", None, None)),
    (insert(1, BEGIN), ("MY.A", "P1", None)),
    (definition("MY.A", 1, "A2"), ("MY.A", None, "A2")),
    (insert(1), ("MY.A", "P1", None)),
    (definition("MY.B", 1, "B1"), ("MY.B", None, "B1")),
    (partition("P2", 1), ("P2", None, None)),
    (insert(1), ("MY.B", "P2", None)),
    (reference("MY.C", 1), ("MY.C", None, "B1")),
    (insert(2), ("MY.C", None, None)),
    (definition("MY.A", 2, "A3"), ("MY.A", None, "A3")),
    (insert(2), ("MY.A", None, None)),
    (insert(1), ("MY.B", "P2", None)),
)
RAW = encode_header(FileHeader(order=LITTLE)) + joined([record for record, _ in ROWS])
EXPECTED = [shown for _, shown in ROWS]
# FILTER and COUNT name a table by its index if it is not defined yet.
NAMES = [row[0] or "(table 1)" for row in EXPECTED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history")


def shown(results: list[Result]) -> list[tuple[str, str | None, str | None]]:
    """Return the table, partition and column that are shown for each record."""
    tables = ((one, one.table) for one in results if isinstance(one, ShownRecord))
    return [
        (one.name, one.partition, table.table.columns[0].name if table and table.table else None)
        for one, table in tables
    ]


def test_a_record_has_the_definitions_before_it(folder: Path) -> None:
    session = opened(folder, RAW)

    assert shown(answers(session, "N 100")) == EXPECTED
    assert shown(answers(session, "POS FIRST", "N 100")) == EXPECTED
    assert shown(answers(session, "POS EOF", "REVERSE", "N 100")) == EXPECTED[::-1]


@given(st.lists(st.integers(0, len(ROWS) - 1)))
def test_the_order_in_which_records_are_shown_changes_nothing(
    folder: Path, order: list[int]
) -> None:
    places = offsets(answers(opened(folder, RAW), "N 100"))
    session = opened(folder, RAW)

    for row in order:
        assert shown(answers(session, f"POS {places[row]}", "N")) == [EXPECTED[row]]


@pytest.mark.parametrize("name", sorted({*NAMES}))
def test_a_name_is_compared_with_that_at_the_record(folder: Path, name: str) -> None:
    session = opened(folder, RAW)
    places = offsets(answers(session, "N 100"))
    expected = [place for place, one in zip(places, NAMES, strict=True) if one == name]
    answers(session, f'FILTER FILENAME "{name}"')

    for place in places:  # the bytes that are read begin there
        found = offsets(answers(session, "FORWARD", f"POS {place}", "N 100"))
        assert found == [one for one in expected if one >= place]
        found = offsets(answers(session, "REVERSE", f"POS {place}", "N 100"))
        assert found == [one for one in expected[::-1] if one < place]


def test_count_has_each_record_under_the_name_at_the_record(folder: Path) -> None:
    session = opened(folder, RAW)
    places = offsets(answers(session, "N 100"))

    for row, place in enumerate(places):
        *_, counts = answers(session, f"POS {place}", "COUNT DETAIL")
        assert isinstance(counts, CountResult)
        names = NAMES[row:]
        counted = {one.name: one.records for one in counts.tables}
        assert counted == {name: names.count(name) for name in names}


def test_count_has_a_table_once_in_a_transaction_that_defines_it_again(folder: Path) -> None:
    (counts,) = answers(opened(folder, RAW), "COUNT")

    assert isinstance(counts, CountResult)
    # a record of table 1 without a beginning, and a transaction of MY.A, MY.B and MY.C
    assert (counts.transactions, counts.files_in_transactions) == (2, 4)


def test_the_tab_key_offers_the_tables_that_the_trail_defines(folder: Path) -> None:
    """They are those in the first chunk, and those that the session has read."""
    filler = dml(5, columns((0, bytes(60_000)), order=LITTLE), 1, order=LITTLE)
    late = [filler] * (CHUNK // 60_000 + 1) + [definition("MY.LATE", 3, "L1"), insert(3)]
    session = opened(folder, RAW + joined(late))
    complete = make_completer(session)

    assert complete("COUNT FILE my.") == ["MY.A", "MY.B", "MY.C", "MY.ORDERS"]
    answers(session, "COUNT DETAIL")
    assert complete("COUNT FILE my.") == ["MY.A", "MY.B", "MY.C", "MY.LATE", "MY.ORDERS"]
