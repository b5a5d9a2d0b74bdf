"""A record as values for machines: everything it holds, whatever the settings.

Results as values for machines, ready for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import TrailgateError
from trailgate.logdump.counting import Tally
from trailgate.logdump.images import header_groups, images_of, piece_of
from trailgate.logdump.record_output import visible
from trailgate.logdump.results import (
    Counts,
    Edit,
    Failure,
    Goodbye,
    Lines,
    Listing,
    Note,
    Result,
    ShownBytes,
    ShownHeader,
    ShownRecord,
)
from trailgate.logdump.syntax import iso_time
from trailgate.trail.format.record_types import IO_METADATA, type_name
from trailgate.trail.format.tokens import GGS_TOKENS_BY_ID, ByteOrder, read_user_tokens, token_name
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


def json_values(result: Result) -> Values:
    """Return a result as a dictionary of plain values, the kind of result first."""
    name, values = FORMS[type(result)]
    return {"result": name, **values(result)}


def _failure(failure: Failure) -> Values:
    error = failure.error
    where = {name: value for name, value in asdict(error.where).items() if value is not None}
    hint = {"hint": error.hint} if error.hint else {}
    return {"error": error.problem, "kind": type(error).__name__, "where": _plain(where), **hint}


def _header(shown: ShownHeader) -> Values:
    values: Values = {"length": len(shown.raw), "byte_order": shown.order.label}
    try:
        found = list(header_groups(shown.raw, shown.order))
    except TrailgateError as error:
        return {**values, "error": str(error)}
    values["tokens"] = [
        {"group": group.code, "id": field.code, "info": field.info, "hex": field.payload.hex()}
        for group, fields, _ in found
        for field in fields
    ]
    if shown.header is not None:
        fields = asdict(shown.header)
        fields.pop("unknown")
        values["header"] = _plain(fields)
    return values


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes in hex, a byte order by its name."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, ByteOrder):
        return value.label
    return value.value if isinstance(value, Enum) else value


def _tally(tally: Tally) -> Values:
    values: Values = {
        "records": tally.records,
        "data_bytes": tally.data_bytes,
        "types": dict(tally.types),
        "before_images": tally.befores,
        "after_images": tally.afters,
    }
    if tally.begin is not None and tally.end is not None:
        values |= {"begin": iso_time(tally.begin), "end": iso_time(tally.end)}
    return values


def _counts(counts: Counts) -> Values:
    values: Values = {
        "path": counts.path,
        "start": counts.start,
        "end": counts.end,
        **_tally(counts.total),
        "transactions": counts.transactions,
        "files_in_transactions": counts.files_in_transactions,
        "suppressed": counts.suppressed,
    }
    if counts.tables:
        values["tables"] = {tally.name: _tally(tally) for tally in counts.tables}
    if counts.intervals:
        values["intervals"] = [_tally(tally) for tally in counts.intervals]
    if counts.settings.trans_history:
        values["large_transactions"] = [
            {
                "rba": one.offset,
                "time": iso_time(one.time),
                "records": one.records,
                "data_bytes": one.data_bytes,
            }
            for one in counts.large
        ]
    return values


def _listing(listing: Listing) -> Values:
    return {"title": listing.title, "rows": [[n.strip(), v] for n, v in listing.rows]}


FORMS: Final[Mapping[type, tuple[str, Callable[[Any], Values]]]] = MappingProxyType(
    {
        Note: ("note", lambda note: {"text": note.text, **_plain(note.values or {})}),
        Failure: ("error", _failure),
        ShownRecord: ("record", record_values),
        ShownHeader: ("file_header", _header),
        ShownBytes: ("bytes", lambda shown: {"rba": shown.offset, "hex": shown.raw.hex()}),
        Counts: ("counts", _counts),
        Listing: ("listing", _listing),
        Lines: ("lines", lambda lines: {"title": lines.title, "lines": list(lines.lines)}),
        Edit: ("edit", lambda edit: {"line": edit.line}),
        Goodbye: ("goodbye", lambda _: {}),
    }
)
