"""Explain a record: its header field by field, its data, its tokens (trail format §5 and §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.trail.annotation.data import IO_TYPE_AT, NODE_AT, explain_data
from trailgate.trail.annotation.elements import Area, Bytes, Element, Part, elements, printable
from trailgate.trail.annotation.file_header import iso_time
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.record_layout import (
    BY_PARTITION,
    BY_TABLE,
    FIELD_COMP,
    H_FIXED,
    INDICATOR,
    ONLY,
    UNIFIED,
    redo_address,
)
from trailgate.trail.format.record_types import IO_METADATA, type_name
from trailgate.trail.format.times import unix_from_julian
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
    token_name,
)
from trailgate.trail.records.metadata import MetadataKind
from trailgate.trail.records.record import NO_NODE

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
    yield from area.part(0, end + 1).bytes(f"Name: {name or 'none'}")
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
        return replace(token, name=f"GGS token {name}, not public")
    text = printable(area.raw[: row.text_bytes]) if row.is_text else None
    whole = row.text_bytes is None and text is not None and "\n" not in text
    parts = tuple(
        replace(part, label=LABELS.get(code, ""), text=text if whole else None)
        for part in area.bytes()
    )
    value = "" if whole or text is None else text
    return replace(token, name=name, value=value, parts=parts)
