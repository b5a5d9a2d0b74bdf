"""No page is larger than 1 MB, whatever the trail has: wide tables, many tables, long keys and messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest

from browse.test_operation_pages import asking, plain
from browse.trails import plain_trail
from sample_trail import START, Op, write_trail
from trailgate.browse import sql_pages
from trailgate.browse.index import TrailIndex
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

pytest.importorskip("starlette.testclient")
MB = 1_000_000
ROWS, COLUMNS = 9, 600
SQL = "sql?" + urlencode({"sql": "SELECT * FROM 'W.WIDE'"})


def updates(table: Table, rows: int, before: str, after: str) -> ChangeBlock:
    """Return updates of all columns of a table whose columns are texts."""
    order = np.arange(rows)
    numbers = pa.array(order.astype(str))
    images = [
        tuple(
            StateColumn(
                numbers
                if number == 0
                else pa.DictionaryArray.from_arrays([0] * rows, [text]).cast("string")
            )
            for number in range(len(table.columns))
        )
        for text in (before, after)
    ]
    return ChangeBlock(
        table=table,
        order=order,
        op_type=np.full(rows, ord("U"), np.uint8),
        op_ts=START + order * 1_000_000,
        tx_ind=np.full(rows, ord("W"), np.uint8),
        tx_id=numbers,
        csn=numbers,
        seq_id=None,
        position=pa.array([""] * rows),
        before=images[0],
        after=images[1],
    )


def wide_trail(folder: Path, *, keys: bool) -> str:
    """Write updates of a table of 600 columns, whose texts are markup, and return the trail's prefix."""
    columns = [Column(f"COLUMN_{number:04}", 64, 400, key=keys) for number in range(COLUMNS)]
    table = Table("W.WIDE", (Column("ID", 64, 9, nullable=False, key=True), *columns))
    batch = ChangeBatch([updates(table, ROWS, "w" * 299, "v<&>" * 70)], ROWS)
    return one_file(folder, batch, (table,))


def one_file(folder: Path, batch: ChangeBatch, tables: tuple[Table, ...]) -> str:
    """Write a trail of one file with its definitions, and return its prefix."""
    header = encode_header(FileHeader(trail=TrailInfo(seqno=0)))
    (folder / "ww000000000").write_bytes(header + bytes(encode(batch).body))
    (folder / "ww.def").write_bytes(write_sourcedefs(Definitions(tables)))
    return str(folder / "ww")


@pytest.fixture(scope="module", params=[False, True], ids=["a key", "no key"])
def wide(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    prefix = wide_trail(tmp_path_factory.mktemp("wide"), keys=request.param)
    with TrailIndex(prefix) as index:
        index.build()
        yield index


@pytest.mark.parametrize(
    "name",
    ["", "operations", "table?name=W.WIDE", "transaction?at=0:583", "bytes?at=0:583", "sql", SQL],
)
def test_a_page_of_a_wide_table_is_small(wide: TrailIndex, name: str) -> None:
    assert len(asking(wide)(name).encode()) < MB


def test_pages_of_large_rows_have_all_rows_in_order(wide: TrailIndex) -> None:
    ask, address, found = asking(wide), "operations", list[str]()
    while address:
        page = ask(address)
        assert len(page.encode()) < MB
        found += re.findall(r'<td class="nowrap"><a href="bytes\?at=(\S+)">', page)
        following = re.search(r'rel="next" href="([^"]+)">Next', page)
        address = following[1] if following else ""
    assert len(found) == len(set(found)) == ROWS
    assert found == sorted(found, key=lambda place: int(place.replace("%3A", ":").split(":")[1]))

    last, count = "before=9:0", 0
    while last:
        page = ask(f"operations?{last}")
        count += page.count('<td class="nowrap"><a href="bytes')
        earlier = re.search(r'rel="prev" href="operations\?([^"]+)"', page)
        last = earlier[1] if earlier else ""
    assert count == ROWS


def test_what_a_page_leaves_out_is_stated(wide: TrailIndex) -> None:
    ask = asking(wide)

    assert "401 more, which SQL and saved files have" in plain(ask("operations"))
    assert "The record is long: these are its first" in plain(ask("bytes?at=0:583"))
    assert re.search(r"The first 500 of 6\d\d columns", plain(ask(SQL)))


def test_names_of_many_tables_are_listed_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_pages, "SHOWN", 20)
    monkeypatch.setattr(sql_pages, "NAMED", 100)
    columns = tuple(Column(f"C{number}", 64, 20, key=not number) for number in range(12))
    tables = tuple(Table(f"SCHEMA.TABLE_{number:04}", columns) for number in range(30))
    rows = [updates(table, 1, "a", "b") for table in tables]
    blocks = [replace(block, order=np.array([number])) for number, block in enumerate(rows)]
    with TrailIndex(one_file(tmp_path, ChangeBatch(blocks, len(blocks)), tables)) as index:
        index.build()
        page = plain(asking(index)("sql"))

    assert page.count("and 7 more columns") == 20
    assert "and 10 more tables" in page


def test_long_messages_of_a_quarantine_are_shown_around_their_fault(tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    long = "a" * MB + "BAD" + "b" * MB
    lines = [{"body": long, "reason": "not a date (1.txt, text 'BAD')"}] * 3
    lines += [{"body": f"{number}" + '&<>"' * 5000, "reason": "it is bad"} for number in range(40)]
    Path(f"{prefix}.quarantine.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    with TrailIndex(prefix) as index:
        index.build()
        ask, address, found = asking(index), "quarantine", 0
        while address:
            page = ask(address)
            assert len(page.encode()) < MB
            found += page.count('<article class="bad-message"')
            following = re.search(r'rel="next" href="([^"]+)"', page)
            address = following[1] if following else ""
        first = ask("quarantine")

    assert found == len(lines)
    assert "aaa<mark>BAD</mark>bbb" in first
    assert "A part of the message, which has 2.0 MB" in plain(first)


def test_filters_that_are_too_long_are_refused(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        ask: Any = asking(index)
        assert "more than 2,000" in ask(f"operations?text={'x' * 2001}", 400)


def test_the_keys_of_a_row_that_changed_often_are_named_in_part(tmp_path: Path) -> None:
    updated = [[Op("U", number + 1, "x", "y", old_key=number)] for number in range(300)]
    with TrailIndex(str(write_trail(tmp_path / "kk", [updated]))) as index:
        index.build()
        page = plain(asking(index)("row?table=MY.ORDERS&key=0&at=0:0"))
    assert "and 280 other keys" in page
