"""Trails of either byte order for the tests, record by record: what level 3 does not have as well."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from oracles import trail_naive as naive
from trail.batches import by_index
from trailgate.model.tables import Table
from trailgate.trail.format.record_header import BEFORE_IMAGE, BY_TABLE, FIELD_COMP
from trailgate.trail.format.record_types import ROLE_OF, RecordRole
from trailgate.trail.format.tokens import ByteOrder, RecordToken
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.table_metadata import encode_table_definition

BIG, LITTLE = ByteOrder.BIG, ByteOrder.LITTLE
INSERT, DELETE, UPDATE, FULL_UPDATE, TRUNCATE = 5, 3, 15, 10, 100
KEY_UPDATE, LONG_KEY_UPDATE, UNIFIED, UNIFIED_KEY = 115, 117, 134, 135
LARGE, FRAGMENT, METADATA, SEQUENCE = 116, 161, 170, 132
ABEND, RESTART_OK, DDL_RECORD = 150, 151, 160


def cell(index: int, value: bytes, order: ByteOrder = BIG) -> bytes:
    return order.raw(index, 2) + order.raw(len(value), 2) + value


def text(value: str | bytes | None, order: ByteOrder = BIG) -> bytes:
    if value is None:
        return b"\xff\xff\0\0"
    raw = value.encode() if isinstance(value, str) else value
    return b"\0\0" + order.raw(len(raw), 2) + raw


def record(io_type: int, data: bytes | None = None, **fields: Any) -> bytes:
    """Return a record; ``name`` or ``table_index`` says of which table, ``tokens`` are pairs."""
    pairs = fields.pop("tokens", ())
    tokens = None if pairs is None else tuple(RecordToken(code, raw) for code, raw in pairs)
    partition = (FIELD_COMP if ROLE_OF[io_type] < RecordRole.METADATA else 0) | (
        BY_TABLE if "table_index" in fields else 0
    )
    whole = {"partition": partition, "tokens": tokens, "name": "S.T"} | fields
    if "table_index" in fields:
        whole["name"] = None
    return encode_record(TrailRecord(io_type, data=data or None, **whole))


def table_record(table: Table, index: int, order: ByteOrder, **fields: Any) -> bytes:
    """Return a table definition record."""
    rba = order.number(order.raw(1, 2) + order.raw(index, 2))
    whole = {"node": 2, "partition": 0, "tokens": None, "audit_rba": rba} | fields
    return record(
        METADATA, encode_table_definition(table, order), name=table.name, order=order, **whole
    )


def piece(column: int, place: tuple[int, int, int], raw: bytes, order: ByteOrder = BIG) -> bytes:
    """Return the data of a piece of a large object; ``place``: of how many, which, its offset."""
    return b"".join(order.raw(number, 4) for number in (column, *place, len(raw))) + raw


def prefixed(width: int, before: bytes, after: bytes, order: ByteOrder = BIG) -> bytes:
    return order.raw(len(before), width) + before + after


def records_of(
    operation: dict[str, Any], table: Table, form: dict[str, Any], order: ByteOrder
) -> list[bytes]:
    """Return the records of an operation in the form drawn for it.

    ``form``: ``names`` (how the table is named), ``io_type`` (None: two records) and ``width`` of an update,
    ``cut`` (largest data of a record) and ``large`` (column and size of the pieces of a large object).
    """
    fields: dict[str, Any] = {"order": order, "io_time": operation["op_ts"], **form["names"]}
    before, after = (by_index(table, operation[side]) for side in ("before", "after"))
    pieces: list[bytes] = []
    if form["large"] and operation["op_type"] in "IUK":
        column, size = form["large"]
        value = after.get(column)
        if value is not None and table.columns[column].data_type == 64:
            after[column] = None
            pieces = pieces_of(column, value.encode(), size, order)
    kind = operation["op_type"]
    images = [naive.write_columns(table, one, order.value) for one in (before, after)]
    parts: list[dict[str, Any]] = []
    io_type = form["io_type"]
    if kind == "U" and io_type is None:
        parts += split(UPDATE, images[0], form["cut"], image=BEFORE_IMAGE) if before else []
        parts += split(UPDATE, images[1], form["cut"])
    elif kind in "UK":
        whole = prefixed(form["width"], images[0], images[1], order)
        parts += split(io_type or KEY_UPDATE, whole, form["cut"])
    elif kind == "D":
        parts += split(DELETE, images[0], form["cut"], image=BEFORE_IMAGE)
    elif kind == "I":
        parts += split(INSERT, images[1], form["cut"])
    else:
        parts.append({"io_type": TRUNCATE})
    parts += [{"io_type": LARGE, "data": data} for data in pieces]
    indicators = indicators_of(operation["tx_ind"], len(parts))
    for part, indicator in zip(parts, indicators, strict=True):
        part["trans_ind"] = indicator
    if indicators[0] in (0, 3):
        ids = ((b"L", operation["csn"]), (b"6", operation["tx_id"]))
        parts[0]["tokens"] = [(code[0], raw.encode()) for code, raw in ids if raw is not None]
    return [record(**fields | part) for part in parts]


def split(io_type: int, data: bytes, cut: int, **fields: Any) -> list[dict[str, Any]]:
    """Return a record's members, and those of its fragments where the data are longer than ``cut``."""
    parts = [data[i : i + cut] for i in range(0, len(data), cut)] or [b""]
    return [
        {
            "io_type": FRAGMENT if i else io_type,
            "data": part,
            "continued": int(i < len(parts) - 1),
            **fields,
        }
        for i, part in enumerate(parts)
    ]


def pieces_of(column: int, raw: bytes, size: int, order: ByteOrder) -> list[bytes]:
    """Return pieces of which the odd one comes first, as in trail format §11."""
    odd = len(raw) % size or min(size, len(raw))
    cuts = [0, *range(odd, len(raw) + 1, size)]
    spans = list(pairwise(cuts)) or [(0, 0)]
    return [
        piece(column, (len(spans), i + 1, start), raw[start:end], order)
        for i, (start, end) in enumerate(spans)
    ]


def indicators_of(tx_ind: str, count: int) -> Sequence[int]:
    """Return TransInd of an operation's records, which share what it is of its transaction."""
    if count == 1:
        return [{"B": 0, "M": 1, "E": 2, "W": 3}[tx_ind]]
    middle = [1] * (count - 2)
    return [0 if tx_ind in "BW" else 1, *middle, 2 if tx_ind in "EW" else 1]
