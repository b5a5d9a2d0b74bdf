"""A long value is shown by its beginning, with a link to all of it, on each page that has values."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from browse.test_operation_pages import asking, plain
from browse.trails import HOSTILE
from sample_trail import Op, write_trail
from trailgate.browse.index import TrailIndex

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")
MB = 1_000_000
VALUES = {
    "short": "x" * 300,
    "a character more": "y" * 301,
    "1 MB": "abcdefghij" * (MB // 10),
    "two bytes a character": "é" * MB,
    "markup": HOSTILE.replace("\0", "") * 50_000,
    "lines": "line\n" * (MB // 5),
}
PAGES = ("operations?at=0:0", "transaction?at=0:0", "table?name=MY.ORDERS", "bytes?at=0:583")


@pytest.fixture(scope="module", params=VALUES)
def shown(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    value = VALUES[request.param]
    rows = [Op("I", 1, value), Op("U", 2, value, f"{value}!"), Op("D", 3, before=value)]
    prefix = write_trail(tmp_path_factory.mktemp("long") / "aa", [[rows]])
    with TrailIndex(str(prefix)) as index:
        index.build()
        yield value, index


def links(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'class="all" href="([^"]+)"', page)]


def test_a_page_has_the_beginning_and_a_link_to_all(shown: tuple[str, Any]) -> None:
    value, index = shown
    ask = asking(index)

    for page in PAGES:
        text = ask(page)
        assert len(text) < 60_000, page
        # Of the short value the update's before value is a character longer.
        assert bool(links(text)) == (len(value) > 300 or not page.startswith("bytes")), page


def test_each_link_leads_to_all_of_its_value(shown: tuple[str, Any]) -> None:
    value, index = shown
    client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
    page = client.get("/t/operations").text

    answers = [client.get(f"/t/{link}") for link in links(page)]

    every = [value, f"{value}!", value, value]  # insert, update before and after, delete
    assert [one.text for one in answers] == [one for one in every if len(one) > 300]
    assert all(one.headers["content-type"] == "text/plain; charset=utf-8" for one in answers)
    assert all("default-src 'none'" in one.headers["content-security-policy"] for one in answers)


def test_the_size_of_a_value_is_stated(tmp_path: Path) -> None:
    rows = [Op("I", 1, VALUES["1 MB"]), Op("I", 2, VALUES["two bytes a character"])]
    with TrailIndex(str(write_trail(tmp_path / "aa", [[rows]]))) as index:
        index.build()
        page = plain(asking(index)("operations"))

    assert f"{'abcdefghij' * 30}… show all (1.0 MB)" in page
    assert f"{'é' * 300}… show all (2.0 MB)" in page


def test_fifty_values_of_a_megabyte_are_one_small_page(tmp_path: Path) -> None:
    rows = [Op("I", number, VALUES["1 MB"]) for number in range(50)]
    with TrailIndex(str(write_trail(tmp_path / "aa", [[rows]]))) as index:
        index.build()
        page = asking(index)("operations")

    assert page.count("show all (1.0 MB)") == 50
    assert len(page) < 100_000


def test_an_answer_of_sql_has_the_beginnings(shown: tuple[str, Any]) -> None:
    value, index = shown

    statement = quote("SELECT NAME FROM 'MY.ORDERS'")
    page = asking(index)(f"sql?sql={statement}")

    assert len(page) < 20_000
    assert ("in all, which the saved answer has" in page) == (len(value) > 300)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "at=0:583",
        "at=0:583&column=NAME&image=none",
        "at=0:583&column=NONE&image=after",
        "at=0:583&column=NAME&image=before",
        "at=0:584&column=NAME&image=after",
        "at=9:0&column=NAME&image=after",
        "at=x&column=NAME&image=after",
    ],
)
def test_an_address_of_no_value_is_refused(query: str, tmp_path: Path) -> None:
    with TrailIndex(str(write_trail(tmp_path / "aa", [[[Op("I", 1, "a")]]]))) as index:
        index.build()
        ask: Any = asking(index)
        ask(f"value?{query}", 400)
