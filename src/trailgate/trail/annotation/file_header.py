"""Explain the file header: its groups, fields and values (trail format §4).

``header_groups`` parses the groups and fields as raw bytes, and ``with_file_size`` changes the file size in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trailgate.arrays import octets
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
from trailgate.trail.format import file_header
from trailgate.trail.format.file_header import GROUPS, HeaderField
from trailgate.trail.format.record_layout import format_iso_time
from trailgate.trail.format.tokens import FILE_HEADER, FRAME, NORMAL, TRAILER, UNSET, ByteOrder
from trailgate.trail.records.record import RecordToken, read_tokens_between

TRAIL_INFO: Final = 0x30  # a group (trail format §4.1)
FILE_SIZE: Final = 0x39  # a field of that group
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


def detect_header_order(data: bytes) -> ByteOrder | None:
    """Return the byte order of a file header, or None if neither order fits.

    An order fits if the length in the header's trailer, read in that order, equals the header's
    length.
    """
    if len(data) < 2 * FRAME or data[0] != FILE_HEADER:
        return None
    for order in ByteOrder:
        length = order.number(data[2:FRAME])
        tail = data[length - FRAME : length] if length >= 2 * FRAME else b""
        if tail == bytes((TRAILER,)) + data[1:FRAME]:
            return order
    return None


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
    if row.codec is file_header.HISTORY:
        inner = explain_tokens(area, token.path, lambda one, raw: _history(one, raw, label))
        return replace(token, name=row.name, parts=tuple(inner))
    try:
        value = row.codec.decode(area.raw, area.order)
    except TrailgateError as error:
        bad = replace(area.bytes()[0], problem=error.problem) if area.raw else None
        return replace(token, name=row.name, parts=(bad,) if bad else ())
    if row.codec is file_header.STRING:
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
    if row.codec is file_header.TIME:
        return format_iso_time(value)
    if row.name == "vendor" and 0 < value <= len(VENDORS):
        return f"{value} {VENDORS[value - 1]}"
    return value.hex(" ").upper() if isinstance(value, bytes) else str(value)


class HeaderGroup(NamedTuple):
    """A group of a file header: its own token, its fields, and the offset of each field's payload."""

    token: RecordToken
    fields: tuple[RecordToken, ...]
    starts: tuple[int, ...]


def header_groups(raw: bytes, order: ByteOrder) -> Iterator[HeaderGroup]:
    """Yield the groups of a file header. Raises DecodeError if tokens do not fill it exactly."""
    data = octets(raw)
    for group, start in read_tokens_between(data, (FRAME, len(raw) - FRAME), order):
        fields = read_tokens_between(data, (start, start + len(group.payload)), order)
        yield HeaderGroup(group, tuple(field for field, _ in fields), tuple(at for _, at in fields))


def with_file_size(raw: bytes, size: int) -> bytes:
    """Return the file header with another file size, or unchanged if it does not contain a size."""
    order = detect_header_order(raw) or ByteOrder.BIG
    for group in header_groups(raw, order):
        for field, at in zip(group.fields, group.starts, strict=True):
            if (
                group.token.code == TRAIL_INFO
                and field.code == FILE_SIZE
                and len(field.payload) == 8
            ):
                # The field becomes a normal value of 8 bytes, with its id and its length unchanged.
                frame = raw[at - FRAME : at - FRAME + 1] + bytes((NORMAL,)) + raw[at - 2 : at]
                return raw[: at - FRAME] + frame + order.raw(size, 8) + raw[at + 8 :]
    return raw
