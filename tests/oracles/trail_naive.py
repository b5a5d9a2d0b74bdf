"""The shortest reading and writing of trail records, value by value, to be checked by eye.

A record is a dict: table, image ("A", "B"), io_type, trans_ind, op_ts (unix microseconds),
tokens (name -> text) and columns (index -> value, or None for NULL); a key update has its
before columns under "before". ``order`` is ">" or "<", as struct has it. ``read_operations`` reads
what level 3 does not have as well: table indexes, metadata, fragments, large objects, unified updates.
"""

from __future__ import annotations

import struct
from typing import Any

from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TypeFamily

JULIAN = 210866760000000000
NAMES = {b"L": "LOGCSN", b"6": "TRANID", b"R": "ORAROWID", b"t": "ORATAG", b"D": "DDL"}
IDS = {name: code for code, name in NAMES.items()}


def read_value(column: Column, raw: bytes, order: str = ">") -> Any:
    if raw[:2] == b"\xff\xff":
        return None
    body, family = raw[2:], column.family
    if family is TypeFamily.FLOAT:
        return struct.unpack(">f" if column.data_type == 142 else ">d", body)[0]
    if family in (TypeFamily.INTEGER, TypeFamily.UNSIGNED):
        return int.from_bytes(body, "big", signed=family is TypeFamily.INTEGER)
    if family is TypeFamily.DATETIME:
        return body.decode()[:10] + body.decode()[10:].replace(":", " ", 1)
    if column.type_row.fixed:
        return body.decode().rstrip(" ")
    whole = body[2 : 2 + struct.unpack(order + "H", body[:2])[0]]
    return whole.hex().upper() if family is TypeFamily.BYTES else whole.decode()


def write_value(column: Column, value: Any, order: str = ">") -> bytes:
    null, family = value is None, column.family
    front = b"\xff\xff" if null else b"\0\0"
    if family is TypeFamily.FLOAT:
        return front + struct.pack(">f" if column.data_type == 142 else ">d", value or 0)
    if family is TypeFamily.BYTES and not column.type_row.fixed:
        raw = bytes.fromhex(value or "")
        return front + struct.pack(order + "H", len(raw)) + raw
    if family in (TypeFamily.INTEGER, TypeFamily.UNSIGNED):
        width = column.type_row.width or 0
        signed = family is TypeFamily.INTEGER
        return front + (0 if null else value).to_bytes(width, "big", signed=signed)
    if family is TypeFamily.DATETIME:
        text = "1900-01-01:00:00:00.000000000"[: column.external_length] if null else value
        return front + (text[:10] + text[10:].replace(" ", ":", 1)).encode()
    if column.type_row.fixed:
        width = column.external_length
        return front + (b"\0" * width if null else value.encode().ljust(width, b" "))
    raw = b"" if null else value.encode()
    return front + struct.pack(order + "H", len(raw)) + raw


def read_columns(table: Table, data: bytes, order: str = ">") -> dict[int, Any]:
    columns, place = {}, 0
    while place < len(data):
        index, length = struct.unpack_from(order + "HH", data, place)
        raw = data[place + 4 : place + 4 + length]
        columns[index] = read_value(table.columns[index], raw, order)
        place += 4 + length
    return columns


def write_columns(table: Table, columns: dict[int, Any], order: str = ">") -> bytes:
    data = b""
    for index, value in columns.items():
        raw = write_value(table.columns[index], value, order)
        data += struct.pack(order + "HH", index, len(raw)) + raw
    return data


def read_tokens(data: bytes, order: str = ">") -> dict[str, str]:
    tokens: dict[str, str] = {}
    place = 0
    while place < len(data):
        length = struct.unpack_from(order + "H", data, place + 2)[0]
        name = NAMES[data[place : place + 1]]
        raw = data[place + 4 : place + 4 + length]
        tokens[name] = (raw[:18] if name == "ORAROWID" else raw).decode()
        place += 4 + length
    return tokens


def read_records(data: bytes, definitions: Definitions) -> list[dict[str, Any]]:
    records, start = [], 0
    while start < len(data):
        length, h_length = struct.unpack_from(">HxxH", data, start + 2)
        image, d_length, io_type, time = struct.unpack_from(">cHBxQ", data, start + 11)
        table = definitions.table(data[start + 42 : start + 8 + h_length - 1].decode())
        place = start + 8 + h_length + (4 if d_length else 0)
        record: dict[str, Any] = {
            "table": table.name,
            "image": image.decode(),
            "io_type": io_type,
            "trans_ind": data[start + 36],
            "op_ts": time - JULIAN,
        }
        payload, place = data[place : place + d_length], place + d_length
        if io_type == 115:
            middle = 2 + struct.unpack(">H", payload[:2])[0]
            record["before"] = read_columns(table, payload[2:middle])
            payload = payload[middle:]
        record["columns"] = read_columns(table, payload)
        t_area = data[place + 4 : start + length - 4] if data[place] == ord("T") else b""
        record["tokens"] = read_tokens(t_area)
        records.append(record)
        start += length
    return records


def write_record(record: dict[str, Any], table: Table) -> bytes:
    payload = write_columns(table, record["columns"])
    if "before" in record:
        before = write_columns(table, record["before"])
        payload = struct.pack(">H", len(before)) + before + payload
    name = table.name.encode() + b"\0"
    head = struct.pack(
        ">cBBcHBBQQIBcBBBB",
        *(b"E", 4, 0, record["image"].encode(), len(payload), record["io_type"], 0xFF),
        *(record["op_ts"] + JULIAN, 0, 0, record["trans_ind"], b"R", 0, 0, 0, 1),
    )
    inner = b"H\0" + struct.pack(">H", len(head + name)) + head + name
    if payload:
        inner += b"D\0" + struct.pack(">H", len(payload)) + payload
    tokens = b""
    for token, text in record["tokens"].items():
        tokens += IDS[token] + b"\0" + struct.pack(">H", len(text)) + text.encode()
    inner += b"T\0" + struct.pack(">H", len(tokens)) + tokens if tokens else b""
    frame = b"\x01" + struct.pack(">H", len(inner) + 8)
    return b"G" + frame + inner + b"Z" + frame


def read_parts(data: bytes, order: str) -> list[dict[str, Any]]:
    """Return the records of a trail as they lie: header fields and the bytes of D, T and U."""
    records, start = [], 0
    while start < len(data):
        end = start + struct.unpack_from(order + "H", data, start + 2)[0]
        parts, place = {b"D": b"", b"T": b"", b"U": b""}, start + 4
        while place < end - 4:
            length = struct.unpack_from(order + "H", data, place + 2)[0]
            parts[data[place : place + 1]] = data[place + 4 : place + 4 + length]
            place += 4 + length
        head = parts[b"H"]
        image, _, io_type, node, time, _, rba = struct.unpack_from(order + "cHBBQQ4s", head, 3)
        records.append(
            {
                "partition": head[1],
                "image": image.decode(),
                "io_type": io_type,
                "node": node,
                "op_ts": time - JULIAN,
                "indexes": struct.unpack(order + "HH", rba),
                "trans_ind": head[28],
                "area": head[34:],
                "data": parts[b"D"],
                "tokens": parts[b"T"],
                "user": parts[b"U"],
            }
        )
        start = end
    return records


def read_table(name: str, data: bytes, order: str) -> Table:
    """Return the table of a table definition record by its assumed layout (trail format §12)."""
    columns, place = [], 34
    while place < len(data):
        length = struct.unpack_from(order + "H", data, place)[0]
        title = data[place + 2 : place + 2 + length].decode()
        place += 2 + length
        values = struct.unpack_from(order + "3Hh14H2h3H", data, place)
        columns.append(Column(title, values[0], values[1], scale=values[3], sub_type=values[17]))
        place += 46 + 2 + struct.unpack_from(order + "H", data, place + 46)[0]
    return Table(name, tuple(columns))


def read_operations(data: bytes, definitions: Definitions, order: str) -> list[dict[str, Any]]:
    """Return op_type, table, op_ts, before and after (name -> value) of each operation."""
    known: dict[int, Table] = {}
    changes: list[dict[str, Any]] = []
    for record in read_parts(data, order):
        name = record["area"][:-1].decode(errors="replace")
        if record["io_type"] == 170 and record["node"] == 2:
            known[record["indexes"][1]] = read_table(name, record["data"], order)
        elif record["io_type"] == 161:
            changes[-1]["data"] += record["data"]
        elif record["io_type"] == 116:
            column, _, _, offset, _ = struct.unpack_from(order + "5I", record["data"])
            changes[-1]["pieces"].setdefault(column, {})[offset] = record["data"][20:]
        elif record["io_type"] in OP_TYPES:
            by_index = record["partition"] & 8
            index = struct.unpack_from(order + "H", record["area"])[0] if by_index else 0
            table = known[index] if by_index else definitions.table(name)
            changes.append(record | {"table": table, "pieces": {}})
    operations: list[dict[str, Any]] = []
    waiting = None
    for change in changes:
        before, after = images(change, order)
        if change["io_type"] == 15 and change["image"] == "B":
            waiting = after
            continue
        if waiting is not None:
            before, waiting = waiting, None
        operations.append(
            {
                "op_type": OP_TYPES[change["io_type"]],
                "table": change["table"].name,
                "op_ts": change["op_ts"],
                "before": before,
                "after": after,
            }
        )
    return operations


OP_TYPES = {3: "D", 5: "I", 10: "U", 15: "U", 100: "T", 115: "K", 117: "K", 134: "U", 135: "K"}


def is_list(table: Table, data: bytes, order: str) -> bool:
    """Return whether data are a list of columns that ends where they end."""
    place = 0
    while place + 6 <= len(data):
        index, length = struct.unpack_from(order + "HH", data, place)
        if index >= len(table.columns) or length < 2:
            return False
        place += 4 + length
    return place == len(data)


def images(change: dict[str, Any], order: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return before and after columns by name; a lone image counts as after, but for deletes."""
    table, data = change["table"], change["data"]
    before, after = b"", data
    if change["io_type"] in (115, 117, 134, 135):
        for width in {115: (2,), 117: (4,)}.get(change["io_type"], (2, 4)):
            middle = width + int.from_bytes(data[:width], "big" if order == ">" else "little")
            before, after = data[width:middle], data[middle:]
            if is_list(table, before, order) and is_list(table, after, order):
                break
    one, two = (read_columns(table, part, order) for part in (before, after))
    for column, pieces in change["pieces"].items():
        raw = b"".join(pieces[offset] for offset in sorted(pieces))
        binary = table.columns[column].family is TypeFamily.BYTES
        two[column] = raw.hex().upper() if binary else raw.decode()
    named = [{table.columns[i].name: v for i, v in part.items()} for part in (one, two)]
    return (named[1], {}) if change["io_type"] == 3 else (named[0], named[1])
