"""Decode and encode the file header: the F object at offset 0 of every trail file (trail format §4).

The header contains five groups (trail, machine, database, producer, continuity), and each group
contains fields. Both are tokens: id, info, length, payload. One row of a table declares each field
with a codec that works in both directions, so `decode_header` and `encode_header` use the same
rows. For example ``36 00 00 0B 00 09 ./dirdat/...`` is a token 36, the file name: a string is a u16
length and its bytes. Fields and groups that are not in the tables are kept in ``unknown`` and
written back.

Numbers are big-endian in every printed header. In a little-endian trail they are assumed to be
little-endian, like the lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from trailgate.errors import DecodeError, EncodeError, TrailgateError, TruncatedError, Where
from trailgate.trail.format.record_layout import julian_from_unix, unix_from_julian
from trailgate.trail.format.tokens import (
    FILE_HEADER,
    FRAME,
    MAX_LENGTH,
    NORMAL,
    TRAILER,
    UNSET,
    ByteOrder,
    encode_outer_object,
    token,
)

_HEADERS: Final = 64  # headers, and groups of headers, that are remembered
CSN_BYTES: Final = 129  # u8 length of the text, then 128 bytes: text and zeros (trail format §4.1)

# trail format §4.1: URIHistory nests tokens with the same id as itself, each a string.
HISTORY_ID: Final = 0x35

LOGBSN_LEVEL: Final = 4  # 12.x headers name it (trail format §4.1)
SIGNATURE: Final = bytes.fromhex("47 47 0D 0A 54 4C 0A 0D")  # GG CR LF TL LF CR
_SIGNED: Final = ByteOrder.BIG.raw(len(SIGNATURE), 2)  # its length in the frame before it
_TRAILER: Final = bytes((TRAILER,))

ORACLE: Final = 7  # a vendor
MISNUMBERED: Final = "the header states file number {}, but the name {}: another file of the trail was copied or renamed to this name"

# The default sequence number is 0, the first file; a header without the field must not claim that.
_ABSENT: Final = {0x30: {"seqno": None}}
_FRAMES: Final = {order: Struct(f"{order.value}BBH") for order in ByteOrder}


class HeaderFieldCodec(NamedTuple):
    """The encoder and decoder of one type of file header field.

    ``unset`` is the payload if the value is unknown; if it is empty, such a field is omitted.
    """

    encode: Callable[[Any, ByteOrder], bytes]
    decode: Callable[[bytes, ByteOrder], Any]
    unset: bytes = b""


def _integer(width: int, *, signed: bool = False) -> HeaderFieldCodec:
    def encode(value: int, order: ByteOrder) -> bytes:
        try:
            return value.to_bytes(width, order.label, signed=signed)
        except OverflowError:
            raise EncodeError(f"{value} does not fit in {width} bytes") from None

    def decode(payload: bytes, order: ByteOrder) -> int:
        if len(payload) != width:
            raise DecodeError(f"{width} bytes expected, {len(payload)} found")
        return int.from_bytes(payload, order.label, signed=signed)

    return HeaderFieldCodec(encode, decode, bytes(width))


_LONG: Final = _integer(8, signed=True)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("a string of the file header is not UTF-8") from None


def _encode_string(value: str, order: ByteOrder) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_LENGTH - 2:
        raise EncodeError(f"a text of {len(raw)} bytes is too long for the file header")
    return order.raw(len(raw), 2) + raw


def _decode_string(payload: bytes, order: ByteOrder) -> str:
    if len(payload) < 2 or order.number(payload[:2]) != len(payload) - 2:
        raise DecodeError(
            f"a string's length does not agree with its token of {len(payload)} bytes"
        )
    return _text(payload[2:])


def _encode_time(value: int, order: ByteOrder) -> bytes:
    return _LONG.encode(julian_from_unix(value), order)


def _decode_time(payload: bytes, order: ByteOrder) -> int:
    return unix_from_julian(_LONG.decode(payload, order))


def _encode_csn(value: str, _: ByteOrder) -> bytes:
    raw = value.encode()
    if len(raw) >= CSN_BYTES:
        raise EncodeError(f"a CSN of {len(raw)} bytes is too long for the file header")
    return (bytes((len(raw),)) + raw).ljust(CSN_BYTES, b"\0")


def _decode_csn(payload: bytes, _: ByteOrder) -> str:
    if len(payload) != CSN_BYTES:
        raise DecodeError(f"{CSN_BYTES} bytes expected, {len(payload)} found")
    length = payload[0]
    if length >= CSN_BYTES or any(payload[1 + length :]):
        raise DecodeError("a CSN's length does not agree with its text")
    return _text(payload[1 : 1 + length])


def _encode_history(value: tuple[str, ...], order: ByteOrder) -> bytes:
    parts = (token(HISTORY_ID, _encode_string(uri, order), order=order) for uri in value)
    return b"".join(parts)


def _decode_history(payload: bytes, order: ByteOrder) -> tuple[str, ...]:
    uris = []
    offset = 0
    while offset < len(payload):
        length = order.number(payload[offset + 2 : offset + FRAME])
        end = offset + FRAME + length
        if end > len(payload) or payload[offset] != HISTORY_ID:
            raise DecodeError("the URI history does not fill its token")
        uris.append(_decode_string(payload[offset + FRAME : end], order))
        offset = end
    return tuple(uris)


def _encode_counted(value: bytes, order: ByteOrder) -> bytes:
    return order.raw(len(value), 4) + value


def _decode_counted(payload: bytes, order: ByteOrder) -> bytes:
    if len(payload) < 4 or order.number(payload[:4]) != len(payload) - 4:
        raise DecodeError("a byte string's length does not agree with its token")
    return payload[4:]


U8, U16, U32, U64, I32 = (
    _integer(1),
    _integer(2),
    _integer(4),
    _integer(8),
    _integer(4, signed=True),
)
STRING: Final = HeaderFieldCodec(_encode_string, _decode_string)
TIME: Final = HeaderFieldCodec(_encode_time, _decode_time, bytes(8))
CSN: Final = HeaderFieldCodec(_encode_csn, _decode_csn, bytes(CSN_BYTES))
HISTORY: Final = HeaderFieldCodec(_encode_history, _decode_history)
COUNTED: Final = HeaderFieldCodec(_encode_counted, _decode_counted)
RAW: Final = HeaderFieldCodec(lambda value, _: bytes(value), lambda payload, _: payload)


@dataclass(frozen=True, slots=True)
class TrailInfo:
    """Group 30 of the file header: the trail file itself.

    Times are microseconds since 1970 UTC. A value is None if it is not known yet, or not in the
    file.
    """

    signature: bytes = SIGNATURE
    compatibility: int = 3  # level 3 is release 11.2 (trail format §4.6)
    charset: int = 0x20000000  # the value of all dumps; probably UTF-8
    creation_time: int = 0
    uri: str = ""
    uri_history: tuple[str, ...] | None = None
    filename: str = ""
    multi_part: int = 1  # 1: member of a trail
    seqno: int | None = 0  # None: the file does not hold it
    file_size: int | None = None
    first_csn: str | None = None
    last_csn: str | None = None
    first_io_time: int | None = None
    last_io_time: int | None = None
    log_bsn: str | None = None  # what recovery needs at least; from level 4 on


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """Group 31 of the file header: the output of uname on the machine that wrote the trail."""

    sysname: str = ""
    nodename: str = ""
    release: str = ""
    version: str = ""
    hardware: str = ""


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """Group 32 of the file header: the source database.

    Vendor 7 is Oracle, 19 is Generic (trail format §4.3).
    """

    vendor: int = 19  # generic
    name: str = ""
    instance: str = ""
    charset: int = 0x20000000
    major_version: int = 0
    minor_version: int = 0
    version_text: str = ""
    client_charset: int = 0x20000000
    client_version_text: str = ""
    client_ncharset: int = 0x20000000
    locale: int = 0
    ncharset: int = 0x20000000
    object_metadata: bytes = bytes.fromhex("14" * 12 + "11" + "14" * 3)


@dataclass(frozen=True, slots=True)
class ProducerInfo:
    """Group 33 of the file header: the Extract group that wrote the trail, and its release."""

    name: str = ""
    data_source: int = 3  # log-based capture (inferred)
    major_version: int = 11
    minor_version: int = 2
    maintenance_level: int = 0
    bug_fix_level: int = 0
    build_number: int = 0
    version_text: str = ""


@dataclass(frozen=True, slots=True)
class ContinuityInfo:
    """Group 34 of the file header: the recovery mode of the writer."""

    recovery_mode: int = 1  # append mode (inferred)


@dataclass(frozen=True, slots=True)
class UnknownHeaderField:
    """A file header field that is not in the tables of this module. It is kept unchanged.

    It may also be a known field that the file marks as unset although it must have a value. If
    ``code`` is None, the payload is a complete group.
    """

    group: int
    code: int | None
    info: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class FileHeader:
    """A complete file header of a trail.

    ``unknown`` contains the fields and groups that are not in the tables.

    Assumed: a little-endian trail has a little-endian header. No public dump shows one (trail
    format §3).
    """

    trail: TrailInfo = TrailInfo()
    machine: MachineInfo = MachineInfo()
    database: DatabaseInfo = DatabaseInfo()
    producer: ProducerInfo = ProducerInfo()
    continuity: ContinuityInfo = ContinuityInfo()
    unknown: tuple[UnknownHeaderField, ...] = ()
    order: ByteOrder = ByteOrder.BIG


class HeaderField(NamedTuple):
    """One field in a group of the file header: its token id, its attribute in the group's class and its codec.

    ``patched`` fields get their value when the file is closed. ``since`` is the first format level
    that has the field: a header of an older level gets the field only if it has a value.
    """

    code: int
    name: str
    codec: HeaderFieldCodec
    patched: bool = False
    since: int = 0


class HeaderFieldGroup(NamedTuple):
    """One group of the file header: its token id, its attribute in `FileHeader`, its class and its fields in file order."""

    code: int
    name: str
    kind: type[Any]
    fields: tuple[HeaderField, ...]


def _number_fields(*rows: tuple[str, HeaderFieldCodec]) -> tuple[HeaderField, ...]:
    return tuple(HeaderField(0x30 + i, name, codec) for i, (name, codec) in enumerate(rows))


TRAIL_FIELDS: Final = (
    HeaderField(0x30, "signature", RAW),
    HeaderField(0x31, "compatibility", U16),
    HeaderField(0x32, "charset", I32),
    HeaderField(0x33, "creation_time", TIME),
    HeaderField(0x34, "uri", STRING),
    HeaderField(HISTORY_ID, "uri_history", HISTORY),
    HeaderField(0x36, "filename", STRING, patched=True),
    HeaderField(0x37, "multi_part", U8),
    HeaderField(0x38, "seqno", U32, patched=True),
    HeaderField(0x39, "file_size", U64, patched=True),
    HeaderField(0x3A, "first_csn", CSN, patched=True),
    HeaderField(0x3B, "last_csn", CSN, patched=True),
    HeaderField(0x3C, "first_io_time", TIME, patched=True),
    HeaderField(0x3D, "last_io_time", TIME, patched=True),
    # Assumed: laid out as the other CSNs; only its name is public (trail format §4.1).
    HeaderField(0x3E, "log_bsn", CSN, patched=True, since=LOGBSN_LEVEL),
)
_STRING, _U16, _I32 = STRING, U16, I32
MACHINE_FIELDS: Final = _number_fields(
    ("sysname", _STRING),
    ("nodename", _STRING),
    ("release", _STRING),
    ("version", _STRING),
    ("hardware", _STRING),
)
DATABASE_FIELDS: Final = _number_fields(
    ("vendor", _U16),
    ("name", _STRING),
    ("instance", _STRING),
    ("charset", _I32),
    ("major_version", _U16),
    ("minor_version", _U16),
    ("version_text", _STRING),
    ("client_charset", _I32),
    ("client_version_text", _STRING),
    ("client_ncharset", _I32),
    ("locale", _U16),
    ("ncharset", _I32),
    ("object_metadata", COUNTED),
)
PRODUCER_FIELDS: Final = _number_fields(
    ("name", _STRING),
    ("data_source", _U16),
    ("major_version", _U16),
    ("minor_version", _U16),
    ("maintenance_level", _U16),
    ("bug_fix_level", _U16),
    ("build_number", _U16),
    ("version_text", _STRING),
)
GROUPS: Final = (
    HeaderFieldGroup(0x30, "trail", TrailInfo, TRAIL_FIELDS),
    HeaderFieldGroup(0x31, "machine", MachineInfo, MACHINE_FIELDS),
    HeaderFieldGroup(0x32, "database", DatabaseInfo, DATABASE_FIELDS),
    HeaderFieldGroup(0x33, "producer", ProducerInfo, PRODUCER_FIELDS),
    HeaderFieldGroup(0x34, "continuity", ContinuityInfo, _number_fields(("recovery_mode", U32))),
)

_GROUPS: Final = {group.code: group for group in GROUPS}
_FIELDS: Final = {group.code: {field.code: field for field in group.fields} for group in GROUPS}
# Fields that are written before their value is known: they are None until then.
_OPTIONAL: Final = {
    group.code: {field.name for field in fields(group.kind) if field.default is None}
    for group in GROUPS
}


def encode_header(header: FileHeader) -> bytes:
    """Encode a file header as an F object. Raises EncodeError if a value does not fit."""
    order = header.order
    groups = (token(group.code, _group_payload(header, group), order=order) for group in GROUPS)
    inner = b"".join(groups)
    for field in header.unknown:
        if field.code is None:
            inner += token(field.group, field.payload, field.info, order)
    if len(inner) + 2 * FRAME > MAX_LENGTH:
        raise EncodeError(f"a file header of {len(inner) + 2 * FRAME} bytes is too long")
    return encode_outer_object(FILE_HEADER, inner, NORMAL, order)


def encode_patches(header: FileHeader) -> list[tuple[int, bytes]]:
    """Return the (offset, bytes) pairs that change an encoded file header in place.

    They cover the fields that become known when a file is closed or published: file name, sequence
    number, size, first and last CSN, first and last IO time, and LogBSN. The header must keep its
    length, so a new file name must be as long as the old one.
    """
    # Encode the fields again: their sizes give the offset of each in the encoded header.
    patches = []
    offset = 2 * FRAME  # after the frames of F and of group 30, which comes first
    for field in TRAIL_FIELDS:
        encoded = _encode_field(header, header.trail, field)
        if field.patched and encoded:
            patches.append((offset, encoded))
        offset += len(encoded)
    return patches


def decode_header(data: Any) -> tuple[FileHeader, int]:
    """Decode the file header at the beginning of ``data`` (bytes-like). Returns it and its length in bytes.

    Raises TruncatedError if the data end inside the header, and DecodeError if they do not begin
    with one.
    """
    view = memoryview(data)
    length, order = _outer_length(view)
    return _decode_complete(bytes(view[:length]), order), length


@lru_cache(_HEADERS)
def _decode_complete(data: bytes, order: ByteOrder) -> FileHeader:
    """Decode a complete file header, and cache the result: readers decode the header of a file twice."""
    view = memoryview(data)
    walk = _HeaderBytes(view, order)
    values: dict[str, Any] = {}
    unknown: list[UnknownHeaderField] = []
    for code, info, start, end in walk.inner_tokens(FRAME, len(data) - FRAME):
        group = _GROUPS.get(code)
        if group is None:
            unknown.append(UnknownHeaderField(code, None, info, bytes(view[start:end])))
            continue
        try:
            value, more = _decode_known_group(code, bytes(view[start:end]), order)
        except TrailgateError:
            value, more = _decode_group(
                walk, group, (start, end)
            )  # raises with the offset in the file
        values[group.name] = value
        unknown += more
    return FileHeader(**values, unknown=tuple(unknown), order=order)


def _group_payload(header: FileHeader, group: HeaderFieldGroup) -> bytes:
    value = getattr(header, group.name)
    known = b"".join(_encode_field(header, value, field) for field in group.fields)
    more = (
        token(field.code, field.payload, field.info, header.order)
        for field in header.unknown
        if field.group == group.code and field.code is not None
    )
    return known + b"".join(more)


def _encode_field(header: FileHeader, values: Any, field: HeaderField) -> bytes:
    value, order = getattr(values, field.name), header.order
    if value is not None:
        try:
            return token(field.code, field.codec.encode(value, order), order=order)
        except EncodeError as error:
            raise error.with_place(field=field.name) from None
    if not field.codec.unset or header.trail.compatibility < field.since:
        return b""
    # trail format §2: a field whose value is not set yet has info FF and zeros (inferred).
    return token(field.code, field.codec.unset, UNSET, order)


def _outer_length(view: memoryview) -> tuple[int, ByteOrder]:
    """Return the length of the F object and its byte order: the order in which its trailer repeats the length."""
    head = bytes(view[:FRAME])
    if head and head[0] != FILE_HEADER:
        raise _bad(view, 0, "a file header must begin with 46 (F)", "Is this a trail file?")
    # Most headers are big-endian, which the length of their signature shows.
    if bytes(view[3 * FRAME - 2 : 3 * FRAME]) == _SIGNED:
        length = ByteOrder.BIG.number(head[2:])
        if length >= 2 * FRAME and bytes(view[length - FRAME : length]) == _TRAILER + head[1:]:
            return length, ByteOrder.BIG
    # Some order must have a trailer. Without one, the header is unfinished if its stated length exceeds the data.
    unfinished = len(head) < FRAME
    # A length such as 03 03 is the same in both orders, so the order that fits the signature's
    # frame (u16 length 8: 00 08 or 08 00) is tried first.
    for order in sorted(ByteOrder, key=lambda order: not _is_signed(view, order)):
        length = order.number(head[2:])
        unfinished |= length > len(view) and _is_signed(view, order)
        tail = bytes(view[length - FRAME : length]) if length >= 2 * FRAME else b""
        if len(tail) == FRAME and tail == _TRAILER + head[1:]:
            return length, order
    if unfinished:
        raise TruncatedError("the input ends inside the file header", where=Where(offset=len(view)))
    raise _bad(view, 0, "the file header's trailer does not repeat its length")


def _is_signed(view: memoryview, order: ByteOrder) -> bool:
    """Return whether the frame of the signature (the third one in a header) has this byte order.

    Returns True also if that frame is incomplete or damaged, because then it excludes no order.
    """
    lengths = {each: each.raw(len(SIGNATURE), 2) for each in ByteOrder}
    length = bytes(view[3 * FRAME - 2 : 3 * FRAME])
    return length == lengths[order] or length not in lengths.values()


@dataclass(frozen=True, slots=True)
class _HeaderBytes:
    """The bytes of a file header and their byte order, to find the tokens in them."""

    view: memoryview
    order: ByteOrder

    def inner_tokens(self, start: int, stop: int) -> list[tuple[int, int, int, int]]:
        """Return (id, info, payload start, payload end) of the tokens that fill [start, stop)."""
        tokens = []
        view, offset, frame = self.view, start, _FRAMES[self.order]
        while offset < stop:
            if offset + FRAME > stop:
                raise _bad(view, offset, "a token does not fit into the one around it")
            code, info, length = frame.unpack_from(view, offset)
            end = offset + FRAME + length
            if end > stop:
                raise _bad(view, offset, "a token is longer than the one around it")
            tokens.append((code, info, offset + FRAME, end))
            offset = end
        return tokens


@lru_cache(_HEADERS)
def _decode_known_group(
    code: int, data: bytes, order: ByteOrder
) -> tuple[Any, tuple[UnknownHeaderField, ...]]:
    """Decode a group, and cache the result. Most groups are the same in all files of a trail."""
    return _decode_group(_HeaderBytes(memoryview(data), order), _GROUPS[code], (0, len(data)))


def _decode_group(
    walk: _HeaderBytes, group: HeaderFieldGroup, span: tuple[int, int]
) -> tuple[Any, tuple[UnknownHeaderField, ...]]:
    """Decode the fields of a file header's group. Return its value and its unknown fields."""
    # A field that is missing in the file keeps its default; an unset one becomes None.
    values: dict[str, Any] = dict(_ABSENT.get(group.code, {}))
    unknown: list[UnknownHeaderField] = []
    known = _FIELDS[group.code]
    for code, info, start, end in walk.inner_tokens(*span):
        field = known.get(code)
        payload = bytes(walk.view[start:end])
        if field is None or (info == UNSET and not _may_be_unset(group, field)):
            unknown.append(UnknownHeaderField(group.code, code, info, payload))
        elif info == UNSET:
            values[field.name] = None
        else:
            try:
                values[field.name] = field.codec.decode(payload, walk.order)
            except TrailgateError as error:
                raise error.with_place(offset=start, field=field.name, raw=payload) from None
    return group.kind(**values), tuple(unknown)


def _may_be_unset(group: HeaderFieldGroup, field: HeaderField) -> bool:
    """Return whether a field that is marked as unset in the file becomes None.

    If not, the marked field is kept among the unknown fields, and its attribute keeps its default.
    """
    return bool(field.codec.unset) and field.name in _OPTIONAL[group.code]


def find_other_number(header: FileHeader | None, number: int) -> int | None:
    """Return the sequence number in the file header if it differs from the number in the file's name.

    Returns None if they are equal, or if the file has no header or the header no number.
    """
    stated = None if header is None else header.trail.seqno
    return None if stated == number else stated


def _bad(view: memoryview, offset: int, problem: str, hint: str = "") -> DecodeError:
    raw = bytes(view[offset : offset + 64])
    return DecodeError(problem, where=Where(offset=offset, raw=raw), hint=hint)
