"""The counts of all operations that pass filters, and the files of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browse.test_operation_pages import plain
from browse.trails import plain_trail, shop_trail
from sample_trail import Op, write_trail
from trailgate.browse import exports, matches
from trailgate.browse.charts import LABELS, bar_edges, round_times
from trailgate.browse.filters import OperationFilters
from trailgate.browse.histogram import WIDTHS, BinWidth
from trailgate.browse.index import KINDS, TrailIndex
from trailgate.browse.matches import MatchSummary, NameCounts
from trailgate.browse.pages import duration_words
from trailgate.storage.reading.trails import read_trail

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")

SECOND = 1_000_000
DAY = 86_400


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    folder = tmp_path_factory.mktemp("shop")
    with TrailIndex(str(folder / shop_trail(folder))) as found:
        found.build()
        yield found


@pytest.fixture(scope="module")
def rows(index: TrailIndex) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_trail(index.found.prefix).read_all().to_pylist()
    return found


@pytest.fixture(scope="module")
def client(index: TrailIndex) -> Any:
    return testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")


def images(row: dict[str, Any]) -> list[dict[str, str | None]]:
    return [dict(row[name]) for name in ("before", "after") if row[name] is not None]


def values(row: dict[str, Any], column: str = "") -> list[str | None]:
    """Return the logged values of an operation, of one column or of all."""
    return [value for one in images(row) for name, value in one.items() if column in ("", name)]


BETWEEN = "from_time=2026-01-08 09:20&to_time=2026-01-08 17:31:30"
# The filters of an address, and whether an operation of the table of operations passes.
FILTERS: dict[str, Any] = {
    "": bool,
    "kinds=I": lambda row: row["op_type"] == "I",
    "table=GG.*&kinds=UD": lambda row: row["op_type"] in "UD",
    "text=boat": lambda row: any("boat" in (one or "").lower() for one in values(row)),
    "column=CUST_CODE&text=ann": lambda row: any(
        "ann" in (one or "").lower() for one in values(row, "CUST_CODE")
    ),
    "column=CUST_CODE&match=equals&text=ANN": lambda row: "ANN" in values(row, "CUST_CODE"),
    "match=equals&text=ROWING BOAT": lambda row: "ROWING BOAT" in values(row),
    "match=equals&text=ROWING": lambda row: "ROWING" in values(row),
    "column=CUST_CODE&match=null": lambda row: None in values(row, "CUST_CODE"),
    "column=CUST_CODE&match=missing": lambda row: not values(row, "CUST_CODE"),
    "match=null": lambda row: None in values(row),
    "tx=T-0400": lambda row: row["tx_id"] == "T-0400",
    "owner=nobody": lambda row: not row,
    "token=nothing": lambda row: not row,
    "token=TX_OWNER=x": lambda row: not row,
    "from_time=2026-01-09": lambda row: row["op_ts"] >= datetime(2026, 1, 9, tzinfo=UTC),
    BETWEEN: lambda row: "01-08 09:20" <= f"{row['op_ts']:%m-%d %T}" <= "01-08 17:31:30",
}


@pytest.mark.parametrize("query", FILTERS)
def test_counts_are_those_of_the_operations_that_pass(
    index: TrailIndex, rows: list[dict[str, Any]], query: str
) -> None:
    expected = [row for row in rows if FILTERS[query](row)]
    filters = OperationFilters.of(dict(part.split("=", 1) for part in query.split("&") if part), "")
    summary = MatchSummary(filters)
    while not summary.is_complete(index):
        summary.count_on(index, 0)

    assert summary.matches == len(expected)
    assert summary.tables == Counter(row["table"] for row in expected)
    assert summary.transactions.counts == Counter(row["tx_id"] for row in expected)
    assert dict(zip(KINDS, summary.over_time.counts.sum(axis=1).tolist(), strict=True)) == {
        kind: sum(row["op_type"] == kind for row in expected) for kind in KINDS
    }
    assert summary.uncharted == 0


def test_some_filters_of_the_table_pass_and_some_do_not(rows: list[dict[str, Any]]) -> None:
    passed = {query: sum(map(test, rows)) for query, test in FILTERS.items()}

    assert sum(0 < count < len(rows) for count in passed.values()) >= 7


def test_counting_goes_on_span_by_span(tmp_path: Path) -> None:
    files = [[[Op("I", 10 * file + row, "x")] for row in range(3)] for file in range(4)]
    with TrailIndex(str(write_trail(tmp_path / "aa", files))) as index:
        index.build()
        summary, counted = MatchSummary(OperationFilters()), []
        while not summary.is_complete(index):
            summary.count_on(index, 0)
            counted.append(summary.matches)

    assert counted == [3, 6, 9, 12]


def test_a_name_of_the_latest_batch_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "NAMES", 20)
    names, every = NameCounts(), pa.array([True] * 30)
    names.add(pa.array(["big"] * 30), every)
    names.start_batch()
    names.add(pa.array([f"small{n}" for n in range(29)] + ["going on"]), every)
    names.start_batch()
    names.add(pa.array(["going on"] * 30), every)
    names.start_batch()

    assert names.counts["big"] == 30
    assert names.counts["going on"] == 31
    names.start_batch()
    assert len(names.counts) <= 31


def test_the_page_has_the_counts_and_links_that_add_a_filter(client: Any) -> None:
    page = client.get("/t/operations?kinds=I&text=boat").text

    assert re.search(r"<strong>[\d,]+ operations match</strong>", page)
    assert 'href="operations?kinds=I&amp;text=boat&amp;table=%3DGG.SHOP_ORDERS"' in page
    assert 'href="operations?kinds=I&amp;text=boat&amp;tx=T-' in page
    assert "<mark>BOAT</mark>" in page
    assert "All searched." not in page
    assert "All searched." in client.get("/t/operations?text=nowhere").text


def test_a_filter_can_be_removed(client: Any) -> None:
    page = client.get("/t/operations?kinds=I&text=boat&nothing=1").text

    assert 'href="operations?text=boat" aria-label="Remove the filter operation"' in page
    assert "nothing" not in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("column=PRODUCT&text=boat", "value of PRODUCT contains boat"),
        ("column=PRODUCT&match=missing", "value of PRODUCT is not logged"),
        ("match=null", "a value is NULL"),
        ("match=equals&text=OAR", "a value is OAR"),
    ],
)
def test_the_filters_of_a_value_are_removed_together(client: Any, query: str, shown: str) -> None:
    """Those that are left alone would be refused, such as a column without a text."""
    page = client.get(f"/t/operations?kinds=I&{query}").text

    assert shown in plain(page)
    assert "operation insert" in plain(page)
    assert 'href="operations?kinds=I" aria-label="Remove the filter' in page


def test_charts_have_round_counts(client: Any) -> None:
    page = client.get("/t/operations").text
    levels = re.findall(r">([\d,]+)</text>", page.split('class="levels"')[1].split("</svg>")[0])
    assert levels == ["50", "100", "150"]


@pytest.mark.parametrize("query", [query for query in FILTERS if "owner" not in query])
def test_a_file_has_the_operations_that_pass(
    client: Any, rows: list[dict[str, Any]], query: str
) -> None:
    expected = [row for row in rows if FILTERS[query](row)]
    positions = [row["position"] for row in expected]
    found = {
        kind: client.get(f"/t/export?{query}&to={kind}") for kind in ("csv", "parquet", "jsonl")
    }

    assert {one.status_code for one in found.values()} == {200}
    assert [one["position"] for one in csv.DictReader(io.StringIO(found["csv"].text))] == positions
    table = pq.read_table(pa.BufferReader(found["parquet"].content))
    assert table.to_pylist() == expected
    lines = [json.loads(line) for line in found["jsonl"].text.splitlines()]
    assert [line["position"] for line in lines] == positions
    assert [line["after"] for line in lines] == [
        None if row["after"] is None else dict(row["after"]) for row in expected
    ]


def test_a_file_of_a_damaged_trail_is_refused_unless_damage_is_left_out(tmp_path: Path) -> None:
    prefix = plain_trail(tmp_path)
    path = Path(f"{prefix}000000000")
    data = bytearray(path.read_bytes())
    at = data.index(b"\x00\x03one")
    data[at : at + 2] = b"\x00\x70"
    path.write_bytes(data)
    with TrailIndex(prefix) as index:
        index.build()
        app = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        refused = app.get("/t/export?to=csv")
        skipped = app.get("/t/export?to=csv&unread=skip")

    assert refused.status_code == 422
    assert "cannot be read" in refused.text
    assert "unread=skip" in refused.text
    assert skipped.status_code == 200


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("page", "name"),
    [("export?", "operations"), ("answer?sql=SELECT * FROM operations&", "answer")],
)
def test_a_full_disk_is_stated(
    client: Any, monkeypatch: pytest.MonkeyPatch, kind: str, page: str, name: str
) -> None:
    saved = client.get(f"/t/{page}to={kind}")
    monkeypatch.setattr(exports, "TemporaryFile", partial(Path("/dev/full").open, "w+b", 64))
    refused = client.get(f"/t/{page}to={kind}")

    assert saved.headers["content-disposition"] == f'attachment; filename="{name}.{kind}"'
    assert refused.status_code == 422
    assert "the file cannot be written: No space left on device" in plain(refused.text)
    assert "TMPDIR" in refused.text


@pytest.mark.parametrize("query", ["to=xml", "to=csv&match=like", "to=csv&match=missing"])
def test_an_address_of_no_file_says_so(client: Any, query: str) -> None:
    assert client.get(f"/t/export?{query}").status_code == 400


@given(st.integers(631_152_000, 4_102_444_800), st.integers(1, 110 * 366 * 86_400))
def test_labels_of_a_time_axis_are_round_and_few(begin: int, seconds: int) -> None:
    end = begin + seconds
    found = round_times(begin * SECOND, end * SECOND)

    assert len(found) <= LABELS + 1
    assert seconds < 2 or len(found) >= 1
    assert all(begin * SECOND <= at < end * SECOND for at, _ in found)
    for at, text in found:
        moment = datetime.fromtimestamp(at // SECOND, UTC)
        assert text in moment.strftime(
            "%Y|%Y-%m|%Y-%m-%d|%m-%d|%H:%M|%H:%M:%S|%m-%d %H:%M|%m-%d %H:%M:%S"
        ).split("|")


@given(
    st.integers(631_152_000, 4_102_444_800),
    st.integers(1, 1024),
    st.sampled_from(WIDTHS),
    st.integers(16, 64),
)
def test_bars_begin_at_round_times_and_consist_of_whole_bins(
    begin: int, bins: int, width: BinWidth, most: int
) -> None:
    ends = width.edges(width.number_of(begin * SECOND), bins).tolist()
    edges = bar_edges(ends[0], ends[-1], width, most)
    lengths = {(two - one) // SECOND for one, two in pairwise(edges)}

    assert edges[0] <= ends[0] < edges[1]
    assert edges[-2] < ends[-1] <= edges[-1]
    assert len(edges) - 1 <= most
    assert set(edges[1:-1]) <= set(ends)
    if width.in_months or max(lengths) >= 28 * DAY:
        months = [datetime.fromtimestamp(one // SECOND, UTC) for one in edges]
        assert {f"{one:%d %T}" for one in months} == {"01 00:00:00"}
        [step] = {
            12 * (two.year - one.year) + two.month - one.month for one, two in pairwise(months)
        }
        assert step in (1, 3) or step % 12 == 0
        assert all((12 * one.year + one.month - 1) % step == 0 for one in months)
    else:
        [length] = lengths
        assert DAY % length == 0 or length % DAY == 0
        assert all(one // SECOND % min(length, DAY) == 0 for one in edges)


@pytest.mark.parametrize(
    ("seconds", "bar"),
    [
        (1, "1 s"),
        (60, "1 s"),
        (3600, "1 min"),
        (DAY, "30 min"),
        (30 * DAY, "12 h"),
        (365 * DAY, "7 d"),
        (3 * 365 * DAY, "1 month"),
        (10 * 365 * DAY, "3 months"),
        (30 * 365 * DAY, "12 months"),
    ],
)
def test_a_trail_of_a_second_to_one_of_years_has_bars_of_the_calendar(
    tmp_path: Path, seconds: int, bar: str
) -> None:
    """Each bar leads to the operations that it counts, and all bars together to all of them."""
    begin = datetime(1996, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(seconds=seconds * at / 200) for at in range(200)]
    prefix = str(write_trail(tmp_path / "aa", [[[Op("I", 1, time=one)] for one in times]]))
    with TrailIndex(prefix) as index:
        index.build()
        app = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        pages = [app.get(f"/t/{page}").text for page in ("", "operations", "table?name=MY.ORDERS")]
        for page in pages:
            bars = links_of_bars(page)
            assert [count for _, count in bars] == [
                sum(one <= at <= end for at in times) for (one, end), _ in bars
            ]
            assert sum(count for _, count in bars) == 200
            assert bar_length([one for one, _ in bars]) == bar
        for (one, end), count in links_of_bars(pages[0])[:: max(1, seconds // DAY // 60)]:
            query = {"from_time": one.isoformat(), "to_time": end.isoformat()}
            found = plain(app.get("/t/operations", params=query).text)
            assert f"{count} operation{'' if count == 1 else 's'} match" in found


def links_of_bars(page: str) -> list[tuple[tuple[datetime, datetime], int]]:
    """Return the first and the last time of each bar's link, and the count of the bar."""
    found = re.findall(r'class="bar" href="([^"]+)"[^>]* data-count="(\d+)"', page)
    queries = [(dict(parse_qsl(urlsplit(unescape(link)).query)), count) for link, count in found]
    return [
        ((time_in(query["from_time"]), time_in(query["to_time"])), int(count))
        for query, count in queries
    ]


def time_in(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


def bar_length(spans: list[tuple[datetime, datetime]]) -> str:
    """Return the common length of bars in words."""
    begins, ends = [one for one, _ in spans], [end + timedelta(microseconds=1) for _, end in spans]
    months = {
        12 * (end.year - one.year) + end.month - one.month
        for one, end in zip(begins, ends, strict=True)
    }
    if {one.day for one in (*begins, *ends)} == {1} and months != {0}:
        [length] = months
        return f"{length} month{'' if length == 1 else 's'}"
    [span] = {end - one for one, end in zip(begins, ends, strict=True)}
    return duration_words(span // timedelta(microseconds=1))


@pytest.mark.parametrize("query", ["", "kinds=I", BETWEEN])
def test_each_bar_leads_to_the_operations_that_it_counts(
    client: Any, rows: list[dict[str, Any]], query: str
) -> None:
    page = client.get(f"/t/operations?{query}").text
    bars = links_of_bars(page)
    expected = [row["op_ts"] for row in rows if FILTERS[query](row)]

    assert sum(count for _, count in bars) == len(expected)
    for (begin, end), count in bars:
        assert sum(begin <= at <= end for at in expected) == count
    given_times = {name: time_in(text) for name, text in parse_qsl(query) if "time" in name}
    if given_times:
        assert bars[0][0][0] >= given_times["from_time"]
        assert bars[-1][0][1] <= given_times["to_time"]
