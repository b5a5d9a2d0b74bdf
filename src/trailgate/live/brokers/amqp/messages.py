"""Decode AMQP 1.0 messages into columns: JMS headers, ids and bodies.

One pass over the bytes of a window (``kernels.find_messages``) finds the offsets of all header
fields, properties and bodies. This module then gathers the values of each type as whole columns and
converts them to the strings that JMS defines. The result is a batch of received messages. If a
message cannot be decoded, its body is its bytes, and it gets a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.hex_digits import LOWER, to_hex
from trailgate.columnar.strings import NO_NULLS, build_binary_column, byte_view
from trailgate.live.brokers.amqp import kernels
from trailgate.live.brokers.headers import (
    BAD_HEADER,
    DELIVERY_COUNT,
    HIDDEN_PREFIXES,
    JMS_HEADERS,
    MESSAGE_ID,
    NON_PERSISTENT,
    PERSISTENT,
    HeaderLines,
    JmsHeader,
    header_maps,
    header_strings,
    keep_last_headers,
    message_ids,
    repeat_header,
    spread_values,
)
from trailgate.messages.message_batch import RECEIVED

# AMQP 1.0, part 1, section 1.6: the name of each type, and the codes of its constructors.
TYPES: Final[Mapping[int, tuple[str, tuple[int, ...]]]] = MappingProxyType(
    {
        kernels.NULL: ("null", (0x40,)),
        kernels.BOOLEAN: ("boolean", (0x41, 0x42, 0x56)),
        # ubyte, ushort, uint and ulong
        kernels.UNSIGNED: ("number", (0x50, 0x60, 0x70, 0x52, 0x43, 0x80, 0x53, 0x44)),
        # byte, short, int and long
        kernels.SIGNED: ("number", (0x51, 0x61, 0x71, 0x54, 0x81, 0x55)),
        kernels.TIMESTAMP: ("timestamp", (0x83,)),
        kernels.FLOAT: ("float", (0x72,)),
        kernels.DOUBLE: ("double", (0x82,)),
        kernels.CHAR: ("char", (0x73,)),
        kernels.DECIMAL: ("decimal", (0x74, 0x84, 0x94)),
        kernels.UUID: ("uuid", (0x98,)),
        kernels.BINARY: ("binary", (0xA0, 0xB0)),
        kernels.STRING: ("string", (0xA1, 0xB1)),
        kernels.SYMBOL: ("symbol", (0xA3, 0xB3)),
        kernels.LIST: ("list", (0x45, 0xC0, 0xD0)),
        kernels.MAP: ("map", (0xC1, 0xD1)),
        kernels.ARRAY: ("array", (0xE0, 0xF0)),
        kernels.DESCRIBED: ("described value", ()),
    }
)

# Part 3, section 3.2, in the order of their numbers.
SECTION_NAMES: Final = (
    "amqp:header:list",
    "amqp:delivery-annotations:map",
    "amqp:message-annotations:map",
    "amqp:properties:list",
    "amqp:application-properties:map",
    "amqp:data:binary",
    "amqp:amqp-sequence:list",
    "amqp:amqp-value:*",
    "amqp:footer:map",
)

# Part 3, sections 3.2.1 and 3.2.4: the header's fields, then the properties' fields, in the order of
# their numbers, each with the types that it may have.
_ID: Final = (kernels.STRING, kernels.UNSIGNED, kernels.UUID, kernels.BINARY)
_TEXT: Final = (kernels.STRING,)
FIELDS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "durable": (kernels.BOOLEAN,),
        "priority": (kernels.UNSIGNED,),
        "ttl": (kernels.UNSIGNED,),
        "first-acquirer": (kernels.BOOLEAN,),
        "delivery-count": (kernels.UNSIGNED,),
        "message-id": _ID,
        "user-id": (kernels.BINARY,),
        "to": _TEXT,
        "subject": _TEXT,
        "reply-to": _TEXT,
        "correlation-id": _ID,
        "content-type": (kernels.SYMBOL,),
        "content-encoding": (kernels.SYMBOL,),
        "absolute-expiry-time": (kernels.TIMESTAMP,),
        "creation-time": (kernels.TIMESTAMP,),
        "group-id": _TEXT,
        "group-sequence": (kernels.UNSIGNED,),
        "reply-to-group-id": _TEXT,
    }
)


_CELLS: Final = 24  # expected fields and properties of a message; the arrays grow if there are more
_PIECES: Final = 2
MALFORMED: Final = "the broker sent a message that is not valid AMQP 1.0: {} (byte {} of {})"
# By the code that the kernel returns.
PROBLEMS: Final = {
    kernels.CUT: "a value is longer than its section",
    kernels.NO_TYPE: "a type that does not exist",
    kernels.NO_SECTION: "a section that does not exist",
    kernels.ORDER: "a section that must not follow the one before it",
    kernels.NOT_LIST: "a section that is not a list",
    kernels.NOT_MAP: "a section that is not a map",
    kernels.COUNT: "the number of values in a list or a map is wrong",
    kernels.NO_NAME: "the name of a property is not a string",
    kernels.NOT_BINARY: "a section of data that is not binary",
}
NO_BODY: Final = "the body is neither text nor bytes: it is a {}"
EMPTY: Final = "the message has no body"
BAD_FIELD: Final = "the field {} of the message is a {}"
BAD_PROPERTY: Final = "a property of the message is a {}: JMS does not support it"
REPEATED: Final = "the message has the property {!r} twice"
NATIVE_ID: Final = "__HDR_MESSAGE_ID"  # Artemis: the JMS id of a message that came by OpenWire
_NUMBERS: Final = {name: number for number, name in enumerate(FIELDS)}
_READABLE: Final = (kernels.STRING, kernels.SYMBOL, kernels.BINARY)
_JMS_NAMES: Final = frozenset({MESSAGE_ID, DELIVERY_COUNT, *(row.name for row in JMS_HEADERS)})
_TEXTUAL: Final = (kernels.STRING, kernels.SYMBOL, kernels.CHAR)
_UUID: Final = r"\1-\2-\3-\4-\5"
_UUID_PARTS: Final = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
# Conversions that cannot fail, from the numbers or the bytes of values of one type to strings.
_OF_NUMBERS: Final[Mapping[int, Callable[[Longs], Any]]] = MappingProxyType(
    {
        kernels.BOOLEAN: lambda numbers: numbers != 0,
        kernels.UNSIGNED: lambda numbers: numbers.view(np.uint64),
        kernels.SIGNED: lambda numbers: numbers,
        kernels.TIMESTAMP: lambda numbers: numbers,
        kernels.FLOAT: lambda numbers: numbers.astype(np.uint32).view(np.float32).astype(str),
        kernels.DOUBLE: lambda numbers: numbers.view(np.float64).astype(str),
    }
)
# How numeric fields become JMS headers. In some, 0 means that the field is not set.
_CONVERSIONS: Final[Mapping[str, Callable[[Longs], Any]]] = MappingProxyType(
    {
        "creation-time": lambda numbers: numbers,
        "absolute-expiry-time": lambda numbers: numbers,
        "durable": lambda numbers: np.where(numbers != 0, PERSISTENT, NON_PERSISTENT),
        "delivery-count": lambda numbers: numbers != 0,
        "priority": lambda numbers: numbers,
        "group-sequence": lambda numbers: numbers,
    }
)
_ZERO_IS_NONE: Final = frozenset({"creation-time", "absolute-expiry-time", "group-sequence"})


def _kinds() -> Octets:
    kinds = np.zeros(256, np.uint8)
    for kind, (_, codes) in TYPES.items():
        kinds[list(codes)] = kind
    kinds.setflags(write=False)
    return kinds


_CODES: Final = kernels.AmqpCodes(
    kinds=_kinds(),
    names=np.frombuffer("".join(SECTION_NAMES).encode(), np.uint8),
    bounds=np.cumsum([0, *map(len, SECTION_NAMES)]).astype(np.int64),
)


@dataclass(frozen=True)
class EncodedMessages:
    """AMQP messages and the offsets found in them: message i is ``data[places[i]:places[i + 1]]``.

    ``rows``, ``pieces`` and ``cells`` are the tables of ``kernels.MessageTables``, now with two
    dimensions: they have a row for each message, for each piece of a body, and for each header
    field or property.
    """

    data: Octets
    places: Longs
    rows: Longs
    pieces: Longs
    cells: Longs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def problems(self) -> dict[int, str]:
        """The problem of each malformed AMQP message, by row."""
        return {
            row: self._problem(row)
            for row in np.flatnonzero(self.rows[:, kernels.PROBLEM]).tolist()
        }

    def bodies(self) -> pa.BinaryArray:
        """Return the bodies of AMQP messages as one binary column.

        A text or binary body is returned as its bytes, any other AMQP value in its encoded form.
        The body of a malformed message is the complete message.
        """
        begins, ends = self.pieces[:, kernels.BEGIN], self.pieces[:, kernels.END]
        joined = gather(self.data, begins, ends)
        first = self.rows[:, kernels.FIRST_PIECE]
        bounds, data = byte_view(joined)
        # A body may consist of several pieces. All pieces are joined in order, so a body starts
        # where its first piece does, and ends where the next body starts.
        offsets = np.append(bounds[first], bounds[-1]).astype(np.int32)
        return build_binary_column(offsets, data, NO_NULLS, text=False)

    def _problem(self, row: int) -> str:
        problem, place = self.rows[row, : kernels.BODY].tolist()
        size = int(self.places[row + 1] - self.places[row])
        return MALFORMED.format(PROBLEMS[problem], place, size)


def index_messages(data: Any, places: Longs) -> EncodedMessages:
    """Find the fields and bodies of AMQP messages, as ``EncodedMessages`` with their offsets.

    ``places`` are the offsets of the messages, and the end of the last one. The number of fields is
    not known in advance: if the arrays are too small, their size is doubled and the search is
    repeated.
    """
    octets, count = np.frombuffer(data, np.uint8), len(places) - 1
    rows, counts = np.empty(count * kernels.ROW, np.int64), np.zeros(kernels.COUNTS, np.int64)
    room = 1
    while True:
        pieces = np.empty(room * count * _PIECES * kernels.PIECE, np.int64)
        cells = np.empty(room * count * _CELLS * kernels.CELL, np.int64)
        into = kernels.MessageTables(rows, pieces, cells, counts)
        if kernels.find_messages(octets, places, _CODES, into) != kernels.FULL:
            break
        room *= 2
    return EncodedMessages(
        octets,
        places,
        rows.reshape(-1, kernels.ROW),
        pieces.reshape(-1, kernels.PIECE)[: counts[kernels.PIECES]],
        cells.reshape(-1, kernels.CELL)[: counts[kernels.CELLS]],
    )


def received_messages(found: EncodedMessages, now: int) -> pa.RecordBatch:
    """Convert AMQP messages to rows of ``RECEIVED``.

    The column ``fault`` has the reason why a message cannot be read, or null. ``now`` is the time
    of receipt in microseconds since 1970 UTC.
    """
    bodies, fields, kinds = found.bodies(), _Fields(found), found.rows[:, kernels.BODY]
    ids = fields.ids()
    headers = fields.headers(ids)
    sizes = np.asarray(pc.binary_length(bodies))
    bad = np.flatnonzero(~np.isin(kinds, _READABLE) | (sizes == 0))
    empty = {row: _body_fault(int(kinds[row])) for row in bad.tolist()}
    faults = {**empty, **fields.faults, **found.problems}
    column = [faults.get(row) for row in range(len(found))] if faults else [None] * len(found)
    columns = [ids, pa.repeat(now, len(found)), headers, bodies, pa.array(column, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


def _body_fault(kind: int) -> str:
    if kind in (kernels.UNKNOWN, kernels.NULL, *_READABLE):
        return EMPTY
    return NO_BODY.format(TYPES[kind][0])


def _uuids(raw: pa.BinaryArray) -> pa.Array:
    return pc.replace_substring_regex(to_hex(raw, LOWER), _UUID_PARTS, _UUID)


def _characters(points: Longs) -> tuple[pa.Array, Mask]:
    # Half a surrogate pair is a code point, but no character.
    half = (points >= _SURROGATES.start) & (points < _SURROGATES.stop)
    wrong = (points > _LAST_CHARACTER) | half
    strings = [chr(point) for point in np.where(wrong, ord("?"), points).tolist()]
    return pa.array(strings, pa.string()), wrong


_OF_BYTES: Final[Mapping[int, Callable[[pa.BinaryArray], pa.Array]]] = MappingProxyType(
    {kernels.UUID: _uuids, kernels.BINARY: to_hex}
)


class _Fields:
    """Converts the header fields and properties of AMQP messages to JMS headers.

    A *cell* is one field or property of one message. The attributes are columns with an element per
    cell: its message, field, type, and so on. ``faults`` maps the number of a message to the
    problem of one of its cells.
    """

    def __init__(self, found: EncodedMessages) -> None:
        self._data, self._count = found.data, len(found)
        columns = np.ascontiguousarray(found.cells.T)
        self._message, self._fields, self._kind = columns[: kernels.NAME]
        self._number = columns[kernels.NUMBER]
        self._names, self._name_ends, self._starts, self._ends = columns[
            kernels.NAME : kernels.NUMBER
        ]
        self.faults: dict[int, str] = {}

    def ids(self) -> pa.Array:
        """Return the AMQP message-id of each message as a string, or null if it has none."""
        rows = self._check("message-id")
        return spread_values(self._message[rows], self._strings(rows), self._count)

    def headers(self, ids: pa.Array) -> pa.MapArray:
        """Return the header fields and properties of AMQP messages as maps of JMS headers.

        Those that a JMS client does not expose are excluded. ``ids`` become the headers
        JMSMessageID, unless a property ``NATIVE_ID`` has the JMS id.
        """
        parts = [part for row in JMS_HEADERS for part in self._field(row)]
        parts.append(self._delivery_count())
        plain, native = self._properties()
        if native is not None:
            ids = pc.coalesce(native, ids)
        parts = [plain, *parts, message_ids(ids)]
        if self.faults or not _JMS_NAMES.isdisjoint(pc.unique(plain.names).to_pylist()):
            parts = [keep_last_headers(parts)]  # a JMS header overrides a property of the same name
        return header_maps(parts, self._count)

    def _check(self, field: str) -> Longs:
        """Return the cells of an AMQP header field that have an allowed type.

        The messages of the other cells get a fault.
        """
        rows = np.flatnonzero(self._fields == _NUMBERS[field])
        kinds = self._kind[rows]
        right = np.isin(kinds, FIELDS[field])
        if not right.all():
            for row, kind in zip(rows[~right].tolist(), kinds[~right].tolist(), strict=True):
                self._fault(row, BAD_FIELD.format(field, TYPES[kind][0]))
        return rows[right]

    def _fault(self, row: int, text: str) -> None:
        self.faults.setdefault(int(self._message[row]), text)

    def _strings(self, rows: Longs) -> pa.Array:
        """Convert AMQP cells to strings. If a value has no string form, its message gets a fault."""
        kinds = self._kind[rows]
        distinct = np.flatnonzero(np.bincount(kinds)).tolist() if len(rows) else [kernels.STRING]
        parts = [np.flatnonzero(kinds == kind) for kind in distinct]
        converted = [
            self._strings_of(kind, rows[part]) for kind, part in zip(distinct, parts, strict=True)
        ]
        if len(converted) == 1:
            return converted[0]
        # The parts hold the positions of each type, one type after the other: their sort order puts
        # the converted values back into the order of ``rows``.
        order = np.argsort(np.concatenate(parts))
        return pa.concat_arrays(converted).take(pa.array(order))

    def _strings_of(self, kind: int, rows: Longs) -> pa.Array:
        """Convert AMQP cells, whose values all have the type ``kind``, to strings."""
        if kind in _OF_NUMBERS:
            return pa.array(_OF_NUMBERS[kind](self._number[rows])).cast(pa.string())
        starts, ends = self._starts[rows], self._ends[rows]
        if kind in _OF_BYTES:
            return _OF_BYTES[kind](gather(self._data, starts, ends))
        if kind == kernels.CHAR:
            strings, wrong = _characters(self._number[rows])
        elif kind in _TEXTUAL:
            strings, wrong = header_strings(self._data, starts, ends)
        else:  # decimals, lists, maps and arrays: JMS does not have them as properties
            strings, wrong = pa.repeat("", len(rows)), np.ones(len(rows), bool)
        text = BAD_HEADER if kind in _TEXTUAL else BAD_PROPERTY.format(TYPES[kind][0])
        for row in rows[wrong].tolist():
            self._fault(row, text)
        return strings

    def _field(self, row: JmsHeader) -> list[HeaderLines]:
        """Build one JMS header of AMQP messages from its AMQP field, with its default for other messages."""
        rows = self._check(row.amqp)
        conversion = _CONVERSIONS.get(row.amqp)
        if conversion is None:
            strings = self._strings(rows)
            known = np.asarray(pc.binary_length(strings)) > 0
        else:
            numbers = self._number[rows]
            strings = pa.array(conversion(numbers)).cast(pa.string())
            known = (numbers != 0) | (row.amqp not in _ZERO_IS_NONE)
        if not known.all():
            rows, strings = rows[known], strings.filter(pa.array(known))
        message = self._message[rows]
        return [repeat_header(row.name, message, strings), row.default_lines(message, self._count)]

    def _delivery_count(self) -> HeaderLines:
        """Build the JMSXDeliveryCount headers of AMQP messages. This delivery is counted too."""
        rows = self._check("delivery-count")
        counts = np.ones(self._count, np.int64)
        counts[self._message[rows]] += self._number[rows]
        return repeat_header(DELIVERY_COUNT, np.arange(self._count), pa.array(counts))

    def _properties(self) -> tuple[HeaderLines, pa.Array | None]:
        """Return the AMQP application properties that a JMS client exposes, and ids from a hidden property.

        The ids are those in the property ``NATIVE_ID``, null for messages without it. They are None
        if no message has it.
        """
        rows = np.flatnonzero(self._fields == kernels.PROPERTY)
        names, wrong = header_strings(self._data, self._names[rows], self._name_ends[rows])
        for row in rows[wrong].tolist():
            self._fault(row, BAD_HEADER)
        # The same few names repeat in every message: code[i] is the index of property rows[i]'s name.
        coded = names.dictionary_encode()
        distinct, code = coded.dictionary.to_pylist(), np.asarray(coded.indices).astype(np.int64)
        self._check_repeated(self._message[rows], code, distinct)
        is_there = self._kind[rows] != kernels.NULL
        native = None
        if NATIVE_ID in distinct:
            own = rows[is_there & (code == distinct.index(NATIVE_ID))]
            native = spread_values(self._message[own], self._strings(own), self._count)
        hidden = np.asarray([name.startswith(HIDDEN_PREFIXES) for name in distinct], bool)
        is_there &= ~hidden[code]
        rows, code = rows[is_there], code[is_there]
        own_names = coded.dictionary.take(pa.array(code))
        return HeaderLines(self._message[rows], own_names, self._strings(rows)), native

    def _check_repeated(self, message: Longs, code: Longs, names: Sequence[str]) -> None:
        """Add a fault to AMQP messages that have a property twice.

        Property i belongs to message ``message[i]`` and has the name ``names[code[i]]``. The keys
        of a map must be unique (AMQP 1.0, 1.6.23).
        """
        # A number for each pair of message and name, message * names + name. Without names there are
        # no pairs, but the factor must not be 0.
        pairs, counts = np.unique(message * max(1, len(names)) + code, return_counts=True)
        for pair in pairs[counts > 1].tolist():
            row, name = divmod(pair, len(names))
            self.faults.setdefault(row, REPEATED.format(names[name]))
