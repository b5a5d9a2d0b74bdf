"""The pages of operations, of a transaction, of a table and of a record's bytes."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browse.trails import hostile_trail, plain_trail
from raw_trail import inserts, write_files
from sample_trail import ORDERS, Op, write_trail
from trail.building import (
    BIG,
    INSERT,
    LARGE,
    UPDATE,
    cell,
    indicators_of,
    pieces_of,
    record,
    split,
    text,
)
from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TableTotals, TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.shown_operations import ShownOperation
from trailgate.browse.spans import UnreadOperations
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import TrailgateError
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Definitions, Table
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.record_header import BEFORE_IMAGE

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")

Ask = Callable[[str], str]
# The templates of pages about a trail: all that have the frame of a page, but errors and messages.
TRAIL_PAGES = {
    path.stem
    for path in Path(server.__file__).parent.glob("templates/*.html")
    if '{% extends "base.html" %}' in path.read_text()
} - {"problem", "workbench"}


def asking(index: TrailIndex) -> Ask:
    client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")

    def ask(page: str, status: int = 200) -> str:
        answer = client.get(f"/t/{page}")
        assert answer.status_code == status, answer.text
        text: str = answer.text
        return text

    return ask


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    with TrailIndex(plain_trail(tmp_path_factory.mktemp("pages"))) as found:
        found.build()
        yield found


@pytest.fixture(scope="module")
def ask(index: TrailIndex) -> Any:
    return asking(index)


def plain(page: str) -> str:
    """Return the text of a page as people read it, blanks together."""
    text = re.sub(r"<(style|datalist).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def places(index: TrailIndex, **filters: Any) -> list[TrailPosition]:
    return [row.place for row in OperationSearch(index, OperationFilters(**filters)).run().rows]


def test_all_operations_are_shown_in_their_order(index: TrailIndex, ask: Ask) -> None:
    expected = read_trail(index.found.prefix).read_all().to_pylist()

    shown = OperationSearch(index, OperationFilters()).run().rows

    assert [f"{row.place.number:010}{row.place.offset:010}" for row in shown] == [
        row["position"] for row in expected
    ]
    assert [
        (row.kind, row.table, row.tx_id, row.csn)
        for row in shown
        if isinstance(row, ShownOperation)
    ] == [(row["op_type"], row["table"], row["tx_id"], row["csn"]) for row in expected]
    assert all(f"at={row.place.number}%3A{row.place.offset}" in ask("operations") for row in shown)


def test_a_value_that_is_null_empty_or_not_logged_looks_different(ask: Ask) -> None:
    page = ask("operations")

    assert '<span class="old">one</span>' in page
    assert '<span class="null">NULL</span>' in page
    assert '<span class="empty">empty</span>' in page
    assert '<span class="missing">not logged</span> NAME' in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 7),
        ("kinds=I", 3),
        ("kinds=UD", 4),
        ("table=MY.NOTES", 1),
        ("table=my.*", 7),
        ("table=MY.N*,MY.ORD?RS", 7),
        ("table=NO.SUCH", 0),
        ("table=NO.SUCH&column=NAME&text=x", 0),
        ("text=thre", 1),
        ("column=name&text=ONE", 2),
        ("column=ID&text=one", 0),
        ("from_csn=1001", 4),
        ("to_csn=1000", 3),
        ("from_time=2026-01-01T00:00:02", 3),
        ("to_time=2026-01-01 00:00:00Z", 2),
        ("from_time=2030-01-01", 0),
        ("tx=tx1", 4),
        ("tx=none", 0),
        ("at=1:0", 3),
        ("at=9:0", 0),
        ("before=1:0", 4),
        ("kinds=U&table=MY.ORDERS&column=NAME&text=b", 1),
    ],
)
def test_filters_leave_what_passes_all_of_them(ask: Ask, query: str, count: int) -> None:
    assert ask(f"operations?{query}").count('<td class="op op-') == count


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("operations?kinds=X", "kinds='X' may contain only the letters IUKDT"),
        ("operations?at=x", "'x' is not a position"),
        ("operations?from_time=soon", "'soon' is not a time"),
        (
            "operations?from_csn=abc",
            "from_csn is 'abc', but the CSNs of the trail are numbers such as",
        ),
        ("matches?to_csn=abc", "to_csn is 'abc', but the CSNs of the trail are numbers such as"),
        ("export?from_csn=1.5&to=csv", "from_csn is '1.5', but the CSNs of the trail are numbers"),
        ("operations?column=A", "a column needs a text to search for"),
        (
            "operations?column=NAMES&text=x",
            "no table of the trail has a column 'NAMES'. Did you mean NAME?",
        ),
        ("matches?column=CUST&match=null", "has a column 'CUST'. There are ID, "),
        ("export?column=CUST&match=missing&to=csv", "has a column 'CUST'. There are ID, "),
        (
            "operations?table=MY.ORDERS&column=TEXT&text=x",
            "no table of the trail that the filter chooses has a column 'TEXT'",
        ),
        ("operations?table=,", "',' is not a list of tables"),
        ("bytes", "the address has no at=POSITION of a record"),
        ("bytes?at=0:99999999", "the offset 99999999 is not in file 0"),
        ("bytes?at=7:0", "the trail has no file 7"),
        ("transaction", "the address has no at=POSITION of a transaction"),
        ("transaction?at=9:1", "the trail has no file 9"),
        ("table?name=NO.SUCH", "the trail has no table 'NO.SUCH'"),
    ],
)
def test_an_address_that_asks_for_nothing_there_is_says_so(
    ask: Any, page: str, problem: str
) -> None:
    assert problem in plain(ask(page, 400))


def test_a_transaction_has_its_operations_and_its_neighbours(ask: Ask) -> None:
    page = ask("transaction?at=0:955")  # its second operation

    assert "Transaction tx1" in plain(page)
    assert page.count('<td class="op op-') == 2
    assert 'href="transaction?at=0%3A583">Previous' in page
    assert 'href="transaction?at=1%3A583">Next' in page
    assert "token LOGCSN 1001" in plain(page)


def test_a_table_has_its_counts_its_definition_and_its_latest_rows(ask: Ask) -> None:
    page = plain(ask("table?name=MY.ORDERS"))

    assert "operations 6 insert 2 update 3 delete 1" in page
    assert "2 columns" in page
    assert page.index("1:793") < page.index("0:583")


def test_a_table_has_create_table_of_each_database(ask: Ask) -> None:
    page = plain(ask("table?name=MY.ORDERS"))

    assert 'CREATE TABLE "my"."orders" ( "id" bigint, "name" varchar(60), PRIMARY KEY' in page
    assert "CREATE TABLE `my`.`orders` ( `id` BIGINT, `name` STRING ) USING DELTA;" in page
    assert 'CREATE TABLE "MY"."ORDERS" ( "ID" NUMBER(19), "NAME" VARCHAR2(60 CHAR), ' in page


def test_a_name_that_a_database_does_not_take_is_stated(tmp_path: Path) -> None:
    table = Table(f"MY.{'T' * 64}", ORDERS.columns)
    prefix = tmp_path / "aa"
    write_trail(prefix, [[[Op("I", 1)]]])
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(Definitions((table,))))
    with TrailIndex(str(prefix)) as index:
        index.tables[table.name] = TableTotals(table.name)
        page = plain(asking(index)(f"table?name={table.name}"))

    assert "PostgreSQL has names of at most 63 bytes" in page
    assert f'CREATE TABLE "MY"."{"T" * 64}"' in page


def test_an_open_transaction_is_a_finding_that_leads_to_its_end(tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    Path(f"{prefix}000000001").unlink()
    first = Path(f"{prefix}000000000")
    first.write_bytes(first.read_bytes()[:955])
    with TrailIndex(prefix) as index:
        index.build()
        ask = asking(index)
        page = ask("")

        assert "The last transaction is not ended: it begins at 0:769" in plain(page)
        assert 'href="bytes?at=0%3A954">0:955' in page
        assert "Record at 0:" in ask("bytes?at=0:954")


def test_each_byte_of_a_record_is_in_its_dump_once(index: TrailIndex, ask: Ask) -> None:
    for place in places(index):
        page = ask(f"bytes?at={place.number}:{place.offset}")
        dump = page[page.index('<div class="dump') : page.index("</div></section>")]
        shown = bytes.fromhex(
            "".join(re.findall(r'data-leaf="\d+">((?:[0-9a-f]{2} ?)+)</span> ', dump))
        )
        path = next(one.file.path for one in index.files if one.file.number == place.number)
        raw = Path(path).read_bytes()[place.offset :]
        assert shown == raw[: int.from_bytes(raw[2:4])]
        assert "The operation that begins here" in page


def test_a_place_inside_a_record_leads_to_the_record(ask: Ask) -> None:
    assert "Record at 0:687" in ask("bytes?at=0:700")
    assert "File header at 0:0" in ask("bytes?at=0:3")
    assert 'rel="prev" href="bytes?at=0%3A583"' in ask("bytes?at=0:700")


def test_the_after_image_of_an_update_has_the_names_of_its_columns(ask: Ask) -> None:
    place = re.search(r'<a href="(bytes[^"]+)"', ask("operations?kinds=U"))
    assert place is not None
    before = ask(place[1])
    following = re.search(r'href="(bytes[^"]+)">Next record', before)
    assert following is not None
    after = plain(ask(following[1]))

    assert "The operation that begins here" in before
    assert "The operation that this record belongs to" in after
    assert "Column 0 ID" in after


def parted_records() -> list[bytes]:
    """Return an insert in three fragments, and an update with a large object in two pieces after its two images."""
    key = cell(0, b"\0\0" + (1).to_bytes(8, "big"))
    long = split(INSERT, key + cell(1, text("in fragments")), 16)
    large = pieces_of(1, b"in two pieces", 7, BIG)
    images = [{"io_type": UPDATE, "data": key + cell(1, text("old")), "image": BEFORE_IMAGE}]
    images += [{"io_type": UPDATE, "data": key + cell(1, text(None))}]
    parts = [*images, *({"io_type": LARGE, "data": data} for data in large)]
    return [
        record(**part, name=ORDERS.name, trans_ind=indicator)
        for one in (long, parts)
        for part, indicator in zip(one, indicators_of("W", len(one)), strict=True)
    ]


def test_each_record_of_an_operation_shows_the_operation(tmp_path: Path) -> None:
    records = parted_records()
    prefix = write_files(tmp_path / "ot", [records])
    header = Path(f"{prefix}000000000").stat().st_size - sum(map(len, records))
    starts = list(accumulate(map(len, records), initial=header))[:-1]
    with TrailIndex(str(prefix)) as found:
        found.build()
        ask = asking(found)
        pages = [ask(f"bytes?at=0:{start}") for start in starts]
    begins = [0] * 3 + [3] * 4
    for row, (page, begin) in enumerate(zip(pages, begins, strict=True)):
        assert ("The operation that begins here" in page) == (row == begin)
        assert ("The operation that this record belongs to" in page) == (row != begin)
        assert f'href="bytes?at=0%3A{starts[begin]}">0:{starts[begin]}' in page
        assert ("in fragments" if begin == 0 else "in two pieces") in plain(page)


@pytest.mark.parametrize("torn", [True, False])
def test_a_part_whose_change_is_lost_shows_no_operation(tmp_path: Path, torn: bool) -> None:
    before, parts = inserts([7]), parted_records()[1:]
    prefix = write_files(tmp_path / "ot", [before, parts] if torn else [[*before, *parts]])
    data = Path(f"{prefix}{torn:09}").read_bytes()
    with TrailIndex(str(prefix)) as found:
        found.build()
        ask = asking(found)
        pages = [ask(f"bytes?at={torn:d}:{data.index(one)}") for one in parts]

    assert [("The operation that" in page) for page in pages] == [False] * 2 + [True] * 4


def test_damage_is_shown_with_its_bytes_and_the_rest_is_read(tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    first = Path(f"{prefix}000000000")
    data = bytearray(first.read_bytes())
    data[690:700] = b"\xde\xad\xbe\xef" * 2 + b"!!"
    first.write_bytes(data)
    with TrailIndex(prefix) as index:
        index.build()
        ask = asking(index)
        page = ask("operations")

        assert page.count('<td class="op op-') + page.count('class="unread"') >= 5
        where = re.findall(r'href="bytes\?at=([^"]+)"', ask(""))
        assert where
        assert "de ad be ef" in ask(f"bytes?at={where[0]}")


def damaged_index(tmp_path: Path) -> tuple[TrailIndex, int, int]:
    """Return a trail of eight inserts that lacks a byte of the fourth, and where the third and the fourth begin."""
    records = inserts(range(8))
    path = Path(f"{write_files(tmp_path / 'ot', [records])}000000000")
    data = bytearray(path.read_bytes())
    fourth = data.index(records[3])
    del data[fourth + 60]
    path.write_bytes(data)
    found = TrailIndex(str(tmp_path / "ot"))
    found.build()
    return found, fourth - len(records[2]), fourth


def test_a_damaged_trail_looks_damaged_on_every_page(tmp_path: Path) -> None:
    found, third, fourth = damaged_index(tmp_path)
    with found:
        ask = asking(found)
        count = quote("SELECT count(*) FROM 'MY.ORDERS'")
        pages = {
            "overview": "",
            "operations": "operations",
            "transaction": f"transaction?at=0:{third}",
            "bytes": f"bytes?at=0:{third}",
            "table": "table?name=MY.ORDERS",
            "row": "row?table=MY.ORDERS&key=1",
            "quarantine": "quarantine",
            "sql": f"sql?sql={count}",
        }
        assert set(pages) == TRAIL_PAGES
        for name, page in pages.items():
            text = plain(ask(page))
            banner = "The trail is damaged" if name == "overview" else "This trail is damaged"
            assert banner in text, page
        # An answer without the operations that cannot be read would be wrong.
        assert "the record's trailer should be 5a 01 00 5b" in plain(ask(pages["sql"]))
        lost = (
            f"0:{fourth} cannot be read: 90 bytes are not a record: the record's trailer should be"
        )
        assert "row 2" in plain(ask(f"bytes?at=0:{third}"))
        assert f"Damage at 0:{fourth}" in plain(ask(f"bytes?at=0:{fourth}"))
        for page in (
            "operations",
            "operations?kinds=D",
            f"operations?at=0:{third}",
            f"operations?before=0:{fourth + 100}",
        ):
            text = plain(ask(page))
            assert lost in text, page
            if "row 2" in text:
                assert text.index("row 2") < text.index(lost)
        assert lost not in plain(ask(f"operations?at=0:{fourth + 1}"))
        assert lost not in plain(ask(f"operations?before=0:{fourth}"))


def test_a_missing_record_is_stated_on_every_page(tmp_path: Path) -> None:
    rows = [*inserts([1, 2, 3], tx=1)[1:], *inserts([4], tx=2)]
    with TrailIndex(str(write_files(tmp_path / "ot", [rows]))) as found:
        found.build()
        ask = asking(found)
        for page in ("operations", "table?name=MY.ORDERS", f"bytes?at=0:{found.spans[0].start}"):
            assert "This trail is damaged" in plain(ask(page)), page
        assert "the beginning of the record's transaction is missing" in plain(ask(""))


def test_an_empty_file_has_no_link_to_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "aa000000000").write_bytes(b"")
    with TrailIndex(str(tmp_path / "aa")) as found:
        found.build()
        page = asking(found)("")
    assert "aa000000000 0" in plain(page)
    assert 'href="bytes' not in page


def test_a_whole_trail_has_no_banner(ask: Ask) -> None:
    assert "damaged" not in plain(ask("operations"))


def test_pages_lead_through_damage_both_ways(tmp_path: Path) -> None:
    """However few rows a page has, each operation and each run of lost bytes is on one page."""
    found, _, fourth = damaged_index(tmp_path)
    with found:
        place: TrailPosition | None = None
        forwards = []
        while True:
            page = OperationSearch(found, OperationFilters(), place, rows=2, damage=True).run()
            forwards += [row.place for row in page.rows]
            if page.after is None:
                break
            place = page.after
        assert len(forwards) == 8  # seven operations, and the place of what was the fourth
        assert forwards == sorted(set(forwards))
        assert TrailPosition(0, fourth) in forwards
        place = None
        backwards: list[TrailPosition] = []
        while True:
            page = OperationSearch(
                found, OperationFilters(), place, back=True, rows=2, damage=True
            ).run()
            backwards = [*(row.place for row in page.rows), *backwards]
            if page.before is None:
                break
            place = page.before
        assert backwards == forwards


def test_markup_in_a_trail_is_text(tmp_path: Path) -> None:
    with TrailIndex(hostile_trail(tmp_path)) as index:
        index.build()
        ask = asking(index)
        for page in (
            "operations",
            "transaction?at=0:583",
            "bytes?at=0:583",
            "table?name=MY.ORDERS",
        ):
            text = ask(page)
            assert "alert(" in text
            assert "<script>" not in text
            assert "\u202e" not in text


def test_pages_lead_through_all_rows_both_ways(tmp_path: Path) -> None:
    rows = [[Op("I", number, str(number))] for number in range(250)]
    with TrailIndex(str(write_trail(tmp_path / "aa", [rows]))) as index:
        index.build()
        forward: list[Any] = []
        backward: list[Any] = []
        place: TrailPosition | None = None
        while True:
            found = OperationSearch(index, OperationFilters(), place, rows=30).run()
            forward += found.rows
            place = found.after
            if place is None:
                break
        place = index.spans[-1].stop
        while place is not None:
            found = OperationSearch(index, OperationFilters(), place, back=True, rows=30).run()
            backward = [*found.rows, *backward]
            place = found.before

        assert (
            [row.place for row in forward]
            == [row.place for row in backward]
            == [
                row.place
                for row in OperationSearch(index, OperationFilters(), rows=1000).run().rows
            ]
        )
        ask = asking(index)
        assert 'rel="next"' in ask("operations")
        assert 'rel="prev"' in ask("operations?at=0:9000")


@given(st.data())
def test_any_bytes_have_a_page_or_our_error(index: TrailIndex, data: st.DataObject) -> None:
    """Flipped bytes of a trail give pages of what is whole, and never another error."""
    source = Path(f"{index.found.prefix}000000000").read_bytes()
    changed = bytearray(source)
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(583, len(source) - 1), st.integers(0, 255)), max_size=8)
    ):
        changed[at] = value
    folder = Path(index.found.prefix).parent / "changed"
    folder.mkdir(exist_ok=True)
    (folder / "aa000000000").write_bytes(changed)
    with TrailIndex(str(folder / "aa")) as found:
        found.build()
        for row in OperationSearch(found, OperationFilters()).run().rows:
            assert isinstance(row, ShownOperation | UnreadOperations)
        ask = asking(found)
        place = data.draw(st.integers(0, len(source) - 1))
        try:
            ask(f"bytes?at=0:{place}")
            ask("operations?text=a")
        except TrailgateError as error:  # pragma: no cover  answers hold errors
            raise AssertionError(str(error)) from error


def test_a_filter_reads_only_what_may_pass(index: TrailIndex) -> None:
    span = index.spans[0]

    assert not OperationFilters(kinds="T").may_be_in(span, None)
    assert OperationFilters(kinds="I").may_be_in(span, None)
    assert not OperationFilters(from_csn="2000").may_be_in(span, None)
    assert not OperationFilters(to_csn="1").may_be_in(span, None)
    assert not OperationFilters(tables=TablePatterns(("A",))).may_be_in(span, 0)
