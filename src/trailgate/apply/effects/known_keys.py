"""Compute the table of known keys: what a trail reveals about a table that was loaded before the trail begins.

``--verify`` compares such a table with the trail. The table's first contents are not in the trail,
so no row is known at first, and later some rows are known in part. Each operation is assumed to
have succeeded: a row that is updated, deleted or moved to another key existed. After the
operations, each key is in one of three states:

- the key has a row; some of its columns are known (they were logged), the others are not
- the key has no row
- unknown: no operation has named the key yet

A row that moves to another key keeps its known columns. The results are stored in the *table of
known keys*, which has one row per key of the first two states. Its boolean column ``EXISTS_FLAG``
("there" below) is true if the row exists, and each column outside the key has a boolean column
(``known_flag_name``) that is true if its value is known. For example, after ``UPDATE ... SET PRICE
= 5 WHERE ID = 7``, if only the changed column was logged (the real names of the flag columns begin
with ``trailgate:``):

    ID  PRICE  NAME  known:PRICE  known:NAME  there
    7   5      NULL  true         false       true

One case is ambiguous within a transaction. If a row moves to an unknown key, and then a row moves
away from that key, the second one may be the same row, or a row that was loaded before. In that
case only the logged values of the two rows are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import (
    NetChanges,
    RowEffect,
    compute_net_changes,
    join_net_changes,
)
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.replay import NOT_LOGGED, logged_images
from trailgate.apply.effects.row_keys import (
    Key,
    build_key_table,
    collect_keys,
    encode_keys,
    key_tuples,
    to_python_values,
)
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import FetchRows, TargetColumn, TargetTable, make_empty_fetch
from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import join_arrays
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, Image, StateColumn

EXISTS_FLAG: Final = "trailgate:there"
# Row indexes of keys that have no row in the table of known keys.
ABSENT_KEY: Final = -2  # the target has no such row
UNKNOWN_KEY: Final = -1


def known_flag_name(column: str) -> str:
    """Return the name of a column's flag in the table of known keys: it is true if the column's value is known."""
    return f"trailgate:known:{column}"


def add_known_flags(table: TargetTable) -> TargetTable:
    """Return the table of known keys for a loaded table: with flag columns for the row and for each of its values."""
    return replace(table, columns=(*table.columns, *_flags(table)))


def _flags(table: TargetTable) -> list[TargetColumn]:
    names = [known_flag_name(table.columns[at].name) for at in _other_columns(table)]
    return [TargetColumn(name, pa.bool_()) for name in (*names, EXISTS_FLAG)]


def _other_columns(table: TargetTable) -> list[int]:
    """Return the indexes of a target table's columns outside the key."""
    return [at for at in range(len(table.columns)) if at not in table.key]


@dataclass(frozen=True, slots=True)
class LoadedTableChanges:
    """Computes the changes to the table of known keys (``--verify``) from the operations on a loaded table.

    ``is_whole`` returns true for a table whose rows are all known, because a truncate emptied it. A
    key of such a table has no row unless it is in the table of known keys. For other tables such a
    key is unknown.
    """

    is_whole: Callable[[TargetTable], bool]

    def effects(
        self,
        operations: TargetOperations,
        fetch: FetchRows,
        policy: CollisionPolicy,
        faults: OperationErrors,
    ) -> Sequence[TableChanges]:
        """Return the changes that a batch makes to the table of known keys. ``fetch`` reads rows of that table."""
        del faults  # discarded operations were excluded before
        # Only the operations after the last truncate matter, and it leaves a table known to be empty.
        *earlier, (last, _) = operations.between_truncates()
        table = operations.table
        is_whole = bool(earlier) or self.is_whole(table)
        known_keys = _KnownKeys(
            make_empty_fetch(add_known_flags(table)) if earlier else fetch, is_whole
        )
        nets, number = compute_net_changes(last)
        parts = [_clean_changes(nets, known_keys, policy)]
        replayed = np.flatnonzero(number < 0)
        if len(replayed):
            parts.append(_replayed_changes(last.take(replayed), known_keys, policy))
        return (TableChanges(join_net_changes(parts), bool(earlier), len(replayed)),)


@dataclass(frozen=True, slots=True)
class _KnownKeys:
    fetch: FetchRows
    is_whole: bool

    def row_indexes(self, keys: Sequence[pa.Array], names: Sequence[str], rows: pa.Table) -> Longs:
        """Return for each key the index of its row in ``rows``, which were read from the table of known keys.

        Without a row, the index is ``ABSENT_KEY`` if all rows of the loaded table are known,
        otherwise ``UNKNOWN_KEY``.
        """
        codes, count = encode_keys(
            [
                join_arrays([key, rows[name].combine_chunks().cast(key.type)])
                for key, name in zip(keys, names, strict=True)
            ]
        )
        size = len(keys[0])  # the codes of ``rows`` follow those of ``keys``
        row_of_code = np.full(count, ABSENT_KEY if self.is_whole else UNKNOWN_KEY)
        row_of_code[codes[size:]] = np.arange(rows.num_rows)
        result: Longs = row_of_code[codes[:size]]
        return result


def _clean_changes(nets: NetChanges, known_keys: _KnownKeys, policy: CollisionPolicy) -> NetChanges:
    """Return the changes to the table of known keys that follow from the net changes of clean keys."""
    if not len(nets):
        return _with_flags(nets, np.zeros(0, bool))
    rows = known_keys.fetch(nets.keys(), True)
    row = known_keys.row_indexes(nets.key, nets.table.key_names, rows)
    is_stored = row >= 0
    exists = is_stored.copy()
    if is_stored.any():
        exists[is_stored] = np.asarray(
            rows[EXISTS_FLAG].combine_chunks().take(pa.array(row[is_stored]))
        )
    absent = (is_stored & ~exists) | (row == ABSENT_KEY)
    updates, deleted = nets.effect == RowEffect.PATCH, nets.effect == RowEffect.DELETE
    # A stored row keeps its other known columns if it is updated, or if an insert overlays it.
    patched = exists & (updates | (nets.effect == RowEffect.INSERT))
    effect = np.where(patched, RowEffect.PATCH, RowEffect.REPLACE).astype(np.uint8)
    changes = _with_flags(replace(nets, effect=effect, expected=is_stored), deleted)
    # An update of a row that is known not to exist is ignored.
    return changes if policy.inserts else changes.where(~(updates & absent))


def _with_flags(nets: NetChanges, deleted: Mask) -> NetChanges:
    """Turn net changes into changes of the table of known keys, by setting its flag columns.

    ``deleted`` is a mask of the rows that are known not to exist. They are stored too, with
    ``EXISTS_FLAG`` false and no known value.
    """
    rows, table = len(nets), nets.table
    flags: list[StateColumn] = []
    for at in _other_columns(table):
        missing = nets.values[at].is_missing(rows)
        # Where the value is missing, its flag is too: a patch then changes neither of them.
        flags.append(StateColumn(pa.array(~missing & ~deleted), missing))
    flags.append(StateColumn(pa.array(~deleted)))
    values = tuple(_clear_rows(one, deleted) for one in nets.values)
    return replace(nets, table=add_known_flags(table), values=(*values, *flags))


def _clear_rows(one: StateColumn, deleted: Mask) -> StateColumn:
    """Set a column's values to NULL and missing in the rows that the mask ``deleted`` selects."""
    if one.values is None or not deleted.any():
        return one
    values = pc.if_else(pa.array(deleted), pa.scalar(None, one.values.type), one.values)
    return StateColumn(values, one.is_missing(len(deleted)) | deleted)


@dataclass(slots=True)
class _Row:
    """A row of a loaded table during the replay. Unknown values are ``NOT_LOGGED``.

    If ``certain`` is false, nothing is known about the row, and it may not even exist. ``logged``
    contains the indexes of the columns that key updates of the open transaction logged.
    """

    values: list[Any]
    certain: bool = True
    logged: set[int] = field(default_factory=set)


def _replayed_changes(
    operations: TargetOperations, known_keys: _KnownKeys, policy: CollisionPolicy
) -> NetChanges:
    """Replay operations on a table that was loaded before the trail, row by row, and return the changes to the table of known keys."""
    table, keys = operations.table, collect_keys(operations)
    rows = known_keys.fetch(build_key_table(table, keys), False)
    replay = _Replay(table, policy)
    replay.begin(keys, rows, known_keys.is_whole)
    replay.run(operations)
    return replay.nets(keys)


class _Replay:
    """Replays operations one by one on what is known about the rows of a loaded table.

    During a transaction several rows may have the same key, oldest first. A key update moves the
    oldest one.
    """

    def __init__(self, table: TargetTable, policy: CollisionPolicy) -> None:
        self._table, self._policy = table, policy
        self._rows: dict[Key, list[_Row]] = {}
        self._stored_keys: set[Key] = set()  # in the table of known keys
        # Keys of the open transaction for which the number of rows is not known.
        self._ambiguous: set[Key] = set()

    def begin(self, keys: Iterable[Key], rows: pa.Table, is_whole: bool) -> None:
        """Start with rows of the table of known keys. ``keys`` are all keys of the operations.

        A key without a row in ``rows`` is unknown; if ``is_whole`` is set, it has no row.
        """
        columns = [to_python_values(rows[one.name]) for one in self._table.columns]
        is_known = [
            [True] * rows.num_rows
            if at in self._table.key
            else rows[known_flag_name(one.name)].to_pylist()
            for at, one in enumerate(self._table.columns)
        ]
        for row, exists in enumerate(rows[EXISTS_FLAG].to_pylist()):
            values = [
                column[row] if flags[row] else NOT_LOGGED
                for column, flags in zip(columns, is_known, strict=True)
            ]
            key = tuple(values[at] for at in self._table.key)
            self._stored_keys.add(key)
            self._rows[key] = [_Row(values)] if exists else []
        # Keys that are not in the table of known keys have no row if it is whole; otherwise
        # nothing is known about them.
        for key in keys:
            self._rows.setdefault(key, [] if is_whole else [self._unknown_row(certain=False)])

    def _unknown_row(self, *, certain: bool = True) -> _Row:
        return _Row([NOT_LOGGED] * len(self._table.columns), certain)

    def run(self, operations: TargetOperations) -> None:
        """Apply the operations in order to what is known about the rows."""
        images = logged_images(operations)
        keys, olds = key_tuples(operations.key), key_tuples(operations.old_key)
        ends = np.append(np.diff(operations.transaction) != 0, True)[: len(operations)]
        touched: set[Key] = set()
        for op_type, key, old, image, is_last in zip(
            operations.op_type.tolist(), keys, olds, images, ends.tolist(), strict=True
        ):
            touched.add(key)
            if op_type == KEY_UPDATE:
                self._move(old, key, image)
            else:
                self._settle(key)
                self._change(op_type, key, image)
            if is_last:
                for one in touched:
                    self._settle(one)
                touched.clear()
                self._ambiguous.clear()

    def _change(self, op_type: int, key: Key, image: Sequence[Any]) -> None:
        rows = self._rows[key]
        if op_type == DELETE:
            rows.clear()
        elif rows:
            rows[0].certain = True
            self._write(rows[0], key, image)
        elif op_type == INSERT or self._policy.inserts:
            rows.append(self._unknown_row())
            self._write(rows[0], key, image)

    def _move(self, old: Key, key: Key, image: Sequence[Any]) -> None:
        rows = self._rows[old]
        moved = rows.pop(0) if rows else self._unknown_row()
        if not moved.certain:
            if rows:  # any of these rows may be the one that moves
                self._ambiguous.add(old)
            if old in self._ambiguous:
                rows[:] = [self._unknown_row(certain=False)]
            moved = self._unknown_row()
        self._write(moved, key, image)
        moved.logged.update(at for at, value in enumerate(image) if value is not NOT_LOGGED)
        self._rows[key].append(moved)

    def _settle(self, key: Key) -> None:
        """Reduce what is known about a key of a loaded table to at most one row.

        If there are several rows, those that may not exist are dropped, and the others are merged.
        """
        rows = self._rows[key]
        if len(rows) > 1:
            certain = [row for row in rows if row.certain]
            for later in certain[1:]:  # like overlaid rows: the logged values win
                for at in later.logged:
                    certain[0].values[at] = later.values[at]
            rows[:] = certain[:1]
        self._ambiguous.discard(key)
        for row in rows:
            row.logged.clear()

    def _write(self, row: _Row, key: Key, image: Sequence[Any]) -> None:
        for at, value in enumerate(image):
            if value is not NOT_LOGGED:
                row.values[at] = value
        for at, value in zip(self._table.key, key, strict=True):
            row.values[at] = value

    def nets(self, keys: Sequence[Key]) -> NetChanges:
        """Return the replayed changes to the table of known keys.

        If nothing is known about a key any longer, its row is deleted from that table.
        """
        rows = [self._rows[key][0] if self._rows[key] else None for key in keys]
        forgotten = np.array([row is not None and not row.certain for row in rows], bool)
        deleted = np.array([row is None for row in rows], bool)
        zeros = np.zeros(len(keys), np.int64)
        nets = NetChanges(
            table=self._table,
            effect=np.where(forgotten, RowEffect.DELETE, RowEffect.REPLACE).astype(np.uint8),
            expected=np.array([key in self._stored_keys for key in keys], bool),
            first=zeros,
            last=zeros,
            leading=zeros,
            key=tuple(
                one.combine_chunks() for one in build_key_table(self._table, list(keys)).columns
            ),
            values=self._image(rows),
        )
        changes = _with_flags(nets, deleted)
        # A forgotten key that the table does not have needs no delete.
        return changes.where(~forgotten | changes.expected)

    def _image(self, rows: Sequence[_Row | None]) -> Image:
        columns = []
        for at, column in enumerate(self._table.columns):
            values = [NOT_LOGGED if row is None else row.values[at] for row in rows]
            missing = np.array([value is NOT_LOGGED for value in values], bool)
            plain = [None if value is NOT_LOGGED else value for value in values]
            columns.append(StateColumn(pa.array(plain, column.type), missing))
        return tuple(columns)
