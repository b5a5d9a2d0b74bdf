"""A record explained byte by byte: its header field by field, its data, its tokens (trail format §5 and §9 to §12).

Its data are columns, images, large objects or metadata; a value without a definition is explained by its bytes alone (trail format §10.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import TrailgateError
from trailgate.model.tables import Column, Table
from trailgate.trail.annotation.elements import (
    Area,
    Bytes,
    Element,
    Part,
    elements,
    printable,
    shorten,
)
from trailgate.trail.annotation.elements import Role as PartRole
from trailgate.trail.annotation.file_header import iso_time
from trailgate.trail.format.record_layout import (
    BY_PARTITION,
    BY_TABLE,
    COLUMN_HEAD,
    FIELD_COMP,
    H_FIXED,
    INDICATOR,
    ONLY,
    UNIFIED,
    redo_address,
    unix_from_julian,
)
from trailgate.trail.format.record_types import (
    IMAGE_WIDTHS,
    IO_DDL,
    IO_LARGE_OBJECT,
    IO_METADATA,
    RECORD_TYPES,
    Prefix,
    Role,
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
from trailgate.trail.records.metadata import TDR_HEAD, MetadataKind, read_table
from trailgate.trail.records.record import NO_NODE, TrailRecord

PRESENT, NULL = b"\0\0", b"\xff\xff"
# trail format §10.2: YYYY-MM-DD:HH:MI:SS and a fraction; MySQL's DATE is a date alone.
DATETIME: Final = re.compile(rb"\d{4}-\d{2}-\d{2}(:\d{2}:\d{2}:\d{2}(\.\d+)?)?")
INTEGER_WIDTHS: Final = (2, 4, 8)


def explain_value(area: Area, level: int) -> Iterator[Part]:
    """Yield a value: its null indicator and the bytes after it."""
    indicator, rest = area.raw[:2], area.raw[2:]
    if indicator == NULL:
        yield from area.bytes("NULL", level=level)
    elif indicator != PRESENT:
        problem = "a value begins with 0000, or FFFF for NULL"
        yield from area.bytes(problem=problem, level=level)
    else:
        note = f"not null, {_meaning(rest, area.order.number(rest[:2]))}"
        yield from area.bytes(note, level=level, role=PartRole.VALUE)


def _meaning(rest: bytes, length: int) -> str:
    # A guess, in the order of the reference: only a definition distinguishes CHAR from VARCHAR2.
    if len(rest) >= 2 and length == len(rest) - 2:
        return f"{length} bytes: {_value_text(rest[2:])}"
    if DATETIME.fullmatch(rest):
        return f"datetime: {rest.decode()}"
    if printable(rest) and len(rest) not in INTEGER_WIDTHS:
        return f"fixed text: {shorten(rest)}"
    if len(rest) in INTEGER_WIDTHS:
        # Binary values are big-endian in either order of a trail (trail format §3).
        number = int.from_bytes(rest, "big", signed=True)
        text = f", or fixed text: {shorten(rest)}" if printable(rest) else ""
        return f"perhaps the integer {number}{text}"
    return f"{len(rest)} bytes"


def _value_text(raw: bytes) -> str:
    return "not text" if printable(raw) is None else shorten(raw)


PARTITION_AT: Final = 1  # in GHDR, as the next two
IO_TYPE_AT: Final = 6
NODE_AT: Final = 7
ANY_NODE: Final = -1
PIECE_WORDS: Final = (
    "Column {}",
    "Number of pieces = {}",
    "Record number {}",
    "Start offset {} bytes",
    "{} bytes",
)
WORD: Final = 4


def explain_data(area: Area, head: bytes) -> Iterator[Part]:
    """Yield the parts of D; ``head`` is the fixed part of GHDR."""
    io_type, node = head[IO_TYPE_AT], head[NODE_AT]
    row = RECORD_TYPES.get(io_type)
    special = _SPECIAL.get((io_type, node)) or _SPECIAL.get((io_type, ANY_NODE))
    if special is not None:
        yield from special(area)
    elif row is not None and row.role is Role.CHANGE and head[PARTITION_AT] & FIELD_COMP:
        yield from _images(area, row.prefix)
    elif row is not None and row.role is Role.CHANGE:
        yield from area.bytes("not in the form index, length, value", role=PartRole.UNKNOWN)
    else:
        yield from area.bytes("layout not public", role=PartRole.UNKNOWN)


def _images(area: Area, prefix: Prefix) -> Iterator[Part]:
    """Yield one list of columns, or the two of a record with both images."""
    widths = IMAGE_WIDTHS[prefix]
    if not widths:
        yield from _columns(area)
        return
    fitting = [width for width in widths if _fits(area, width)]
    width = (fitting or widths)[0]
    if len(area.raw) < width:
        yield from area.bytes(problem="the length of the before image is missing")
        return
    length = area.number(0, width)
    assumed = ", its width is assumed" if len(widths) > 1 else ""
    yield from area.part(0, width).bytes(f"Before image, Length {length}{assumed}")
    before, after = area.part(width, width + length), area.part(width + length)
    if len(before.raw) < length:
        yield from before.bytes(problem=f"the before image should have {length} bytes")
        return
    yield from _columns(before, level=1)
    yield from _columns(after)


def _fits(area: Area, width: int) -> bool:
    """Return whether both images are lists of columns that end exactly (trail format §10.4)."""
    length = area.number(0, width)
    if width + length > len(area.raw):
        return False
    halves = (area.part(width, width + length), area.part(width + length))
    return all(not getattr(part, "problem", "") for half in halves for part in _columns(half))


def _columns(area: Area, level: int = 0) -> Iterator[Part]:
    place = 0
    while place < len(area.raw):
        start = place + COLUMN_HEAD
        if start > len(area.raw):
            yield from area.part(place).bytes(problem="no column fits here", level=level)
            return
        index, length = area.number(place, 2), area.number(place + 2, 2)
        if start + length > len(area.raw):
            problem = f"column {index} of {length} bytes is longer than the data"
            yield from area.part(place).bytes(problem=problem, level=level)
            return
        yield from area.part(place, start).bytes(f"Column {index}, Length {length}", level=level)
        yield from explain_value(area.part(start, start + length), level + 1)
        place = start + length


def _piece(area: Area) -> Iterator[Part]:
    head = WORD * len(PIECE_WORDS)
    if len(area.raw) < head:
        yield from area.bytes(problem=f"a piece of a large object has at least {head} bytes")
        return
    for at, meaning in enumerate(PIECE_WORDS):
        word = area.part(WORD * at, WORD * (at + 1))
        yield from word.bytes(meaning.format(word.number(0, WORD)))
    stated, rest = area.number(head - WORD, WORD), area.part(head)
    wrong = stated != len(rest.raw)
    problem = f"{stated} bytes expected" if wrong else ""
    yield from rest.bytes(problem=problem, role=PartRole.PIECE)


def _text(area: Area) -> Iterator[Part]:
    for part in area.bytes():
        yield replace(part, label="Text", text=printable(part.raw), role=PartRole.UNKNOWN)


def _table(area: Area) -> Iterator[Part]:
    """Yield a table definition column by column, if the assumed layout fits exactly."""
    record = TrailRecord(IO_METADATA, data=area.raw, order=area.order)
    try:
        table = read_table("", record)
    except TrailgateError:
        table = None
    parts = None if table is None else _table_parts(area, table)
    if parts is None:
        parts = [*area.bytes("layout not public", role=PartRole.UNKNOWN)]
    yield from parts


# Assumed (trail format §12): as in ``trail.format.metadata``, whose columns these are.
ATTRIBUTE_BYTES: Final = 2
ATTRIBUTES: Final = tuple(field.name for field in fields(Column))[1:]


def _table_parts(area: Area, table: Table) -> list[Part] | None:
    parts: list[Part] = [*area.part(0, TDR_HEAD).bytes("Head of the definition, layout assumed")]
    place = TDR_HEAD
    for column in table.columns:
        name = column.name.encode()
        start = place + 2 + len(name)
        if area.raw[place + 2 : start] != name:
            return None
        named = area.part(place, start)
        parts += named.bytes(f"Column {column.name}", role=PartRole.COLUMN_NAME)
        for at, attribute in enumerate(ATTRIBUTES):
            field = area.part(start + 2 * at, start + 2 * at + 2)
            parts += field.bytes(f"{attribute} {int(getattr(column, attribute))}", level=1)
        place = start + ATTRIBUTE_BYTES * len(ATTRIBUTES)
        end = place + 2 + area.number(place, 2)
        parts += area.part(place, end).bytes("remarks", level=1)
        place = end
    return parts if place == len(area.raw) else None


_Explain = Callable[[Area], Iterator[Part]]
# By IOType and OrigNode.
_SPECIAL: Final[Mapping[tuple[int, int], _Explain]] = MappingProxyType(
    {
        (IO_LARGE_OBJECT, ANY_NODE): _piece,
        (IO_DDL, ANY_NODE): _text,
        (IO_METADATA, int(MetadataKind.TABLE)): _table,
    }
)


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
# What TrailAnalyzer's listings call a GGS token.
LABELS: Final[Mapping[int, str]] = MappingProxyType(
    {ORAROWID: "ROWID", LOGCSN: "Commit SCN", TRANID: "Transaction ID"}
)


class HeadField(NamedTuple):
    """One field of GHDR: its bytes, Logdump's name, and the meaning of a value."""

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
    kinds = {int(kind): kind.name.lower().replace("_", " ") for kind in MetadataKind}
    meant = "none" if value == NO_NODE else f"{kinds[value]} if metadata" if value in kinds else ""
    return f"{value} {meant}".rstrip()


HEAD_FIELDS: Final = (
    HeadField(1, "Hdr-Ind", _indicator),
    HeadField(1, "Partition", _partition),
    HeadField(1, "UndoFlag"),
    HeadField(1, "BeforeAfter", lambda value: IMAGES.get(value, "neither A nor B")),
    HeadField(2, "RecLength"),
    HeadField(1, "IOType", lambda value: f"{value} {type_name(value)}"),
    HeadField(1, "OrigNode", _node),
    HeadField(8, "IO Time", lambda value: iso_time(unix_from_julian(value))),
    HeadField(8, "AuditPos"),
    HeadField(4, "AuditRBA"),
    HeadField(1, "TransInd", _trans_ind),
    HeadField(1, "FormatType", lambda value: FORMATS.get(value, "neither R nor F")),
    HeadField(1, "SyskeyLen"),
    HeadField(1, "Incomplete"),
    HeadField(1, "Continued", lambda value: f"{value} {'yes' if value else 'no'}"),
    HeadField(1, "RecCount"),
)
# As one release has them: TransInd comes first (trail format §5).
_RBA_AT, _IND_AT = 24, 28  # in GHDR
_IND = HEAD_FIELDS[10]
MOVED_FIELDS: Final = (
    *HEAD_FIELDS[:9],
    _IND,
    HeadField(4, "AuditRBA", lambda value: f"{value}, after TransInd here"),
    *HEAD_FIELDS[11:],
)
LENGTH_AT: Final = 4  # in GHDR


def explain_record(raw: bytes, offset: int, order: ByteOrder, *, oracle: bool = False) -> Element:
    """Return a record whose frame and trailer are right; problems inside are part of it.

    With ``oracle``, AuditPos is a place in Oracle's redo log.
    """
    area = Area(raw[FRAME:-FRAME], offset + FRAME, order)
    head = raw[2 * FRAME : 2 * FRAME + H_FIXED]
    parts = tuple(
        elements(area, (RECORD,), lambda token, payload: _part(token, payload, head, oracle))
    )
    return Element(
        offset,
        frame=raw[:FRAME],
        length=len(raw),
        path=(RECORD,),
        parts=parts,
        name="record",
        value=type_name(head[IO_TYPE_AT]) if len(head) == H_FIXED else "",
        trailer=raw[-FRAME:],
    )


def _part(token: Element, area: Area, head: bytes, oracle: bool) -> Element:
    code = token.path[-1]
    token = replace(token, name=PARTS.get(code, "part not public"))
    if code == HEADER:
        return replace(token, parts=tuple(_header(area, oracle)))
    if code == DATA and len(head) == H_FIXED:
        stated = area.order.number(head[LENGTH_AT : LENGTH_AT + 2])
        wrong = f"{len(area.raw)} bytes here, RecLength is {stated}"
        problem = () if stated == len(area.raw) else (Bytes(area.offset, b"", problem=wrong),)
        return replace(token, parts=(*problem, *explain_data(area, head)))
    if code == GGS_TOKENS:
        return replace(token, parts=tuple(elements(area, token.path, _ggs_token)))
    if code == USER_TOKENS:
        parts = tuple(replace(part, text=printable(part.raw)) for part in area.bytes())
        return replace(token, parts=parts)
    return token


def _header(area: Area, oracle: bool) -> Iterator[Part]:
    if len(area.raw) <= H_FIXED:
        yield from area.bytes(problem=f"a record header has more than {H_FIXED} bytes")
        return
    place = 0
    moved = area.order is ByteOrder.BIG and area.raw[_IND_AT] > ONLY >= area.raw[_RBA_AT]
    sequence = area.number(_RBA_AT + moved, 4)
    for row in MOVED_FIELDS if moved else HEAD_FIELDS:
        part = area.part(place, place + row.width)
        value = part.number(0, row.width)
        note = f"{row.name}: {row.meaning(value)}"
        if oracle and row.name == "AuditPos" and value:
            note += f", redo log {redo_address(sequence, value)}"
        wrong = row.name == "Hdr-Ind" and part.raw[0] != INDICATOR
        yield from part.bytes("" if wrong else note, problem=note if wrong else "")
        place += row.width
    yield from _name_area(area.part(H_FIXED), area.raw)


def _name_area(area: Area, head: bytes) -> Iterator[Part]:
    partition = head[1]
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
    yield from area.part(0, end + 1).bytes(f"Name: {name or 'none'}", role=PartRole.NAME)
    expected = head[IO_TYPE_AT] == IO_METADATA and head[NODE_AT] == MetadataKind.PARTITION
    yield from area.part(end + 1).bytes(
        "Partition id and flags, layout not public" if expected else "",
        problem="" if expected else "bytes after the name",
    )


def _ggs_token(token: Element, area: Area) -> Element:
    code = token.path[-1]
    name = token_name(code)
    row = GGS_TOKENS_BY_ID.get(code)
    if row is None:
        unknown = area.bytes(role=PartRole.UNKNOWN)
        return replace(token, name=f"GGS token {name}, not public", parts=unknown)
    text = printable(area.raw[: row.text_bytes]) if row.is_text else None
    whole = row.text_bytes is None and text is not None and "\n" not in text
    parts = tuple(
        replace(part, label=LABELS.get(code, ""), text=text if whole else None)
        for part in area.bytes()
    )
    value = "" if whole or text is None else text
    return replace(token, name=name, value=value, parts=parts)
