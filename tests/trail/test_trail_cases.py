"""The worked examples: every case file runs both ways."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trail.batches import batch_of, operations_of
from trailgate.arrays import octets
from trailgate.columnar.word_kernels import SPARE
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TypeFamily
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import TrailBytes
from trailgate.trail.values.codec import CellTarget, RecordValues, TrailCells
from trailgate.trail.values.codec_table import select_codec
from trailgate.trail.writing.writer import encode

CASES = Path(__file__).parent / "cases"
T8 = Definitions((Table("US01.T8", (Column("ID", 64, 40, key=True), Column("NAME", 64, 20))),))


def cases(folder: str) -> list[Any]:
    found = []
    for path in sorted((CASES / folder).glob("*.toml")):
        case = tomllib.loads(path.read_text())
        marks = [pytest.mark.assumed] if case.get("assumed") else []
        found.append(pytest.param(case, id=path.stem, marks=marks))
    return found


def typed(column: Column, text: str | None) -> Any:
    if text is None or pa.types.is_string(column.arrow_type):
        return text
    if column.family is TypeFamily.FLOAT:
        return float(text)
    return Decimal(text) if column.scale else int(text)


@pytest.mark.parametrize("case", cases("values"))
def test_a_value_reads_and_writes_as_its_case(case: dict[str, Any]) -> None:
    column = Column(name="C", **case["column"])
    codec = select_codec(column)
    assert codec is not None
    raw = bytes.fromhex(case["bytes"])
    data = pa.py_buffer(raw + b"Z\x01\0\0")
    order = ByteOrder[case.get("order", "big").upper()]
    charset = case.get("charset", "utf-8")
    value = pa.array([typed(column, case.get("value"))], column.arrow_type)
    place = (np.array([0]), np.array([len(raw)]))

    source = TrailBytes(data, octets(data), 0, order, charset)
    found = codec.decode(TrailCells(source, "T", column, *place))

    assert found.equals(value)
    if case.get("direction") != "read":
        writer = codec.encode(CellTarget("T", column, 5, order), RecordValues(value, np.arange(1)))
        sizes = np.zeros(1, np.int64)
        writer.measure(sizes)
        body = np.zeros(int(sizes[0]) + SPARE, np.uint8)
        writer.write(body, np.zeros(1, np.int64), following=0)
        cell = body[: int(sizes[0])].tobytes()
        assert cell == order.raw(5, 2) + order.raw(len(raw), 2) + raw


@pytest.mark.parametrize("case", cases("records"))
def test_a_record_reads_and_writes_as_its_case(case: dict[str, Any]) -> None:
    body = bytes.fromhex(case["bytes"])
    expected = {"table": "US01.T8", "tx_id": None, "csn": None, "tokens": {}, **case["operation"]}
    for side in ("before", "after"):
        nulls = dict.fromkeys(expected.pop(f"{side}_null", ()))
        expected[side] = expected.get(side, {}) | nulls

    found = decode(body, T8, file_number=1, base_offset=0, state=ReaderState(), finish=True)

    (operation,) = operations_of(found.batch)
    assert operation.pop("position") == "0000000001" + "0" * 10
    assert operation == expected
    if case.get("direction") != "read":
        assert encode(batch_of(T8, [expected])).body.to_pybytes().hex() == body.hex()
