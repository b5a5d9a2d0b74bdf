"""The shortest writing of operations in every format, record by record, to be checked by eye.

Operations are those of ``trail.batches``. Values are written by ``trail_naive``; what is here is which records an
operation becomes, and how long ones and large objects are cut.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oracles.trail_naive import IDS, JULIAN, write_columns
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TypeFamily

DELETE, INSERT, UPDATE, TRUNCATE, KEY_UPDATE, PIECE = 3, 5, 15, 100, 115, 116
LONG_KEY_UPDATE, UNIFIED_UPDATE, UNIFIED_KEY_UPDATE, FRAGMENT = 117, 134, 135, 161
MOST = 65_535


@dataclass(frozen=True)
class Form:
    """What is written: "<" or ">", whether tables are named by index, and "separate", "full" or "compact"."""

    order: str
    by_index: bool
    updates: str


def write_operation(op: dict[str, Any], tables: Definitions, form: Form) -> bytes:
    """Return the records of an operation."""
    table = tables.table(op["table"])
    number = list(tables).index(table) + 1
    area = struct.pack(form.order + "H", number) if form.by_index else table.name.encode() + b"\0"
    pairs = [pair for records in _parts(op, table, form) for pair in records]
    begins, ends = op["tx_ind"] in "BW", op["tx_ind"] in "EW"
    written = b""
    for place, (image, payload) in enumerate(pairs):
        first, last = place == 0 and begins, place == len(pairs) - 1 and ends
        trans_ind = {(1, 1): 3, (1, 0): 0, (0, 0): 1, (0, 1): 2}[first, last]
        written += _record(op, area, form, image | {"trans_ind": trans_ind, "data": payload})
    return written


def _parts(op: dict[str, Any], table: Table, form: Form) -> Iterator[list[tuple[Any, bytes]]]:
    """Yield the records of each image: the base, its fragments and its pieces."""
    kind, before, after = op["op_type"], _columns(table, op["before"]), _columns(table, op["after"])
    if form.updates == "compact" and kind in "UK":
        same = [i for i in before if i in after and before[i] == after[i]]
        after = {i: value for i, value in after.items() if i not in same}
        before = {i: v for i, v in before.items() if i not in same or i in table.keys}
    carried = {"LOGCSN": op["csn"], "TRANID": op["tx_id"]} if op["tx_ind"] in "BW" else {}
    large = any(_is_large(table.columns[i], v) for one in (before, after) for i, v in one.items())
    unified = form.updates != "separate" and before and (kind == "K" or (kind == "U" and not large))
    base = {"image": "A", "partition": 4, "carried": carried, "base": True}
    if kind == "T":
        yield [(base | {"io_type": TRUNCATE}, b"")]
    elif kind == "D":
        yield _cut(op, table, form, base | {"io_type": DELETE, "image": "B"}, (None, before))
    elif unified:
        io_type = UNIFIED_KEY_UPDATE if kind == "K" else UNIFIED_UPDATE
        yield _cut(op, table, form, base | {"io_type": io_type, "partition": 0x44}, (before, after))
    elif kind == "K":
        yield _cut(op, table, form, base | {"io_type": KEY_UPDATE}, (before, after))
    else:
        if kind == "U" and before:
            first = base | {"io_type": UPDATE, "image": "B"}
            yield _cut(op, table, form, first, (None, before))
            base |= {"carried": {}}
        yield _cut(
            op, table, form, base | {"io_type": INSERT if kind == "I" else UPDATE}, (None, after)
        )


def _cut(
    op: dict[str, Any], table: Table, form: Form, base: dict[str, Any], images: tuple[Any, Any]
) -> list[tuple[Any, bytes]]:
    front, columns = images
    large = {i: v for i, v in columns.items() if _is_large(table.columns[i], v)}
    data = _written(table, columns | dict.fromkeys(large), form)
    if front is not None:
        before = _written(table, front, form)
        size = struct.pack(
            form.order + ("H" if len(before) <= MOST else "I"), len(before) & 0xFFFFFFFF
        )
        data = size + before + data
        if len(before) > MOST and base["io_type"] == KEY_UPDATE:
            base = base | {"io_type": LONG_KEY_UPDATE}
    area = 2 if form.by_index else len(table.name.encode()) + 1
    tokens = _tokens(op, base, form)
    records = []
    while True:
        room = MOST - (42 + area + 4 + len(tokens) + 4)
        part, data = data[:room], data[room:]
        records.append((base | {"continued": int(bool(data))}, part))
        if not data:
            break
        base = base | {"io_type": FRAGMENT, "base": False}
        tokens = b"T\0\0\0"
    for i, value in large.items():
        records += _pieces(base, i, _raw(table.columns[i], value), form)
    return records


def _pieces(base: Any, column: int, raw: bytes, form: Form) -> Iterator[tuple[Any, bytes]]:
    count = -(-len(raw) // 2000)
    cuts = [0, *range(len(raw) - 2000 * (count - 1), len(raw) + 1, 2000)]
    for piece in range(count):
        part = raw[cuts[piece] : cuts[piece + 1]]
        words = struct.pack(form.order + "5I", column, count, piece + 1, cuts[piece], len(part))
        more = {"continued": int(piece < count - 1), "count": min(count, 255)}
        yield base | {"io_type": PIECE, "base": False} | more, words + part


def _record(op: dict[str, Any], area: bytes, form: Form, record: dict[str, Any]) -> bytes:
    head = struct.pack(
        form.order + "cBBcHBBQQIBcBBBB",
        *(b"E", record["partition"] | (8 if form.by_index else 0), 0, record["image"].encode()),
        *(len(record["data"]), record["io_type"], 0xFF, op["op_ts"] + JULIAN, 0, 0),
        *(record["trans_ind"], b"R", 0, 0, record.get("continued", 0), record.get("count", 1)),
    )
    inner = _framed(b"H", head + area, form)
    inner += _framed(b"D", record["data"], form) if record["data"] else b""
    inner += _tokens(op, record, form)
    frame = b"\x01" + struct.pack(form.order + "H", len(inner) + 8)
    return b"G" + frame + inner + b"Z" + frame


def _tokens(op: dict[str, Any], record: dict[str, Any], form: Form) -> bytes:
    ggs = user = b""
    own = op.get("tokens", {}) if record["base"] else {}
    for name, text in own.items():
        if name in ("LOGCSN", "TRANID"):
            continue
        if name in IDS or name.startswith("x"):
            raw = bytes.fromhex(text) if name in ("ORATAG", "x69") else text.encode()
            raw += b"\0\1" if name == "ORAROWID" else b""
            code = IDS.get(name) or bytes.fromhex(name[1:])
            info = b"\1" if name == "ORATAG" and not raw else b"\0"
            ggs += code + info + struct.pack(form.order + "H", len(raw)) + raw
        else:
            user += name.encode() + b"\0" + text.encode() + b"\0"
    for name, text in (record["carried"] if record["base"] else {}).items():
        ggs += _framed(IDS[name], text.encode(), form) if text is not None else b""
    areas = ((b"T", ggs), (b"U", user))
    return b"".join(_framed(code, area, form) for code, area in areas if area)


def _framed(code: bytes, payload: bytes, form: Form) -> bytes:
    return code + b"\0" + struct.pack(form.order + "H", len(payload)) + payload


def _columns(table: Table, image: dict[str, Any]) -> dict[int, Any]:
    return {i: image[c.name] for i, c in enumerate(table.columns) if c.name in image}


def _raw(column: Column, text: str) -> bytes:
    if column.family is TypeFamily.BYTES:
        return bytes.fromhex(text)
    return text.encode("utf-16-be" if column.sub_type == 1 else "utf-8")


def _is_large(column: Column, value: Any) -> bool:
    if (
        column.family not in (TypeFamily.TEXT, TypeFamily.NUMBER_TEXT, TypeFamily.BYTES)
        or value is None
    ):
        return False
    limit = 4000 if column.lob_type else MOST - 4
    return not column.type_row.fixed and len(_raw(column, value)) > limit


def _written(table: Table, columns: dict[int, Any], form: Form) -> bytes:
    data = b""
    for i, value in columns.items():
        column = table.columns[i]
        if column.sub_type == 1:  # UTF-16BE
            raw = b"" if value is None else _raw(column, value)
            mark = b"\xff\xff" if value is None else b"\0\0"
            cell = mark + struct.pack(form.order + "H", len(raw)) + raw
            data += struct.pack(form.order + "HH", i, len(cell)) + cell
        else:
            scaled = value is not None and column.scale and column.family is not TypeFamily.TEXT
            unscaled = int(value.scaleb(column.scale)) if scaled else value
            data += write_columns(table, {i: unscaled}, form.order)
    return data
