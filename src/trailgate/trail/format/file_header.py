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

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from trailgate.arrays import octets
from trailgate.errors import DecodeError, EncodeError, TrailgateError, TruncatedError, Where
from trailgate.trail.format.header_fields import (
    COUNTED,
    CSN,
    HISTORY,
    HISTORY_ID,
    I32,
    RAW,
    STRING,
    TIME,
    U8,
    U16,
    U32,
    U64,
    HeaderFieldCodec,
)
from trailgate.trail.format.tokens import (
    FILE_HEADER,
    FRAME,
    MAX_LENGTH,
    NORMAL,
    TRAILER,
    UNSET,
    ByteOrder,
    RecordToken,
    encode_outer_object,
    read_tokens_between,
    token,
)

_HEADERS: Final = 64  # headers, and groups of headers, that are remembered
LOGBSN_LEVEL: Final = 4  # 12.x headers name it (trail format §4.1)
SIGNATURE: Final = bytes.fromhex("47 47 0D 0A 54 4C 0A 0D")  # GG CR LF TL LF CR
_SIGNED: Final = ByteOrder.BIG.raw(len(SIGNATURE), 2)  # its length in the frame before it
_TRAILER: Final = bytes((TRAILER,))

ORACLE: Final = 7  # a vendor
MISNUMBERED: Final = "the header states file number {}, but the name {}: another file of the trail was copied or renamed to this name"

# The default sequence number is 0, the first file; a header without the field must not claim that.
_ABSENT: Final = {0x30: {"seqno": None}}
_FRAMES: Final = {order: Struct(f"{order.value}BBH") for order in ByteOrder}


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
    """Encode a decoded or new file header as an F object: the reverse of `decode_header`. Raises EncodeError if a value does not fit."""
    order = header.order
    groups = (token(group.code, _group_payload(header, group), order=order) for group in GROUPS)
    inner = b"".join(groups)
    for field in header.unknown:
        if field.code is None:
            inner += token(field.group, field.payload, field.info, order)
    if len(inner) + 2 * FRAME > MAX_LENGTH:
        raise EncodeError(f"a file header of {len(inner) + 2 * FRAME} bytes is too long")
    return encode_outer_object(FILE_HEADER, inner, NORMAL, order)


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
    known = b"".join(encode_header_field(header, value, field) for field in group.fields)
    more = (
        token(field.code, field.payload, field.info, header.order)
        for field in header.unknown
        if field.group == group.code and field.code is not None
    )
    return known + b"".join(more)


def encode_header_field(header: FileHeader, values: Any, field: HeaderField) -> bytes:
    """Encode one field of a `FileHeader` as the token that is in the header. ``values`` are the values of its group."""
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
    """Return the sequence number of a `FileHeader` if it differs from the number in the file's name, otherwise None.

    Returns None if they are equal, or if the file has no header or the header no number.
    """
    stated = None if header is None else header.trail.seqno
    return None if stated == number else stated


def _bad(view: memoryview, offset: int, problem: str, hint: str = "") -> DecodeError:
    raw = bytes(view[offset : offset + 64])
    return DecodeError(problem, where=Where(offset=offset, raw=raw), hint=hint)


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


class HeaderGroup(NamedTuple):
    """A group of a file header: its own token, its fields, and the offset of each field's payload."""

    token: RecordToken
    fields: tuple[RecordToken, ...]
    starts: tuple[int, ...]


def header_groups(raw: bytes, order: ByteOrder) -> Iterator[HeaderGroup]:
    """Yield the groups of a file header and their fields as undecoded tokens. Raises DecodeError if tokens do not fill it exactly."""
    data = octets(raw)
    for group, start in read_tokens_between(data, (FRAME, len(raw) - FRAME), order):
        fields = read_tokens_between(data, (start, start + len(group.payload)), order)
        yield HeaderGroup(group, tuple(field for field, _ in fields), tuple(at for _, at in fields))
