"""Operations to XML publications: the mirror of ``reading``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.grouping import grouped
from trailgate.columnar.time_texts import ISO_T, format_times
from trailgate.errors import EncodeError
from trailgate.messages.event_publishing.xml.vocabulary import ROOT, ROW, TRANSACTION, VERSION
from trailgate.messages.event_publishing.xml.writing.elements import (
    ElementPiece,
    MeasuredElements,
    escaped,
    measure,
)
from trailgate.messages.event_publishing.xml.writing.extra_messages import ExtraMessages
from trailgate.messages.event_publishing.xml.writing.row_pieces import refused, row_pieces
from trailgate.messages.event_publishing.xml.writing.writer_options import (
    MESSAGES,
    XmlPublishOptions,
)
from trailgate.messages.publishing.cutting import Cut, cut_messages
from trailgate.messages.publishing.messages import BEFORE, NO_MESSAGES, Messages
from trailgate.messages.publishing.options import ROW as ONE_ROW
from trailgate.messages.transactions.block_rows import taken
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch, ChangeBlock

NAMESPACE: Final = b'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_DIGITS: Final = 20  # of a segment's number
_LONGEST: Final = 6  # bytes of a reference
_TIME: Final = 26


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The attributes of a message: columns of one slot a message."""

    csn: pa.Array
    time: pa.Array
    owner: pa.Array
    name: pa.Array

    def slice(self, at: int) -> _Envelope:
        """Return those of one message."""
        return _Envelope(*(own.slice(at, 1) for own in self.columns))

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """Return the columns."""
        return self.csn, self.time, self.owner, self.name

    def followed_by(self, other: _Envelope) -> _Envelope:
        """Return the attributes of these messages and others."""
        pairs = zip(self.columns, other.columns, strict=True)
        return _Envelope(*(pa.concat_arrays(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class _Open:
    """A message that is not complete: its rows so far, attributes, and number in its transaction, from 0 on."""

    rows: Octets
    envelope: _Envelope
    number: int


class XmlWriter:
    """Writes XML publications; the message of an open transaction is held until it is full or the transaction ends."""

    def __init__(self, options: XmlPublishOptions) -> None:
        self.options = options
        self._single = options.content == ONE_ROW
        self._held: _Open | None = None
        self._count = 0  # rows of the open transaction
        self._extra = ExtraMessages(options, self._around)

    def write(self, batch: ChangeBatch) -> Messages:
        """Return the messages that are complete with this batch; raises EncodeError for what the format cannot hold."""
        if not batch.rows:
            return NO_MESSAGES
        return _Batch(self, batch).messages()

    def finish(self) -> Messages:
        """Return the message that was held; its transaction has not ended."""
        if self._held is None:
            return NO_MESSAGES
        held, self._held = self._held, None
        heads = self.heads(held.envelope, np.array([held.number]), np.zeros(1, bool))
        body = _written(heads, [held.rows], self.tail)
        bodies = pa.array([body], pa.large_binary())
        return self._extra.with_held(Messages(bodies, np.array([BEFORE])))

    @property
    def tail(self) -> bytes:
        """Return what ends a message of rows."""
        return f"</{ROW if self._single else TRANSACTION}></{ROOT}>".encode()

    def _around(self, inner: bytes) -> bytes:
        """Return a message with an element in its root."""
        return self._root() + inner + f"</{ROOT}>".encode()

    def _root(self) -> bytes:
        return b'<?xml version="1.0" encoding="UTF-8"?><%b %b version="%b" dbName="%b">' % (
            ROOT.encode(), NAMESPACE, VERSION.encode(), escaped(self.options.database),
        )  # fmt: skip

    def heads(self, envelope: _Envelope, numbers: Longs, last: Mask) -> MeasuredElements:
        """Return what begins messages; ``numbers`` are those in their transactions, ``last`` states which end them."""
        count = len(numbers)
        kind = (ROW if self._single else TRANSACTION).encode()
        segment = (
            ()
            if self._single
            else (_piece(pc.cast(pa.array(numbers + 1), pa.string()), b' segmentNum="'),)
        )
        pieces = (
            _piece(pa.array(np.where(last, "1", "0")), self._root() + b"<" + kind + b' isLast="'),
            *segment,
            _piece(envelope.csn, b' cmitLSN="'),
            _piece(envelope.time, b' cmitTime="'),
            _piece(envelope.owner, b' authID="'),
            _piece(envelope.name, b' planName="'),
        )
        return measure(pieces, b">", count)

    def overhead(self, block: ChangeBlock) -> int:
        """Return how many bytes a message of these operations has at most beside its rows."""
        longest = sum(
            pc.max(pc.binary_length(own)).as_py() or 0
            for own in (block.csn, block.tx_id, block.tx_owner, block.tx_name)
            if own is not None and len(own)
        )
        fixed = len(self._root()) + len(self.tail) + _DIGITS + _TIME + 100
        return fixed + _LONGEST * longest


class _Batch:
    """The messages of one batch."""

    def __init__(self, writer: XmlWriter, batch: ChangeBatch) -> None:
        self.writer, self.batch = writer, batch
        self.blocks = [block for own in batch.blocks for block in _of_one_type(own)]
        self.marks = batch.tx_indicators()
        self.begins: Mask = (self.marks == BEGIN) | (self.marks == WHOLE)
        self.number = self._numbers()

    def _numbers(self) -> Longs:
        """Return each operation's number in its transaction, from 1 on."""
        rows = np.arange(self.batch.rows)
        begin = np.maximum.accumulate(np.where(self.begins, rows, -1))
        found: Longs = np.where(begin >= 0, rows - begin, rows + self.writer._count) + 1  # noqa: SLF001  the batch's own writer
        self.writer._count = 0 if self._ended() else int(found[-1])  # noqa: SLF001
        return found

    def _ended(self) -> bool:
        return int(self.marks[-1]) in (END, WHOLE)

    def messages(self) -> Messages:
        """Return the messages that are complete, and hold the last one where its transaction continues."""
        writer, options = self.writer, self.writer.options
        measured = [self._measured(block) for block in self.blocks]
        sizes = np.empty(self.batch.rows, np.int64)
        for block, rows in zip(self.blocks, measured, strict=True):
            sizes[block.order] = rows.sizes
        held, writer._held = writer._held, None  # noqa: SLF001
        overhead = max(map(writer.overhead, self.blocks))
        cut = cut_messages(
            sizes,
            self.begins,
            options,
            held=-1 if held is None else len(held.rows) + overhead,
            number=0 if held is None else held.number,
            overhead=overhead,
        )
        return self._taken(cut, measured, sizes, held)

    def _measured(self, block: ChangeBlock) -> MeasuredElements:
        numbers = pc.cast(pa.array(self.number[block.order]), pa.string())
        apart = self.writer.options.lobs == MESSAGES
        own = row_pieces(block, numbers, apart=apart)
        if own.large:
            self.writer._extra.add_large(block, own.large, self.number[block.order])  # noqa: SLF001
        try:
            return measure(own.pieces, own.end, len(block))
        except EncodeError as error:
            place = block.position[error.where.record or 0].as_py()
            error.problem = f"{error.problem} (operation at {place})"
            raise error.located(table=block.table.name) from None

    def _taken(
        self, cut: Cut, measured: list[MeasuredElements], sizes: Longs, held: _Open | None
    ) -> Messages:
        writer, before = self.writer, held is not None
        first = np.append(
            np.zeros(int(before), np.int64), cut.first
        )  # of each message, in the batch
        ends = np.append(first[1:], len(sizes))
        numbers = np.append([held.number] if held else np.zeros(0, np.int64), cut.segment).astype(
            np.int64
        )
        envelope = self._envelope(cut.first)
        if held is not None:
            envelope = held.envelope.followed_by(envelope)
        old = np.zeros(len(first), np.int64)
        old[: int(before)] = len(held.rows) if held else 0
        whole = writer._single or self._ended()  # noqa: SLF001
        heads = writer.heads(envelope, numbers, self._last(ends, before=before))
        tail = np.frombuffer(writer.tail, np.uint8)
        total = np.concatenate([[0], np.cumsum(sizes)])
        own = heads.sizes + old + total[ends] - total[first] + len(tail)
        bounds = np.concatenate([[0], np.cumsum(own)])
        out = np.empty(int(bounds[-1]), np.uint8)
        begin = bounds[:-1] + heads.sizes
        heads.write(bounds[:-1], out)
        if held is not None:
            out[begin[0] : begin[0] + len(held.rows)] = held.rows
        message = np.repeat(np.arange(len(first)), ends - first)
        to = begin[message] + old[message] + total[:-1] - total[first][message]
        for block, rows in zip(self.blocks, measured, strict=True):
            rows.write(to[block.order], out)
        out[(bounds[1:, None] - len(tail)) + np.arange(len(tail))] = tail
        order = first.copy()
        order[: int(before)] = BEFORE
        complete = len(first) if whole else len(first) - 1
        if not whole:
            rows_end = int(bounds[-1]) - len(tail)
            kept = out[int(begin[-1]) : rows_end].copy()
            writer._held = _Open(kept, envelope.slice(len(first) - 1), int(numbers[-1]))  # noqa: SLF001
        bodies = _bodies(out, bounds[: complete + 1])
        return writer._extra.among(  # noqa: SLF001
            Messages(bodies, order[:complete]), self.blocks, message, complete
        )

    def _last(self, ends: Longs, *, before: bool) -> Mask:
        """Return which messages end their transaction."""
        found = np.zeros(len(ends), bool)
        some = ends > 0
        found[some] = np.isin(self.marks[ends[some] - 1], (END, WHOLE))
        if before and ends[0] == 0:
            found[0] = bool(self.begins[0])  # another one begins
        return found

    def _envelope(self, first: Longs) -> _Envelope:
        """Return the attributes of messages by their first operations."""
        place = np.empty(self.batch.rows, np.int64)
        place[np.concatenate([block.order for block in self.blocks])] = np.arange(self.batch.rows)
        which = pa.array(place[first])

        def picked(own: Callable[[ChangeBlock], pa.Array]) -> pa.Array:
            return pa.concat_arrays([own(block) for block in self.blocks]).take(which)

        times = np.concatenate([block.op_ts for block in self.blocks])[place[first]]
        return _Envelope(
            picked(_positions),
            format_times(times, ISO_T),
            picked(lambda block: _optional(block.tx_owner, block)),
            picked(lambda block: _optional(block.tx_name, block)),
        )


def _of_one_type(block: ChangeBlock) -> Iterator[ChangeBlock]:
    """Yield the operations of a block by type."""
    if not len(block):
        return
    if (block.op_type == block.op_type[0]).all():
        yield block
        return
    for _, rows in grouped(block.op_type.astype(np.int64)):
        yield taken(block, rows)


def _positions(block: ChangeBlock) -> pa.Array:
    """Return the log positions of commits: commit sequence numbers, or the ids of transactions.

    Raises EncodeError for an operation that has neither: nothing would tell its transaction from the next one.
    """
    found = block.csn if not block.csn.null_count else pc.coalesce(block.csn, block.tx_id)
    if found.null_count:
        row = int(np.argmax(found.is_null().to_numpy(zero_copy_only=False)))
        problem = "the operation has no transaction id and no commit sequence number"
        raise refused(block, row, problem, "A publication has one of them")
    return found


def _optional(own: pa.Array | None, block: ChangeBlock) -> pa.Array:
    return pa.nulls(len(block), pa.string()) if own is None else own


def _piece(values: pa.Array, before: bytes) -> ElementPiece:
    """Return the piece of an attribute; it is not there where it is null."""
    return ElementPiece(values, (before, b'"', b"", b""))


def _written(heads: MeasuredElements, rows: list[Octets], tail: bytes) -> bytes:
    """Return one message."""
    head = np.empty(int(heads.sizes[0]), np.uint8)
    heads.write(np.zeros(1, np.int64), head)
    return b"".join([head.tobytes(), *(own.tobytes() for own in rows), tail])


def _bodies(data: Octets, bounds: Longs) -> pa.LargeBinaryArray:
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)]
    )
