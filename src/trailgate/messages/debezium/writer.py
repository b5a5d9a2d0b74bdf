"""Operations to Debezium's change events: the mirror of ``format``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.messages.debezium.event_keys import event_keys, transaction_keys
from trailgate.messages.debezium.transaction_events import (
    Bounds,
    OpenTransaction,
    begin_events,
    bounds_of,
    end_events,
)
from trailgate.messages.debezium.writer_options import ERROR, PLACEHOLDER, DebeziumPublishOptions
from trailgate.messages.debezium.written_columns import EventColumn, event_columns, event_schema
from trailgate.messages.json_text.images_text import (
    operation_error,
    refuse_image,
)
from trailgate.messages.json_text.objects import (
    BARE,
    STRING,
    MeasuredObjects,
    Piece,
    literal,
    measure,
)
from trailgate.messages.json_text.written_messages import measured_alike, table_numbers, written
from trailgate.messages.publishing.messages import NO_MESSAGES, Messages
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.table_patterns import name_parts, unquoted
from trailgate.model.types import Family

LETTERS: Final[Mapping[int, str]] = MappingProxyType(
    {INSERT: "c", UPDATE: "u", KEY_UPDATE: "u", DELETE: "d", TRUNCATE: "t"}
)
_MILLI: Final = 1000  # microseconds


class DebeziumWriter:
    """Writes change events, one an operation, with the events of transactions' bounds between them."""

    def __init__(self, options: DebeziumPublishOptions) -> None:
        self.options = options
        self._open = OpenTransaction()

    def write(self, batch: ChangeBatch) -> Messages:
        """Return the events of all operations; raises EncodeError for what they cannot hold."""
        if not batch.rows:
            return NO_MESSAGES
        bounds = bounds_of(batch, self._open) if self.options.transactions else None
        rows = np.arange(batch.rows)
        begins = ends = rows[:0]
        measured: list[tuple[Longs, MeasuredObjects]] = []
        keys: list[tuple[Longs, MeasuredObjects]] = []
        if bounds is not None:
            begins, opening = begin_events(bounds)
            ends, closing = end_events(bounds)
        own = rows + np.searchsorted(begins, rows, side="right") + np.searchsorted(ends, rows)
        most = self.options.max_message_bytes
        for alike, objects in measured_alike(batch, partial(self._measured, bounds=bounds), most):
            measured.append((own[alike.order], objects))
            own_keys = event_keys(alike, self.options.prefix, schemas=self.options.schemas)
            if own_keys is not None:
                keys.append((own[alike.order], own_keys))
        if bounds is not None:
            measured += [(own[begins] - 1, opening), (own[ends] + 1, closing)]
            for rows_of, slots in ((begins, own[begins] - 1), (ends, own[ends] + 1)):
                keys.append((slots, transaction_keys(bounds, rows_of)))
        count = batch.rows + len(begins) + len(ends)
        order = np.empty(count, np.int64)
        order[own], order[own[begins] - 1], order[own[ends] + 1] = rows, begins, ends
        topics = self._topics(batch, own, count)
        return Messages(written(measured, count), order, {"topic": topics}, written(keys, count))

    def finish(self) -> Messages:
        """Return no event: none is held back."""
        return NO_MESSAGES

    def _topics(self, batch: ChangeBatch, own: Longs, count: int) -> pa.Array:
        """Return the topic of each event, as Debezium names them."""
        prefix = self.options.prefix
        names = [f"{prefix}.transaction", *(f"{prefix}.{b.table.name}" for b in batch.blocks)]
        codes = np.zeros(count, np.int64)
        codes[own] = table_numbers(batch) + 1
        return pa.array(names, pa.string()).take(pa.array(codes))

    def _measured(self, block: ChangeBlock, bounds: Bounds | None) -> MeasuredObjects:
        """Return the events of operations of one type, measured."""
        kind = int(block.op_type[0])
        if kind == KEY_UPDATE and self.options.key_updates == ERROR:
            problem = "the key changes, which in change events is a delete and an insert"
            hint = "Give the option key_updates=update to write an update with both keys"
            raise operation_error(block, 0, problem, hint)
        pieces = [
            Piece(b"{"),
            *self._image(block, block.before, b"before", kind not in (INSERT, TRUNCATE)),
            *self._image(block, block.after, b"after", kind not in (DELETE, TRUNCATE)),
            *self._metadata(block, bounds),
            Piece(b"}"),
        ]
        if self.options.schemas:
            schema = event_schema(block.table, self.options.prefix)
            pieces = [Piece(b'{"schema":' + schema + b',"payload":'), *pieces, Piece(b"}")]
        return measure(pieces, len(block))

    def _image(
        self, block: ChangeBlock, image: Image, name: bytes, wanted: bool
    ) -> Iterator[Piece]:
        """Yield the pieces of an image; an update without any before value has none."""
        rows = len(block)
        if not wanted:
            refuse_image(block, image, name.decode())
        missing = [state.is_missing(rows) for state in image]
        nothing: Mask = np.ones(rows, bool)
        if wanted:
            nothing = np.logical_and.reduce(missing) if missing else nothing
            if name == b"after" or block.op_type[0] == DELETE:
                nothing = np.zeros(rows, bool)
        if not nothing.all():
            yield Piece(b',"' + name + b'":{', missing=nothing)
            columns = event_columns(block.table)
            for at, (state, column) in enumerate(zip(image, columns, strict=True)):
                own = missing[at] & ~nothing
                if own.any():
                    state = self._without_missing(block, at, state, own)  # noqa: PLW2901  one column after the other
                if state.values is not None:
                    yield self._member(column, state, nothing)
            yield Piece(b"}", missing=nothing)
        yield Piece(b',"' + name + b'":null', missing=~nothing)

    @staticmethod
    def _member(column: EventColumn, state: StateColumn, nothing: Mask) -> Piece:
        written = column.written
        absent = nothing if state.missing is None else nothing | state.missing
        return Piece(written.literal, written.format(state.values), written.kind, absent)

    def _without_missing(
        self, block: ChangeBlock, at: int, state: StateColumn, missing: Mask
    ) -> StateColumn:
        """Return a column in which what is missing is written as is set; raises EncodeError."""
        column = block.table.columns[at]
        if self.options.missing == ERROR:
            problem = f"column {column.name} is missing, and an event has all columns of a row"
            hint = (
                "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), or "
                "give the option missing=omit, or missing=placeholder"
            )
            error = operation_error(block, int(np.argmax(missing)), problem, hint)
            raise error.located(field=column.name)
        if self.options.missing != PLACEHOLDER:
            return state
        if column.family is not Family.TEXT:
            problem = f"column {column.name} is missing, and a placeholder is a value of text columns alone"
            error = operation_error(block, int(np.argmax(missing)), problem, "Set missing=omit")
            raise error.located(field=column.name)
        values = pa.nulls(len(block), pa.string()) if state.values is None else state.values
        return StateColumn(pc.if_else(pa.array(missing), self.options.placeholder, values))

    def _metadata(self, block: ChangeBlock, bounds: Bounds | None) -> Iterator[Piece]:
        options, micros = self.options, block.op_ts
        yield Piece(
            b',"source":{"version":"1","connector":"trailgate","name":' + literal(options.prefix)
        )
        times = _times(micros)
        yield from times
        database, schema, name = _names(block)
        fixed = (b',"snapshot":"false","db":', b',"schema":', b',"table":')
        texts = zip(fixed, (database, schema, name), strict=True)
        yield Piece(b"".join(before + literal(text) for before, text in texts))
        yield Piece(b',"txId":', block.tx_id, STRING)
        yield Piece(b',"scn":', block.csn, STRING)
        yield Piece(b'},"op":' + literal(LETTERS[int(block.op_type[0])]))
        yield from _times(np.full(len(block), options.now, np.int64)) if options.now else times
        if bounds is None:
            return
        ids = block.tx_id
        without = np.asarray(ids.is_null()) if ids.null_count else np.zeros(len(block), bool)
        yield Piece(b',"transaction":{"id":', ids, STRING, without)
        yield Piece(b',"total_order":', _digits(bounds.total[block.order]), BARE, without)
        order = _digits(bounds.of_table[block.order])
        yield Piece(b',"data_collection_order":', order, BARE, without)
        yield Piece(b"}", missing=without)
        yield Piece(b',"transaction":null', missing=~without)


def _names(block: ChangeBlock) -> tuple[str | None, str, str]:
    """Return the database, schema and name of a table; raises EncodeError where there is no schema."""
    parts = list(map(unquoted, name_parts(block.table.name)))
    if not 2 <= len(parts) <= 3:
        problem = f"the table {block.table.name} has no schema, which an event names"
        raise operation_error(block, 0, problem)
    return (parts[0] if len(parts) == 3 else None), parts[-2], parts[-1]


def _times(micros: Longs) -> list[Piece]:
    """Return the pieces of a time in milliseconds, microseconds and nanoseconds."""
    digits = _digits(micros)
    # As text: years after 2262 have more nanoseconds than 64 bits hold.
    nanos = pc.if_else(pc.equal(digits, "0"), "", "000") if (micros == 0).any() else None
    return [
        Piece(b',"ts_ms":', _digits(micros // _MILLI), BARE),
        Piece(b',"ts_us":', digits, BARE),
        Piece(b',"ts_ns":', digits, BARE),
        Piece(b"000") if nanos is None else Piece(b"", nanos, BARE),
    ]


def _digits(numbers: Longs) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
