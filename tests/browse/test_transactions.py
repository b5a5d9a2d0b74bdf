"""The page of a transaction counts all of its operations, wherever it begins and ends."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from browse.test_operation_pages import Ask, asking, parted_records, plain
from raw_trail import abend, definition, inserts, restart_ok, write_files
from sample_trail import NOTES, Op, Transaction, write_trail
from trailgate.browse import transaction_extent
from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import BEGINS, OperationSearch
from trailgate.browse.pages import place_text
from trailgate.browse.transaction_extent import measure_transaction

ONE: Transaction = [Op("I", 1, "alone")]
KIND = {"I": "insert", "U": "update", "D": "delete"}


def mixed(count: int, width: int = 5) -> Transaction:
    """Return a transaction of operations of all types in two tables."""
    ops = (
        Op("I", 1, "x" * width),
        Op("U", 2, "y" * width, "x"),
        Op("D", 3),
        Op("I", 4, "z", table=NOTES),
    )
    return [ops[number % 4]._replace(key=number) for number in range(count)]


def walk(ask: Ask) -> list[str]:
    """Return the page of each transaction, following the links from the first one."""
    pages = [ask("transaction?at=0:0")]
    while link := re.search(r'href="([^"]+)">Next transaction', pages[-1]):
        pages.append(ask(link[1]))
    return pages


@pytest.mark.parametrize(
    "files",
    [
        [[mixed(250)]],
        [[ONE, mixed(101), ONE]],
        [[mixed(100), mixed(99), mixed(2)]],
        [[ONE, mixed(300)], [mixed(150), ONE]],
        [[mixed(24_000, 60), ONE]],  # more than one span of the index
    ],
    ids=["alone", "between", "pages", "files", "long"],
)
def test_all_operations_of_a_transaction_are_counted(
    files: list[list[Transaction]], tmp_path: Path
) -> None:
    with TrailIndex(str(write_trail(tmp_path / "aa", files))) as index:
        index.build()
        pages = [plain(page) for page in walk(asking(index))]

    transactions = [one for file in files for one in file]
    assert len(pages) == len(transactions)
    for page, ops in zip(pages, transactions, strict=True):
        assert f" operations {len(ops):,} duration " in page
        for (table, kind), count in Counter((op.table.name, op.kind) for op in ops).items():
            assert f" {count:,} {KIND[kind]} of {table} " in page


def test_the_bytes_of_a_transaction_are_those_of_all_its_records(tmp_path: Path) -> None:
    parts, alone = parted_records(), inserts([7, 8], tx=2)
    records = [definition(), *parts, *alone]
    with TrailIndex(str(write_files(tmp_path / "ot", [records]))) as index:
        index.build()
        longest = sorted(index.transactions.by_operations, key=lambda one: one.begin)
        table = index.tables["MY.ORDERS"]

    sizes = [sum(map(len, one)) for one in (parts[:3], parts[3:], alone)]
    assert [one.bytes for one in longest] == sizes
    assert table.bytes == sum(map(len, records))


@pytest.mark.parametrize("torn", [False, True])
def test_pages_of_a_transaction_lead_through_its_operations_alone(
    torn: bool, tmp_path: Path
) -> None:
    files = [[mixed(150)], [mixed(150)]]
    with TrailIndex(str(write_trail(tmp_path / "aa", files, torn=torn))) as index:
        index.build()
        ask = asking(index)
        page = ask("transaction?at=0:0")
        counts = [page.count('<td class="op op-')]
        while link := re.search(r'rel="next" href="([^"]+)"', page):
            page = ask(link[1].replace("&amp;", "&"))
            counts.append(page.count('<td class="op op-'))

    assert counts == [50, 50, 50]


def test_a_page_in_the_middle_is_of_the_same_transaction(tmp_path: Path) -> None:
    """Also if a search for its begin would take longer than a page may."""
    with TrailIndex(str(write_trail(tmp_path / "aa", [[mixed(24_000, 60), ONE]]))) as index:
        index.build()
        middle = (
            OperationSearch(index, OperationFilters(), index.spans[-1].begin, rows=50)
            .run()
            .rows[-2]
            .place
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("trailgate.browse.operation_search.SECONDS", 0.0)
            page = plain(asking(index)(f"transaction?at={place_text(middle)}"))

    assert "Transaction tx0" in page
    assert "operations 24,000" in page


def test_an_undone_transaction_ends_before_the_next_one(tmp_path: Path) -> None:
    records = [*inserts(range(5), tx=1)[:3], abend(), restart_ok(), *inserts(range(4), tx=2)]
    prefix = write_files(tmp_path / "ot", [records])
    with TrailIndex(str(prefix)) as index:
        index.build()
        begins = OperationSearch(index, OperationFilters(indicators=BEGINS)).run().rows
        found = [measure_transaction(index, row.place) for row in begins]

        assert [one.operations for one in found] == [3, 4]
        assert found[0].stop == begins[1].place
        assert len(walk(asking(index))) == 2


def test_a_transaction_without_an_end_is_reported(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [inserts(range(5))[:3]])
    with TrailIndex(str(prefix)) as index:
        index.build()
        page = plain(asking(index)("transaction?at=0:0"))

    assert "operations 3" in page
    assert "The trail does not have the end of this transaction" in page


def test_a_transaction_whose_begin_was_purged_is_its_remaining_operations(tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "aa", [[mixed(80)], [mixed(20)]], torn=True)
    Path(f"{prefix}000000000").unlink()
    with TrailIndex(str(prefix)) as index:
        index.build()
        first = OperationSearch(index, OperationFilters(), rows=2).run().rows[1].place
        page = plain(asking(index)(f"transaction?at={place_text(first)}"))

    assert "operations 30 " in page
    assert f"begins at 1:{index.spans[0].start}" in page


def test_counting_that_takes_too_long_goes_on_with_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = [mixed(24_000, 60), ONE]
    prefix = write_trail(tmp_path / "aa", [transactions, [], []], torn=True)
    monkeypatch.setattr(transaction_extent, "SECONDS", -1.0)
    with TrailIndex(str(prefix)) as index:
        index.build()
        ask = asking(index)
        pages = [plain(ask("transaction?at=0:0")) for _ in range(4)]
        counts = [re.search(r"is long: ([0-9,]+) operations are counted", page) for page in pages]

        assert [one and one[1] for one in counts] == ["8,000", "16,000", None, None]
        # The index knows the number of operations of the longest transactions.
        assert all("operations 24,000" in page for page in pages)
        assert all("Next transaction" in page for page in pages)
