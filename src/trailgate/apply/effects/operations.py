"""The operations on one target table, in the columns and types of that table.

Change blocks of a batch, which may be of several source tables, become one ``TargetOperations`` a target table: in their order, with the transaction of each, the key before and
after it, and the columns in three states. What follows (``nets``, ``replay``) knows neither trails nor mappings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.tables import KEYLESS_HINT, TargetColumn, TargetTable, make_conversion
from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.digits import short_position
from trailgate.columnar.rows import BadRowIsolation
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
)
from trailgate.model.operations_table import select_images

KEYCOLS: Final = "Name columns that are always logged by KEYCOLS, or log the key's columns"


@dataclass(frozen=True, slots=True)
class TargetOperations:
    """Operations on one target table in their order; every member has one slot an operation.

    ``order`` is the number of each in the whole batch, of all tables. ``values`` are the columns after the operation, for a delete those before it; ``key`` and ``old_key`` the key's columns after and before it, which differ in a key update
    alone. ``transaction`` is a number that is the same for operations of one transaction. ``weight`` is how many operations of the trail each stands for, which is
    more than one after ``fold`` alone.
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
        """Return the operations named, in that order."""
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

    def on(self, table: TargetTable) -> TargetOperations:
        """Return the operations on a table that has all columns of this one, in these types, and perhaps more."""
        if table == self.table:
            return self
        own = {column.name.casefold(): at for at, column in enumerate(self.table.columns)}
        places = [own.get(column.name.casefold()) for column in table.columns]
        values = tuple(ABSENT if at is None else self.values[at] for at in places)
        return replace(self, table=table, values=values)

    def without(self, numbers: Collection[int]) -> TargetOperations:
        """Return the operations whose numbers are not among these."""
        if not numbers:
            return self
        return self.take(np.flatnonzero(~np.isin(self.order, list(numbers))))

    def without_transactions(self, numbers: Collection[int]) -> TargetOperations:
        """Return the operations of other transactions than these."""
        if not numbers:
            return self
        return self.take(np.flatnonzero(~np.isin(self.transaction, list(numbers))))

    def place(self, row: int) -> str:
        """Return where an operation is in its trail, for an error."""
        return f"position {short_position(self.position[row].as_py())}"

    def shown_key(self, row: int, *, old: bool = False) -> str:
        """Return an operation's key as an error shows it: ``id=7, part='a'``."""
        columns = self.old_key if old else self.key
        named = zip(self.table.key_names, columns, strict=True)
        return ", ".join(f"{name}={column[row].as_py()!r}" for name, column in named)

    def between_truncates(self) -> Iterator[tuple[TargetOperations, int | None]]:
        """Yield the operations up to the first truncate, between it and the next one, and so on; those without any are yielded too.

        With each comes the transaction of the truncate after it, which may be in the middle of one; None after the last.
        """
        cuts = np.flatnonzero(self.op_type == TRUNCATE)
        if not len(cuts):
            yield self, None
            return
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
    """Return the operations of blocks, each with the transactions of its rows, on a target table, in their order.

    ``order`` of the blocks is that of the whole batch. ``faults`` are an ApplyError for a key that is not logged or NULL, and a DecodeError for a value that the table cannot
    hold, each with the operation's position; such an operation has NULL in that place, and is not to be applied. Without ``faults`` the first one is raised.
    """
    own = faults or OperationErrors()
    parts = [_of_block(table, block, n, own) for block, n in zip(blocks, transactions, strict=True)]
    return join_operations(parts)


def _of_block(
    table: TargetTable, block: ChangeBlock, transactions: Longs, faults: OperationErrors
) -> TargetOperations:
    deletes = block.op_type == DELETE
    truncates = block.op_type == TRUNCATE
    pairs = list(zip(table.places(block.table), table.columns, strict=True))
    rows = len(block)
    before, after = (
        [
            _column(block, own, column, image, faults, is_key=at in table.key)
            for at, (own, column) in enumerate(pairs)
        ]
        for image in (_needed_before(table, block, deletes), block.after)
    )
    values = tuple(select_images(old, new, deletes) for old, new in zip(before, after, strict=True))
    keys, old_keys = [], []
    for at in table.key:
        new, old = (
            _first_known(after[at], before[at], rows),
            _first_known(before[at], after[at], rows),
        )
        key = select_images(old, new, deletes)
        old = select_images(new, old, block.op_type == INSERT)
        for one in (key, old):
            _check_key(table, block, at, one, ~truncates, faults)
        kind = table.columns[at].type
        keys.append(pa.nulls(rows, kind) if key.values is None else key.values)
        old_keys.append(pa.nulls(rows, kind) if old.values is None else old.values)
    updates = (block.op_type == UPDATE) | (block.op_type == KEY_UPDATE)
    kinds = block.op_type
    if table.key:
        moved = updates & _differing(keys, old_keys)
        kinds = np.where(updates, np.where(moved, KEY_UPDATE, UPDATE), kinds).astype(np.uint8)
    return TargetOperations(
        table,
        block.order,
        kinds,
        transactions,
        np.ones(rows, np.int64),
        block.position,
        block.csn,
        block.op_ts,
        block.tx_id,
        tuple(keys),
        tuple(old_keys),
        values,
    )


def _needed_before(table: TargetTable, block: ChangeBlock, deletes: Mask) -> Image:
    """Return the images before operations without what no table gets of them, so that no value in there has to fit one.

    The key's columns are needed, and all columns of deletes in a table of operations, which has no key.
    """
    if not table.key:
        kept, others = pa.array(deletes), ~deletes
        return tuple(
            one
            if one.values is None
            else StateColumn(
                pc.if_else(kept, one.values, pa.scalar(None, one.values.type)),
                one.is_missing(len(block)) | others,
            )
            for one in block.before
        )
    places = table.places(block.table)
    keys = {places[at] for at in table.key}
    return tuple(one if at in keys else ABSENT for at, one in enumerate(block.before))


def _column(
    block: ChangeBlock,
    own: int | None,
    target: TargetColumn,
    image: Image,
    faults: OperationErrors,
    *,
    is_key: bool,
) -> StateColumn:
    """Return a column of a block's image in the type of the target's; one that the source lacks is missing."""
    if own is None or image[own].values is None:
        return ABSENT
    column, values = block.table.columns[own], image[own].values
    assert values is not None
    convert = make_conversion(column, target, is_key=is_key)

    def place(error: TrailgateError, row: int | None) -> TrailgateError:
        error.with_place(table=block.table.name, field=column.name)
        where = error.where if row is None else replace(error.where, record=None)
        source = None if row is None else _place(block, row)
        error.where = replace(where, source=where.source or source)
        return error

    try:
        return StateColumn(convert(values), image[own].missing)
    except DecodeError as error:
        if faults.stop or error.where.record is None:
            raise place(error, error.where.record) from None
    except TrailgateError as error:
        raise place(error, None) from None
    isolation = BadRowIsolation(len(block))
    for rows in isolation:
        with isolation:
            convert(values.slice(rows.start, len(rows)))
    known = np.ones(len(block), bool)
    for row, one in isolation.errors.items():
        faults.add(int(block.order[row]), place(one, row))
        known[row] = False
    good = pc.if_else(pa.array(known), values, pa.scalar(None, values.type))
    return StateColumn(convert(good), image[own].missing)


def _place(block: ChangeBlock, row: int) -> str:
    return f"position {short_position(block.position[row].as_py())}"


def _first_known(first: StateColumn, second: StateColumn, rows: int) -> StateColumn:
    """Return a column's values in the first image, where they are missing those in the second."""
    return select_images(second, first, first.is_missing(rows))


def _check_key(
    table: TargetTable,
    block: ChangeBlock,
    at: int,
    key: StateColumn,
    asked: Mask,
    faults: OperationErrors,
) -> None:
    """Note the operations that have no value of a column of the key."""
    missing = key.is_missing(len(block)) & asked
    nulls = np.zeros(len(block), bool)
    if not table.keyless and key.values is not None and key.values.null_count:
        nulls = np.asarray(key.values.is_null()) & asked & ~missing
    for row in np.flatnonzero(missing | nulls).tolist():
        problem = "the key is NULL"
        if missing[row]:
            problem = "the operation does not log the key's column"
        if table.keyless:
            problem = "no key of the table is known, so that all its columns are the key, and the operation does not log this one"
        where = Where(
            source=_place(block, row), table=block.table.name, field=table.columns[at].name
        )
        hint = KEYLESS_HINT if table.keyless else KEYCOLS
        faults.add(int(block.order[row]), ApplyError(problem, where=where, hint=hint))


def _differing(new: Sequence[pa.Array], old: Sequence[pa.Array]) -> Mask:
    found = np.zeros(len(new[0]), bool)
    for one, other in zip(new, old, strict=True):
        unequal = pc.fill_null(pc.not_equal(one, other), False)
        null = pc.not_equal(one.is_null(), other.is_null())
        found |= np.asarray(unequal) | np.asarray(null)
    return found


def join_operations(parts: Sequence[TargetOperations]) -> TargetOperations:
    """Return the operations of parts, which are on one table, in their order."""
    whole = parts[0] if len(parts) == 1 else _join(parts)
    if (whole.order[1:] >= whole.order[:-1]).all():
        return whole
    return whole.take(np.argsort(whole.order, kind="stable"))


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


def join_arrays(parts: Sequence[pa.Array]) -> pa.Array:
    """Return arrays one after another as one."""
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
