"""Encoded messages of AMQP 1.0 as received messages: headers in the JMS meaning, ids, and bodies, in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.brokers.amqp.cells import Cells
from trailgate.brokers.amqp.encoded import EncodedMessages
from trailgate.brokers.amqp.kernels import messages as kernels
from trailgate.brokers.amqp.kernels import values
from trailgate.brokers.amqp.types import FIELDS, TYPES
from trailgate.brokers.header_maps import HeaderLines, header_maps, last_of_each, repeated
from trailgate.brokers.header_texts import BAD_HEADER
from trailgate.brokers.jms_headers import (
    DELIVERY_COUNT,
    HIDDEN_PREFIXES,
    JMS_HEADERS,
    MESSAGE_ID,
    NON_PERSISTENT,
    PERSISTENT,
    JmsHeader,
)
from trailgate.messages.received import RECEIVED

NO_BODY: Final = "the message has no text or bytes: it is a {}"
EMPTY: Final = "the message has no body"
BAD_FIELD: Final = "the field {} of the message is a {}"
BAD_PROPERTY: Final = "a property of the message is a {}: JMS does not have such"
REPEATED: Final = "the message has the property {!r} twice"
NATIVE_ID: Final = "__HDR_MESSAGE_ID"  # Artemis: the JMS id of a message that came by OpenWire
_NUMBERS: Final = {name: number for number, name in enumerate(FIELDS)}
_READABLE: Final = (values.STRING, values.SYMBOL, values.BINARY)
_JMS_NAMES: Final = frozenset({MESSAGE_ID, DELIVERY_COUNT, *(row.name for row in JMS_HEADERS)})
_TEXTUAL: Final = (values.STRING, values.SYMBOL, values.CHAR)


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
    if kind in (values.UNKNOWN, values.NULL, *_READABLE):
        return EMPTY
    return NO_BODY.format(TYPES[kind][0])


class _Fields:
    """The headers of messages, in their JMS meaning; ``faults`` are of those that have one that cannot be read."""

    def __init__(self, found: EncodedMessages) -> None:
        self._cells, self._count = Cells(found), len(found)
        self.faults: dict[int, str] = {}

    def ids(self) -> pa.Array:
        """Return the id of each message, null where it has none."""
        rows = self._checked("message-id")
        return self._by_message(rows, self._texts(rows))

    def headers(self, ids: pa.Array) -> pa.MapArray:
        """Return the headers as JMS names them, without those that a JMS client does not see."""
        parts = [part for row in JMS_HEADERS for part in self._field(row)]
        parts.append(self._delivery_count())
        plain, native = self._properties()
        if native is not None:
            ids = pc.coalesce(native, ids)
        rows = np.flatnonzero(np.asarray(ids.is_valid()))
        parts = [plain, *parts, repeated(MESSAGE_ID, rows, ids.take(pa.array(rows)))]
        if self.faults or not _JMS_NAMES.isdisjoint(pc.unique(plain.names).to_pylist()):
            parts = [last_of_each(parts)]  # properties with names of JMS headers are not seen
        return header_maps(parts, self._count)

    def _checked(self, field: str) -> Longs:
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

    def _texts(self, rows: Longs) -> pa.Array:
        """Return the texts of cells; those that have none are a fault of their messages."""
        texts, wrong = self._cells.texts(rows)
        for row in rows[wrong].tolist():
            kind = int(self._cells.kind[row])
            text = BAD_HEADER if kind in _TEXTUAL else BAD_PROPERTY.format(TYPES[kind][0])
            self._fault(row, text)
        return texts

    def _by_message(self, rows: Longs, texts: pa.Array) -> pa.Array:
        """Return the text of each message, null where it has none."""
        places = np.full(self._count, -1)
        places[self._cells.message[rows]] = np.arange(len(rows))
        return texts.take(pa.array(places, mask=places < 0))

    def _field(self, row: JmsHeader) -> list[HeaderLines]:
        """Return a JMS header of the messages that have its field, and of those that do not where it has a value then."""
        rows = self._checked(row.amqp)
        conversion = _CONVERSIONS.get(row.amqp)
        if conversion is None:
            texts = self._texts(rows)
            known = np.asarray(pc.binary_length(texts)) > 0
        else:
            known, texts = conversion(self._cells.number[rows])
        if not known.all():
            rows, texts = rows[known], texts.filter(pa.array(known))
        message = self._cells.message[rows]
        found = [repeated(row.name, message, texts)]
        if row.absent is not None and len(rows) < self._count:
            lacking = np.ones(self._count, bool)
            lacking[message] = False
            found.append(repeated(row.name, np.flatnonzero(lacking), row.absent))
        return found

    def _delivery_count(self) -> HeaderLines:
        """Return how often each message was sent to somebody, this time included."""
        rows = self._checked("delivery-count")
        counts = np.ones(self._count, np.int64)
        counts[self._cells.message[rows]] += self._cells.number[rows]
        return repeated(DELIVERY_COUNT, np.arange(self._count), pa.array(counts))

    def _properties(self) -> tuple[HeaderLines, pa.Array | None]:
        """Return the properties that a JMS client sees, and the ids among the others."""
        cells, rows = self._cells, self._cells.of(kernels.PROPERTY)
        names, wrong = cells.names(rows)
        for row in rows[wrong].tolist():
            self._fault(row, BAD_HEADER)
        coded = names.dictionary_encode()
        distinct, code = coded.dictionary.to_pylist(), np.asarray(coded.indices).astype(np.int64)
        self._check_repeated(cells.message[rows], code, distinct)
        is_there = cells.kind[rows] != values.NULL
        native = None
        if NATIVE_ID in distinct:
            own = rows[is_there & (code == distinct.index(NATIVE_ID))]
            native = self._by_message(own, self._texts(own))
        hidden = np.asarray([name.startswith(HIDDEN_PREFIXES) for name in distinct], bool)
        is_there &= ~hidden[code]
        rows, code = rows[is_there], code[is_there]
        own_names = coded.dictionary.take(pa.array(code))
        return HeaderLines(cells.message[rows], own_names, self._texts(rows)), native

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


# Of fields that are not texts: which are there, and their JMS form.
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
