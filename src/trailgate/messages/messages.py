"""Messages in bulk: bodies in one buffer, headers as an Arrow map, and the place of each in its source.

Receivers and the journal have them by one Arrow schema. Messages may wait for those of a later batch, where what they hold is not whole without them. Messages that
are too long for memory are split into many that are captured apart.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, overload, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import byte_view, octets
from trailgate.errors import DecodeError
from trailgate.messages.bounds import Problem
from trailgate.messages.by_id import NOTHING_LATER, Later


class HeaderColumns(Sequence[Mapping[str, str]]):
    """The headers of messages, one mapping each, kept as the columns of an Arrow map."""

    def __init__(self, headers: pa.MapArray) -> None:
        self._headers = headers
        self._bounds = np.asarray(headers.offsets).astype(np.int64)

    @staticmethod
    def join(parts: Sequence[HeaderColumns]) -> HeaderColumns:
        """Return the headers of consecutive batches as one."""
        return HeaderColumns(pa.concat_arrays([part._headers for part in parts]))  # noqa: SLF001  its own

    def __len__(self) -> int:
        return len(self._headers)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> HeaderColumns: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, str] | HeaderColumns:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            assert step == 1
            return HeaderColumns(self._headers.slice(begin, max(0, end - begin)))
        begin, end = int(self._bounds[at]), int(self._bounds[at + 1])
        names = self._headers.keys.slice(begin, end - begin).to_pylist()
        values = self._headers.items.slice(begin, end - begin).to_pylist()
        return dict(zip(names, values, strict=True))

    def __iter__(self) -> Iterator[Mapping[str, str]]:
        return (self[at] for at in range(len(self)))

    def values(self, name: str) -> pa.Array:
        """Return each message's value of a header, null where it has none; see ``MessageBatch.header``."""
        names, items = self._headers.keys, self._headers.items
        own = np.asarray(pc.equal(names, name).to_numpy(zero_copy_only=False), bool)
        found = self._places(own)
        if (found < 0).any():
            folded = name.casefold()
            coded = names.dictionary_encode()
            alike = [str(known).casefold() == folded for known in coded.dictionary.to_pylist()]
            if any(alike):
                other = self._places(np.asarray(alike, bool)[np.asarray(coded.indices)])
                found = np.where(found < 0, other, found)
        return items.take(pa.array(found, mask=found < 0))

    def _places(self, wanted: Mask) -> Longs:
        """Return the first wanted header of each message, -1 where there is none."""
        places = np.flatnonzero(wanted)
        begins, ends = self._bounds[:-1], self._bounds[1:]
        at = np.searchsorted(places, begins)
        there = np.append(places, np.iinfo(np.int64).max)[at]
        return np.where(there < ends, there, -1)


NO_HEADERS: Final[Mapping[str, str]] = {}
Headers = tuple[Mapping[str, str], ...] | HeaderColumns


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Consecutive messages: message i has the body data[starts[i]:ends[i]].

    Bodies ascend and do not overlap. ``files`` and ``offsets`` are the place of each: the
    number of its source file and its byte offset there. ``headers`` is None where the source
    has none. ``received`` is when each came, in microseconds since 1970 UTC, None where a run's own time counts.
    ``left_out`` is how many bad messages are left out before each, None: none are.
    """

    data: pa.Buffer
    starts: Longs
    ends: Longs
    files: Longs
    offsets: Longs
    headers: Headers | None = None
    source: str = ""
    received: Longs | None = None
    left_out: Longs | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> MessageBatch:
        """Return the messages from ``begin`` to before ``end``."""
        part = slice(begin, end)
        return replace(
            self,
            starts=self.starts[part],
            ends=self.ends[part],
            files=self.files[part],
            offsets=self.offsets[part],
            headers=None if self.headers is None else self.headers[part],
            received=None if self.received is None else self.received[part],
            left_out=None,
        )

    def only(self, kept: Longs) -> MessageBatch:
        """Return the messages named, ascending, without the bytes of the others.

        What is left out may have open quotes, so it must not lie between bodies. Runs of kept
        messages are copied whole, with a line feed between them.
        """
        breaks = np.flatnonzero(np.diff(kept) != 1) + 1
        firsts = np.concatenate([np.zeros(min(1, len(kept)), np.int64), breaks])
        counts = np.diff(np.append(firsts, len(kept)))
        begins, ends = self.starts[kept[firsts]], self.ends[kept[firsts + counts - 1]]
        whole = memoryview(self.data)
        runs = zip(begins.tolist(), ends.tolist(), strict=True)
        data = pa.py_buffer(b"\n".join(whole[begin:end] for begin, end in runs))
        sizes = ends - begins + 1
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
            left_out=None,
        )

    @staticmethod
    def join(batches: Sequence[MessageBatch]) -> MessageBatch:
        """Return consecutive batches as one."""
        if len(batches) == 1:
            return batches[0]
        parts, moved, size = [], [], 0
        for batch in batches:
            begin, end = (int(batch.starts[0]), int(batch.ends[-1])) if len(batch) else (0, 0)
            parts.append(memoryview(batch.data)[begin:end])
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

    def apart(self, between: bytes) -> MessageBatch:
        """Return the same messages with these bytes, and nothing else, between their bodies."""
        whole = memoryview(self.data)
        places = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        data = pa.py_buffer(between.join(whole[begin:end] for begin, end in places))
        lengths = self.ends - self.starts
        ends = np.cumsum(lengths + len(between)) - len(between)
        return replace(self, data=data, starts=ends - lengths, ends=ends)

    def without_marks(self) -> MessageBatch:
        """Return the messages without the byte order mark of UTF-8 (EF BB BF) that editors put before text."""
        filled = np.flatnonzero(self.ends - self.starts >= len(codecs.BOM_UTF8))
        data, starts = octets(self.data), self.starts[filled]
        if not (data[starts] == codecs.BOM_UTF8[0]).any():
            return self
        marked = np.ones(len(filled), bool)
        for place, byte in enumerate(codecs.BOM_UTF8):
            marked &= data[starts + place] == byte
        moved = np.zeros(len(self), np.int64)
        moved[filled[marked]] = len(codecs.BOM_UTF8)
        return replace(self, starts=self.starts + moved)

    def header(self, name: str) -> pa.Array:
        """Return each message's value of a header, null where it has none.

        Names are compared without case where none is the same, as the manual's samples need.
        """
        if isinstance(self.headers, HeaderColumns):
            return self.headers.values(name)
        found = [_header(headers, name) for headers in self.headers or ()]
        return pa.array(found or [None] * len(self), pa.string())

    def place(self, message: int) -> tuple[str | None, int]:
        """Return the source's name and the byte offset of a message, for error strings."""
        return self.source or f"file {int(self.files[message])}", int(self.offsets[message])


def _join_headers(batches: Sequence[MessageBatch]) -> Headers | None:
    """Return the headers of consecutive batches, None where none of them has any."""
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


# ``id`` recognises a message that is given again, and is null where nothing does. ``fault`` is why a message has no body that
# can be read, null where it has one. ``received`` is microseconds since 1970 UTC.
RECEIVED: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("received", pa.int64(), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("fault", pa.string()),
    ]
)
# Why a message of Kafka has no body: its value is null, which deletes the key in a topic that is compacted.
TOMBSTONE: Final = "the message has no value (a tombstone)"
FAULT_HINT: Final = "Quarantine it (--on-error quarantine), or have it sent as a text message"


def as_messages(
    received: pa.RecordBatch, place: tuple[int | Longs, Longs], source: str
) -> tuple[MessageBatch, tuple[Problem, ...]]:
    """Return received messages for a parser, and the problems of those without a body.

    ``place`` is a number, or one for each message, and each message's offset: generated ids are made of both.
    """
    bounds, data = byte_view(received["body"])
    number, offsets = place
    count = len(received)
    messages = MessageBatch(
        data=pa.py_buffer(data),
        starts=bounds[:-1],
        ends=bounds[1:],
        files=np.broadcast_to(np.asarray(number, np.int64), count).copy(),
        offsets=offsets,
        headers=HeaderColumns(received["headers"]),
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


@dataclass(frozen=True, slots=True)
class Complete:
    """How many messages, from the first on, wait for no later one; ``later`` is what is known of those after them."""

    count: int
    later: Later = NOTHING_LATER


@runtime_checkable
class Holding(Protocol):
    """A format of whose messages some wait for later ones."""

    def complete(self, messages: MessageBatch) -> Complete:
        """Return which of the messages wait."""
        ...

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether what waits before these messages waits after them too, whatever it is."""
        ...


Chunks = Callable[[], Iterable[bytes]]


class MessageCutter(Protocol):
    """What cuts messages; it travels to workers."""

    def why_not(self) -> str:
        """Return why messages cannot be cut, empty where they can."""
        ...

    def cut(self, chunks: Chunks, file: int, longest: int) -> Iterator[MessageBatch]:
        """Yield the parts of the message of a file as messages, in order; ``chunks`` gives its bytes at each call.

        Parts have no more than ``longest`` bytes. Raises DecodeError for a message that is not well-formed, or with a longer part:
        then none of it is to be captured.
        """
        ...
