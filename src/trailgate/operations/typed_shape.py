"""Change blocks of one table to its typed shape: its own columns in their types, and what an operation adds."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.errors import DefinitionError
from trailgate.model.changes import DELETE, ChangeBatch, ChangeBlock, Image
from trailgate.model.operations_schema import TYPED_FIELDS
from trailgate.model.tables import TABLES, Table
from trailgate.operations.block_rows import commit_times, image_of, in_order, letters
from trailgate.operations.values import Convert, typed_for

_NAMES: Final = pa.list_(pa.string())
_NO_NAME: Final = pa.array([], pa.string())


class _TypedTable(NamedTuple):
    """The typed shape of a table, and how each of its columns becomes one of that."""

    schema: pa.Schema
    columns: tuple[tuple[pa.DataType, Convert], ...]


@lru_cache(TABLES)
def _typed(table: Table) -> _TypedTable:
    columns = tuple(map(typed_for, table.columns))
    own = [
        pa.field(column.name, kind)
        for column, (kind, _) in zip(table.columns, columns, strict=True)
    ]
    return _TypedTable(pa.schema([*own, *TYPED_FIELDS]), columns)


def typed_schema(table: Table) -> pa.Schema:
    """Return the typed shape of a table: its columns, then ``_op_type`` and the others."""
    return _typed(table).schema


def to_typed(batch: ChangeBatch, table: Table) -> pa.RecordBatch:
    """Return one table's operations in its typed shape, in the batch's order.

    Values come from the after image, for deletes from the before image. Raises DecodeError for
    a value that the typed shape cannot hold.
    """
    schema = typed_schema(table)
    wanted = [
        block
        for block in batch.blocks
        if len(block) and block.table.name.casefold() == table.name.casefold()
    ]
    if any(block.table.guessed for block in wanted):
        raise DefinitionError(
            f"the columns of table {table.name} are numbered, since nothing in the trail defines them",
            hint="Read it without its types, or give definitions that name it",
        )
    for block in wanted:
        if block.table is not table and typed_schema(block.table) != schema:
            raise DefinitionError(
                f"table {table.name} has other columns in the trail than in the definitions",
                hint="Read it by the trail's own definition, or read operations instead of types",
            )
    parts = [_typed_of(block, schema) for block in wanted]
    return in_order(parts, [block.order for block in wanted], schema)


def check_typed(batch: ChangeBatch) -> None:
    """Raise DecodeError where the typed shape of a table cannot hold a value; tables that nothing defines have none."""
    for block in batch.blocks:
        if not block.table.guessed:
            _typed_of(block, typed_schema(block.table))


def _typed_of(block: ChangeBlock, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(block)
    images = _chosen_images(block)
    own = [
        pa.nulls(rows, kind) if image.values is None else convert(image.values)
        for (kind, convert), image in zip(_typed(block.table).columns, images, strict=True)
    ]
    arrays = [
        *own,
        letters(block.op_type),
        commit_times(block.op_ts),
        block.tx_id,
        block.csn,
        block.position,
        _missing_names(block.table, images, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chosen_images(block: ChangeBlock) -> Image:
    """Return the columns of before images where rows are deletes, of after images elsewhere."""
    deletes = block.op_type == DELETE
    if not deletes.any():
        return block.after
    if deletes.all():
        return block.before
    both = zip(block.before, block.after, strict=True)
    return tuple(image_of(before, after, deletes) for before, after in both)


def _missing_names(table: Table, images: Image, rows: int) -> pa.ListArray:
    if all(image.values is not None and image.missing is None for image in images):
        none = pa.py_buffer(np.zeros(rows + 1, np.int32))
        return pa.Array.from_buffers(_NAMES, rows, [None, none], children=[_NO_NAME])
    missing = np.stack([image.is_missing(rows) for image in images], axis=1)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(missing.sum(axis=1), out=offsets[1:])
    which = np.nonzero(missing)[1]
    names = pa.array([column.name for column in table.columns], pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(which)))
