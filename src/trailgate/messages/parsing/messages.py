"""Messages in bulk: bodies in one buffer, headers, and the place of each in its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.messages.parsing.header_columns import HeaderColumns


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
    headers: tuple[Mapping[str, str], ...] | HeaderColumns | None = None
    source: str = ""
    received: Longs | None = None
    left_out: Longs | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, begin: int, end: int) -> MessageBatch:
        """Return the messages from ``begin`` to before ``end``."""
        part = slice(begin, end)
        return MessageBatch(
            data=self.data,
            starts=self.starts[part],
            ends=self.ends[part],
            files=self.files[part],
            offsets=self.offsets[part],
            headers=None if self.headers is None else self.headers[part],
            source=self.source,
            received=None if self.received is None else self.received[part],
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
        return MessageBatch(
            data=data,
            starts=self.starts[kept] - moved,
            ends=self.ends[kept] - moved,
            files=self.files[kept],
            offsets=self.offsets[kept],
            headers=None if headers is None else tuple(headers[at] for at in kept.tolist()),
            source=self.source,
            received=None if self.received is None else self.received[kept],
        )

    @staticmethod
    def joined(batches: Sequence[MessageBatch]) -> MessageBatch:
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
            headers=_joined_headers([batch.headers for batch in batches]),
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

    def header(self, name: str) -> pa.Array:
        """Return each message's value of a header, null where it has none.

        Names are compared without case where none is the same, as the manual's samples need.
        """
        if isinstance(self.headers, HeaderColumns):
            return self.headers.values(name)
        found = [_header(headers, name) for headers in self.headers or ()]
        return pa.array(found or [None] * len(self), pa.string())

    def place(self, message: int) -> tuple[str | None, int]:
        """Return the source's name and the byte offset of a message, for error texts."""
        return self.source or f"file {int(self.files[message])}", int(self.offsets[message])


def _joined_headers(
    parts: Sequence[tuple[Mapping[str, str], ...] | HeaderColumns | None],
) -> tuple[Mapping[str, str], ...] | HeaderColumns | None:
    """Return the headers of consecutive batches, None where one of them has none."""
    columns = [part for part in parts if isinstance(part, HeaderColumns)]
    if len(columns) == len(parts):
        return HeaderColumns.joined(columns)
    known = [part for part in parts if part is not None]
    return tuple(one for part in known for one in part) if len(known) == len(parts) else None


def _header(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name)
    if value is not None:
        return value
    folded = name.casefold()
    return next((v for k, v in headers.items() if k.casefold() == folded), None)
