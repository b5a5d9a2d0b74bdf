"""Change blocks of one table to its typed shape: its own columns in their types, and what an operation adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trailgate.errors import DefinitionError
from trailgate.model.changes import DELETE, ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.operations_schema import COMMIT_TIME, TYPED_FIELDS
from trailgate.model.tables import Table
from trailgate.operations.block_rows import image_of, in_order, letters
from trailgate.operations.values import typed_for


def typed_schema(table: Table) -> pa.Schema:
    """Return the typed shape of a table: its columns, then ``_op_type`` and the others."""
    own = [pa.field(column.name, typed_for(column)[0]) for column in table.columns]
    return pa.schema([*own, *TYPED_FIELDS])


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


def _typed_of(block: ChangeBlock, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(block)
    deletes = block.op_type == DELETE
    images = [
        image_of(before, after, deletes)
        for before, after in zip(block.before, block.after, strict=True)
    ]
    own = []
    for column, image in zip(block.table.columns, images, strict=True):
        kind, convert = typed_for(column)
        own.append(pa.nulls(rows, kind) if image.values is None else convert(image.values))
    names = [column.name for column in block.table.columns]
    arrays = [
        *own,
        letters(block.op_type),
        pa.array(block.op_ts).view(COMMIT_TIME),
        block.tx_id,
        block.csn,
        block.position,
        _missing_names(names, images, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _missing_names(names: Sequence[str], images: Sequence[StateColumn], rows: int) -> pa.ListArray:
    if all(image.values is not None and image.missing is None for image in images):
        none = np.zeros(rows + 1, np.int32)
        return pa.ListArray.from_arrays(pa.array(none), pa.array([], pa.string()))
    missing = np.stack([image.is_missing(rows) for image in images], axis=1)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(missing.sum(axis=1), out=offsets[1:])
    which = np.nonzero(missing)[1]
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(names, pa.string()).take(pa.array(which))
    )
