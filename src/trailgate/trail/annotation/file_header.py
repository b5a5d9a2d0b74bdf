"""Explain the file header: its groups, fields and values (trail format §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import TrailgateError
from trailgate.trail.annotation.elements import (
    ByteArea,
    ByteRole,
    ExplainedBytes,
    ExplainedToken,
    Part,
    decode_printable,
    explain_tokens,
)
from trailgate.trail.format import header_fields
from trailgate.trail.format.file_header import (
    GROUPS,
    HeaderField,
)
from trailgate.trail.format.header_fields import format_iso_time
from trailgate.trail.format.tokens import (
    FILE_HEADER,
    FRAME,
    UNSET,
    ByteOrder,
)

# The names of fields in TrailAnalyzer's listings, by group and field id.
LABELS: Final[Mapping[tuple[int, int], str]] = MappingProxyType(
    {
        (0x30, 0x33): "Timestamp",
        (0x30, 0x34): "URI extract",
        (0x30, 0x35): "URI of an earlier hop",
        (0x30, 0x36): "filename",
        (0x30, 0x3A): "Commit SCN",
        (0x30, 0x3B): "Commit SCN",
        (0x30, 0x3C): "Timestamp",
        (0x30, 0x3D): "Timestamp",
        (0x31, 0x30): "Operating System",
        (0x31, 0x31): "Hostname",
        (0x31, 0x32): "Kernel Release",
        (0x31, 0x33): "Kernel Version",
        (0x31, 0x34): "Architecture",
        (0x32, 0x31): "Database Name",
        (0x32, 0x32): "Database Name",
        (0x32, 0x36): "Oracle Banner",
        (0x32, 0x38): "Oracle Version",
        (0x32, 0x3C): "Case Sensitivity",
        (0x33, 0x30): "Extract Process",
        (0x33, 0x37): "GoldenGate Version",
    }
)
# trail format §4.3.
VENDORS: Final = (
    "DB2 UDB",
    "DB2 z/OS",
    "c-tree",
    "Ingres",
    "MSSQL",
    "MySQL",
    "Oracle",
    "SQL/MX",
    "Sybase",
    "Teradata",
    "TimesTen",
    "Informix",
    "NonStop",
    "Enscribe",
    "MS Access",
    "ODBC",
    "VSAM",
    "DB2/400",
    "Generic",
    "DB2/400 remote",
    "PostgreSQL",
)


def explain_header(data: bytes, order: ByteOrder) -> ExplainedToken:
    """Explain every byte of the file header at the beginning of ``data``.

    ``order`` must be an order in which its trailer is valid.
    """
    length = order.number(data[2:FRAME])
    area = ByteArea(data[FRAME : length - FRAME], FRAME, order)
    parts = tuple(explain_tokens(area, (FILE_HEADER,), _group))
    return ExplainedToken(
        offset=0,
        frame=data[:FRAME],
        length=length,
        path=(FILE_HEADER,),
        parts=parts,
        name="file header",
        trailer=data[length - FRAME : length],
    )


def _group(token: ExplainedToken, area: ByteArea) -> ExplainedToken:
    group = next((group for group in GROUPS if group.code == token.path[-1]), None)
    if group is None:
        return replace(token, name="group not public", parts=area.bytes(role=ByteRole.UNKNOWN))
    parts = explain_tokens(
        area, token.path, lambda field, payload: _field(field, payload, group.fields)
    )
    return replace(token, name=group.name, parts=tuple(parts))


def _field(token: ExplainedToken, area: ByteArea, rows: tuple[HeaderField, ...]) -> ExplainedToken:
    row = next((row for row in rows if row.code == token.path[-1]), None)
    if row is None:
        return replace(token, name="field not public", parts=area.bytes(role=ByteRole.UNKNOWN))
    if token.frame[1] == UNSET:
        return replace(token, name=row.name, value="not known yet")
    label = LABELS.get((token.path[-2], row.code), "")
    if row.codec is header_fields.HISTORY:
        inner = explain_tokens(area, token.path, lambda one, raw: _history(one, raw, label))
        return replace(token, name=row.name, parts=tuple(inner))
    try:
        value = row.codec.decode(area.raw, area.order)
    except TrailgateError as error:
        bad = replace(area.bytes()[0], problem=error.problem) if area.raw else None
        return replace(token, name=row.name, parts=(bad,) if bad else ())
    if row.codec is header_fields.STRING:
        return replace(token, name=row.name, parts=_string(area, label))
    parts = tuple(replace(part, label=label) for part in area.bytes())
    return replace(token, name=row.name, value=_format_value(row, value), parts=parts)


def _history(token: ExplainedToken, area: ByteArea, label: str) -> ExplainedToken:
    return replace(token, parts=_string(area, label))


def _string(area: ByteArea, label: str) -> tuple[Part, ...]:
    """Explain a string of the file header: as text if it is printable, otherwise in hex."""
    if len(area.raw) < 2 or area.number(0, 2) != len(area.raw) - 2:
        return area.bytes(problem="the string's length does not agree with its token")
    text = decode_printable(area.raw[2:])
    return (ExplainedBytes(area.offset, area.raw, label=label, text=text, role=ByteRole.TEXT),)


def _format_value(row: HeaderField, value: Any) -> str:
    if row.codec is header_fields.TIME:
        return format_iso_time(value)
    if row.name == "vendor" and 0 < value <= len(VENDORS):
        return f"{value} {VENDORS[value - 1]}"
    return value.hex(" ").upper() if isinstance(value, bytes) else str(value)
