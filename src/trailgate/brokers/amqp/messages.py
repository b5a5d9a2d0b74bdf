"""Encoded messages of AMQP 1.0 as received messages: headers in the JMS meaning, ids, and bodies, in columns.

``find_messages`` (``kernels``) finds the spans of all fields, properties and bodies in one pass. Here the values of one kind are gathered as whole
columns, as JMS has them as strings, and headers and bodies become a window of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.brokers.amqp import kernels
from trailgate.brokers.headers import (
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
    last_of_each,
    repeat,
)
from trailgate.columnar.digits import LOWER, to_hex
from trailgate.columnar.gather import NO_NULLS, column, gather
from trailgate.columnar.rows import byte_view
from trailgate.messages.messages import RECEIVED

# AMQP 1.0, part 1, section 1.6: each kind's name, and the codes of its constructors.
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

# Part 3, sections 3.2.1 and 3.2.4: the fields of the header, then those of properties, and what each may be.
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


def _kinds() -> Octets:
    kinds = np.zeros(256, np.uint8)
    for kind, (_, codes) in TYPES.items():
        kinds[list(codes)] = kind
    kinds.setflags(write=False)
    return kinds


KINDS: Final = _kinds()


_NAMES: Final = np.frombuffer("".join(SECTION_NAMES).encode(), np.uint8)
_BOUNDS: Final = np.cumsum([0, *map(len, SECTION_NAMES)]).astype(np.int64)
_CELLS: Final = 24  # of a message; with more, arrays are made larger
_PIECES: Final = 2
MALFORMED: Final = (
    "what the broker sent is not a message as AMQP 1.0 encodes it: {} (byte {} of {})"
)
PROBLEMS: Final = {
    kernels.CUT: "a value ends after what it is in",
    kernels.NO_TYPE: "a type that does not exist",
    kernels.NO_SECTION: "a section that does not exist",
    kernels.ORDER: "a section that must not follow the one before it",
    kernels.NOT_LIST: "a section that is not a list",
    kernels.NOT_MAP: "a section that is not a map",
    kernels.COUNT: "the number of values in a list or a map is wrong",
    kernels.NO_NAME: "the name of a property is not a string",
    kernels.NOT_BINARY: "a section of data that is not binary",
}


@dataclass(frozen=True)
class EncodedMessages:
    """Messages: message i is ``data`` from ``places[i]`` to the next. Arrays of kernels/messages.py, a column each in their tables."""

    data: Octets
    places: Longs
    rows: Longs
    pieces: Longs
    cells: Longs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kinds(self) -> Longs:
        """Return what each body is, 0 where there is none."""
        return self.rows[:, kernels.BODY]

    @cached_property
    def problems(self) -> dict[int, str]:
        """Return what is wrong with messages that cannot be read."""
        found = np.flatnonzero(self.rows[:, kernels.PROBLEM])
        return {row: self._problem(row) for row in found.tolist()}

    def bodies(self) -> pa.BinaryArray:
        """Return the bodies: text or bytes as they are, other values as they are encoded, of a malformed message all of it."""
        begins, ends = self.pieces[:, kernels.BEGIN], self.pieces[:, kernels.END]
        joined = gather(self.data, begins, ends)
        first = self.rows[:, kernels.FIRST_PIECE]
        bounds, data = byte_view(joined)
        offsets = np.append(bounds[first], bounds[-1]).astype(np.int32)
        return column(offsets, data, NO_NULLS, text=False)

    def _problem(self, row: int) -> str:
        problem, place = self.rows[row, : kernels.BODY].tolist()
        size = int(self.places[row + 1] - self.places[row])
        return MALFORMED.format(PROBLEMS[problem], place, size)


def find_messages(data: Any, places: Longs) -> EncodedMessages:
    """Return what messages have; ``places`` are where each begins in the data, and the end."""
    octets, count = np.frombuffer(data, np.uint8), len(places) - 1
    rows, counts = np.empty(count * kernels.ROW, np.int64), np.zeros(kernels.COUNTS, np.int64)
    room = 1
    while True:
        pieces = np.empty(room * count * _PIECES * kernels.PIECE, np.int64)
        cells = np.empty(room * count * _CELLS * kernels.CELL, np.int64)
        arrays = octets, places, KINDS, _NAMES, _BOUNDS, rows, pieces, cells, counts
        if kernels.find_messages(*arrays) != kernels.FULL:
            break
        room *= 2
    return EncodedMessages(
        octets,
        places,
        rows.reshape(-1, kernels.ROW),
        pieces.reshape(-1, kernels.PIECE)[: counts[kernels.PIECES]],
        cells.reshape(-1, kernels.CELL)[: counts[kernels.CELLS]],
    )


_UUID: Final = r"\1-\2-\3-\4-\5"
_UUID_PARTS: Final = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class Cells:
    """Values of the fields and properties of messages; a row is one value."""

    def __init__(self, found: EncodedMessages) -> None:
        self.data = found.data
        columns = np.ascontiguousarray(found.cells.T)
        self.message, self.field, self.kind = columns[: kernels.NAME]
        self.number = columns[kernels.NUMBER]
        self._names, self._name_ends, self._starts, self._ends = columns[
            kernels.NAME : kernels.NUMBER
        ]

    def of(self, field: int) -> Longs:
        """Return the rows of a field."""
        return np.flatnonzero(self.field == field)

    def names(self, rows: Longs) -> tuple[pa.Array, Mask]:
        """Return names of properties, and which of them are not UTF-8."""
        return header_strings(self.data, self._names[rows], self._name_ends[rows])

    def contents(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of values."""
        return gather(self.data, self._starts[rows], self._ends[rows])

    def strings(self, rows: Longs) -> tuple[pa.Array, Mask]:
        """Return values as strings, and which of them cannot be read."""
        kinds = self.kind[rows]
        distinct = np.flatnonzero(np.bincount(kinds)).tolist() if len(rows) else [kernels.STRING]
        if len(distinct) == 1:
            return _STRINGS.get(distinct[0], _unreadable)(self, rows)
        parts = [np.flatnonzero(kinds == kind) for kind in distinct]
        found = [
            _STRINGS.get(kind, _unreadable)(self, rows[part])
            for kind, part in zip(distinct, parts, strict=True)
        ]
        order = np.argsort(np.concatenate(parts))
        strings = pa.concat_arrays([text for text, _ in found]).take(pa.array(order))
        return strings, np.concatenate([wrong for _, wrong in found])[order]


def _strings(cells: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    return header_strings(cells.data, cells._starts[rows], cells._ends[rows])  # noqa: SLF001  its own


def _sure(
    convert: Callable[[Cells, Longs], pa.Array],
) -> Callable[[Cells, Longs], tuple[pa.Array, Mask]]:
    """Return a conversion that never fails as one that reports which values it fails for."""
    return lambda cells, rows: (convert(cells, rows), np.zeros(len(rows), bool))


def _booleans(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows] != 0).cast(pa.string())


def _signed(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows]).cast(pa.string())


def _unsigned(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows].view(np.uint64)).cast(pa.string())


def _floats(cells: Cells, rows: Longs) -> pa.Array:
    bits = cells.number[rows].astype(np.uint32)
    return pa.array(bits.view(np.float32).astype(str), pa.string())


def _doubles(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows].view(np.float64).astype(str), pa.string())


def _uuids(cells: Cells, rows: Longs) -> pa.Array:
    digits = to_hex(cells.contents(rows), LOWER)
    return pc.replace_substring_regex(digits, _UUID_PARTS, _UUID)


def _binaries(cells: Cells, rows: Longs) -> pa.Array:
    return to_hex(cells.contents(rows))


def _characters(cells: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    points = cells.number[rows]
    half = (points >= _SURROGATES.start) & (points < _SURROGATES.stop)
    wrong = (points > _LAST_CHARACTER) | half
    strings = [chr(point) for point in np.where(wrong, ord("?"), points).tolist()]
    return pa.array(strings, pa.string()), wrong


def _unreadable(_: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    """Return empty strings: decimals, lists, maps and arrays are none, and JMS does not have them as properties."""
    return pa.repeat("", len(rows)), np.ones(len(rows), bool)


_STRINGS: Final[Mapping[int, Callable[[Cells, Longs], tuple[pa.Array, Mask]]]] = MappingProxyType(
    {
        kernels.BOOLEAN: _sure(_booleans),
        kernels.UNSIGNED: _sure(_unsigned),
        kernels.SIGNED: _sure(_signed),
        kernels.TIMESTAMP: _sure(_signed),
        kernels.FLOAT: _sure(_floats),
        kernels.DOUBLE: _sure(_doubles),
        kernels.CHAR: _characters,
        kernels.UUID: _sure(_uuids),
        kernels.BINARY: _sure(_binaries),
        kernels.STRING: _strings,
        kernels.SYMBOL: _strings,
    }
)


NO_BODY: Final = "the message has no text or bytes: it is a {}"
EMPTY: Final = "the message has no body"
BAD_FIELD: Final = "the field {} of the message is a {}"
BAD_PROPERTY: Final = "a property of the message is a {}: JMS does not have such"
REPEATED: Final = "the message has the property {!r} twice"
NATIVE_ID: Final = "__HDR_MESSAGE_ID"  # Artemis: the JMS id of a message that came by OpenWire
_NUMBERS: Final = {name: number for number, name in enumerate(FIELDS)}
_READABLE: Final = (kernels.STRING, kernels.SYMBOL, kernels.BINARY)
_JMS_NAMES: Final = frozenset({MESSAGE_ID, DELIVERY_COUNT, *(row.name for row in JMS_HEADERS)})
_TEXTUAL: Final = (kernels.STRING, kernels.SYMBOL, kernels.CHAR)


def received_messages(found: EncodedMessages, now: int) -> pa.RecordBatch:
    """Return encoded messages as rows of ``RECEIVED``; one that cannot be read has the reason as its fault."""
    bodies, fields = found.bodies(), _Fields(found)
    ids = fields.ids()
    headers = fields.headers(ids)
    faults = {**_body_faults(found.kinds, bodies), **fields.faults, **found.problems}
    columns = [ids, pa.repeat(now, len(found)), headers, bodies, _column(faults, len(found))]
    return pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


def _column(faults: Mapping[int, str], count: int) -> pa.Array:
    if not faults:
        return pa.nulls(count, pa.string())
    return pa.array([faults.get(row) for row in range(count)], pa.string())


def _body_faults(kinds: Longs, bodies: pa.BinaryArray) -> dict[int, str]:
    """Return why bodies are none: most are read."""
    sizes = np.asarray(pc.binary_length(bodies))
    bad = np.flatnonzero(~np.isin(kinds, _READABLE) | (sizes == 0))
    return {row: _body_fault(int(kinds[row])) for row in bad.tolist()}


def _body_fault(kind: int) -> str:
    if kind in (kernels.UNKNOWN, kernels.NULL, *_READABLE):
        return EMPTY
    return NO_BODY.format(TYPES[kind][0])


class _Fields:
    """The headers of messages, in their JMS meaning; ``faults`` are of those that have one that cannot be read."""

    def __init__(self, found: EncodedMessages) -> None:
        self._cells, self._count = Cells(found), len(found)
        self.faults: dict[int, str] = {}

    def ids(self) -> pa.Array:
        """Return the id of each message, null where it has none."""
        rows = self._check("message-id")
        return self._by_message(rows, self._strings(rows))

    def headers(self, ids: pa.Array) -> pa.MapArray:
        """Return the headers as JMS names them, without those that a JMS client does not see."""
        parts = [part for row in JMS_HEADERS for part in self._field(row)]
        parts.append(self._delivery_count())
        plain, native = self._properties()
        if native is not None:
            ids = pc.coalesce(native, ids)
        rows = np.flatnonzero(np.asarray(ids.is_valid()))
        parts = [plain, *parts, repeat(MESSAGE_ID, rows, ids.take(pa.array(rows)))]
        if self.faults or not _JMS_NAMES.isdisjoint(pc.unique(plain.names).to_pylist()):
            parts = [last_of_each(parts)]  # properties with names of JMS headers are not seen
        return header_maps(parts, self._count)

    def _check(self, field: str) -> Longs:
        """Return the cells of a field, without those whose type it must not have."""
        rows = self._cells.of(_NUMBERS[field])
        kinds = self._cells.kind[rows]
        right = np.isin(kinds, FIELDS[field])
        if not right.all():
            for row, kind in zip(rows[~right].tolist(), kinds[~right].tolist(), strict=True):
                self._fault(row, BAD_FIELD.format(field, TYPES[kind][0]))
        return rows[right]

    def _fault(self, row: int, text: str) -> None:
        self.faults.setdefault(int(self._cells.message[row]), text)

    def _strings(self, rows: Longs) -> pa.Array:
        """Return the strings of cells; those that have none are a fault of their messages."""
        strings, wrong = self._cells.strings(rows)
        for row in rows[wrong].tolist():
            kind = int(self._cells.kind[row])
            text = BAD_HEADER if kind in _TEXTUAL else BAD_PROPERTY.format(TYPES[kind][0])
            self._fault(row, text)
        return strings

    def _by_message(self, rows: Longs, strings: pa.Array) -> pa.Array:
        """Return the text of each message, null where it has none."""
        places = np.full(self._count, -1)
        places[self._cells.message[rows]] = np.arange(len(rows))
        return strings.take(pa.array(places, mask=places < 0))

    def _field(self, row: JmsHeader) -> list[HeaderLines]:
        """Return a JMS header of the messages that have its field, and of those that do not where it has a value then."""
        rows = self._check(row.amqp)
        conversion = _CONVERSIONS.get(row.amqp)
        if conversion is None:
            strings = self._strings(rows)
            known = np.asarray(pc.binary_length(strings)) > 0
        else:
            known, strings = conversion(self._cells.number[rows])
        if not known.all():
            rows, strings = rows[known], strings.filter(pa.array(known))
        message = self._cells.message[rows]
        found = [repeat(row.name, message, strings)]
        if row.absent is not None and len(rows) < self._count:
            lacking = np.ones(self._count, bool)
            lacking[message] = False
            found.append(repeat(row.name, np.flatnonzero(lacking), row.absent))
        return found

    def _delivery_count(self) -> HeaderLines:
        """Return how often each message was sent to somebody, this time included."""
        rows = self._check("delivery-count")
        counts = np.ones(self._count, np.int64)
        counts[self._cells.message[rows]] += self._cells.number[rows]
        return repeat(DELIVERY_COUNT, np.arange(self._count), pa.array(counts))

    def _properties(self) -> tuple[HeaderLines, pa.Array | None]:
        """Return the properties that a JMS client sees, and the ids among the others."""
        cells, rows = self._cells, self._cells.of(kernels.PROPERTY)
        names, wrong = cells.names(rows)
        for row in rows[wrong].tolist():
            self._fault(row, BAD_HEADER)
        coded = names.dictionary_encode()
        distinct, code = coded.dictionary.to_pylist(), np.asarray(coded.indices).astype(np.int64)
        self._check_repeated(cells.message[rows], code, distinct)
        is_there = cells.kind[rows] != kernels.NULL
        native = None
        if NATIVE_ID in distinct:
            own = rows[is_there & (code == distinct.index(NATIVE_ID))]
            native = self._by_message(own, self._strings(own))
        hidden = np.asarray([name.startswith(HIDDEN_PREFIXES) for name in distinct], bool)
        is_there &= ~hidden[code]
        rows, code = rows[is_there], code[is_there]
        own_names = coded.dictionary.take(pa.array(code))
        return HeaderLines(cells.message[rows], own_names, self._strings(rows)), native

    def _check_repeated(self, message: Longs, code: Longs, names: Sequence[str]) -> None:
        """Note messages that have a property twice: a map must not (AMQP 1.0, 1.6.23)."""
        pairs, counts = np.unique(message * max(1, len(names)) + code, return_counts=True)
        for pair in pairs[counts > 1].tolist():
            row, name = divmod(pair, len(names))
            self.faults.setdefault(row, REPEATED.format(names[name]))


def _all(numbers: Longs) -> Mask:
    return np.ones(len(numbers), bool)


def _mode(numbers: Longs) -> tuple[Mask, pa.Array]:
    return _all(numbers), pc.if_else(pa.array(numbers != 0), PERSISTENT, NON_PERSISTENT)


def _flag(numbers: Longs) -> tuple[Mask, pa.Array]:
    return _all(numbers), pa.array(numbers != 0).cast(pa.string())


def _digits(numbers: Longs) -> tuple[Mask, pa.Array]:
    return _all(numbers), pa.array(numbers).cast(pa.string())


def _known(numbers: Longs) -> tuple[Mask, pa.Array]:
    """Return digits; 0 is the same as none."""
    return numbers != 0, pa.array(numbers).cast(pa.string())


# Of fields that are not strings: which are there, and their JMS form.
_CONVERSIONS: Final[Mapping[str, Callable[[Longs], tuple[Mask, pa.Array]]]] = MappingProxyType(
    {
        "creation-time": _known,
        "absolute-expiry-time": _known,
        "durable": _mode,
        "delivery-count": _flag,
        "priority": _digits,
        "group-sequence": _known,
    }
)
