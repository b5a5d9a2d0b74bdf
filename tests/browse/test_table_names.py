"""Links mean exactly one table, whatever is in its name: wildcards, commas, quotes, signs of addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from browse.test_operation_pages import asking
from sample_trail import Op, write_trail
from trailgate.browse.index import TrailIndex
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.reading.trails import read_trail

pytest.importorskip("starlette.testclient")
NAMES = (
    "HR.A*B",
    "HR.A?B",
    "HR.AXB",
    "HR.A,B",
    "HR.A%B",
    "HR.A%2AB",
    'HR."A ""B"""',
    'HR."A.B"',
    "HR.A B",
    "HR.A/B",
    "HR.A#B",
    "HR.A&B=C",
    "HR.A'B",
    "HR.A+B;C",
    "HR.<b>A</b>",
    "HR.STRASSE_\N{LATIN SMALL LETTER SHARP S}\N{GREEK SMALL LETTER OMEGA}",
    "HR.\u8868",
    "=HR.AXB",
)
# Each table has a number of operations of its own, so that those of another one are noticed.
COUNTS = {name: number for number, name in enumerate(NAMES, 2)}
ROWS = re.compile(r'<tr><td class="nowrap"><a href="bytes')


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    columns = (Column("ID", 134, 8, nullable=False, key=True), Column("NAME", 64, 60))
    tables = [Table(name, columns) for name in NAMES]
    operations = [
        [Op("I", key, "x", table=table) for key in range(COUNTS[table.name])] for table in tables
    ]
    prefix = write_trail(tmp_path_factory.mktemp("names") / "aa", [operations])
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(Definitions(tuple(tables))))
    with TrailIndex(str(prefix)) as found:
        found.build()
        yield found


@pytest.fixture(scope="module")
def ask(index: TrailIndex) -> Callable[[str], str]:
    return asking(index)


def links(page: str, to: str) -> list[str]:
    """Return the addresses of links to a page."""
    return [unescape(one) for one in re.findall(rf'href="({to}\?[^"]*)"', page)]


def rows_of(ask: Callable[[str], str], link: str) -> int:
    return len(ROWS.findall(ask(link)))


def test_the_overview_leads_to_the_page_of_each_table(
    index: TrailIndex, ask: Callable[[str], str]
) -> None:
    assert set(index.tables) == set(NAMES)
    found = links(ask(""), "table")
    assert sorted(dict(parse_qsl(urlsplit(one).query))["name"] for one in found) == sorted(NAMES)
    assert all("<h1>" in ask(one) for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_table_show_its_operations_alone(ask: Callable[[str], str], name: str) -> None:
    page = ask(f"table?name={quote(name, safe='')}")
    assert len(ROWS.findall(page)) == COUNTS[name]
    found = [one for one in links(page, "operations") if "_time" not in one]
    assert len(found) == 2  # all, and the inserts
    assert {rows_of(ask, one) for one in found} == {COUNTS[name]}
    bars = [one for one in links(page, "operations") if "_time" in one]
    assert sum(rows_of(ask, one) for one in bars) == COUNTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_history_of_a_row_has_no_row_of_another_table(
    ask: Callable[[str], str], name: str
) -> None:
    page = ask(f"table?name={quote(name, safe='')}")
    assert {rows_of(ask, one) for one in links(page, "row")} == {1}


def test_the_tables_with_most_matches_are_filters(ask: Callable[[str], str]) -> None:
    page = ask("operations")
    found = [one for one in links(page, "operations") if one.startswith("operations?table=")]
    assert [rows_of(ask, one) for one in found] == sorted(COUNTS.values(), reverse=True)[:8]
    assert "<li>table <strong>=HR.AXB</strong>" in ask(found[0])


def test_the_field_offers_a_name_that_means_itself(ask: Callable[[str], str]) -> None:
    offered = [unescape(one) for one in re.findall(r'<option value="([^"]+)">', ask("operations"))]
    by_count = {
        rows_of(ask, f"operations?table={quote(one, safe='')}")
        for one in offered
        if one not in ("equals", "null", "missing", *"IUKDT")
    }
    assert by_count == set(COUNTS.values())


@pytest.mark.parametrize("name", NAMES)
def test_sql_reads_the_table_that_a_click_inserts(
    index: TrailIndex, ask: Callable[[str], str], name: str
) -> None:
    inserted = [unescape(one) for one in re.findall(r'data-insert="([^"]+)"', ask("sql"))]
    quoted = "'" + name.replace("'", "''") + "'"
    assert quoted in inserted
    statement = f"SELECT count(*) FROM {quoted}"
    page = ask(f"sql?sql={quote(statement, safe='')}")
    assert f"<td>{COUNTS[name]}</td>" in page
    rows = read_trail(index.found.prefix, table=name, definitions=index.found.definitions)
    assert rows.read_all().num_rows == COUNTS[name]
