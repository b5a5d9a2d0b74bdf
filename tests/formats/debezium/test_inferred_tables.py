"""Tables that events with schemas describe, where no definitions are given."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

import trailgate
from held_captures import json_capture, messages_of
from trailgate.cli.main import run
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import DecodeError, DefinitionError, OptionError
from trailgate.formats.debezium.options import debezium_options
from trailgate.formats.debezium.reader import DebeziumTableInference
from trailgate.jobs.capture.loading import load_definitions
from trailgate.live.brokers.address import parse_address
from trailgate.live.jobs.run import ReceiveOptions, open_live
from trailgate.messages.properties import parse_properties
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


def infer_tables(*bodies: bytes) -> Definitions:
    """Return the tables that events describe."""
    tables = DebeziumTableInference(debezium_options(parse_properties(PROPERTIES.encode())))
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
    (table,) = infer_tables(event({"field": "C", **kind}))

    (own,) = table.columns
    assert table.name == "S.T"
    assert (own.data_type, own.external_length, own.scale, own.sub_type) == column
    assert own.name == "C"
    assert table.marked_keys == ()


def test_tables_are_in_the_order_of_their_names_and_columns_in_that_of_schemas() -> None:
    two = event({"field": "b", "type": "string"}, {"field": "A", "type": "string"}, table="T2")

    found = infer_tables(two, event(ID, table="T1"))

    columns = [[column.name for column in table.columns] for table in found]
    assert [table.name for table in found] == ["S.T1", "S.T2"]
    assert columns == [["ID"], ["b", "A"]]


def test_what_describes_no_table_is_left_to_the_capture() -> None:
    without = json.dumps({"schema": {"type": "string"}, "payload": json.loads(event(schema=False))})
    bodies = [b"{", b'{"op":"c"}', event(schema=False), without.encode(), event(), event(ID)]

    assert [column.name for column in infer_tables(*bodies).table("S.T").columns] == ["ID"]
    assert len(infer_tables(*bodies[:-1])) == 0


def test_columns_that_come_later_are_added_and_those_that_go_are_kept() -> None:
    added, gone = {"field": "N", "type": "string"}, {"field": "G", "type": "string"}

    (table,) = infer_tables(event(ID, gone), event(ID, gone, added), event(ID, added))

    assert [column.name for column in table.columns] == ["ID", "G", "N"]


def test_a_column_whose_type_changes_is_refused() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"column id of S\.T is described in two ways.*: as BIN\d+_S \(13\d\) of length \d and as ASCII_V \(64\) of length \d+",
    ) as bad:
        infer_tables(event(ID), event({"field": "id", "type": "string"}))

    assert "into separate trails" in str(bad.value)


def test_an_event_without_a_definition_is_an_error_with_a_hint() -> None:
    capture = json_capture(PROPERTIES)
    assert capture.options.infers

    (problem,) = capture.parse(messages_of([event(after={"ID": 1}, schema=False)])).problems

    assert isinstance(problem.error, DecodeError)
    for part in ("table S.T is not in the definitions", "debezium.sourcedefs", "schemas.enable"):
        assert part in str(problem.error)


def test_definitions_that_are_asked_for_without_messages_are_needed(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(PROPERTIES)

    with pytest.raises(OptionError) as bad:
        load_definitions(tmp_path / "p")

    assert "debezium.sourcedefs or debezium.userdefs.tables is required" in str(bad.value)
    assert "value.converter.schemas.enable=true" in str(bad.value)


TYPED: Final = (
    (ID, 7, 7),
    ({"field": "SMALL", "type": "int16"}, -1, -1),
    ({"field": "TRUE", "type": "boolean"}, True, 1),
    ({"field": "HALF", "type": "double"}, 0.5, 0.5),
    ({"field": "NAME", "type": "string"}, "é", "é"),
    ({"field": "PRICE", **decimal(2, 9)}, "BNI=", Decimal("12.34")),
    ({"field": "ANY", **decimal(2)}, "BNI=", "12.34"),
    ({"field": "RAW", "type": "bytes"}, "AP8=", "00FF"),
    ({"field": "DAY", "type": "int32", "name": TIME + "Date"}, 1, date(1970, 1, 2)),
    (
        {"field": "AT", "type": "int64", "name": TIME + "MicroTimestamp"},
        1577934245123456,
        datetime(2020, 1, 2, 3, 4, 5, 123456),  # noqa: DTZ001  a column has no zone
    ),
    ({"field": "CLOCK", "type": "int32", "name": TIME + "Time"}, 1000, "00:00:01.000000"),
    ({"field": "DOC", "type": "array"}, [1, 2], "[1, 2]"),
)
LATER: Final[Members] = {"field": "LATER", "type": "string"}


def captured(folder: Path, lines: Iterable[bytes], properties: str = PROPERTIES) -> int:
    """Return the exit code of a capture of messages, one a line, into ``folder``/ot."""
    (folder / "in").mkdir(exist_ok=True)
    count = len(list((folder / "in").iterdir()))
    (folder / "in" / f"{count}.json").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "p.properties").write_text(properties)
    places = {"--properties": "p.properties", "--from": "in", "--to": "ot"}
    return run(["capture", *(x for k, v in places.items() for x in (k, str(folder / v)))])


def test_a_capture_without_definitions_writes_them_and_is_read_typed(tmp_path: Path) -> None:
    columns = [column for column, _, _ in TYPED]
    after = {column["field"]: value for column, value, _ in TYPED}
    lines = [event(*columns, after=after), event(*columns, LATER, after={"ID": 8, "LATER": "x"})]

    assert captured(tmp_path, lines) == 0

    (table,) = read_sourcedefs((tmp_path / "ot.def").read_bytes())
    assert [column.name for column in table.columns] == [*after, "LATER"]
    rows = trailgate.read_trail(tmp_path / "ot", table="S.T").read_all().to_pylist()
    first, second = ({name: row[name] for name in (*after, "LATER")} for row in rows)
    assert first == {c["field"]: value for c, _, value in TYPED} | {"LATER": None}
    assert second == dict.fromkeys(first) | {"ID": 8, "LATER": "x"}
    # A later run takes the tables of the trail as they are.
    assert captured(tmp_path, [event(*columns, LATER, after={"ID": 9})]) == 0


def test_events_without_a_schema_use_what_others_describe(tmp_path: Path) -> None:
    assert captured(tmp_path, [event(ID), event(after={"ID": 2}, schema=False)]) == 0
    assert captured(tmp_path, [event(after={"ID": 3}, schema=False)]) == 0

    rows = trailgate.read_trail(tmp_path / "ot", table="S.T").read_all()
    assert rows["ID"].to_pylist() == [None, 2, 3]


def test_a_capture_of_events_without_a_definition_ends_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert captured(tmp_path, [event(after={"ID": 1}, schema=False)]) == 1
    said = capsys.readouterr().err
    assert "0.json" in said
    assert "value.converter.schemas.enable=true" in said


def test_key_columns_are_those_that_keycols_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_bytes(event(ID, LATER))
    (tmp_path / "p.properties").write_text(PROPERTIES)
    vam = f"VAM library, PARAMS {tmp_path / 'p.properties'}"
    (tmp_path / "e.prm").write_text(f"EXTRACT e\n{vam}\nTABLE S.T, KEYCOLS (ID);\n")

    trailgate.capture_files(tmp_path / "in", tmp_path / "ot", extract=tmp_path / "e.prm")

    (table,) = read_sourcedefs((tmp_path / "ot.def").read_bytes())
    assert table.marked_keys == (0,)


def test_a_live_capture_needs_definitions(tmp_path: Path) -> None:
    address = parse_address("stomp://host/queue")
    with (
        pytest.raises(OptionError, match=r"no table is defined.*debezium\.sourcedefs"),
        open_live(json_capture(PROPERTIES), address, str(tmp_path / "ot"), ReceiveOptions()),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_tables_of_flattened_rows_have_no_columns_of_their_metadata() -> None:
    fields = [ID, {"field": "NAME", "type": "string"}, {"field": "__op", "type": "string"}]
    row = {"id": 1, "NAME": "a", "__op": "c", "__table": "T", "__schema": "S", "__ts_ms": 1}
    body = {"schema": {"type": "struct", "fields": fields}, "payload": row}
    tables = DebeziumTableInference(json_capture(f"{PROPERTIES}debezium.model=row\n").options)  # type: ignore[arg-type]

    tables.add(messages_of([json.dumps(body).encode()]))

    (table,) = tables.definitions()
    assert (table.name, [column.name for column in table.columns]) == ("S.T", ["ID", "NAME"])
