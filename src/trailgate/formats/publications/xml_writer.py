"""Write operations as XML publications: the reverse of `xml_reader.py` (event publishing §3).

Operations of one table and type become the pieces of a template (`columnar/templates.py`) that
writes their row elements. `cut_messages` divides rows into messages. The last message of an open
transaction is held back until it is full or the transaction ends. `ExtraMessages` adds the schema
of a table before its first row, and large objects after their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.rows import group_rows
from trailgate.columnar.templates import (
    EscapeTable,
    MeasuredRows,
    PieceForm,
    RowPiece,
    measure_templates,
)
from trailgate.columnar.temporal import ISO_T, format_times
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.publications.xml_row_pieces import (
    LargeObjectColumn,
    attribute_piece,
    publication_error,
    row_pieces,
)
from trailgate.formats.publications.xml_schemas import schema_columns
from trailgate.formats.publications.xml_vocabulary import (
    LARGE_OBJECT,
    REFERENCES,
    ROOT,
    ROW,
    TABLE,
    TRANSACTION,
    TYPE_OF,
    VERSION,
    escape_attribute,
)
from trailgate.messages.publishing import (
    EARLIER,
    NO_MESSAGES,
    MessageCuts,
    PublishOptions,
    WrittenMessages,
    cut_messages,
)
from trailgate.messages.publishing import ROW as ONE_ROW
from trailgate.model.changes import (
    ChangeBatch,
    ChangeBlock,
)
from trailgate.model.table_names import split_owner
from trailgate.model.tables import Table
from trailgate.model.transactions import find_begin_rows, mask_begins, mask_ends

ESCAPES: Final = EscapeTable.of(
    {byte: text.encode() for byte, text in REFERENCES.items()},
    [0xEF, *(byte for byte in range(32) if byte not in REFERENCES)],
    problem="the value has a control character, which XML does not allow",
    hint="Publish in another format, such as json",
)
INLINE: Final = "inline"
MESSAGES: Final = "messages"


_LONGEST: Final = 6  # bytes of the longest reference, such as &quot;
_SERVER: Final = 'dbServerType="QDB2" dbRelease="" dbInstance="" capRelease=""'
NAMESPACE: Final = b'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_DIGITS: Final = 20  # the most digits of a segment number
# Characters of a time such as 2024-05-01T10:00:00.123456.
_TIME: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlPublishOptions(PublishOptions):
    """How XML publications are written."""

    database: Annotated[str, "the name of the source (dbName)"] = ""
    queue: Annotated[str, "the name of the send queue in schema messages"] = ""
    schemas: Annotated[bool, "write a table's schema message (subSchema) before its first row"] = (
        False
    )
    lobs: Annotated[
        Literal["inline", "messages"], "write large objects in their rows, or in separate messages"
    ] = INLINE

    def __post_init__(self) -> None:
        """Raise OptionError if options for XML publications contradict each other."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        if self.queue and not self.schemas:
            problem = f"queue is set to {self.queue!r}, but only schema messages name a queue"
            raise OptionError(problem, hint="Set schemas=true too")


@dataclass(frozen=True, slots=True)
class _Large:
    """A written large object: the index of its operation in the batch, and its `lob` messages."""

    order: int
    bodies: tuple[bytes, ...]


class ExtraMessages:
    """Creates schema and large object messages, and inserts them among the XML publications with rows.

    `around` wraps an element into a message.
    """

    def __init__(self, options: XmlPublishOptions, around: Callable[[bytes], bytes]) -> None:
        self.options, self._around = options, around
        self._described: dict[str, Table] = {}
        self._large: list[_Large] = []
        self._after_held: list[bytes] = []  # large objects of the message that is held back

    def add_large(
        self, block: ChangeBlock, columns: Sequence[LargeObjectColumn], numbers: Longs
    ) -> None:
        """Write the `lob` messages of operations' large objects, and keep them for `among`.

        `numbers` are the operations' rowNum.
        """
        common = _common(block.table)
        for column in columns:
            for row in np.flatnonzero(column.rows).tolist():
                text = column.strings[row].as_py()
                given = f'{common} rowNum="{int(numbers[row])}" colName="{_written_message(column.name)}"'
                try:
                    bodies = tuple(self._parts(given, column.type, text))
                except EncodeError as error:
                    raise error.with_place(table=block.table.name, field=column.name) from None
                self._large.append(_Large(int(block.order[row]), bodies))

    def _parts(self, given: str, kind: str, text: str) -> Iterator[bytes]:
        """Yield the `lob` messages of a large object.

        Each contains as much of the value as fits. `given` are the attributes that name its row and
        column.
        """
        binary = TYPE_OF[kind].binary
        total = len(text) // 2 if binary else len(text.encode())
        overhead = len(self._message(given, kind, "", total, total, last=True)) + 4
        # Characters of text per message. In the worst case each character is escaped to `_LONGEST`
        # bytes. For binary values it is an even number of hex digits.
        room = (
            (self.options.max_message_bytes - overhead)
            // (2 if binary else _LONGEST)
            * (2 if binary else 1)
        )
        if room < 1:
            problem = "a message of max_message_bytes has no room for a part of a large object"
            raise EncodeError(problem, hint="Set max-message-bytes")
        for begin in range(0, max(1, len(text)), room):
            part = text[begin : begin + room]
            size = len(part) // 2 if binary else len(part.encode())
            last = begin + room >= len(text)
            yield self._message(given, kind, part, size, total, last=last)

    def _message(
        self, given: str, kind: str, part: str, size: int, total: int, *, last: bool
    ) -> bytes:
        sizes = f'totalDataLen="{total}" dataLen="{size}"'
        inner = f'<{LARGE_OBJECT} isLast="{int(last)}" {given} {sizes}><{kind}>'.encode()
        return self._around(inner + escape_attribute(part) + f"</{kind}></{LARGE_OBJECT}>".encode())

    def among(
        self,
        messages: WrittenMessages,
        blocks: Sequence[ChangeBlock],
        message: Longs,
        complete: int,
    ) -> WrittenMessages:
        """Insert schema messages and `lob` messages among the XML publications with rows.

        A schema message precedes the first row of its table, and a `lob` message follows the
        message of its row. `message` is the message of each operation. The message number
        `complete` is not finished yet, so its large objects are kept until it is.
        """
        after: dict[int, list[bytes]] = {}
        if self._after_held:
            after[0], self._after_held = self._after_held, []
        # Large objects follow the message of their row, in the order of the operations.
        for own in sorted(self._large, key=lambda each: each.order):
            after.setdefault(int(message[own.order]), []).extend(own.bodies)
        self._large = []
        before = self._schemas(blocks, message)
        # What belongs to the open message waits with it. But its table's schema must come before
        # it.
        self._after_held = after.pop(complete, [])
        early = before.pop(complete, [])
        if not (after or before or early):
            return messages
        bodies: list[pa.Array] = []
        orders: list[Longs] = []
        for number in range(complete):
            for own_bodies in (before.get(number), [None], after.get(number)):
                for body in own_bodies or ():
                    own = messages.bodies.slice(number, 1) if body is None else _one(body)
                    bodies.append(own)
                    orders.append(messages.order[number : number + 1])
        for body in early:
            bodies.append(_one(body))
            orders.append(np.array([int(np.argmax(message == complete))]))
        if not bodies:
            return messages
        return WrittenMessages(pa.concat_arrays(bodies), np.concatenate(orders))

    def with_held(self, messages: WrittenMessages) -> WrittenMessages:
        """Return the XML publication that was held back, followed by the large objects of its rows."""
        extra, self._after_held = self._after_held, []
        bodies = pa.concat_arrays([messages.bodies, *map(_one, extra)])
        return WrittenMessages(bodies, np.repeat(messages.order, len(bodies)))

    def _schemas(self, blocks: Sequence[ChangeBlock], message: Longs) -> dict[int, list[bytes]]:
        """Return the schema messages to write before each XML publication (new or changed tables)."""
        found: dict[int, list[bytes]] = {}
        if not self.options.schemas:
            return found
        for block in sorted(blocks, key=lambda each: int(each.order.min())):
            table = block.table
            # The first time, and again if the definition has changed.
            if self._described.get(table.name) != table:
                self._described[table.name] = table
                own = self._schema(table)
                found.setdefault(int(message[block.order.min()]), []).append(own)
        return found

    def _schema(self, table: Table) -> bytes:
        queue = _written_message(self.options.queue)
        inner = f'<{TABLE} {_common(table)} sendQName="{queue}" {_SERVER}>'.encode()
        return self._around(inner + schema_columns(table) + f"</{TABLE}>".encode())


def _common(table: Table) -> str:
    owner, name = split_owner(table.name)
    return f'subName="{_written_message(name)}" srcOwner="{_written_message(owner)}" srcName="{_written_message(name)}"'


def _written_message(text: str) -> str:
    return escape_attribute(text).decode()


def _one(body: bytes) -> pa.Array:
    return pa.array([body], pa.large_binary())


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The envelope attributes of written XML publications: columns with one element per message."""

    csn: pa.Array
    time: pa.Array
    owner: pa.Array
    name: pa.Array

    def slice(self, at: int) -> _Envelope:
        """Return the envelope attributes of one XML publication."""
        return _Envelope(*(own.slice(at, 1) for own in self.columns))

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """The columns of envelope attributes in the order of the fields."""
        return self.csn, self.time, self.owner, self.name

    def followed_by(self, other: _Envelope) -> _Envelope:
        """Append the envelope attributes of other XML publications."""
        pairs = zip(self.columns, other.columns, strict=True)
        return _Envelope(*(pa.concat_arrays(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class _Open:
    """An open XML publication, to which rows may be added: its rows so far, and its attributes.

    `number` is its number in its transaction, from 0.
    """

    rows: Octets
    envelope: _Envelope
    number: int


class XmlWriter:
    """Writes XML publications.

    The last message is held back until it is full or its transaction ends.
    """

    def __init__(self, options: XmlPublishOptions) -> None:
        self.options = options
        self._single = options.content == ONE_ROW
        self._held: _Open | None = None
        self._count = 0  # number of rows of the open transaction so far
        self._extra = ExtraMessages(options, self._around)

    def write(self, batch: ChangeBatch) -> WrittenMessages:
        """Write a batch of operations as XML publications, and return the messages that it completes.

        Raises EncodeError for values that the format cannot express.
        """
        if not batch.rows:
            return NO_MESSAGES
        return _Batch(self, batch).messages()

    def finish(self) -> WrittenMessages:
        """Return the last XML publication, which was held back. Its transaction has not ended."""
        if self._held is None:
            return NO_MESSAGES
        held, self._held = self._held, None
        heads = self.heads(held.envelope, np.array([held.number]), np.zeros(1, bool))
        body = _written(heads, [held.rows], self.tail)
        bodies = pa.array([body], pa.large_binary())
        return self._extra.with_held(WrittenMessages(bodies, np.array([EARLIER])))

    @property
    def tail(self) -> bytes:
        """The end tags of an XML publication with rows."""
        return f"</{ROW if self._single else TRANSACTION}></{ROOT}>".encode()

    def _around(self, inner: bytes) -> bytes:
        """Wrap an element into an XML publication."""
        return self._root() + inner + f"</{ROOT}>".encode()

    def _root(self) -> bytes:
        return b'<?xml version="1.0" encoding="UTF-8"?><%b %b version="%b" dbName="%b">' % (
            ROOT.encode(), NAMESPACE, VERSION.encode(), escape_attribute(self.options.database),
        )  # fmt: skip

    def heads(self, envelope: _Envelope, numbers: Longs, last: Mask) -> MeasuredRows:
        """Build the start tags of XML publications.

        `numbers` are the messages' numbers within their transactions, from 0. `last` marks the
        messages that end a transaction.
        """
        count = len(numbers)
        kind = (ROW if self._single else TRANSACTION).encode()
        # rowOp messages have no segment number.
        segment = (
            ()
            if self._single
            else (attribute_piece(pc.cast(pa.array(numbers + 1), pa.string()), b' segmentNum="'),)
        )
        pieces = (
            attribute_piece(
                pa.array(np.where(last, "1", "0")), self._root() + b"<" + kind + b' isLast="'
            ),
            *segment,
            attribute_piece(envelope.csn, b' cmitLSN="'),
            attribute_piece(envelope.time, b' cmitTime="'),
            attribute_piece(envelope.owner, b' authID="'),
            attribute_piece(envelope.name, b' planName="'),
        )
        return measure_templates([*pieces, RowPiece(None, (PieceForm(b">"),))], count, ESCAPES)

    def overhead(self, block: ChangeBlock) -> int:
        """Return the maximum number of bytes that an XML publication of a block has besides its rows."""
        longest = sum(
            pc.max(pc.binary_length(own)).as_py() or 0
            for own in (block.csn, block.tx_id, block.tx_owner, block.tx_name)
            if own is not None and len(own)
        )
        # 100 bytes are enough for the names and quotes of the six attributes.
        fixed = len(self._root()) + len(self.tail) + _DIGITS + _TIME + 100
        return fixed + _LONGEST * longest


class _Batch:
    """Writes the XML publications of one batch of operations."""

    def __init__(self, writer: XmlWriter, batch: ChangeBatch) -> None:
        self.writer, self.batch = writer, batch
        self.blocks = [block for own in batch.blocks for block in _of_one_type(own)]
        self.marks = batch.tx_indicators()
        self.begins = mask_begins(self.marks)
        self.number = self._numbers()

    def _numbers(self) -> Longs:
        """Return each operation's rowNum in XML publications: its ordinal in its transaction, from 1."""
        rows = np.arange(self.batch.rows)
        begin = find_begin_rows(self.begins)
        found: Longs = np.where(begin >= 0, rows - begin, rows + self.writer._count) + 1  # noqa: SLF001  the batch's own writer
        self.writer._count = 0 if self._is_ended() else int(found[-1])  # noqa: SLF001
        return found

    def _is_ended(self) -> bool:
        return bool(mask_ends(self.marks[-1:])[0])

    def messages(self) -> WrittenMessages:
        """Write the batch, and return the complete XML publications.

        The last one is held back if its transaction continues.
        """
        writer, options = self.writer, self.writer.options
        measured = [self._measure(block) for block in self.blocks]
        sizes = np.empty(self.batch.rows, np.int64)
        for block, rows in zip(self.blocks, measured, strict=True):
            sizes[block.order] = rows.sizes
        held, writer._held = writer._held, None  # noqa: SLF001
        overhead = max(map(writer.overhead, self.blocks))
        cut = cut_messages(
            sizes,
            self.begins,
            options,
            # The message held back from the last batch is the first one here, if there is room in
            # it.
            held=-1 if held is None else len(held.rows) + overhead,
            number=0 if held is None else held.number,
            overhead=overhead,
        )
        return self._write_messages(cut, measured, sizes, held)

    def _measure(self, block: ChangeBlock) -> MeasuredRows:
        numbers = pc.cast(pa.array(self.number[block.order]), pa.string())
        apart = self.writer.options.lobs == MESSAGES
        own = row_pieces(block, numbers, apart=apart)
        if own.large:
            self.writer._extra.add_large(block, own.large, self.number[block.order])  # noqa: SLF001
        try:
            return measure_templates(own.pieces, len(block), ESCAPES)
        except EncodeError as error:
            place = block.position[error.where.record or 0].as_py()
            error.problem = f"{error.problem} (operation at {place})"
            raise error.with_place(table=block.table.name) from None

    def _write_messages(
        self, cut: MessageCuts, measured: list[MeasuredRows], sizes: Longs, held: _Open | None
    ) -> WrittenMessages:
        """Write all XML publications of the batch into one buffer.

        A message consists of its head, the rows held back from an earlier batch (only in the first
        message), its rows, and the tail. `bounds` are the offsets of messages, and `to` the offset
        of each row.
        """
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
        # Only the first message may have rows held back from the batch before.
        old = np.zeros(len(first), np.int64)
        old[: int(before)] = len(held.rows) if held else 0
        all_complete = writer._single or self._is_ended()  # noqa: SLF001
        heads = writer.heads(envelope, numbers, self._last(ends, before=before))
        tail = np.frombuffer(writer.tail, np.uint8)
        total = np.concatenate([[0], np.cumsum(sizes)])
        lengths = heads.sizes + old + total[ends] - total[first] + len(tail)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        out = np.empty(int(bounds[-1]), np.uint8)
        begin = bounds[:-1] + heads.sizes
        heads.write(bounds[:-1], out)
        if held is not None:
            out[begin[0] : begin[0] + len(held.rows)] = held.rows
        message = np.repeat(np.arange(len(first)), ends - first)
        # The start of the message's rows, plus the held rows before them, plus the sizes of the
        # rows of this message that come first.
        to = begin[message] + old[message] + total[:-1] - total[first][message]
        for block, rows in zip(self.blocks, measured, strict=True):
            rows.write(to[block.order], out)
        out[(bounds[1:, None] - len(tail)) + np.arange(len(tail))] = tail
        order = first.copy()
        order[: int(before)] = EARLIER
        complete = len(first) if all_complete else len(first) - 1
        # Keep the rows of the last message: head and tail are written again when it is complete.
        if not all_complete:
            rows_end = int(bounds[-1]) - len(tail)
            kept = out[int(begin[-1]) : rows_end].copy()
            writer._held = _Open(kept, envelope.slice(len(first) - 1), int(numbers[-1]))  # noqa: SLF001
        bodies = _bodies(out, bounds[: complete + 1])
        return writer._extra.among(  # noqa: SLF001
            WrittenMessages(bodies, order[:complete]), self.blocks, message, complete
        )

    def _last(self, ends: Longs, *, before: bool) -> Mask:
        """Return a mask of the written XML publications that end their transaction.

        `ends` is the index after the last operation of each message. With `before`, the first
        message also has rows held back from an earlier batch.
        """
        is_last = np.zeros(len(ends), bool)
        some = ends > 0
        is_last[some] = mask_ends(self.marks[ends[some] - 1])
        if before and ends[0] == 0:
            is_last[0] = bool(
                self.begins[0]
            )  # the held message got no rows: another transaction begins
        return is_last

    def _envelope(self, first: Longs) -> _Envelope:
        """Return the envelope attributes of XML publications, taken from their first operations."""
        place = np.empty(self.batch.rows, np.int64)
        # Blocks are concatenated below: `place` is where each operation of the batch is in that.
        # Example: two blocks with the orders 0 2 and 1 give place 0 2 1.
        place[np.concatenate([block.order for block in self.blocks])] = np.arange(self.batch.rows)
        which = pa.array(place[first])

        def pick(own: Callable[[ChangeBlock], pa.Array]) -> pa.Array:
            return pa.concat_arrays([own(block) for block in self.blocks]).take(which)

        times = np.concatenate([block.op_ts for block in self.blocks])[place[first]]
        return _Envelope(
            pick(_positions),
            format_times(times, ISO_T),
            pick(lambda block: _optional(block.tx_owner, block)),
            pick(lambda block: _optional(block.tx_name, block)),
        )


def _of_one_type(block: ChangeBlock) -> Iterator[ChangeBlock]:
    """Split the operations of a block by type: in XML publications each type has its own template."""
    if not len(block):
        return
    if (block.op_type == block.op_type[0]).all():
        yield block
        return
    for _, rows in group_rows(block.op_type.astype(np.int64)):
        yield block.take(rows)


def _positions(block: ChangeBlock) -> pa.Array:
    """Return the commit positions that XML publications state: the CSNs, or else the transaction ids.

    Raises EncodeError for an operation without CSN and id, because its transaction could not be
    distinguished from the next one.
    """
    positions = block.csn if not block.csn.null_count else pc.coalesce(block.csn, block.tx_id)
    if positions.null_count:
        row = int(np.argmax(positions.is_null().to_numpy(zero_copy_only=False)))
        problem = "the operation has no transaction id and no commit sequence number"
        raise publication_error(block, row, problem, "A publication has one of them")
    return positions


def _optional(own: pa.Array | None, block: ChangeBlock) -> pa.Array:
    return pa.nulls(len(block), pa.string()) if own is None else own


def _written(heads: MeasuredRows, rows: list[Octets], tail: bytes) -> bytes:
    """Join one XML publication: its head, its rows, and its tail."""
    head = np.empty(int(heads.sizes[0]), np.uint8)
    heads.write(np.zeros(1, np.int64), head)
    return b"".join([head.tobytes(), *(own.tobytes() for own in rows), tail])


def _bodies(data: Octets, bounds: Longs) -> pa.LargeBinaryArray:
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)]
    )
