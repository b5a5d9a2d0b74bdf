"""Received messages made by hand, a receiver that gives them, and a feed of them that can be asked again from any number."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from trailgate.live.brokers.receiver import MessageWindow
from trailgate.live.jobs.feed import ConnectionState, FeedPart
from trailgate.messages.message_batch import RECEIVED, MessageBatch, batch_of_received

NOW = 1_767_225_600_000_000  # 2026-01-01 UTC


def received(
    bodies: Sequence[bytes | str],
    ids: Sequence[str | None] | None = None,
    headers: Sequence[Mapping[str, str]] | None = None,
    faults: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    """Return rows of ``RECEIVED``; ids are the bodies where none are given."""
    raw = [body.encode() if isinstance(body, str) else body for body in bodies]
    columns = [
        [body.decode("latin-1") for body in raw] if ids is None else ids,
        [NOW] * len(raw),
        [list(one.items()) for one in headers or [{}] * len(raw)],
        raw,
        faults or [None] * len(raw),
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RECEIVED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RECEIVED)


class ListFeed:
    """Messages of a list, so many at once; ``log`` notes what was captured."""

    name = "list"
    source_id: str | None = None
    is_connected = True
    link = ConnectionState(is_connected=True, made=1)
    is_replayed = False  # nobody knows what was received before

    def __init__(
        self,
        bodies: Sequence[bytes | str],
        sizes: Sequence[int],
        headers: Sequence[Mapping[str, str]] | None = None,
        kept: int = 1 << 30,
        first: int = 0,
    ) -> None:
        self._bodies, self._sizes, self._at, self._kept = bodies, [*sizes], 0, kept
        self._first = first  # the offset of the first message
        self._headers = headers or [{}] * len(bodies)
        self.log: list[int] = []

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        begin = max(0, number - min(count, self._kept))
        if begin < number:
            yield self._part(begin, number).messages

    def open(self, number: int | None) -> None:
        self._at = number or 0

    def receive(self, seconds: float) -> FeedPart | None:
        size = self._sizes.pop(0) if self._sizes else 1000
        end = min(self._at + size, len(self._bodies))
        if end == self._at:
            time.sleep(min(seconds, 0.001))  # nothing will come
            return None
        part, self._at = self._part(self._at, end), end
        return part

    def _part(self, begin: int, end: int) -> FeedPart:
        bodies, numbers = self._bodies[begin:end], np.arange(begin, end)
        faults = [None if body else "no body" for body in bodies]
        rows = received(bodies, headers=self._headers[begin:end], faults=faults)
        messages, problems = batch_of_received(rows, (0, self._first + numbers * 1000), "list")
        return FeedPart(messages, problems, numbers, end)

    def lag(self, number: int) -> int:
        return len(self._bodies) - number

    def mark_captured(self, number: int) -> None:
        self.log.append(number)

    def close(self) -> None:
        pass


class ListReceiver:
    """Gives windows of a list; what is acknowledged is noted."""

    is_connected = True
    connections = 1

    def __init__(self, *windows: pa.RecordBatch) -> None:
        self._windows: Iterator[pa.RecordBatch] = iter(windows)
        self.acknowledged: list[int] = []
        self.closed = False

    def receive(self, seconds: float) -> MessageWindow | None:
        found = next(self._windows, None)
        if found is None:
            time.sleep(min(seconds, 0.01))
            return None
        return MessageWindow(found)

    def acknowledge(self, window: MessageWindow) -> None:
        self.acknowledged.append(len(window.messages))

    def settle(self, seconds: float) -> bool:  # noqa: ARG002  nothing is under way
        return True

    def close(self) -> None:
        self.closed = True
