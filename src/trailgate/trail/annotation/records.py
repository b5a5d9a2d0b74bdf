"""Explain a record byte by byte: its header fields, data and tokens (trail format §5 and §9 to §12).

The data are columns, images, a piece of a large object or metadata. Values are explained from their
bytes alone, without a table definition (trail format §10.2): ``00 00 00 02 41 42`` is "not null, 2
bytes: AB".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.model.tables import Column
from trailgate.trail.annotation.elements import (
    ByteArea,
    ByteRole,
    ExplainedBytes,
    ExplainedToken,
    Part,
    decode_printable,
    explain_tokens,
    shorten_text,
)
from trailgate.trail.format.header_fields import format_iso_time, unix_from_julian
from trailgate.trail.format.record_header import (
    BY_PARTITION,
    BY_TABLE,
    COLUMN_HEAD,
    FIELD_COMP,
    H_FIXED,
    HEAD_PLACES,
    INDICATOR,
    ONLY,
    PIECE_HEAD,
    UNIFIED,
    format_redo_address,
)
from trailgate.trail.format.record_types import (
    IMAGE_WIDTHS,
    IO_DDL,
    IO_LARGE_OBJECT,
    IO_METADATA,
    RECORD_TYPES,
    ImagePrefix,
    RecordRole,
    type_name,
)
from trailgate.trail.format.tokens import (
    DATA,
    FRAME,
    GGS_TOKENS,
    GGS_TOKENS_BY_ID,
    HEADER,
    LOGCSN,
    ORAROWID,
    RECORD,
    TRANID,
    USER_TOKENS,
    ByteOrder,
    token_name,
)
from trailgate.trail.records.record import NO_NODE
from trailgate.trail.records.record_data import has_columns, read_images, read_piece
from trailgate.trail.records.table_metadata import TDR_HEAD, MetadataType, find_tdr_columns

PRESENT, NULL = b"\0\0", b"\xff\xff"
# trail format §10.2: YYYY-MM-DD:HH:MI:SS and a fraction; MySQL's DATE is a date alone.
DATETIME: Final = re.compile(rb"\d{4}-\d{2}-\d{2}(:\d{2}:\d{2}:\d{2}(\.\d+)?)?")
INTEGER_WIDTHS: Final = (2, 4, 8)

ANY_NODE: Final = -1
PIECE_WORDS: Final = (
    "Column {}",
    "Number of pieces = {}",
    "Record number {}",
    "Start offset {} bytes",
    "{} bytes",
)
WORD: Final = 4
SYSTEM_KEYS: Final = (0, 4, 8)  # bytes of a record's system key

# The attributes that ``trail.records.table_metadata`` decodes, in their assumed order (trail format §12).
ATTRIBUTES: Final = tuple(field.name for field in fields(Column))[1:]

_Explain = Callable[[ByteArea], Iterator[Part]]

TRANS_INDS: Final = ("first", "middle", "last", "only record")  # of its transaction
IMAGES: Final[Mapping[int, str]] = MappingProxyType({ord("A"): "A after", ord("B"): "B before"})
FORMATS: Final[Mapping[int, str]] = MappingProxyType(
    {ord("R"): "R from the log", ord("F"): "F fetched"}
)
PARTITION_BITS: Final = (
    (FIELD_COMP, "index, length, value"),
    (BY_TABLE, "table by index"),
    (UNIFIED, "unified"),
    (BY_PARTITION, "partition by index"),
)
PARTS: Final[Mapping[int, str]] = MappingProxyType(
    {HEADER: "record header", DATA: "data", GGS_TOKENS: "GGS tokens", USER_TOKENS: "user tokens"}
)
# The names of GGS tokens in TrailAnalyzer's listings.
LABELS: Final[Mapping[int, str]] = MappingProxyType(
    {ORAROWID: "ROWID", LOGCSN: "Commit SCN", TRANID: "Transaction ID"}
)


def explain_value(area: ByteArea, level: int) -> Iterator[Part]:
    """Explain the bytes of a column value: its null indicator and the bytes after it, indented by ``level``."""
    indicator, rest = area.raw[:2], area.raw[2:]
    if indicator == NULL:
        yield from area.bytes("NULL", level=level)
    elif indicator != PRESENT:
        problem = "a value begins with 0000, or FFFF for NULL"
        yield from area.bytes(problem=problem, level=level)
    else:
        note = f"not null, {_meaning(rest, area.order.number(rest[:2]))}"
        yield from area.bytes(note, level=level, role=ByteRole.VALUE)


def _meaning(rest: bytes, length: int) -> str:
    # A guess: only a definition distinguishes CHAR from VARCHAR2. The order is that of the reference.
    if len(rest) >= 2 and length == len(rest) - 2:
        return f"{length} bytes: {_value_text(rest[2:])}"
    if DATETIME.fullmatch(rest):
        return f"datetime: {rest.decode()}"
    if decode_printable(rest) and len(rest) not in INTEGER_WIDTHS:
        return f"fixed text: {shorten_text(rest)}"
    if len(rest) in INTEGER_WIDTHS:
        # Binary values are big-endian in either order of a trail (trail format §3).
        number = int.from_bytes(rest, "big", signed=True)
        text = f", or fixed text: {shorten_text(rest)}" if decode_printable(rest) else ""
        return f"perhaps the integer {number}{text}"
    return f"{len(rest)} bytes"


def _value_text(raw: bytes) -> str:
    return "not text" if decode_printable(raw) is None else shorten_text(raw)


def explain_data(area: ByteArea, head: bytes) -> Iterator[Part]:
    """Explain the data area (D) of a record. ``head`` is the fixed part of GHDR."""
    io_type, node = head[HEAD_PLACES["io_type"]], head[HEAD_PLACES["node"]]
    row = RECORD_TYPES.get(io_type)
    special = _SPECIAL.get((io_type, node)) or _SPECIAL.get((io_type, ANY_NODE))
    if special is not None:
        yield from special(area)
    elif row is not None and has_columns(io_type, head[HEAD_PLACES["partition"]]):
        key = head[HEAD_PLACES["syskey_length"]]
        bad = key not in SYSTEM_KEYS or key > len(area.raw)
        problem = "a system key must have 4 or 8 bytes of the data" if bad else ""
        key_area = area.part(0, key)
        note = "" if bad else "System key"
        yield from key_area.bytes(note, problem=problem, role=ByteRole.PIECE)
        yield from _images(area.part(key), row.prefix)
    elif row is not None and row.role is RecordRole.CHANGE:
        yield from area.bytes("not in the form index, length, value", role=ByteRole.UNKNOWN)
    else:
        yield from area.bytes("layout not public", role=ByteRole.UNKNOWN)


def _images(area: ByteArea, prefix: ImagePrefix) -> Iterator[Part]:
    """Explain the columns in a record's data: of one image, or of two if there is a ``prefix``."""
    assumed = ", its width is assumed" if len(IMAGE_WIDTHS[prefix]) > 1 else ""
    for image in read_images(area.raw, area.order, prefix):
        is_complete = image.width + image.stated <= image.length
        level = 1 if image.width and is_complete else 0
        if image.width:
            length = area.part(image.start, image.start + image.width)
            yield from length.bytes(f"Before image, Length {image.stated}{assumed}")
        for column in image.columns:
            value = column.start + COLUMN_HEAD
            note = f"Column {column.index}, Length {len(column.raw)}"
            yield from area.part(column.start, value).bytes(note, level=level)
            yield from explain_value(area.part(value, value + len(column.raw)), level + 1)
        if image.problem:
            end = image.start + image.length
            rest = area.part(end - len(image.rest), end)
            yield from rest.bytes(problem=image.problem, level=level)


def _piece(area: ByteArea) -> Iterator[Part]:
    piece = read_piece(area.raw, area.order)
    if piece is None:
        problem = f"a piece of a large object has at least {PIECE_HEAD} bytes"
        yield from area.bytes(problem=problem)
        return
    words = zip(PIECE_WORDS, piece, strict=False)
    for at, (meaning, word) in enumerate(words):
        yield from area.part(WORD * at, WORD * (at + 1)).bytes(meaning.format(word))
    wrong = piece.stated != len(piece.raw)
    problem = f"{piece.stated} bytes expected" if wrong else ""
    yield from area.part(PIECE_HEAD).bytes(problem=problem, role=ByteRole.PIECE)


def _text(area: ByteArea) -> Iterator[Part]:
    for part in area.bytes():
        yield replace(part, label="Text", text=decode_printable(part.raw), role=ByteRole.UNKNOWN)


def _table(area: ByteArea) -> Iterator[Part]:
    """Explain the columns in a table definition record, if the assumed layout fits exactly."""
    columns = find_tdr_columns(area.raw, area.order)
    if columns is None:
        yield from area.bytes("layout not public", role=ByteRole.UNKNOWN)
        return
    yield from area.part(0, TDR_HEAD).bytes("Head of the definition, layout assumed")
    for column, start, attributes, remarks, end in columns:
        named = area.part(start, attributes)
        yield from named.bytes(f"Column {column.name}", role=ByteRole.COLUMN_NAME)
        for at, attribute in zip(range(attributes, remarks, 2), ATTRIBUTES, strict=True):
            note = f"{attribute} {int(getattr(column, attribute))}"
            yield from area.part(at, at + 2).bytes(note, level=1)
        yield from area.part(remarks, end).bytes("remarks", level=1)


# By IOType and OrigNode.
_SPECIAL: Final[Mapping[tuple[int, int], _Explain]] = MappingProxyType(
    {
        (IO_LARGE_OBJECT, ANY_NODE): _piece,
        (IO_DDL, ANY_NODE): _text,
        (IO_METADATA, int(MetadataType.TABLE)): _table,
    }
)


class GhdrField(NamedTuple):
    """A field of the record header (GHDR): its width, its name in Logdump, and a function that explains its value."""

    width: int
    name: str
    meaning: Callable[[int], str] = str


def _partition(value: int) -> str:
    bits = ", ".join(meaning for bit, meaning in PARTITION_BITS if value & bit)
    return f"x{value:02x}: {bits}" if bits else f"x{value:02x}"


def _indicator(value: int) -> str:
    return "E" if value == INDICATOR else "should be 45"


def _trans_ind(value: int) -> str:
    return (
        f"{value} {TRANS_INDS[value]}"
        if value < len(TRANS_INDS)
        else f"{value}: above 3, perhaps byte 24 holds it"
    )


def _node(value: int) -> str:
    kinds = {int(kind): kind.name.lower().replace("_", " ") for kind in MetadataType}
    meant = "none" if value == NO_NODE else f"{kinds[value]} if metadata" if value in kinds else ""
    return f"{value} {meant}".rstrip()


HEAD_FIELDS: Final = (
    GhdrField(1, "Hdr-Ind", _indicator),
    GhdrField(1, "Partition", _partition),
    GhdrField(1, "UndoFlag"),
    GhdrField(1, "BeforeAfter", lambda value: IMAGES.get(value, "neither A nor B")),
    GhdrField(2, "RecLength"),
    GhdrField(1, "IOType", lambda value: f"{value} {type_name(value)}"),
    GhdrField(1, "OrigNode", _node),
    GhdrField(8, "IO Time", lambda value: format_iso_time(unix_from_julian(value))),
    GhdrField(8, "AuditPos"),
    GhdrField(4, "AuditRBA"),
    GhdrField(1, "TransInd", _trans_ind),
    GhdrField(1, "FormatType", lambda value: FORMATS.get(value, "neither R nor F")),
    GhdrField(1, "SyskeyLen"),
    GhdrField(1, "Incomplete"),
    GhdrField(1, "Continued", lambda value: f"{value} {'yes' if value else 'no'}"),
    GhdrField(1, "RecCount"),
)
# The fields in one release, which puts TransInd before AuditRBA (trail format §5).
_IND = HEAD_FIELDS[10]
MOVED_FIELDS: Final = (
    *HEAD_FIELDS[:9],
    _IND,
    GhdrField(4, "AuditRBA", lambda value: f"{value}, after TransInd here"),
    *HEAD_FIELDS[11:],
)


def explain_record(
    raw: bytes, offset: int, order: ByteOrder, *, oracle: bool = False
) -> ExplainedToken:
    """Explain every byte of a record whose frame and trailer are valid.

    Problems within it are part of the result.

    With ``oracle``, AuditPos is explained as a position in Oracle's redo log.
    """
    area = ByteArea(raw[FRAME:-FRAME], offset + FRAME, order)
    head = raw[2 * FRAME : 2 * FRAME + H_FIXED]
    parts = tuple(
        explain_tokens(area, (RECORD,), lambda token, payload: _part(token, payload, head, oracle))
    )
    return ExplainedToken(
        offset,
        frame=raw[:FRAME],
        length=len(raw),
        path=(RECORD,),
        parts=parts,
        name="record",
        value=type_name(head[HEAD_PLACES["io_type"]]) if len(head) == H_FIXED else "",
        trailer=raw[-FRAME:],
    )


def _part(token: ExplainedToken, area: ByteArea, head: bytes, oracle: bool) -> ExplainedToken:
    code = token.path[-1]
    token = replace(token, name=PARTS.get(code, "part not public"))
    if code == HEADER:
        return replace(token, parts=tuple(_header(area, oracle)))
    if code == DATA and len(head) == H_FIXED:
        at = HEAD_PLACES["data_length"]
        stated = area.order.number(head[at : at + 2])
        wrong = f"{len(area.raw)} bytes here, RecLength is {stated}"
        problem = (
            () if stated == len(area.raw) else (ExplainedBytes(area.offset, b"", problem=wrong),)
        )
        return replace(token, parts=(*problem, *explain_data(area, head)))
    if code == GGS_TOKENS:
        return replace(token, parts=tuple(explain_tokens(area, token.path, _ggs_token)))
    if code == USER_TOKENS:
        parts = tuple(replace(part, text=decode_printable(part.raw)) for part in area.bytes())
        return replace(token, parts=parts)
    return token


def _header(area: ByteArea, oracle: bool) -> Iterator[Part]:
    if len(area.raw) <= H_FIXED:
        yield from area.bytes(problem=f"a record header has more than {H_FIXED} bytes")
        return
    offset, rba_at = 0, HEAD_PLACES["audit_rba"]
    moved = (
        area.order is ByteOrder.BIG
        and area.raw[HEAD_PLACES["trans_ind"]] > ONLY >= area.raw[rba_at]
    )
    sequence = area.number(rba_at + moved, 4)
    for row in MOVED_FIELDS if moved else HEAD_FIELDS:
        part = area.part(offset, offset + row.width)
        value = part.number(0, row.width)
        note = f"{row.name}: {row.meaning(value)}"
        if oracle and row.name == "AuditPos" and value:
            note += f", redo log {format_redo_address(sequence, value)}"
        wrong = row.name == "Hdr-Ind" and part.raw[0] != INDICATOR
        yield from part.bytes("" if wrong else note, problem=note if wrong else "")
        offset += row.width
    yield from _name_area(area.part(H_FIXED), area.raw)


def _name_area(area: ByteArea, head: bytes) -> Iterator[Part]:
    partition = head[HEAD_PLACES["partition"]]
    if partition & BY_TABLE:
        yield from area.part(0, 2).bytes(f"Table index {area.number(0, 2)}")
        rest = area.part(2)
        note = f"Partition name index {rest.number(0, 2)}" if partition & BY_PARTITION else ""
        problem = "" if note or not rest.raw else "bytes after the table index"
        yield from rest.bytes(note, problem=problem)
        return
    end = area.raw.find(b"\0")
    if end < 0:
        yield from area.bytes(problem="a name ends with a NUL")
        return
    name = area.raw[:end].decode("utf-8", "backslashreplace")
    yield from area.part(0, end + 1).bytes(f"Name: {name or 'none'}", role=ByteRole.NAME)
    expected = (
        head[HEAD_PLACES["io_type"]] == IO_METADATA
        and head[HEAD_PLACES["node"]] == MetadataType.PARTITION
    )
    yield from area.part(end + 1).bytes(
        "Partition id and flags, layout not public" if expected else "",
        problem="" if expected else "bytes after the name",
    )


def _ggs_token(token: ExplainedToken, area: ByteArea) -> ExplainedToken:
    code = token.path[-1]
    name = token_name(code)
    row = GGS_TOKENS_BY_ID.get(code)
    if row is None:
        unknown = area.bytes(role=ByteRole.UNKNOWN)
        return replace(token, name=f"GGS token {name}, not public", parts=unknown)
    text = decode_printable(area.raw[: row.text_bytes]) if row.is_text else None
    shows_text = row.text_bytes is None and text is not None and "\n" not in text
    parts = tuple(
        replace(part, label=LABELS.get(code, ""), text=text if shows_text else None)
        for part in area.bytes()
    )
    value = "" if shows_text or text is None else text
    return replace(token, name=name, value=value, parts=parts)
