"""The shortest reading and writing of level 3 records, value by value, to be checked by eye.

A record is a dict: table, image ("A", "B"), io_type, trans_ind, op_ts (unix microseconds),
tokens (name -> text) and columns (index -> value, or None for NULL); a key update has its
before columns under "before".
"""

from __future__ import annotations

import struct
from typing import Any

from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import Family

JULIAN = 210866760000000000
NAMES = {b"L": "LOGCSN", b"6": "TRANID", b"R": "ORAROWID", b"t": "ORATAG", b"D": "DDL"}
IDS = {name: code for code, name in NAMES.items()}


def read_value(column: Column, raw: bytes) -> Any:
    if raw[:2] == b"\xff\xff":
        return None
    body = raw[2:]
    if column.family in (Family.INTEGER, Family.UNSIGNED):
        return int.from_bytes(body, "big", signed=column.family is Family.INTEGER)
    if column.family is Family.DATETIME:
        return body.decode()[:10] + body.decode()[10:].replace(":", " ", 1)
    if column.type_row.fixed:
        return body.decode().rstrip(" ")
    return body[2 : 2 + struct.unpack(">H", body[:2])[0]].decode()


def write_value(column: Column, value: Any) -> bytes:
    null = value is None
    front = b"\xff\xff" if null else b"\0\0"
    if column.family in (Family.INTEGER, Family.UNSIGNED):
        width = column.type_row.width or 0
        signed = column.family is Family.INTEGER
        return front + (0 if null else value).to_bytes(width, "big", signed=signed)
    if column.family is Family.DATETIME:
        text = "1900-01-01:00:00:00.000000000"[: column.external_length] if null else value
        return front + (text[:10] + text[10:].replace(" ", ":", 1)).encode()
    if column.type_row.fixed:
        width = column.external_length
        return front + (b"\0" * width if null else value.encode().ljust(width, b" "))
    raw = b"" if null else value.encode()
    return front + struct.pack(">H", len(raw)) + raw


def read_columns(table: Table, data: bytes) -> dict[int, Any]:
    columns, place = {}, 0
    while place < len(data):
        index, length = struct.unpack_from(">HH", data, place)
        raw = data[place + 4 : place + 4 + length]
        columns[index] = read_value(table.columns[index], raw)
        place += 4 + length
    return columns


def write_columns(table: Table, columns: dict[int, Any]) -> bytes:
    data = b""
    for index, value in columns.items():
        raw = write_value(table.columns[index], value)
        data += struct.pack(">HH", index, len(raw)) + raw
    return data


def read_tokens(data: bytes) -> dict[str, str]:
    tokens, place = {}, 0
    while place < len(data):
        length = struct.unpack_from(">H", data, place + 2)[0]
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
        t_length = struct.unpack_from(">H", data, place + 2)[0]
        record["tokens"] = read_tokens(data[place + 4 : place + 4 + t_length])
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
    inner += b"T\0" + struct.pack(">H", len(tokens)) + tokens
    frame = b"\x01" + struct.pack(">H", len(inner) + 8)
    return b"G" + frame + inner + b"Z" + frame
