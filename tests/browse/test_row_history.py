"""The history of a row, compared with one that is followed operation by operation."""

from __future__ import annotations

import html
import json
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_trail import NOTES, Op, write_trail
from trailgate.browse.growth import GrowingIndex
from trailgate.browse.index import TrailIndex

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")


def pages(index: TrailIndex) -> Any:
    client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")

    def ask(status: int = 200, **query: str) -> str:
        answer = client.get(f"/t/row?{urlencode(query)}")
        assert answer.status_code == status, answer.text
        text: str = answer.text
        return text

    return ask


def positions(page: str) -> list[str]:
    return [one.replace("%3A", ":") for one in re.findall(r'<a href="bytes\?at=([^"]+)"', page)]


def lives(draw: random.Random, count: int) -> tuple[list[Op], list[int]]:
    """Return operations on a few keys, which rows leave and take again, and the row of each operation."""
    rows: dict[int, int] = {}  # the row that has a key
    operations: list[Op] = []
    owners: list[int] = []
    fresh = 0
    for number in range(count):
        free = [key for key in range(6) if key not in rows]
        kinds = (["I"] if free else []) + (["U", "D"] if rows else [])
        kind = draw.choice(kinds + (["K", "K"] if rows and free else []))
        if kind == "I":
            key, fresh = draw.choice(free), fresh + 1
            rows[key] = fresh
            operations.append(Op("I", key, f"v{number}"))
        elif kind == "K":
            old, key = draw.choice([*rows]), draw.choice(free)
            rows[key] = rows.pop(old)
            written = draw.choice("UK")  # some writers have no type of their own for key updates
            operations.append(Op(written, key, f"v{number}", "before", old_key=old))
        else:
            key = draw.choice([*rows])
            before = "before" if kind == "D" or draw.random() < 0.5 else ...
            operations.append(Op(kind, key, f"v{number}", before))
        owners.append(rows[key])
        if kind == "D":
            del rows[key]
    return operations, owners


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_history_has_the_operations_on_the_row_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, draw: random.Random, count: int
) -> None:
    operations, owners = lives(draw, count)
    cut = draw.randint(0, count)
    files = [[[one] for one in part] for part in (operations[:cut], operations[cut:]) if part]
    prefix = tmp_path_factory.mktemp("row") / "aa"
    with TrailIndex(str(write_trail(prefix, files))) as index:
        index.build()
        ask = pages(index)
        client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        places = positions(client.get("/t/operations").text)
        assert len(places) == count
        deleted = {n for n, one in enumerate(operations) if one.kind == "D"}
        for number in draw.sample(range(count), min(3, count)):
            page = ask(
                table="MY.ORDERS", key=json.dumps([str(operations[number].key)]), at=places[number]
            )
            # A key that is inserted again after a delete names the same row for the page.
            expected = same_key_as_row(operations, owners, number, deleted)
            assert positions(page) == [places[one] for one in expected], operations


def same_key_as_row(
    operations: list[Op], owners: list[int], number: int, deleted: set[int]
) -> list[int]:
    """Return the operations on a row, where rows that only a delete and an insert part are one."""
    row_of: dict[int, int] = {}
    joined: dict[int, int] = {}
    for at, one in enumerate(operations):
        if one.kind == "I" and one.key in row_of:
            joined[owners[at]] = row_of[one.key]
        if one.old_key is not None:
            row_of.pop(one.old_key, None)
        row_of.pop(one.key, None)
        row_of[one.key] = owners[at]

    def first(row: int) -> int:
        return first(joined[row]) if row in joined else row

    wanted = first(owners[number])
    return [at for at, owner in enumerate(owners) if first(owner) == wanted]


def test_the_key_of_an_operation_leads_to_the_history(tmp_path: Path) -> None:
    trail = write_trail(
        tmp_path / "aa",
        [
            [
                [Op("I", 1, "one"), Op("I", 10, "ten")],
                [Op("K", 2, "one", "one", old_key=1)],
                [Op("U", 2, "two", "one"), Op("I", 1, "another", table=NOTES)],
            ]
        ],
    )
    with TrailIndex(str(trail)) as index:
        index.build()
        client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        page = client.get("/t/operations").text
        targets = re.findall(r'href="(row\?table=MY.ORDERS[^"]+)"', page)
        history = client.get("/t/" + targets[0].replace("&amp;", "&")).text

    assert len(positions(history)) == 3
    assert "The history includes the operations under <strong>2</strong>" in history
    assert ">ten<" not in history


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"table": "NO.SUCH", "key": "1"}, "the trail has no table"),
        ({"table": "MY.ORDERS"}, "the address has no key of a row of MY.ORDERS. For example"),
        ({"table": "MY.ORDERS", "key": '["1","2"]'}, "has 1 columns (ID), not 2"),
        ({"table": "MY.ORDERS", "key": "1", "at": "x"}, "is not a position"),
    ],
)
def test_an_address_of_no_row_says_so(tmp_path: Path, query: dict[str, str], problem: str) -> None:
    with TrailIndex(str(write_trail(tmp_path / "aa", [[[Op("I", 1)]]]))) as index:
        index.build()
        page = pages(index)(400, **query)

    assert problem in page.replace("&#39;", "'")


def test_a_key_without_a_position_has_all_operations_on_it(tmp_path: Path) -> None:
    operations = [Op("I", 1), Op("K", 2, "a", "b", old_key=1), Op("I", 1), Op("U", 2)]
    with TrailIndex(str(write_trail(tmp_path / "aa", [[[one] for one in operations]]))) as index:
        index.build()
        ask = pages(index)

        assert len(positions(ask(table="MY.ORDERS", key="2"))) == 3
        assert len(positions(ask(table="MY.ORDERS", key='["1"]'))) == 4
        assert "no operation on this row" in ask(table="MY.ORDERS", key="77")
        assert "no operation on this row" in ask(table="MY.ORDERS", key="[" * 20_000)


def test_a_long_history_has_several_pages(tmp_path: Path) -> None:
    operations = [[Op("U", 1, str(number), "x")] for number in range(230)]
    with TrailIndex(str(write_trail(tmp_path / "aa", [operations]))) as index:
        index.build()
        client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        address, found, pages_read = "row?table=MY.ORDERS&key=1&page=1&other=x", list[str](), 0
        while address:
            page = client.get(f"/t/{address}").text
            found, pages_read = found + positions(page), pages_read + 1
            following = re.search(r'rel="next" href="([^"]+)"', page)
            address = html.unescape(following[1]) if following else ""

    assert pages_read == 5
    assert len(found) == len(set(found)) == 230


def test_the_history_of_a_row_follows_key_updates_of_a_growing_trail(tmp_path: Path) -> None:
    first = [[Op("I", 1, "a")]]
    prefix = write_trail(tmp_path / "aa", [first])
    with GrowingIndex(str(prefix)) as index:
        index.build()
        ask = pages(index)
        assert len(positions(ask(table="MY.ORDERS", key="1"))) == 1
        write_trail(tmp_path / "aa", [first, [[Op("K", 2, "b", "a", old_key=1)], [Op("D", 2)]]])
        index.read_on()

        assert len(positions(ask(table="MY.ORDERS", key="1"))) == 3


@pytest.mark.parametrize("key", ["[null]", "[true]", r'["\ud800"]', "[[1]]", '[{"a":1}]'])
def test_a_key_that_is_no_text_is_refused(tmp_path: Path, key: str) -> None:
    with TrailIndex(str(write_trail(tmp_path / "aa", [[[Op("I", 1)]]]))) as index:
        index.build()

        assert "neither a text nor a number" in pages(index)(400, table="MY.ORDERS", key=key)
