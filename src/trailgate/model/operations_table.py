"""Convert change blocks to the operations table, and back.

Each block becomes one record batch, whose maps (column name to value) are built from whole columns
(``columnar/maps.py``). Then the rows of all blocks are put in their common order. In the opposite
direction, the rows of each table become one block, and the table's definition determines how their
strings are converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.maps import columns_to_maps, maps_to_columns
from trailgate.columnar.rows import row_error
from trailgate.columnar.strings import codes_to_letters
from trailgate.errors import DecodeError, DefinitionError
from trailgate.model.changes import (
    COMMIT_TIME,
    OP_TYPES,
    OPERATIONS_SCHEMA,
    TX_INDICATORS,
    YEAR_1,
    YEAR_10000,
    ChangeBatch,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.tables import TABLES, Definitions, Table
from trailgate.model.values import Convert, formatter_for, parser_for

_FIELDS: Final = tuple((field.name, field.type) for field in OPERATIONS_SCHEMA)


def merge_in_order(
    parts: Sequence[pa.RecordBatch], orders: Sequence[Longs], schema: pa.Schema
) -> pa.RecordBatch:
    """Merge record batches, one for each change block, into one with the rows in the order of the operations.

    ``orders[i]`` has the number of each row of ``parts[i]`` in the batch; numbers may be missing.
    """
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    order = orders[0] if len(orders) == 1 else np.concatenate(orders)
    joined = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    if (order[1:] > order[:-1]).all():
        return joined
    return joined.take(pa.array(np.argsort(order)))


def mask_undatable(micros: Longs) -> Mask:
    """Return a mask of the times outside the years 1 to 9999, for which the operations table has no commit time."""
    outside: Mask = (micros < YEAR_1) | (micros >= YEAR_10000)
    return outside


def commit_times(micros: Longs) -> pa.TimestampArray:
    """Build the column of the operations' commit times from microseconds since 1970, without a copy. Times outside the years 1 to 9999 are null."""
    undated = mask_undatable(micros)
    if undated.any():
        return pa.array(micros, mask=undated).view(COMMIT_TIME)
    values = pa.py_buffer(np.ascontiguousarray(micros))
    return pa.Array.from_buffers(COMMIT_TIME, len(micros), [None, values])


class _WrittenTable(NamedTuple):
    """The names of a table's columns, and for each column a converter to text."""

    names: tuple[str, ...]
    formatters: tuple[Convert, ...]


@lru_cache(TABLES)
def _formatters_of(table: Table) -> _WrittenTable:
    names = tuple(column.name for column in table.columns)
    return _WrittenTable(names, tuple(map(formatter_for, table.columns)))


def to_operations(batch: ChangeBatch) -> pa.RecordBatch:
    """Convert a batch of changes to the operations table, in the order of the batch."""
    parts = [_operations_of(block) for block in batch.blocks if len(block)]
    orders = [block.order for block in batch.blocks if len(block)]
    return merge_in_order(parts, orders, OPERATIONS_SCHEMA)


def _operations_of(block: ChangeBlock) -> pa.RecordBatch:
    rows = len(block)
    table = _formatters_of(block.table)

    def image(columns: Image) -> pa.Array:
        strings = [
            None if column.values is None else write(column.values)
            for write, column in zip(table.formatters, columns, strict=True)
        ]
        return columns_to_maps(table.names, strings, [column.missing for column in columns], rows)

    columns = {
        "table": pa.repeat(pa.scalar(block.table.name, pa.string()), rows),
        "op_type": codes_to_letters(block.op_type),
        "op_ts": commit_times(block.op_ts),
        "tx_id": block.tx_id,
        "tx_ind": codes_to_letters(block.tx_ind),
        "csn": block.csn,
        "seq_id": block.seq_id,
        "position": block.position,
        "tx_owner": block.tx_owner,
        "tx_name": block.tx_name,
        "before": image(block.before),
        "after": image(block.after),
        "tokens": block.tokens,
    }
    arrays = [
        pa.nulls(rows, kind) if columns[name] is None else columns[name] for name, kind in _FIELDS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS_SCHEMA)


class TableSource(Protocol):
    """The interface of table definitions that may depend on the position of an operation."""

    def definitions_of(self, name: str, positions: pa.Array) -> Iterable[tuple[Table, Longs]]:
        """Yield the definitions of a table, each with the indexes of the positions at which it is valid.

        Raises DefinitionError if the table is not defined at a position.
        """
        ...


def from_operations(batch: pa.RecordBatch, definitions: Definitions | TableSource) -> ChangeBatch:
    """Convert an operations table to change blocks, using definitions to parse the values.

    Raises DefinitionError for an unknown table. Raises DecodeError, with the row in ``where.record``, for
    a value that cannot be parsed, or a null in a required column such as ``op_type``.
    """
    names = _require(batch, "table").dictionary_encode()
    codes = names.indices.to_numpy()
    blocks = []
    for code, name in enumerate(names.dictionary.to_pylist()):
        # One pass for each table of the batch. There are few, compared with its rows.
        table_rows = np.flatnonzero(codes == code)
        for table, chosen in _definitions_of(
            definitions, name, batch.column("position"), table_rows
        ):
            rows = table_rows[chosen]
            part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            try:
                blocks.append(_block(part, table, rows))
            except DecodeError as error:
                raise _move(error, rows, name) from error
    return ChangeBatch(blocks, batch.num_rows)


def _definitions_of(
    definitions: Definitions | TableSource, name: str, positions: pa.Array, rows: Longs
) -> Iterable[tuple[Table, Longs]]:
    """Return the definitions of a table, each with the rows of the operations table for which it is valid.

    ``rows`` are the table's rows in the batch, and the operations are indexes into ``rows``.
    ``positions`` are those of all rows of the batch.
    """
    if isinstance(definitions, Definitions):
        return [(definitions.table(name), np.arange(len(rows)))]
    try:
        return list(definitions.definitions_of(name, positions.take(pa.array(rows))))
    except DefinitionError as error:
        if error.where.record is not None:
            error.where = replace(error.where, record=int(rows[error.where.record]))
        raise


def _move(error: DecodeError, rows: Longs, name: str) -> DecodeError:
    """Return a decoding error with its row number in the table's rows changed to that in the batch."""
    where, record = error.where, error.where.record
    moved = DecodeError(error.problem, hint=error.hint)
    return moved.with_place(
        record=None if record is None else int(rows[record]),
        table=name,
        field=where.field,
        raw=where.raw,
    )


def _require(batch: pa.RecordBatch, name: str) -> pa.Array:
    values = batch.column(name)
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise row_error(f"{name} is null", values, row)
    return values


def _block(part: pa.RecordBatch, table: Table, rows: Longs) -> ChangeBlock:
    def optional(name: str) -> pa.Array | None:
        values = part.column(name)
        return None if values.null_count == len(values) else values

    return ChangeBlock(
        table=table,
        order=rows,
        op_type=_codes(part, "op_type", OP_TYPES),
        op_ts=_require(part, "op_ts").view(pa.int64()).to_numpy(),
        tx_ind=_codes(part, "tx_ind", TX_INDICATORS),
        tx_id=part.column("tx_id"),
        csn=part.column("csn"),
        seq_id=optional("seq_id"),
        position=part.column("position"),
        before=_image(part.column("before"), table),
        after=_image(part.column("after"), table),
        tx_owner=optional("tx_owner"),
        tx_name=optional("tx_name"),
        tokens=optional("tokens"),
    )


def _codes(part: pa.RecordBatch, name: str, known: frozenset[str]) -> Octets:
    values = _require(part, name)
    bad = pc.invert(pc.is_in(values, pa.array(sorted(known)))).to_numpy(zero_copy_only=False)
    if bad.any():
        row = int(np.argmax(bad))
        raise row_error(f"{name} is not one of {' '.join(sorted(known))}", values, row)
    start = values.offset
    # Each value is one letter, so its code is the byte at its start offset.
    ends = np.frombuffer(values.buffers()[1], np.int32)[start : start + len(values)]
    codes: Octets = np.frombuffer(values.buffers()[2], np.uint8)[ends]
    return codes


def _image(maps: pa.MapArray, table: Table) -> Image:
    columns = maps_to_columns(maps, [column.name for column in table.columns])
    image = []
    for column, (values, missing) in zip(table.columns, columns, strict=True):
        if values is None:
            image.append(StateColumn(None))
            continue
        try:
            image.append(StateColumn(parser_for(column)(values), missing))
        except DecodeError as error:
            raise error.with_place(field=column.name) from None
        except DefinitionError as error:
            raise error.with_place(table=table.name, field=column.name) from None
    return tuple(image)


def conform_operations(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert rows to all columns of the operations table in their types; missing columns become NULL."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in OPERATIONS_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS_SCHEMA)
