"""Parse one record into a value, and encode it to the same bytes.

This is the slow, complete way for single records. Logdump, `trailgate analyze`, checks and readers
of rare record types use it. Bulk readers parse the headers and columns of many records at once
(``record_view``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from trailgate.arrays import Octets, octets
from trailgate.errors import DecodeError, EncodeError, TruncatedError, Where
from trailgate.trail.format.header_fields import JULIAN_EPOCH
from trailgate.trail.format.record_header import (
    AFTER_IMAGE,
    BY_PARTITION,
    BY_TABLE,
    FROM_LOG,
    H_FIXED,
    INDICATOR,
    MOVED_AT,
    NAME_AT,
    ONLY,
    RECORD_HEADS,
)
from trailgate.trail.format.tokens import (
    DATA,
    FRAME,
    GGS_TOKENS,
    HEADER,
    MAX_LENGTH,
    RECORD,
    RECORD_INFO,
    USER_TOKENS,
    ByteOrder,
    RecordToken,
    encode_outer_object,
    read_tokens_between,
    token,
)
from trailgate.trail.records.framing import read_record_length

NO_NODE: Final = 0xFF  # OrigNode of data records

_FIELDS: Final = (
    "partition",
    "undo",
    "image",
    "io_type",
    "node",
    "audit_pos",
    "audit_rba",
    "trans_ind",
    "format",
    "syskey_length",
    "incomplete",
    "continued",
    "record_count",
)

# Reads up to ``length`` bytes at ``offset`` of a file; fewer at its end.
Read = Callable[[int, int], Octets]

LONGEST: Final = 64 << 10  # no object of a trail is longer: lengths are u16


@dataclass(frozen=True, slots=True)
class TrailRecord:
    """One trail record, decoded completely: its header fields, name, data, tokens and other parts.

    ``partition`` to ``record_count`` are the fields of GHDR (trail format §5).

    ``offset`` is the record's offset in its file, and ``io_time`` is microseconds since 1970 UTC.
    ``name`` is the text of the name area, or None if the record has a ``table_index`` instead.
    ``after_name`` are the bytes after the name's NUL, which only partition name records have.
    ``data``, ``tokens`` and ``user`` are None if the record has no such part. ``others`` are parts
    with unknown ids.
    """

    io_type: int
    name: str | None = ""
    data: bytes | None = None
    tokens: tuple[RecordToken, ...] | None = None
    user: bytes | None = None
    partition: int = 0
    undo: int = 0
    image: int = AFTER_IMAGE
    node: int = NO_NODE
    io_time: int = 0
    audit_pos: int = 0
    audit_rba: int = 0
    trans_ind: int = 3
    format: int = FROM_LOG
    syskey_length: int = 0
    incomplete: int = 0
    continued: int = 0
    record_count: int = 1
    table_index: int | None = None
    partition_index: int | None = None
    after_name: bytes = b""
    others: tuple[RecordToken, ...] = ()
    info: int = RECORD_INFO
    order: ByteOrder = ByteOrder.BIG
    offset: int = 0
    length: int = 0
    moved: bool = False  # TransInd precedes AuditRBA, as in one release (trail format §5)

    @property
    def metadata_indexes(self) -> tuple[int, int]:
        """Split the AuditRBA of a metadata record into its two u16 indexes (trail format §5.3)."""
        raw = self.order.raw(self.audit_rba, 4)
        return self.order.number(raw[:2]), self.order.number(raw[2:])

    def token(self, code: int) -> bytes | None:
        """Return the payload of the record's first GGS token with this id, or None."""
        for each in self.tokens or ():
            if each.code == code:
                return each.payload
        return None


def decode_record(
    data: Any, offset: int = 0, *, order: ByteOrder = ByteOrder.BIG, base: int = 0
) -> TrailRecord:
    """Decode the trail record at ``offset`` of ``data``, which begins at offset ``base`` of the file.

    Raises TruncatedError if the data end inside the record. Raises DecodeError, with the offset in
    the file, if a part of it is invalid.
    """
    raw = octets(data)
    length = read_record_length(raw, offset, order)
    if length is None:
        where = Where(offset=base + offset, raw=raw[offset : offset + 64].tobytes())
        raise TruncatedError("the input ends inside a record", where=where)
    parts = read_tokens_between(raw, (offset + FRAME, offset + length - FRAME), order, base)
    if not parts or parts[0][0].code != HEADER:
        raise _bad("a record must begin with its header (48)", raw, (offset, offset + length), base)
    head, at = parts[0]
    record = _header(head.payload, order, (raw, at, base))
    others: list[RecordToken] = []
    # The first part with each id counts. Repeated and unknown parts are kept in `others`.
    values: dict[str, Any] = {}
    for part, start in parts[1:]:
        if part.code == DATA and "data" not in values:
            values["data"] = part.payload
        elif part.code == GGS_TOKENS and "tokens" not in values:
            inner = read_tokens_between(raw, (start, start + len(part.payload)), order, base)
            values["tokens"] = tuple(one for one, _ in inner)
        elif part.code == USER_TOKENS and "user" not in values:
            values["user"] = part.payload
        else:
            others.append(part)
    return replace(
        record,
        **values,
        others=tuple(others),
        info=int(raw[offset + 1]),
        order=order,
        offset=base + offset,
        length=length,
    )


def encode_record(record: TrailRecord) -> bytes:
    """Encode a trail record. Raises EncodeError if a part or the record is too long."""
    order = record.order
    parts = [token(HEADER, encode_header_area(record), order=order)]
    if record.data is not None:
        parts.append(_part(DATA, record.data, order))
    if record.tokens is not None:
        inner = b"".join(token(t.code, t.payload, t.info, order) for t in record.tokens)
        parts.append(_part(GGS_TOKENS, inner, order))
    if record.user is not None:
        parts.append(_part(USER_TOKENS, record.user, order))
    parts += [token(t.code, t.payload, t.info, order) for t in record.others]
    inner = b"".join(parts)
    if len(inner) + 2 * FRAME > MAX_LENGTH:
        problem = f"a record of {len(inner) + 2 * FRAME} bytes is longer than {MAX_LENGTH}"
        raise EncodeError(problem, where=Where(table=record.name))
    return encode_outer_object(RECORD, inner, record.info, order)


def encode_header_area(record: TrailRecord) -> bytes:
    """Encode the header of a `TrailRecord`, the payload of its token H: the fixed bytes and the name area."""
    model = np.zeros(1, RECORD_HEADS[record.order])
    for name in _FIELDS:
        model[name] = getattr(record, name)
    model["indicator"] = INDICATOR
    model["io_time"] = record.io_time + JULIAN_EPOCH
    model["data_length"] = len(record.data or b"")
    # The dtype begins with the frames of G and H, which are not part of the payload.
    fixed = model.tobytes()[-H_FIXED:]
    if record.moved:
        at = MOVED_AT - NAME_AT + H_FIXED
        moved = bytes((record.trans_ind,)) + record.audit_rba.to_bytes(4, "big")
        fixed = fixed[:at] + moved + fixed[at + len(moved) :]
    if record.name is not None:
        return fixed + record.name.encode() + b"\0" + record.after_name
    area = record.order.raw(record.table_index or 0, 2)
    if record.partition_index is not None:
        area += record.order.raw(record.partition_index, 2)
    return fixed + area


def _part(code: int, payload: bytes, order: ByteOrder) -> bytes:
    if len(payload) > MAX_LENGTH:
        raise EncodeError(f"{len(payload)} bytes do not fit in one record")
    return token(code, payload, order=order)


def _header(payload: bytes, order: ByteOrder, context: tuple[Octets, int, int]) -> TrailRecord:
    raw, at, base = context
    span = (at, at + len(payload))
    if len(payload) <= H_FIXED:
        raise _bad("the record header is too short", raw, span, base)
    # The dtype begins with the frames of G and H. The payload does not have them, so pad it.
    layout = RECORD_HEADS[order]
    padded = bytes(layout.itemsize - H_FIXED) + payload[:H_FIXED]
    head = np.frombuffer(padded, layout)[0]
    if head["indicator"] != INDICATOR:
        raise _bad("a record header must begin with 45", raw, span, base)
    values: dict[str, Any] = {name: int(head[name]) for name in _FIELDS}
    area = payload[H_FIXED:]
    moved = padded[MOVED_AT : MOVED_AT + 5]
    # Some files have the indicator before the four bytes of the audit RBA instead of after them.
    # Then the last byte is not a valid indicator (0 to 3), and the first one is.
    if moved[-1] > ONLY >= moved[0]:
        values |= {
            "trans_ind": moved[0],
            "audit_rba": int.from_bytes(moved[1:], "big"),
            "moved": True,
        }
    partition = values["partition"]
    if partition & BY_TABLE:
        width = 4 if partition & BY_PARTITION else 2
        if len(area) != width:
            raise _bad(f"{width} bytes of table index were expected", raw, span, base)
        values |= {"name": None, "table_index": order.number(area[:2])}
        values["partition_index"] = order.number(area[2:]) if width == 4 else None
    else:
        # `end` is empty if there is no NUL at all.
        name, end, values["after_name"] = area.partition(b"\0")
        if not end:
            raise _bad("a table name must end with a NUL", raw, span, base)
        values["name"] = name.decode("utf-8", "backslashreplace")
    return TrailRecord(**values, io_time=int(head["io_time"]) - JULIAN_EPOCH)


def _bad(problem: str, raw: Octets, span: tuple[int, int], base: int) -> DecodeError:
    start, end = span
    return DecodeError(problem, where=Where(offset=base + start, raw=raw[start:end].tobytes()))
