"""Convert STOMP's MESSAGE frames to received messages in columns: JMS headers, ids and bodies."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.gather import gather
from trailgate.live.brokers.headers import (
    BAD_HEADER,
    CONVERSIONS,
    HIDDEN,
    HIDDEN_PREFIXES,
    JMS_HEADERS,
    HeaderLines,
    JmsHeader,
    header_maps,
    header_strings,
    join_surrogates,
    message_ids,
    repeat_header,
    spread_values,
)
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import StompDialect
from trailgate.live.brokers.stomp.frames import StompFrames, unescape
from trailgate.messages.message_batch import RECEIVED

NATIVE_ID: Final = "NATIVE_MESSAGE_ID"  # Artemis: the JMS id of a message that came by AMQP
NATIVE_AMQP: Final = "JMS_AMQP_NATIVE"  # Classic: the body is the message as AMQP encodes it
NO_BODY: Final = "the message has no body: it is empty, or of a JMS type that STOMP cannot carry (map, object, stream)"
BAD_ESCAPE: Final = r"the header {} has the escape {}, which STOMP 1.2 does not have: its sender or the broker has to write a backslash as \\"
RAW_AMQP: Final = "the body is a complete AMQP message: the broker's amqp connector needs transport.transformer=jms"
_JMS: Final = {row.stomp: row for row in JMS_HEADERS}


def received_messages(
    frames: StompFrames, dialect: StompDialect, now: int, id_header: str | None = None
) -> pa.RecordBatch:
    """Convert STOMP's MESSAGE frames to rows of ``RECEIVED``. A message with an undefined escape in a header has a fault.

    ``now`` is the time of receipt in microseconds since 1970 UTC. ``id_header`` is the header with
    the message ids; None means message-id.
    """
    rows = np.flatnonzero(frames.kinds == kernels.MESSAGE)
    lines = _Lines(frames, rows)
    bodies = gather(frames.data, *frames.frames[kernels.BODY :, rows])
    if dialect.surrogates:
        bodies = _joined_surrogates(bodies)
    ids = lines.values(id_header or "message-id")
    # An empty id identifies nothing, so it counts as a missing one.
    ids = pc.if_else(pc.equal(ids, ""), pa.scalar(None, pa.string()), ids)
    if dialect.id_tail and id_header is None:
        # The broker's number is unique only within its store. Together with the time of sending it
        # also differs from the numbers of another store, such as that of a new installation.
        tails = pc.replace_substring_regex(ids, "^.*,", "")
        ids = pc.binary_join_element_wise(tails, lines.values("timestamp"), "@")
    empty = pc.equal(pc.binary_length(bodies), 0)
    fault = pc.if_else(empty, pa.scalar(NO_BODY), pa.scalar(None, pa.string()))
    if NATIVE_AMQP in lines.distinct:
        raw = pc.fill_null(pc.equal(lines.values(NATIVE_AMQP), "true"), False)
        fault = pc.if_else(raw, pa.scalar(RAW_AMQP), fault)
    if len(lines.not_text):
        wrong = np.isin(np.arange(len(rows)), lines.not_text)
        fault = pc.if_else(pa.array(wrong), pa.scalar(BAD_HEADER), fault)
    if lines.undefined:
        texts = pa.array([lines.undefined.get(row) for row in range(len(rows))], pa.string())
        fault = pc.coalesce(texts, fault)
    columns = [ids, pa.repeat(now, len(rows)), lines.jms_headers(dialect, ids), bodies, fault]
    return pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


class _Lines:
    """The header lines of STOMP's MESSAGE frames in columns: the message's row, the name and the value.

    ``count`` is the number of messages, ``message`` the row of each line's message, and
    ``distinct`` the header names that occur. ``not_text`` are the rows of the messages with a
    header that is not UTF-8. ``undefined`` has the fault of each message with an undefined escape
    in a header, by its row.
    """

    def __init__(self, frames: StompFrames, rows: Longs) -> None:
        counts = frames.frames[kernels.END_LINE] - frames.frames[kernels.FIRST_LINE]
        # number[frame] is the row of a MESSAGE frame, and -1 for other frames, whose lines are
        # dropped.
        number = np.full(len(frames), -1)
        number[rows] = np.arange(len(rows))
        message = np.repeat(number, counts)
        kept = np.flatnonzero(message >= 0)
        self.count, self.message = len(rows), message[kept]
        begins, ends, values, value_ends, escapes = frames.lines[:, kept]
        names, wrong = header_strings(frames.data, begins, ends)
        strings, also_wrong = header_strings(frames.data, values, value_ends)
        self.not_text = np.unique(self.message[wrong | also_wrong])
        self.undefined: dict[int, str] = {}
        escaped = np.flatnonzero(escapes)
        if len(escaped):
            names, strings = self._restore(names, strings, escaped)
        coded = names.dictionary_encode()
        self.distinct: list[str] = coded.dictionary.to_pylist()
        self._code, self._values = np.asarray(coded.indices).astype(np.int64), strings
        # Keep the first of repeated headers (STOMP 1.2, Repeated Header Entries). A pair is one
        # number per message and name.
        pairs = self.message * max(1, len(self.distinct)) + self._code
        _, first = np.unique(pairs, return_index=True)
        if len(first) < len(pairs):
            first.sort()
            self.message, self._code = self.message[first], self._code[first]
            self._values = self._values.take(pa.array(first))

    def _restore(
        self, names: pa.Array, values: pa.Array, lines: Longs
    ) -> tuple[pa.Array, pa.Array]:
        """Decode the escapes in these STOMP header lines, and note the messages that have undefined ones."""
        known, strings = names.to_pylist(), values.to_pylist()
        for line in lines.tolist():
            name, value = unescape(known[line]), unescape(strings[line])
            known[line], strings[line] = name.text, value.text
            undefined = name.undefined or value.undefined
            if undefined:
                fault = BAD_ESCAPE.format(name.text, undefined)
                self.undefined.setdefault(int(self.message[line]), fault)
        return pa.array(known, pa.string()), pa.array(strings, pa.string())

    def of(self, name: str) -> HeaderLines:
        """Return the lines of one STOMP header."""
        code = self.distinct.index(name) if name in self.distinct else -1
        rows = np.flatnonzero(self._code == code)
        return repeat_header(name, self.message[rows], self._values.take(pa.array(rows)))

    def values(self, name: str) -> pa.Array:
        """Return each message's value of a STOMP header, or null if it does not have the header."""
        own = self.of(name)
        return spread_values(own.messages, own.values, self.count)

    def jms_headers(self, dialect: StompDialect, ids: pa.Array) -> pa.MapArray:
        """Return the STOMP headers as maps of JMS headers, without those that a JMS client does not expose.

        ``ids`` become the headers JMSMessageID, unless the broker has another header for it.
        """
        parts = [_rename(self.of(name), _JMS[name]) for name in self.distinct if name in _JMS]
        excluded = [name in _JMS or _is_hidden(name) for name in self.distinct]
        # The test runs once per distinct header name, and ``_code`` spreads it over all header
        # lines.
        rows = np.flatnonzero(~np.asarray(excluded, bool)[self._code])
        names = pa.array(self.distinct, pa.string()).take(pa.array(self._code[rows]))
        parts.append(HeaderLines(self.message[rows], names, self._values.take(pa.array(rows))))
        parts += [row.default_lines(self.of(row.stomp).messages, self.count) for row in JMS_HEADERS]
        parts.append(message_ids(self.values(NATIVE_ID) if dialect.id_tail else ids))
        return header_maps(parts, self.count)


def _rename(own: HeaderLines, row: JmsHeader) -> HeaderLines:
    """Rename one STOMP header to its JMS name, for example ``destination`` to JMSDestination, and convert its values."""
    values = own.values
    if row.kind != "text":
        coded = values.dictionary_encode()
        converted = [CONVERSIONS[row.kind](text) for text in coded.dictionary.to_pylist()]
        values = pa.array(converted, pa.string()).take(coded.indices)
    return repeat_header(row.name, own.messages, values)


def _is_hidden(name: str) -> bool:
    return name in HIDDEN or name == NATIVE_ID or name.startswith(HIDDEN_PREFIXES)


def _joined_surrogates(bodies: pa.Array) -> pa.Array:
    """Convert the bodies of STOMP messages from CESU-8 to UTF-8. A body that is neither stays unchanged."""
    try:
        bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([join_surrogates(body) or body for body in bodies.to_pylist()], pa.binary())
    return bodies
