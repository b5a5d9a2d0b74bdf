"""What all writers of publications are given; each format adds its own options.

The bodies of messages that are written one after the other into one buffer.

Messages in bulk, as writers make them: bodies in one buffer, headers and keys as columns.

The messages of whole transactions: those of one that has not ended are held back.

Messages of the records of transactions: a transaction a message, cut between records where it is longer than a limit.

The operations of some tables, with indicators that fit: what remains of a transaction has a first and a last operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import EncodeError, Where
from trailgate.messages import kernels
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch, ChangeBlock, indicators
from trailgate.options import COUNT, Field, declared

TRANSACTION: Final = "transaction"
ROW: Final = "row"
MAX_MESSAGE_BYTES: Final = 1 << 20  # the limit that brokers have by default: Kafka's


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How operations become messages: each field is a row of the options of its format, and may be given as text."""

    content: Annotated[
        Literal["transaction", "row"], "what a message holds: one transaction, or one operation"
    ] = TRANSACTION
    max_message_bytes: Annotated[
        int, COUNT, "the most bytes of a message; a longer transaction becomes several messages"
    ] = MAX_MESSAGE_BYTES
    now: Annotated[
        int,
        "the time of sending in microseconds since 1970 UTC; 0 is the commit time, so that the same operations give the same bytes",
    ] = 0

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        for row in declared(type(self), Field):
            object.__setattr__(self, row.name, row.value(getattr(self, row.name)))


def bodies_of(data: Octets, bounds: Longs) -> pa.LargeBinaryArray:
    """Return the bodies data[bounds[i]:bounds[i + 1]], not copied."""
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)]
    )


EARLIER: Final = -1  # the order of an operation of an earlier batch


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages; all members have one slot a message.

    ``order`` is the place, in the batch that was written, of each message's first operation; ``BEFORE`` where that came with
    an earlier batch. ``headers`` are columns of text by name, null where a message has none. ``keys`` are what a
    partitioned log keeps the order of messages by, None where the format has none.
    """

    bodies: pa.LargeBinaryArray
    order: Longs
    headers: Mapping[str, pa.Array] = field(default_factory=dict)
    keys: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.order)

    def slice(self, begin: int, stop: int) -> Messages:
        """Return messages [begin, stop)."""
        count = stop - begin
        headers = {name: values.slice(begin, count) for name, values in self.headers.items()}
        keys = None if self.keys is None else self.keys.slice(begin, count)
        return Messages(self.bodies.slice(begin, count), self.order[begin:stop], headers, keys)


NO_MESSAGES: Final = Messages(pa.array([], pa.large_binary()), np.zeros(0, np.int64))


class MessageWriter(Protocol):
    """Makes messages of operations; a transaction may continue in the next batch.

    Both methods raise EncodeError, with the table and the column, for what the format cannot hold.
    """

    def write(self, batch: ChangeBatch) -> Messages:
        """Return the messages that are complete with this batch."""
        ...

    def finish(self) -> Messages:
        """Return what was held back; nothing is written after this."""
        ...


class WholeTransactions:
    """Gives the messages of consecutive batches, as soon as their transactions have ended."""

    def __init__(self, writer: MessageWriter) -> None:
        self._writer = writer
        self._held: list[Messages] = []
        self._open = False

    def write(self, batch: ChangeBatch) -> Iterator[Messages]:
        """Yield the messages of transactions that have ended with this batch."""
        messages = self._writer.write(batch)
        marks = batch.tx_indicators()
        ends = np.flatnonzero((marks == END) | (marks == WHOLE))
        if batch.rows:
            self._open = int(marks[-1]) not in (END, WHOLE)
        if not len(ends):
            self._held.append(messages)
            return
        yield from self._held
        safe = int(np.searchsorted(messages.order, int(ends[-1]) + 1))
        yield messages.slice(0, safe)
        self._held = [messages.slice(safe, len(messages))]

    def finish(self, *, give_open: bool = False) -> Iterator[Messages]:
        """Yield what is left, of a transaction that has not ended too if asked."""
        rest = self._writer.finish()
        if give_open or not self._open:
            yield from self._held
            yield rest
        self._held = []


@dataclass(frozen=True, slots=True)
class Cut:
    """The messages that begin in a batch: the first record of each, and its number in its transaction, from 0 on."""

    first: Longs
    segment: Longs


def cut_messages(
    sizes: Longs,
    begins: Mask,
    options: PublishOptions,
    *,
    held: int = -1,
    number: int = 0,
    overhead: int = 0,
) -> Cut:
    """Return the messages of records with these sizes; ``begins`` marks the first one of each transaction.

    ``held`` are the bytes of a message that is open before, -1 for none, and ``number`` is its number; ``overhead`` the bytes that each message has beside
    its records. Raises EncodeError, with the row as its record, for one longer than a message may be.
    """
    first, segment = np.empty((2, len(sizes)), np.int64)
    count = kernels.cut_messages(
        np.ascontiguousarray(sizes, np.int64),
        np.ascontiguousarray(begins, np.bool_),
        options.content == ROW,
        overhead,
        options.max_message_bytes,
        held,
        number,
        first,
        segment,
    )
    if count < 0:
        row, limit = -1 - count, options.max_message_bytes
        problem = (
            f"the operation has {int(sizes[row]) + overhead} bytes, and a message {limit} at most"
        )
        raise EncodeError(problem, where=Where(record=row), hint="Set max-message-bytes")
    return Cut(first[:count], segment[:count])


Wanted = Callable[[ChangeBatch], Mask]


class ChosenOperations:
    """Takes the wanted operations of consecutive batches.

    Where a transaction continues in the next batch its last one is held, until it is known whether another one follows.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._held: ChangeBlock | None = None
        self._begun = False  # an operation of the open transaction was taken

    def take(self, batch: ChangeBatch) -> ChangeBatch:
        """Return what is wanted of the next operations, and what was held of those before."""
        keep, marks = self._wanted(batch), batch.tx_indicators()
        begins = (marks == BEGIN) | (marks == WHOLE)
        ended = np.zeros(int(begins.sum()) + 1, bool)  # transaction 0 was open before
        own = np.cumsum(begins)
        ended[own[(marks == END) | (marks == WHOLE)]] = True
        ended[0] |= bool(len(begins) and begins[0])
        rows = np.flatnonzero(keep)
        number = own[rows]
        first, last = np.ones(len(rows), bool), np.ones(len(rows), bool)
        first[1:] = last[:-1] = number[1:] != number[:-1]
        continues = bool(len(rows) and number[0] == 0)
        if continues:
            first[0] = not self._begun
        last &= ended[number]
        letters = indicators(first, last)
        released = self._released(continues=continues, ended=bool(ended[0]))
        kept = _marked(batch.where(keep), letters)
        if not ended[-1]:
            self._begun = (self._begun and len(ended) == 1) or bool(
                len(rows) and number[-1] == len(ended) - 1
            )
            if len(rows) and number[-1] == len(ended) - 1:
                kept = self._hold(kept)
        else:
            self._begun = False
        return _after(released, kept)

    def finish(self) -> ChangeBatch:
        """Return nothing: what is held belongs to a transaction that has not ended."""
        return ChangeBatch((), 0)

    def _released(self, *, continues: bool, ended: bool) -> ChangeBlock | None:
        """Return what was held, if it is known now whether another operation follows."""
        held = self._held
        if held is None or not (continues or ended):
            return None
        self._held = None
        if continues:
            return held
        whole = int(held.tx_ind[0]) in (BEGIN, WHOLE)
        return replace(held, tx_ind=np.full(1, WHOLE if whole else END, np.uint8))

    def _hold(self, kept: ChangeBatch) -> ChangeBatch:
        block, row = kept.find(kept.rows - 1)
        self._held = block.take(np.array([row]))
        keep = np.ones(kept.rows, bool)
        keep[-1] = False
        return kept.where(keep)


def _marked(batch: ChangeBatch, letters: np.ndarray) -> ChangeBatch:
    blocks = [replace(block, tx_ind=letters[block.order]) for block in batch.blocks]
    return ChangeBatch(blocks, batch.rows)


def _after(released: ChangeBlock | None, kept: ChangeBatch) -> ChangeBatch:
    if released is None:
        return kept
    first = replace(released, order=np.zeros(1, np.int64))
    moved = [replace(block, order=block.order + 1) for block in kept.blocks]
    return ChangeBatch([first, *moved], kept.rows + 1)
