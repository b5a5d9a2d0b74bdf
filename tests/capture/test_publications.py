"""Every format of publications is read again by the parser that its row names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from full_operations import TABLE, transactions
from laws import examples
from operations_for_messages import captured, warnings
from option_tables import table_of
from trail.batches import batch_of, operations_of
from trailgate.capture.formats import PARSERS, PUBLICATIONS, publish_options, writer_for
from trailgate.errors import EncodeError
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.operations_table import from_operations
from trailgate.model.tables import Definitions, Table
from trailgate.options import FLAG

ROOT: Final = Path(__file__).parents[2]

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
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
    assert list(map(warnings, found)) == list(map(warnings, expected))
    assert [op["tx_ind"] for op in found] == [op["tx_ind"] for op in expected]


PLAIN: Final = Definitions((Table("T", TABLE.columns[:2]), Table("S.T", TABLE.columns[:2])))
CELLS: Final = {
    "truncate": ("S.T", "T", {}, {}, "t"),
    "key update": ("S.T", "K", {"K": "a", "V": "b"}, {"K": "c", "V": "b"}, "t"),
    "missing after, known before": ("S.T", "U", {"K": "a", "V": "b"}, {"K": "a"}, "t"),
    "missing": ("S.T", "I", {}, {"K": "a"}, "t"),
    "no befores": ("S.T", "U", {}, {"K": "a", "V": "b"}, "t"),
    "no schema": ("T", "I", {}, {"K": "a", "V": "b"}, "t"),
    "no ids": ("S.T", "I", {}, {"K": "a", "V": "b"}, None),
    "control character": ("S.T", "I", {}, {"K": "a", "V": "\x01"}, "t"),
}
REFUSED: Final = {
    "delimited": {"truncate", "missing", "no befores", "no schema", "no ids"},
    "xml": {"truncate", "missing after, known before", "no schema", "no ids", "control character"},
    "json": set(),
    "debezium": {
        "key update", "missing after, known before", "missing", "no schema",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
@pytest.mark.parametrize("row", PUBLICATIONS, ids=lambda row: row.name)
def test_a_format_refuses_values_that_it_cannot_represent(row: Any, case: str) -> None:
    """The table of docs/publications.md, with the options that are given by default."""
    table, kind, before, after, own_id = CELLS[case]
    one = {
        "table": table, "op_type": kind, "op_ts": 0, "tx_ind": "W", "tx_id": own_id, "csn": own_id,
        "before": before, "after": after,
    }  # fmt: skip
    writer = writer_for(row.name, publish_options(row.name, {}))
    refused = False
    try:
        made = writer.write(batch_of(PLAIN, [one]))
    except EncodeError:
        refused = True
    else:
        assert len(made)
    assert refused == (case in REFUSED[row.name])


@pytest.mark.parametrize("row", PUBLICATIONS, ids=lambda row: row.name)
def test_every_option_of_a_format_is_a_keyword_and_a_text_and_is_documented(row: Any) -> None:
    assert table_of(row.options) in (ROOT / "docs/publications.md").read_text()
    for option in row.options:
        text = str(option.default).lower() if option.kind is FLAG else str(option.default)
        for name in (option.name, option.name.replace("_", "-"), option.name.upper()):
            assert getattr(publish_options(row.name, {name: text}), option.name) == option.default


def test_a_capture_imports_no_writer() -> None:
    code = "import sys, trailgate.capture.formats; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert "_writer" not in done.stdout.decode()
    assert "json.writer" not in done.stdout.decode()
