"""Every format of publications is read again by the parser that its row names."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from full_operations import TABLE, transactions
from laws import examples
from operations_for_messages import captured, said
from trail.batches import operations_of
from trailgate.messages.parsers import PARSERS
from trailgate.messages.publications import PUBLICATIONS, publish_options, writer_for
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.model.tables import Definitions, Table
from trailgate.operations.operations_table import from_operations

DEFINITIONS: Final = Definitions((TABLE, Table("S.OTHER", TABLE.columns[:2])))


class RoundTrip(NamedTuple):
    """The options by which a format says all of these operations, and the properties that read it again."""

    options: dict[str, Any]
    properties: str = ""


ROUND_TRIPS: Final = {
    "delimited": RoundTrip({}),
    "xml": RoundTrip({}),
    "json": RoundTrip(
        {"binary": "hex", "transactions": True},
        "json.txind=tx_ind\njson.txid=xid\njson.binary=hex\n",
    ),
    "debezium": RoundTrip(
        {"key_updates": "update"},
        "debezium.decimal.handling.mode=string\ndebezium.binary.handling.mode=bytes\n",
    ),
}


def test_every_format_is_tried() -> None:
    assert set(ROUND_TRIPS) == {row.name for row in PUBLICATIONS}
    assert {row.parser for row in PUBLICATIONS} <= {row.name for row in PARSERS}


def _with_plain_names(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {TABLE.name: TABLE.name}
    return [row | {"table": names.get(row["table"], "S.OTHER")} for row in rows]


@pytest.mark.parametrize("row", PUBLICATIONS, ids=lambda row: row.name)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=transactions().map(_with_plain_names), at=st.integers(0, 12))
def test_operations_are_read_again(row: Any, rows: list[dict[str, Any]], at: int) -> None:
    trip = ROUND_TRIPS[row.name]
    table = pa.RecordBatch.from_pylist(rows, schema=OPERATIONS_SCHEMA)
    parts = [from_operations(part, DEFINITIONS) for part in (table[:at], table[at:])]
    writer = writer_for(row.name, publish_options(row.name, trip.options))
    made = [*(writer.write(part) for part in parts), writer.finish()]
    bodies = [body for messages in made for body in messages.bodies.to_pylist()]

    properties = f"parser.type={row.parser}\n{row.parser}.sourcedefs=x\n{trip.properties}"
    found = captured(properties, bodies, DEFINITIONS)
    expected = [operation for part in parts for operation in operations_of(part)]
    assert list(map(said, found)) == list(map(said, expected))
    assert [op["tx_ind"] for op in found] == [op["tx_ind"] for op in expected]
