"""A batch of messages: all bodies in one buffer, headers as an Arrow map, positions as arrays.

Files, brokers and Spark produce `MessageBatch`es, and every parser reads them. Received messages
first have the Arrow schema `RECEIVED`; `batch_of_received` converts them. `messages_from` builds a batch
from a list of bodies.

Two protocols are for formats with special needs. A `WaitingFormat` holds messages back until later
ones complete them, for example with the rest of a large object. A `MessageCutter` cuts a message
that is too large for memory into several smaller ones.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, octets
from trailgate.columnar.strings import byte_view
from trailgate.errors import DecodeError, OptionError
from trailgate.messages.problems import NOTHING_LATER, Lookahead, Problem
from trailgate.options import check_calls, check_items

NO_HEADERS: Final[Mapping[str, str]] = {}

# `id` recognizes a redelivered message; it is null if the broker has no such id. `fault` is the
# reason why a message has no readable body, or null. `received` is in microseconds since 1970 UTC.
RECEIVED: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("received", pa.int64(), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("fault", pa.string()),
    ]
)
# The fault of a Kafka message whose value is null. In a compacted topic it deletes the key.
TOMBSTONE: Final = "the message has no value (a tombstone)"
FAULT_HINT: Final = "Quarantine it (--on-error quarantine), or have it sent as a text message"


class HeaderPart(NamedTuple):
    """The headers of the messages [begin, end) of a source, which are not built yet.

    ``build(begin, end)`` returns them as an Arrow map with an element for each message.
    """

    build: Callable[[int, int], pa.MapArray]
    begin: int
    end: int


class HeaderColumns(Sequence[Mapping[str, str]]):
    """The headers of a batch of messages, as an Arrow map that is built on first use.

    Many captures use no headers, and building the map may take longer than parsing short messages.
    Indexing returns one message's headers as a dict.
    """

    def __init__(self, parts: Sequence[HeaderPart]) -> None:
        self._parts, self._count = parts, sum(part.end - part.begin for part in parts)

    @classmethod
    def of(cls, headers: pa.MapArray) -> HeaderColumns:
        """Build header columns from an Arrow map with an element for each message."""
        part = HeaderPart(lambda begin, end: headers.slice(begin, end - begin), 0, len(headers))
        return cls([part])

    @staticmethod
    def join(parts: Sequence[HeaderColumns]) -> HeaderColumns:
        """Concatenate the headers of consecutive message batches."""
        return HeaderColumns([one for part in parts for one in part._parts])  # noqa: SLF001  its own

    @cached_property
    def _headers(self) -> pa.MapArray:
        built = [part.build(part.begin, part.end) for part in self._parts]
        return built[0] if len(built) == 1 else pa.concat_arrays(built)

    @cached_property
    def _bounds(self) -> Longs:
        return np.asarray(self._headers.offsets).astype(np.int64)

    def __reduce__(self) -> tuple[object, ...]:
        return HeaderColumns.of, (self._headers,)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> HeaderColumns: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, str] | HeaderColumns:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            assert step == 1
            return HeaderColumns(self._range(begin, max(begin, end)))
        begin, end = int(self._bounds[at]), int(self._bounds[at + 1])
        names = self._headers.keys.slice(begin, end - begin).to_pylist()
        values = self._headers.items.slice(begin, end - begin).to_pylist()
        return dict(zip(names, values, strict=True))

    def _range(self, begin: int, end: int) -> list[HeaderPart]:
        """Return the header parts that cover the messages [begin, end).

        If there are no such messages, return one empty part, because its `build` defines the type.
        """
        found, before = [], 0
        for part in self._parts:
            size = part.end - part.begin
            low, high = max(begin - before, 0), min(end - before, size)
            if low < high:
                found.append(part._replace(begin=part.begin + low, end=part.begin + high))
            before += size
        return found or [part._replace(end=part.begin) for part in self._parts[:1]]

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        return (self[at] for at in range(len(self)))

    def values(self, name: str) -> pa.Array:
        """Return the header `name` of each message, or null; see `MessageBatch.header`."""
        names, items = self._headers.keys, self._headers.items
        exact = np.asarray(pc.equal(names, name).to_numpy(zero_copy_only=False), bool)
        entries = self._places(exact)
        # Some messages lack the exact name: look for another spelling, but keep exact matches.
        if (entries < 0).any():
            folded = name.casefold()
            coded = names.dictionary_encode()
            alike = [str(known).casefold() == folded for known in coded.dictionary.to_pylist()]
            if any(alike):
                other = self._places(np.asarray(alike, bool)[np.asarray(coded.indices)])
                entries = np.where(entries < 0, other, entries)
        return items.take(pa.array(entries, mask=entries < 0))

    def _places(self, wanted: Mask) -> Longs:
        """Return for each message the index of its first entry with the wanted header name, or -1.

        `wanted` marks the map entries that have this name. The entries of message i are
        `_bounds[i]` to `_bounds[i + 1]` - 1.
        """
        entries = np.flatnonzero(wanted)
        begins, ends = self._bounds[:-1], self._bounds[1:]
        # For each message, the first wanted entry at or after its begin; it counts only if it is
        # before its end. Example: bounds 0, 2, 4 and wanted entries [3]: message 0 finds 3, which
        # is past 2, so it has none. Message 1 finds 3.
        at = np.searchsorted(entries, begins)
        first = np.append(entries, np.iinfo(np.int64).max)[at]
        return np.where(first < ends, first, -1)


Headers = tuple[Mapping[str, str], ...] | HeaderColumns


@check_calls
@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A batch of consecutive messages. Message i has the body `data[starts[i]:ends[i]]`.

    Bodies ascend and do not overlap. `files` and `offsets` are the position of each message: the
    number of its source file, and its byte offset in the file. `source` is the name of the source
    in errors. `headers` is None if the source has no headers. `received` is the arrival time of
    each message in microseconds since 1970 UTC, or None to use the time of the run. `removed` is
    the number of bad messages that were removed anywhere before each message, or None if none were.
    """

    data: pa.Buffer
    starts: Longs
    ends: Longs
    files: Longs
    offsets: Longs
    headers: Headers | None = None
    source: str = ""
    received: Longs | None = None
    removed: Longs | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> MessageBatch:
        """Return the messages [begin, end) of the batch, without copying their bodies."""
        if begin == 0 and end == len(self) and self.removed is None:
            return self
        part = slice(begin, end)
        return replace(
            self,
            starts=self.starts[part],
            ends=self.ends[part],
            files=self.files[part],
            offsets=self.offsets[part],
            headers=None if self.headers is None else self.headers[part],
            received=None if self.received is None else self.received[part],
            removed=None,
        )

    def only(self, kept: Longs) -> MessageBatch:
        """Return only the messages with these numbers (ascending), copied to a new buffer.

        The bytes of the other messages must not stay between the bodies, because they may contain
        an open quote. Consecutive messages are copied in one piece, with a line feed between the
        pieces.
        """
        is_number = kept.dtype.kind in "iu" and kept.ndim == 1
        if not is_number or (len(kept) and not 0 <= kept.min() <= kept.max() < len(self)):
            raise OptionError(f"kept must be numbers of messages, 0 to {len(self) - 1}")
        # Example: kept = [0, 1, 4] has the runs 0-1 and 4: firsts = [0, 2] (indexes into kept),
        # counts = [2, 1].
        breaks = np.flatnonzero(np.diff(kept) != 1) + 1
        firsts = np.concatenate([np.zeros(min(1, len(kept)), np.int64), breaks])
        counts = np.diff(np.append(firsts, len(kept)))
        begins, ends = self.starts[kept[firsts]], self.ends[kept[firsts + counts - 1]]
        old = memoryview(self.data)
        runs = zip(begins.tolist(), ends.tolist(), strict=True)
        data = pa.py_buffer(b"\n".join(old[begin:end] for begin, end in runs))
        sizes = ends - begins + 1
        # How far each kept message moves to the left: the start of its run in the old buffer minus
        # that in the new one (the total size of the runs before it, each with its line feed).
        moved = np.repeat(begins - (np.cumsum(sizes) - sizes), counts)
        headers = self.headers
        return replace(
            self,
            data=data,
            starts=self.starts[kept] - moved,
            ends=self.ends[kept] - moved,
            files=self.files[kept],
            offsets=self.offsets[kept],
            headers=None if headers is None else tuple(headers[at] for at in kept.tolist()),
            received=None if self.received is None else self.received[kept],
            removed=None,
        )

    @staticmethod
    def join(batches: Sequence[MessageBatch]) -> MessageBatch:
        """Concatenate consecutive batches of messages."""
        batches = check_items("batches", batches, MessageBatch)
        if not batches:
            raise OptionError("there are no batches to join")
        if len(batches) == 1:
            return batches[0]
        parts, moved, size = [], [], 0
        for batch in batches:
            begin, end = (int(batch.starts[0]), int(batch.ends[-1])) if len(batch) else (0, 0)
            parts.append(memoryview(batch.data)[begin:end])
            # Offset from each batch's old buffer to its place in the new one; +1 below is the line
            # feed between.
            moved.append(size - begin)
            size += end - begin + 1
        times = [batch.received for batch in batches if batch.received is not None]
        return MessageBatch(
            data=pa.py_buffer(b"\n".join(parts)),
            starts=np.concatenate([b.starts + by for b, by in zip(batches, moved, strict=True)]),
            ends=np.concatenate([b.ends + by for b, by in zip(batches, moved, strict=True)]),
            files=np.concatenate([batch.files for batch in batches]),
            offsets=np.concatenate([batch.offsets for batch in batches]),
            headers=_join_headers(batches),
            source=batches[0].source,
            received=np.concatenate(times) if len(times) == len(batches) else None,
        )

    def separated_by(self, between: bytes) -> MessageBatch:
        """Copy the messages to a new buffer with exactly the bytes `between` between two bodies."""
        whole = memoryview(self.data)
        places = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        data = pa.py_buffer(between.join(whole[begin:end] for begin, end in places))
        lengths = self.ends - self.starts
        # Example: bodies of 3 and 2 bytes with one byte between: 4 7 minus 1 is 3 6.
        ends = np.cumsum(lengths + len(between)) - len(between)
        return replace(self, data=data, starts=ends - lengths, ends=ends)

    def without_marks(self) -> MessageBatch:
        """Return the messages without a UTF-8 byte order mark (EF BB BF) at the start of a body.

        Some editors write it. The bytes are not copied; `starts` skips them.
        """
        data = octets(self.data)
        # Usually no body begins with EF. An empty body at the end of the data counts as its last byte.
        if not len(data) or not (data.take(self.starts, mode="clip") == codecs.BOM_UTF8[0]).any():
            return self
        filled = np.flatnonzero(self.ends - self.starts >= len(codecs.BOM_UTF8))
        starts = self.starts[filled]
        marked = np.ones(len(filled), bool)
        # The first byte EF alone does not make a mark: compare all three. `filled` has at least
        # three bytes.
        for place, byte in enumerate(codecs.BOM_UTF8):
            marked &= data[starts + place] == byte
        moved = np.zeros(len(self), np.int64)
        moved[filled[marked]] = len(codecs.BOM_UTF8)
        return replace(self, starts=self.starts + moved)

    def header(self, name: str) -> pa.Array:
        """Return one header's value for each message, or null if it is missing.

        If no header has exactly this name, case is ignored, as the manual's samples require.
        """
        if isinstance(self.headers, HeaderColumns):
            return self.headers.values(name)
        values = [_header(headers, name) for headers in self.headers or ()]
        return pa.array(values or [None] * len(self), pa.string())

    def place(self, message: int) -> tuple[str | None, int]:
        """Return a message's source name and byte offset, for error messages."""
        if not -len(self) <= message < len(self):
            raise OptionError(f"there is no message {message} among {len(self)}")
        return self.source or f"file {int(self.files[message])}", int(self.offsets[message])


def _join_headers(batches: Sequence[MessageBatch]) -> Headers | None:
    """Concatenate the headers of consecutive batches. Returns None if no batch has headers."""
    parts = [batch.headers for batch in batches]
    columns = [part for part in parts if isinstance(part, HeaderColumns)]
    if len(columns) == len(parts):
        return HeaderColumns.join(columns)
    if all(part is None for part in parts):
        return None
    return tuple(
        headers
        for part, batch in zip(parts, batches, strict=True)
        for headers in ((NO_HEADERS,) * len(batch) if part is None else part)
    )


def _header(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name)
    if value is not None:
        return value
    folded = name.casefold()
    return next((v for k, v in headers.items() if k.casefold() == folded), None)


def batch_of_received(
    received: pa.RecordBatch,
    place: tuple[int | Longs, Longs],
    source: str,
    headers: HeaderColumns | None = None,
) -> tuple[MessageBatch, tuple[Problem, ...]]:
    """Build a `MessageBatch` from the Arrow batch of messages that a broker or a journal delivered.

    Also returns the problems of messages without a readable body. `received` has the Arrow schema
    `RECEIVED`. `place` is the source number (one for all messages, or one each) and the offset of
    each message. Generated ids are built from both. `headers` replaces the column of headers.
    """
    bounds, data = byte_view(received["body"])
    number, offsets = place
    count = len(received)
    messages = MessageBatch(
        data=pa.py_buffer(data),
        starts=bounds[:-1],
        ends=bounds[1:],
        # A broadcast array is read-only and has no memory per row, which kernels do not accept.
        files=np.broadcast_to(np.asarray(number, np.int64), count).copy(),
        offsets=offsets,
        headers=HeaderColumns.of(received["headers"]) if headers is None else headers,
        source=source,
        received=np.asarray(received["received"]),
    )
    faults = received["fault"]
    if faults.null_count == count:
        return messages, ()
    rows = np.flatnonzero(np.asarray(faults.is_valid()))
    return messages, tuple(
        Problem(at, DecodeError(faults[at].as_py(), hint=FAULT_HINT)) for at in rows.tolist()
    )


def _raw_body(body: Any, number: int) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview | pa.Buffer):
        return bytes(body)
    if not isinstance(body, str):
        problem = f"body {number} is {type(body).__name__}, neither text nor bytes"
        raise OptionError(problem)
    try:
        return body.encode()
    except UnicodeEncodeError:
        raise OptionError(f"body {number} is not Unicode text: {body!r}") from None


def messages_from(bodies: Iterable[bytes | str], source: str = "messages") -> MessageBatch:
    """Build a batch of messages, which can be parsed, from a list of bodies.

    Each body counts as one file, numbered from 0. Raises OptionError if a body is neither text nor
    bytes.
    """
    # A single string would be iterated character by character.
    if isinstance(bodies, str | bytes | Mapping) or not isinstance(bodies, Iterable):
        raise OptionError(f"bodies must be a list of strings or bytes, not {type(bodies).__name__}")
    raw = [_raw_body(body, number) for number, body in enumerate(bodies, 1)]
    bounds = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(body) for body in raw], out=bounds[1:])
    return MessageBatch(
        data=pa.py_buffer(b"".join(raw)),
        starts=bounds[:-1],
        ends=bounds[1:],
        files=np.arange(len(raw), dtype=np.int64),
        offsets=np.zeros(len(raw), np.int64),
        headers=None,
        source=source,
    )


@dataclass(frozen=True, slots=True)
class CompleteMessages:
    """How many messages at the beginning of a batch can be parsed without later messages.

    `count` is their number. `later` describes the other messages of the batch, which must wait.
    """

    count: int
    later: Lookahead = NOTHING_LATER


@runtime_checkable
class WaitingFormat(Protocol):
    """The interface of message formats in which messages may have to wait for later messages.

    For example, a later message may contain the rest of a large object.
    """

    def complete(self, messages: MessageBatch) -> CompleteMessages:
        """Count the messages at the beginning of the batch that can be parsed without later messages."""
        ...

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether new messages only continue the messages that already wait.

        Then all of them must wait until another message arrives, and nothing is parsed yet.
        """
        ...


Chunks = Callable[[], Iterable[bytes]]


class MessageCutter(Protocol):
    """The interface of cutters, which cut a message that is too large for memory into parts.

    A cutter can be pickled.
    """

    def why_not(self) -> str:
        """Return the reason why messages of a format cannot be cut, or "" if they can."""
        ...

    def cut(self, chunks: Chunks, file: int, longest: int) -> Iterator[MessageBatch]:
        """Cut the only message of a file, and yield its parts as messages, in order.

        Each call of `chunks` reads the file's bytes from the start. `file` is the number of the
        file.

        Parts have at most `longest` bytes. Raises DecodeError if the message is not well-formed or
        has a longer part; then nothing of it may be captured.
        """
        ...
