"""Convert operations to the columns and types of their target table.

The change blocks of a batch, perhaps from several source tables, become one ``TargetOperations``
per target table, in their order. Each operation has its transaction, the key before and after it,
and its column values; a value may be present, NULL or missing (not logged). ``nets`` and
``replay``, which follow, know nothing of trails and mappings.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.column_types import make_conversion
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.tables import KEYLESS_HINT, TargetColumn, TargetTable
from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.rows import BadRowIsolation, join_arrays, mask_equal_values
from trailgate.errors import ApplyError, DecodeError, TrailgateError, Where
from trailgate.model.changes import (
    ABSENT,
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBlock,
    Image,
    StateColumn,
    select_images,
)
from trailgate.model.positions import short_position

MISSING: Final = "_missing"  # a column of the tables of --mode append
NULL: Final = pa.scalar(None, pa.string())
KEYCOLS: Final = "With KEYCOLS, name columns that are always logged; or log the key columns"


@dataclass(frozen=True, slots=True)
class TargetOperations:
    """Operations on one target table, in order, as arrays with one element per operation.

    - ``order``: the operation's number in the batch, counted over all tables
    - ``op_type``: its type. An update is a key update if it changes the key of the target table
    - ``transaction``: equal for operations of the same transaction
    - ``position``, ``csn``, ``op_ts``, ``tx_id``: where the trail has the operation, and its commit
      (``op_ts`` in microseconds since 1970 UTC)
    - ``weight``: the number of trail operations that this operation stands for, more than one only
      after ``fold_operations``
    - ``key``, ``old_key``: the key columns after and before the operation; they differ only for a
      key update
    - ``values``: the columns after the operation. A delete has the columns before it: only the key
      columns, or all columns in a table without a key (``--mode append``)
    """

    table: TargetTable
    order: Longs
    op_type: Octets
    transaction: Longs
    weight: Longs
    position: pa.Array
    csn: pa.Array
    op_ts: Longs
    tx_id: pa.Array
    key: tuple[pa.Array, ...]
    old_key: tuple[pa.Array, ...]
    values: Image

    def __len__(self) -> int:
        return len(self.op_type)

    def take(self, rows: Longs) -> TargetOperations:
        """Return the operations at the indexes ``rows``, in that order."""
        picked = pa.array(rows)
        return replace(
            self,
            order=self.order[rows],
            op_type=self.op_type[rows],
            transaction=self.transaction[rows],
            weight=self.weight[rows],
            position=self.position.take(picked),
            csn=self.csn.take(picked),
            op_ts=self.op_ts[rows],
            tx_id=self.tx_id.take(picked),
            key=tuple(column.take(picked) for column in self.key),
            old_key=tuple(column.take(picked) for column in self.old_key),
            values=tuple(
                StateColumn(
                    None if one.values is None else one.values.take(picked),
                    None if one.missing is None else one.missing[rows],
                )
                for one in self.values
            ),
        )

    def with_columns_of(self, table: TargetTable) -> TargetOperations:
        """Return the operations with the columns of ``table``, which has all columns of the current table and perhaps more.

        The common columns must have the same types.
        """
        if table == self.table:
            return self
        index_of = {column.name.casefold(): at for at, column in enumerate(self.table.columns)}
        sources = [index_of.get(column.name.casefold()) for column in table.columns]
        values = tuple(ABSENT if at is None else self.values[at] for at in sources)
        return replace(self, table=table, values=values)

    def without(self, numbers: Collection[int]) -> TargetOperations:
        """Return the operations on a target table except those whose ``order`` is in ``numbers``."""
        if not numbers:
            return self
        return self.take(np.flatnonzero(~np.isin(self.order, list(numbers))))

    def without_transactions(self, numbers: Collection[int]) -> TargetOperations:
        """Return the operations on a target table except those whose ``transaction`` is in ``numbers``."""
        if not numbers:
            return self
        return self.take(np.flatnonzero(~np.isin(self.transaction, list(numbers))))

    def shown_position(self, row: int) -> str:
        """Format the trail position of the operation at index ``row`` for an error message."""
        return f"position {short_position(self.position[row].as_py())}"

    def shown_key(self, row: int, *, old: bool = False) -> str:
        """Format the key of the operation at index ``row`` for an error, such as ``id=7, part='a'``."""
        columns = self.old_key if old else self.key
        named = zip(self.table.key_names, columns, strict=True)
        return ", ".join(f"{name}={column[row].as_py()!r}" for name, column in named)

    def between_truncates(self) -> Iterator[tuple[TargetOperations, int | None]]:
        """Split the operations on a target table at each truncate.

        Yields each part, even if it is empty, with the transaction number of the truncate that
        follows it, or None after the last part. A truncate may be in the middle of its transaction.
        """
        cuts = np.flatnonzero(self.op_type == TRUNCATE)
        if not len(cuts):
            yield self, None
            return
        # Truncates in rows 2 and 3 of 6 operations: the parts are the rows 0 to 1, none, and 4 to 5.
        starts, ends = np.append(0, cuts + 1), np.append(cuts, len(self))
        numbers = [*self.transaction[cuts].tolist(), None]
        for start, end, number in zip(starts.tolist(), ends.tolist(), numbers, strict=True):
            yield self.take(np.arange(start, end)), number


def convert_blocks(
    table: TargetTable,
    blocks: Sequence[ChangeBlock],
    transactions: Sequence[Longs],
    faults: OperationErrors | None = None,
) -> TargetOperations:
    """Convert blocks, after MAP, to the columns, types and key of their target table, sorted by ``order``.

    ``transactions`` contains each block's transaction numbers.

    Errors are added to ``faults``, with the operation's position: an ApplyError for a key that is
    NULL or not logged, and a DecodeError for a value that does not fit the column. Such a value
    becomes NULL, and its operation must not be applied. Without ``faults``, the first error is
    raised.
    """
    errors = faults or OperationErrors()
    parts = [
        _of_block(table, block, n, errors) for block, n in zip(blocks, transactions, strict=True)
    ]
    return join_operations(parts)


def _of_block(
    table: TargetTable, block: ChangeBlock, transactions: Longs, faults: OperationErrors
) -> TargetOperations:
    deletes = block.op_type == DELETE
    truncates = block.op_type == TRUNCATE
    pairs = list(zip(table.source_indexes(block.table), table.columns, strict=True))
    rows = len(block)
    before, after = (
        [
            _column(block, source_index, column, image, faults, is_key=at in table.key)
            for at, (source_index, column) in enumerate(pairs)
        ]
        for image in (_needed_before(table, block, deletes), block.after)
    )
    # select_images(a, b, mask) takes a in the rows of the mask, and b in the others.
    values = tuple(select_images(old, new, deletes) for old, new in zip(before, after, strict=True))
    if not table.key:
        values = _with_unchanged_keys(block, pairs, values, tuple(before))
        values = _with_missing_names(table, block, values)
    keys, old_keys = [], []
    for at in table.key:
        new, old = (
            _first_known(after[at], before[at], rows),
            _first_known(before[at], after[at], rows),
        )
        key = select_images(old, new, deletes)
        # An insert has no key before it: the new key takes its place, so that the two are equal.
        old = select_images(new, old, block.op_type == INSERT)
        for one in (key, old):
            _check_key(table, block, at, one, ~truncates, faults)
        key_type = table.columns[at].type
        keys.append(pa.nulls(rows, key_type) if key.values is None else key.values)
        old_keys.append(pa.nulls(rows, key_type) if old.values is None else old.values)
    updates = (block.op_type == UPDATE) | (block.op_type == KEY_UPDATE)
    op_types = block.op_type
    if table.key:
        # The source's own key may be another one, so compare the values of the target's key.
        moved = updates & _differing(keys, old_keys)
        op_types = np.where(updates, np.where(moved, KEY_UPDATE, UPDATE), op_types).astype(np.uint8)
    return TargetOperations(
        table=table,
        order=block.order,
        op_type=op_types,
        transaction=transactions,
        weight=np.ones(rows, np.int64),
        position=block.position,
        csn=block.csn,
        op_ts=block.op_ts,
        tx_id=block.tx_id,
        key=tuple(keys),
        old_key=tuple(old_keys),
        values=values,
    )


def _with_unchanged_keys(
    block: ChangeBlock,
    pairs: Sequence[tuple[int | None, TargetColumn]],
    values: Image,
    before: Image,
) -> Image:
    """Complete the source's key columns of updates, for a table without a key (``--mode append``).

    If an update does not log the after value of a key column, the value has not changed, so the
    before value is used.
    """
    return tuple(
        _first_known(one, old, len(block)) if source_index in block.table.marked_keys else one
        for (source_index, _), one, old in zip(pairs, values, before, strict=True)
    )


def _with_missing_names(table: TargetTable, block: ChangeBlock, values: Image) -> Image:
    """Set the column ``_missing``: for each operation, a JSON list of the columns that it does not log, for example ``["NAME"]``.

    It is NULL for a truncate. Only columns of the operation's own definition are listed. Otherwise
    the list would depend on how batches are cut: a column that the trail adds later would be in
    the list only if both operations are in one batch.
    """
    rows = len(block)
    defined = zip(table.source_indexes(block.table), table.columns, values, strict=True)
    # binary_join_element_wise returns NULL if one of its strings is NULL, so a column that is
    # logged contributes "". The first name then starts with ", ", which is removed below.
    parts = [
        pc.if_else(pa.array(one.is_missing(rows)), f", {json.dumps(column.name)}", "")
        for source_index, column, one in defined
        if source_index is not None
    ]
    listed = pc.binary_join_element_wise("[", *parts, "]", "")
    listed = pc.replace_substring(listed, "[, ", "[", max_replacements=1)
    listed = pc.if_else(pa.array(block.op_type == TRUNCATE), NULL, listed)
    return tuple(
        StateColumn(listed.cast(column.type)) if column.name == MISSING else one
        for column, one in zip(table.columns, values, strict=True)
    )


def _needed_before(table: TargetTable, block: ChangeBlock, deletes: Mask) -> Image:
    """Return a block's before images without the values that are never written, which need not fit the target.

    If the target table has a key, only its key columns are kept. In a table without a key
    (``--mode append``) deletes keep all columns, and other operations keep the source's key columns
    whose after value is not logged.
    """
    if not table.key:
        rows, own = len(block), block.table.marked_keys
        return tuple(
            _keep_only(one, deletes | new.is_missing(rows) if at in own else deletes)
            for at, (one, new) in enumerate(zip(block.before, block.after, strict=True))
        )
    sources = table.source_indexes(block.table)
    keys = {sources[at] for at in table.key}
    return tuple(one if at in keys else ABSENT for at, one in enumerate(block.before))


def _keep_only(column: StateColumn, kept: Mask) -> StateColumn:
    """Make all values of a column null and missing except the kept ones, so that they are never cast."""
    if column.values is None:
        return column
    values = pc.if_else(pa.array(kept), column.values, pa.scalar(None, column.values.type))
    return StateColumn(values, column.is_missing(len(kept)) | ~kept)


def _column(
    block: ChangeBlock,
    source_index: int | None,
    target: TargetColumn,
    image: Image,
    faults: OperationErrors,
    *,
    is_key: bool,
) -> StateColumn:
    """Convert one column of a block's image to the type of the target column.

    If the source does not have the column, all values are missing.
    """
    if source_index is None or image[source_index].values is None:
        return ABSENT
    column, values = block.table.columns[source_index], image[source_index].values
    assert values is not None
    convert = make_conversion(column, target, is_key=is_key)

    def locate(error: TrailgateError, row: int | None) -> TrailgateError:
        error.with_place(table=block.table.name, field=column.name)
        where = error.where if row is None else replace(error.where, record=None)
        source = None if row is None else _position_text(block, row)
        error.where = replace(where, source=where.source or source)
        return error

    try:
        return StateColumn(convert(values), image[source_index].missing)
    except DecodeError as error:
        if faults.stop or error.where.record is None:
            raise locate(error, error.where.record) from None
    except TrailgateError as error:
        raise locate(error, None) from None
    # Some value does not fit. Halve the rows until each bad one is alone, and convert the others.
    isolation = BadRowIsolation(len(block))
    for rows in isolation:
        with isolation:
            convert(values.slice(rows.start, len(rows)))
    # The bad values become NULL, and the column is converted once more: now nothing can fail.
    fits = np.ones(len(block), bool)
    for row, one in isolation.errors.items():
        faults.add(int(block.order[row]), locate(one, row))
        fits[row] = False
    good = pc.if_else(pa.array(fits), values, pa.scalar(None, values.type))
    return StateColumn(convert(good), image[source_index].missing)


def _position_text(block: ChangeBlock, row: int) -> str:
    return f"position {short_position(block.position[row].as_py())}"


def _first_known(first: StateColumn, second: StateColumn, rows: int) -> StateColumn:
    """Return a column's values from the first image; missing values are taken from the second image."""
    return select_images(second, first, first.is_missing(rows))


def _check_key(
    table: TargetTable,
    block: ChangeBlock,
    at: int,
    key: StateColumn,
    needed: Mask,
    faults: OperationErrors,
) -> None:
    """Add an error for each operation whose key column is NULL or not logged.

    ``key`` are the values of the column at index ``at``. Only operations in the mask ``needed`` are
    checked. NULL is allowed if the table is ``keyless``.
    """
    missing = key.is_missing(len(block)) & needed
    nulls = np.zeros(len(block), bool)
    if not table.keyless and key.values is not None and key.values.null_count:
        # A missing value is null in ``values`` too, but it has its own error.
        nulls = np.asarray(key.values.is_null()) & needed & ~missing
    for row in np.flatnonzero(missing | nulls).tolist():
        problem = "the key is NULL"
        if missing[row]:
            problem = "the operation does not log the key column"
        if table.keyless:
            problem = "the table has no known key, so all its columns are used as the key, but the operation does not log this one"
        where = Where(
            source=_position_text(block, row), table=block.table.name, field=table.columns[at].name
        )
        hint = KEYLESS_HINT if table.keyless else KEYCOLS
        faults.add(int(block.order[row]), ApplyError(problem, where=where, hint=hint))


def _differing(new: Sequence[pa.Array], old: Sequence[pa.Array]) -> Mask:
    differs = np.zeros(len(new[0]), bool)
    for one, other in zip(new, old, strict=True):
        differs |= ~mask_equal_values(one, other)
    return differs


def join_operations(parts: Sequence[TargetOperations]) -> TargetOperations:
    """Concatenate operations on one target table, sorted by ``order``."""
    joined = parts[0] if len(parts) == 1 else _join(parts)
    # Usually sorted already, because the parts follow each other in the trail.
    if (joined.order[1:] >= joined.order[:-1]).all():
        return joined
    return joined.take(np.argsort(joined.order, kind="stable"))


def _join(parts: Sequence[TargetOperations]) -> TargetOperations:
    def strings(name: str) -> pa.Array:
        return join_arrays([getattr(part, name) for part in parts])

    columns = range(len(parts[0].values))
    keys = range(len(parts[0].key))
    return replace(
        parts[0],
        order=np.concatenate([part.order for part in parts]),
        op_type=np.concatenate([part.op_type for part in parts]),
        transaction=np.concatenate([part.transaction for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
        position=strings("position"),
        csn=strings("csn"),
        op_ts=np.concatenate([part.op_ts for part in parts]),
        tx_id=strings("tx_id"),
        key=tuple(join_arrays([part.key[at] for part in parts]) for at in keys),
        old_key=tuple(join_arrays([part.old_key[at] for part in parts]) for at in keys),
        values=tuple(
            _join_states([(part.values[at], len(part)) for part in parts]) for at in columns
        ),
    )


def _join_states(parts: Sequence[tuple[StateColumn, int]]) -> StateColumn:
    known = next((one.values for one, _ in parts if one.values is not None), None)
    if known is None:
        return ABSENT
    values = [
        pa.nulls(rows, known.type) if one.values is None else one.values for one, rows in parts
    ]
    if all(one.values is not None and one.missing is None for one, _ in parts):
        return StateColumn(join_arrays(values))
    return StateColumn(
        join_arrays(values), np.concatenate([one.is_missing(rows) for one, rows in parts])
    )
