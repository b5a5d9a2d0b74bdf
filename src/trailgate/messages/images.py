"""Decide which columns of an operation are written to the trail (capture properties §4).

- An insert has all after values.
- An update has the keys and the changed columns. It has all columns if its before values are
  missing, because then nothing can be compared, or with NOCOMPRESSUPDATES. GETUPDATEBEFORES adds
  the before values of the same columns.
- An update that changes the key is a key update. It has the old key even without GETUPDATEBEFORES.
- A delete has the before values of the keys, or of all columns with NOCOMPRESSDELETES.

If no column is marked as key, all columns identify the row (decision 0008): updates and deletes
then have all before values. ``check_keys`` refuses before images in which a key is NULL.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.rows import nullify_rows
from trailgate.columnar.strings import mask_differing_rows
from trailgate.expressions.capture_rules import CaptureRules
from trailgate.messages.records import MessageRecordGroup, R, RowErrors
from trailgate.model.changes import (
    ABSENT,
    DELETE,
    KEY_UPDATE,
    UPDATE,
    ChangeBlock,
    Image,
    StateColumn,
)

_NULL_KEY_HINT: Final = (
    "The row cannot be found by such a key. Are before values sent with this record?"
)


def shape_images(block: ChangeBlock, rules: CaptureRules) -> ChangeBlock:
    """Reduce the images of operations to the columns that are written to the trail.

    `rules` are the Extract parameters such as COMPRESSUPDATES. `block` has one operation type, or
    inserts and updates without before values. In the result, updates that change the key are key
    updates.
    """
    kind = int(block.op_type[0])
    # Only the keys of deletes remain (COMPRESSDELETES).
    if kind == DELETE and rules.compress_deletes:
        return block.with_columns(before=_keep_columns(block.before, block.table.keys))
    return _shape_updates(block, rules) if kind == UPDATE else block


def with_operation_types(block: ChangeBlock) -> ChangeBlock:
    """Return a block in which the updates that change a key have the type key update.

    A block whose first operation is an update and that has before values must contain only updates.
    """
    if not len(block) or block.op_type[0] != UPDATE or not _has_befores(block):
        return block
    moved = _key_moves(block)
    op_type = np.where(moved, KEY_UPDATE, block.op_type).astype(np.uint8)
    return block.with_columns(op_type=op_type)


def _has_befores(block: ChangeBlock) -> bool:
    return any(column.values is not None for column in block.before)


def image_notes(block: ChangeBlock) -> frozenset[str]:
    """Return warnings about the images of operations, which a run reports once."""
    if block.table.marked_keys or _has_befores(block) or not (block.op_type == UPDATE).any():
        return frozenset()
    name = block.table.name
    lost = "nothing in the trail identifies the row that they change"
    return frozenset([f"updates of {name}, which has no marked key, lack before values: {lost}"])


def _keep_columns(image: Image, columns: tuple[int, ...]) -> Image:
    return tuple(column if i in columns else ABSENT for i, column in enumerate(image))


def _shape_updates(block: ChangeBlock, rules: CaptureRules) -> ChangeBlock:
    if not _has_befores(block):
        return block
    kept = _rows_to_keep(block) if rules.compress_updates else None
    marked, moved = block.table.marked_keys, _key_moves(block)
    before = block.before
    if marked and not rules.update_befores:
        # A key update keeps the old key even if before values are not wanted.
        before = _mask_image(_keep_columns(before, marked), [moved] * len(before))
    types = np.where(moved, KEY_UPDATE, UPDATE).astype(np.uint8) if moved.any() else block.op_type
    after = block.after
    if kept is not None:
        before, after = _mask_image(before, kept), _mask_image(after, kept)
    return block.with_columns(op_type=types, before=before, after=after)


def _key_moves(block: ChangeBlock) -> Mask:
    """Return a mask of the updates that change a marked key column.

    A key column that is missing in one of the images counts as unchanged.
    """
    moved = np.zeros(len(block), bool)
    for key in block.table.marked_keys:
        before, after = block.before[key], block.after[key]
        # Only rows in which both images log the key column can show that it changed.
        both = ~(before.is_missing(len(block)) | after.is_missing(len(block)))
        moved |= _changed_rows(before, after, len(block)) & both
    return moved


def _rows_to_keep(block: ChangeBlock) -> list[Mask | None]:
    """Return for each column a mask of the updates that keep it, or None if all do.

    Keys are kept in every update, other columns only in the updates that change them.
    """
    keys = block.table.keys
    return [
        None if i in keys else _changed_rows(before, after, len(block))
        for i, (before, after) in enumerate(zip(block.before, block.after, strict=True))
    ]


def _changed_rows(before: StateColumn, after: StateColumn, rows: int) -> Mask:
    """Return a mask of the rows in which a column's before and after value differ.

    If the value is missing in only one of the images, the column counts as changed.
    """
    # If one image lacks the column, it changed in all rows; if both do, in none.
    if before.values is None or after.values is None:
        return np.full(rows, after.values is not None or before.values is not None)
    if pa.types.is_string(before.values.type) and pa.types.is_string(after.values.type):
        differing: Mask = mask_differing_rows(before.values, after.values)
        if before.missing is not None or after.missing is not None:
            differing |= before.is_missing(rows) != after.is_missing(rows)
        return differing
    one_sided: Mask = before.is_missing(rows) != after.is_missing(rows)
    same = pc.equal(before.values, after.values)
    equal = np.asarray(pc.fill_null(same, False) if same.null_count else same)
    if same.null_count:
        equal = equal | (np.asarray(before.values.is_null()) & np.asarray(after.values.is_null()))
    differs: Mask = ~equal | one_sided
    return differs


def _mask_image(image: Image, kept: list[Mask | None]) -> Image:
    """Leave values of an image out of the trail: column i keeps its values only in the rows of `kept[i]`, and is missing in the others.

    If `kept[i]` is None, the column keeps all its values.
    """
    return tuple(
        column if mask is None else _mask(column, mask)
        for column, mask in zip(image, kept, strict=True)
    )


def _mask(column: StateColumn, kept: Mask) -> StateColumn:
    if column.values is None or kept.all():
        return column
    if not kept.any():
        return ABSENT
    missing = ~kept if column.missing is None else ~kept | column.missing
    return StateColumn(nullify_rows(column.values, missing), missing)


def check_keys(group: MessageRecordGroup[R], before: Image) -> None:
    """Add an error to each record whose before image has a NULL key (decision 0008).

    A key column that is not nullable must have a value. Definitions of Oracle tables declare all
    columns nullable (capture properties §9.2), so of the nullable key columns only one needs a
    value.
    """
    nulls = {key: _nulls(before[key], len(group.rows)) for key in group.table.marked_keys}
    if not any(mask.any() for mask in nulls.values()):
        return
    # A nullable column is an error only in rows in which all key columns are NULL.
    all_null = np.logical_and.reduce(list(nulls.values()))
    for key, mask in nulls.items():
        column = group.table.columns[key]
        group.add(
            group.rows[all_null if column.nullable else mask], _null_key_error(group, column.name)
        )


def _nulls(column: StateColumn, rows: int) -> Mask:
    values = column.values
    if values is None or not values.null_count:
        return np.zeros(rows, bool)
    nulls: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return nulls if column.missing is None else nulls & ~column.missing


def _null_key_error(group: MessageRecordGroup[R], name: str) -> RowErrors:
    problem = f"the before value of key column {name} is NULL"
    return lambda rows: group.records.errors(
        rows, problem, _NULL_KEY_HINT, table=group.table.name, field=name
    )
