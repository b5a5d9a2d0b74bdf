"""Change blocks of one table to its typed shape: its own columns in their types, and what an operation adds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.columnar.positions import short_position
from trailgate.errors import DecodeError, DefinitionError
from trailgate.model.changes import DELETE, ChangeBatch, ChangeBlock, Image
from trailgate.model.operations_schema import TYPED_FIELDS
from trailgate.model.tables import TABLES, Table
from trailgate.model.types import Family
from trailgate.operations.block_rows import commit_times, image_of, in_order, letters
from trailgate.operations.values import Convert, parser_for, typed_for

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


def check_types(block: ChangeBlock) -> None:
    """Raise DecodeError where a value of either image is not one of its column's type; columns of undefined tables have none.

    Times may have more digits than the typed shape holds.
    """
    if block.table.guessed:
        return
    for number, column in enumerate(block.table.columns):
        convert = parser_for(column) if column.family is Family.DATETIME else typed_for(column)[1]
        for image in (block.before, block.after):
            _converted(block, number, image, convert)


def _typed_column(block: ChangeBlock, number: int, image: Image) -> pa.Array:
    """Return a column of an image in its type."""
    kind, convert = _typed(block.table).columns[number]
    found = _converted(block, number, image, convert)
    return pa.nulls(len(block), kind) if found is None else found


def _converted(block: ChangeBlock, number: int, image: Image, convert: Convert) -> pa.Array | None:
    """Return a column of an image converted, None without values; raises DecodeError with the field and the operation's place in the trail."""
    values = image[number].values
    if values is None:
        return None
    try:
        return convert(values)
    except DecodeError as error:
        row, error.where = error.where.record, replace(error.where, record=None)
        position = None if row is None else block.position[row].as_py()
        if position:
            error.located(source=f"position {short_position(position)}")
        column = block.table.columns[number]
        raise error.located(table=block.table.name, field=column.name) from None


def _typed_of(block: ChangeBlock, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(block)
    images = _chosen_images(block)
    own = [_typed_column(block, number, images) for number in range(len(images))]
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
