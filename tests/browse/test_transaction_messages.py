"""A transaction opens in the workbench as the JSON that ``trailgate publish`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trailgate
from browse.test_operation_pages import asking
from browse.trails import plain_trail, shop_trail
from sample_trail import Op, write_trail
from trailgate.browse.index import TrailIndex
from trailgate.browse.transaction_messages import OPERATIONS, transaction_message
from trailgate.browse.workbench import Sheet, Workbench, examine_sheet
from trailgate.errors import OptionError

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")


def position_of(index: TrailIndex, transaction: str) -> str:
    """Return the position at which a transaction begins."""
    rows = trailgate.read_trail(index.found.prefix).read_all().to_pylist()
    return next(str(row["position"]) for row in rows if row["tx_id"] == transaction)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    folder = tmp_path_factory.mktemp("messages")
    with TrailIndex(str(folder / shop_trail(folder))) as index:
        index.build()
        yield index


def test_each_transaction_has_its_operations_and_no_others(shop: TrailIndex) -> None:
    rows = trailgate.read_trail(shop.found.prefix).read_all().to_pylist()
    transactions: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        transactions.setdefault(row["tx_id"], []).append(row)

    for own in [*list(transactions.values())[:40], transactions["T-0400"]]:
        made = transaction_message(shop, {"at": own[0]["position"]})
        found = [json.loads(line) for line in made["message"].splitlines()]
        expected = [(row["table"], row["op_type"], row["position"]) for row in own]
        assert [(one["table"], one["op_type"], one["pos"]) for one in found] == expected


def test_the_workbench_makes_the_same_operations_of_it(shop: TrailIndex) -> None:
    made = transaction_message(shop, {"at": position_of(shop, "T-0004")})

    sheet = Sheet(message=made["message"], properties=made["properties"])
    result = examine_sheet(Workbench(), sheet)

    assert result.faults == ()
    assert [(one.table, one.kind, one.tx_id) for one in result.operations] == [
        ("GG.JMSCAP_TCUSTMER", "U", "T-0004"),
        ("GG.SHOP_ORDERS", "U", "T-0004"),
    ]


def test_a_single_operation_is_opened_and_read_by_its_properties(shop: TrailIndex) -> None:
    rows = trailgate.read_trail(shop.found.prefix).read_all().to_pylist()
    inner = {row["op_type"]: row for row in rows if row["tx_ind"] == "M"}
    assert len(inner) == 3

    for kind, row in inner.items():
        made = transaction_message(shop, {"at": row["position"], "rows": "1"})
        [line] = made["message"].splitlines()
        assert json.loads(line)["pos"] == row["position"]
        sheet = Sheet(message=made["message"], properties=made["properties"])
        result = examine_sheet(Workbench(), sheet)
        assert (result.faults, [one.kind for one in result.operations]) == ((), [kind])


def test_a_long_transaction_is_opened_in_part(tmp_path: Path) -> None:
    rows = [Op("I", number, "x" * 50) for number in range(3 * OPERATIONS)]
    large = [Op("I", number, "y" * 500_000) for number in range(5)]
    with TrailIndex(str(write_trail(tmp_path / "aa", [[rows], [large]]))) as index:
        index.build()
        begins = [f"{number}:{index.spans[number].start}" for number in (0, 1)]
        made = [transaction_message(index, {"at": at})["message"] for at in begins]

    assert made[0].count("\n") == OPERATIONS - 1
    assert len(made[1]) < 1 << 20
    assert made[1].count("\n") == 0


def test_an_address_without_a_transaction_is_refused(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        for at in ("", "9:0", "x"):
            with pytest.raises(OptionError):
                transaction_message(index, {"at": at})


def test_only_pages_with_a_workbench_have_the_button(shop: TrailIndex) -> None:
    at = position_of(shop, "T-0004")
    page = f"transaction?at={at}"
    assert "Open in the workbench" not in asking(shop)(page)
    application = server.application(shop, "t", bench=Workbench())
    client = testing.TestClient(application, base_url="http://127.0.0.1")
    assert "Open in the workbench" in client.get(f"/t/{page}").text
    assert client.get(f"/t/message?at={at}").json()["properties"].startswith("# Proposed")
    assert client.get("/t/message").status_code == 400


@pytest.mark.parametrize("name", ["operations", "table?name=GG.SHOP_ORDERS", "row"])
def test_each_row_has_a_button_if_there_is_a_workbench(shop: TrailIndex, name: str) -> None:
    page = "row?table=GG.SHOP_ORDERS&key=1003" if name == "row" else name
    application = server.application(shop, "t", bench=Workbench())
    text = testing.TestClient(application, base_url="http://127.0.0.1").get(f"/t/{page}").text
    rows = text.count('<td class="op op-')
    assert text.count('data-message="message?at=0%3A') == rows > 0
    assert "data-message" not in asking(shop)(page)
