"""Tables that events with schemas describe, where no definitions are given."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest

import trailgate
from json_messages import json_capture, messages_of
from trailgate.cli.main import run
from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.errors import DecodeError, DefinitionError, OptionError
from trailgate.messages.debezium.learning import LearntTables
from trailgate.messages.debezium.options import debezium_options
from trailgate.messages.properties.file import parse_properties
from trailgate.model.tables import Definitions

PROPERTIES: Final = "parser.type=debezium\ndebezium.txid=*txid\n"
CONNECT, TIME, DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
Members = dict[str, Any]
ID: Final[Members] = {"field": "ID", "type": "int32"}


def decimal(scale: int, precision: int | None = None) -> Members:
    """Return the type of a Decimal."""
    more = {} if precision is None else {"connect.decimal.precision": str(precision)}
    return {
        "type": "bytes",
        "name": CONNECT + "Decimal",
        "parameters": {"scale": str(scale), **more},
    }


def event(
    *columns: Members, after: Members | None = None, table: str = "T", schema: bool = True
) -> bytes:
    """Return an insert, with a schema of these columns or without one."""
    payload = {
        "before": None,
        "after": {column["field"]: None for column in columns} if after is None else after,
        "source": {"ts_ms": 1705611172576, "schema": "S", "table": table},
        "op": "c",
    }
    fields = [{"type": "struct", "field": name, "fields": columns} for name in ("before", "after")]
    whole = {"schema": {"type": "struct", "fields": fields}, "payload": payload}
    return json.dumps(whole if schema else payload).encode()


def learnt(*bodies: bytes) -> Definitions:
    """Return the tables that events describe."""
    tables = LearntTables(debezium_options(parse_properties(PROPERTIES.encode())))
    tables.add(messages_of(bodies))
    return tables.definitions()


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ({"type": "boolean"}, (130, 1, 0, 0)),
        ({"type": "int8"}, (130, 2, 0, 0)),
        ({"type": "int16"}, (130, 2, 0, 0)),
        ({"type": "int32"}, (132, 4, 0, 0)),
        ({"type": "int64"}, (134, 8, 0, 0)),
        ({"type": "float"}, (142, 4, 0, 0)),
        ({"type": "double"}, (143, 8, 0, 0)),
        ({"type": "string"}, (64, 65535, 0, 0)),
        ({"type": "bytes"}, (64, 65534, 0, 4)),
        (decimal(2, 9), (134, 9, 2, 0)),
        (decimal(0, 18), (134, 18, 0, 0)),
        (decimal(2, 19), (64, 21, 2, 2)),
        (decimal(2), (64, 50, 2, 2)),
        (decimal(-2, 9), (64, 11, 0, 2)),
        ({"type": "struct", "name": DATA + "VariableScaleDecimal"}, (64, 50, 0, 2)),
        ({"type": "int32", "name": CONNECT + "Date"}, (192, 10, 0, 0)),
        ({"type": "int32", "name": TIME + "Date"}, (192, 10, 0, 0)),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, (192, 23, 0, 0)),
        ({"type": "int64", "name": TIME + "Timestamp"}, (192, 23, 0, 0)),
        ({"type": "int64", "name": TIME + "MicroTimestamp"}, (192, 26, 0, 0)),
        ({"type": "int64", "name": TIME + "NanoTimestamp"}, (192, 29, 0, 0)),
        ({"type": "string", "name": TIME + "ZonedTimestamp"}, (192, 29, 0, 0)),
        ({"type": "int64", "name": TIME + "MicroTime"}, (64, 18, 0, 0)),
        ({"type": "int32", "name": TIME + "Year"}, (132, 4, 0, 0)),
        ({"type": "string", "name": DATA + "Json"}, (64, 65535, 0, 0)),
        ({"type": "struct", "name": DATA + "geometry.Point"}, (64, 65535, 0, 0)),
        ({"type": "array"}, (64, 65535, 0, 0)),
        ({"type": "int64", "name": "unknown"}, (64, 65535, 0, 0)),
    ],
)
def test_the_column_of_a_type(kind: Members, column: tuple[int, ...]) -> None:
    (table,) = learnt(event({"field": "C", **kind}))

    (own,) = table.columns
    assert table.name == "S.T"
    assert (own.data_type, own.external_length, own.scale, own.sub_type) == column
    assert own.name == "C"
    assert table.marked_keys == ()


def test_tables_are_in_the_order_of_their_names_and_columns_in_that_of_schemas() -> None:
    two = event({"field": "b", "type": "string"}, {"field": "A", "type": "string"}, table="T2")

    found = learnt(two, event(ID, table="T1"))

    columns = [[column.name for column in table.columns] for table in found]
    assert [table.name for table in found] == ["S.T1", "S.T2"]
    assert columns == [["ID"], ["b", "A"]]


def test_what_describes_no_table_is_left_to_the_capture() -> None:
    without = json.dumps({"schema": {"type": "string"}, "payload": json.loads(event(schema=False))})
    bodies = [b"{", b'{"op":"c"}', event(schema=False), without.encode(), event(), event(ID)]

    assert [column.name for column in learnt(*bodies).table("S.T").columns] == ["ID"]
    assert len(learnt(*bodies[:-1])) == 0


def test_columns_that_come_later_are_added_and_those_that_go_are_kept() -> None:
    added, gone = {"field": "N", "type": "string"}, {"field": "G", "type": "string"}

    (table,) = learnt(event(ID, gone), event(ID, gone, added), event(ID, added))

    assert [column.name for column in table.columns] == ["ID", "G", "N"]


def test_a_column_whose_type_changes_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"column ID of S\.T is described in two ways") as bad:
        learnt(event(ID), event({"field": "id", "type": "string"}))

    assert "into two trails" in str(bad.value)


def test_an_event_that_nothing_describes_is_an_error_that_says_what_to_do() -> None:
    capture = json_capture(PROPERTIES)
    assert capture.options.learns

    (problem,) = capture.parse(messages_of([event(after={"ID": 1}, schema=False)])).problems

    assert isinstance(problem.error, DecodeError)
    for part in ("table S.T is not in the definitions", "debezium.sourcedefs", "schemas.enable"):
        assert part in str(problem.error)


def test_definitions_that_are_asked_for_without_messages_are_needed(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(PROPERTIES)
    with pytest.raises(OptionError, match=r"debezium\.sourcedefs or .* is required.*schemas") as e:
        trailgate.load_definitions(tmp_path / "p")
    assert "line" not in str(e.value)
