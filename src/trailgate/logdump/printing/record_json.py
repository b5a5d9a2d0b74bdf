"""A record as values for machines: everything it holds, whatever the settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from trailgate.logdump.printing.hex_dump import visible
from trailgate.logdump.records.images import images_of, piece_of
from trailgate.logdump.session.results import ShownRecord
from trailgate.logdump.syntax.times import iso_time
from trailgate.trail.format.record_types import IO_METADATA, type_name
from trailgate.trail.format.tokens import GGS_TOKENS_BY_ID, token_name
from trailgate.trail.format.user_tokens import read_user_tokens
from trailgate.trail.records.metadata import MetadataKind
from trailgate.trail.records.record import Token, TrailRecord

Values = dict[str, Any]
# The numbers of GHDR, by the names that Logdump prints.
NUMBERS: Final = (
    ("Partition", "partition"),
    ("UndoFlag", "undo"),
    ("IOType", "io_type"),
    ("OrigNode", "node"),
    ("TransInd", "trans_ind"),
    ("SyskeyLen", "syskey_length"),
    ("Incomplete", "incomplete"),
    ("AuditRBA", "audit_rba"),
    ("AuditPos", "audit_pos"),
    ("Continued", "continued"),
    ("RecCount", "record_count"),
)


def record_values(shown: ShownRecord) -> Values:
    """Return a record as plain values."""
    record = shown.record
    data = record.data or b""
    return {
        "rba": record.offset,
        "length": record.length,
        "type": type_name(record.io_type),
        "name": shown.name,
        "time": iso_time(record.io_time),
        "image": chr(record.image),
        "header": _header_values(record),
        **_indexes(shown),
        "data_length": len(data),
        "data": data.hex(),
        "images": [
            {
                "image": "before" if image.before else "after",
                "columns": [_column(column.index, column.raw) for column in image.columns],
            }
            for image in images_of(record)
        ],
        **_piece(record),
        "ggs_tokens": [_token(one) for one in record.tokens or ()],
        **_user(record),
    }


def _header_values(record: TrailRecord) -> Values:
    values: Values = {title: getattr(record, field) for title, field in NUMBERS}
    values["FormatType"] = chr(record.format)
    return values


def _indexes(shown: ShownRecord) -> Values:
    record = shown.record
    values: Values = {}
    if record.table_index is not None:
        values["table_index"] = record.table_index
    if record.partition_index is not None:
        values |= {"partition_index": record.partition_index, "partition": shown.partition}
    if record.io_type == IO_METADATA:
        kinds = {kind.value: kind.name.lower() for kind in MetadataKind}
        values["metadata"] = kinds.get(record.node, "unknown")
        values["indexes"] = list(record.metadata_indexes)
        table = None if shown.table is None else shown.table.table
        if table is not None:
            values["columns"] = [asdict(column) for column in table.columns]
    return values


def _column(index: int, raw: bytes) -> Values:
    return {"index": index, "length": len(raw), "hex": raw.hex(), "text": visible(raw)}


def _piece(record: TrailRecord) -> Values:
    piece = piece_of(record)
    if piece is None:
        return {}
    values = asdict(piece)
    values["length"] = len(values.pop("raw"))
    return {"lob": values}


def _token(one: Token) -> Values:
    row = GGS_TOKENS_BY_ID.get(one.code)
    values: Values = {"id": one.code, "name": token_name(one.code), "info": one.info}
    values["hex"] = one.payload.hex()
    if row is not None and row.is_text:
        values["text"] = one.payload[: row.text_bytes].decode("utf-8", "backslashreplace")
    return values


def _user(record: TrailRecord) -> Values:
    if record.user is None:
        return {}
    pairs = read_user_tokens(record.user)
    named = None if pairs is None else [{"name": n, "value": v} for n, v in pairs]
    return {"user_tokens": named, "user_tokens_hex": record.user.hex()}
