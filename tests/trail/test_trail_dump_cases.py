"""What public dumps print of little-endian trails, and data read with and without their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trail.batches import operations_of
from trail.building import INSERT, record
from trail.test_trail_cases import cases
from trailgate.arrays import octets
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_types import RecordRole
from trailgate.trail.format.tokens import DATA, HEADER, ByteOrder, encode_outer_object, token
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import RecordSpans, wrap_trail_bytes
from trailgate.trail.records.record import decode_record, encode_header_area
from trailgate.trail.records.record_view import find_names, raise_first_problem, view_records


def read(body: bytes, order: ByteOrder, definitions: Definitions) -> list[dict[str, Any]]:
    state = ReaderState(order=order)
    return operations_of(
        decode(body, definitions, file_number=1, base_offset=0, state=state, finish=True).batch
    )


def expected(case: dict[str, Any], values: str) -> dict[str, Any]:
    nulls = case.get("null" if values == "values" else "numbered_null", ())
    found: dict[str, Any] = case.get(values, {}) | dict.fromkeys(nulls)
    return found


@pytest.mark.parametrize("case", cases("data"))
def test_data_read_by_their_definition(case: dict[str, Any]) -> None:
    order = ByteOrder[case["order"].upper()]
    table = Table("S.T", tuple(Column(**column) for column in case["columns"]))
    body = record(INSERT, bytes.fromhex(case["bytes"]), order=order)

    (found,) = read(body, order, Definitions((table,)))

    assert found["after"] == expected(case, "values")


@pytest.mark.parametrize("case", cases("data"))
def test_data_of_a_table_that_nothing_defines_are_numbered(case: dict[str, Any]) -> None:
    order = ByteOrder[case["order"].upper()]
    body = record(INSERT, bytes.fromhex(case["bytes"]), order=order)

    (found,) = read(body, order, Definitions(()))

    assert found["after"] == expected(case, "numbered")


@pytest.mark.parametrize("case", cases("record-headers"))
def test_a_printed_header_reads_and_writes_as_its_case(case: dict[str, Any]) -> None:
    order = ByteOrder[case["order"].upper()]
    area, fields = bytes.fromhex(case["bytes"]), case["fields"]

    found = decode_record(record_of(area, fields["length"], order), order=order)

    names = {"image", "length", "count", "name", "table_index"}
    assert {name: getattr(found, name) for name in fields.keys() - names} == {
        name: value for name, value in fields.items() if name not in names
    }
    assert chr(found.image) == fields["image"]
    assert len(found.data or b"") == fields["length"]
    assert found.record_count == fields["count"]
    assert (found.name, found.table_index) == (fields.get("name"), fields.get("table_index"))
    assert encode_header_area(found) == area


NAMED = [case for case in cases("record-headers") if "name" in case.values[0]["fields"]]


@pytest.mark.parametrize("case", NAMED)
def test_a_printed_header_reads_in_columns_too(case: dict[str, Any]) -> None:
    order = ByteOrder[case["order"].upper()]
    fields = case["fields"]
    body = record_of(bytes.fromhex(case["bytes"]), fields["length"], order)

    source = wrap_trail_bytes(body, 0, order)

    view = view_records(source, places(body))

    raise_first_problem(source, view)
    assert view.io_time.tolist() == [fields["io_time"]]
    assert view.indicator.tolist() == [fields["trans_ind"]]
    assert find_names(source, view).strings(lambda _: None) == [fields["name"]]
    assert view.role[0] != RecordRole.REFUSED


def record_of(area: bytes, length: int, order: ByteOrder) -> Any:
    inner = token(HEADER, area, order=order)
    inner += token(DATA, bytes(length), order=order) if length else b""
    return pa.py_buffer(encode_outer_object(0x47, inner, 1, order))


def places(body: Any) -> RecordSpans:
    size = len(octets(body))
    return RecordSpans(np.zeros(1, np.int64), np.array([size]), size)
