"""Replay operations row by row, for keys whose net change cannot be computed with array operations.

``nets`` decides which keys these are. ``OperationReplay`` starts with the target's rows of these
keys, applies the operations in order, and returns the resulting rows as net changes.

During a transaction several rows may have the same key: ``UPDATE t SET id = id + 1`` first moves
row 1 to key 2, while the old row 2 is still there. The key then has two rows, oldest first, and the
next key update moves the oldest one. It is a collision if a key still has two rows when an
operation inserts, updates or deletes it, or when the transaction ends.

If the target itself has several rows with one key, all operations on that key are refused, and its
rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import (
    CollisionPolicy,
    collision_error,
    several_rows_error,
)
from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import ApplyError
from trailgate.model.changes import ABSENT, DELETE, INSERT, KEY_UPDATE, StateColumn

Key = tuple[Any, ...]
NOT_LOGGED: Final = object()  # the value of a column that is not logged, and so not known
NAN: Final = float("nan")


@dataclass(slots=True)
class _Row:
    """A row of the target table during the replay.

    ``logged`` contains the indexes of the columns that key updates of the open transaction have
    logged for this row. ``moved`` is the index of the last key update that moved it, or -1.
    """

    values: list[Any]
    logged: set[int] = field(default_factory=set)
    moved: int = -1


class _LateCollisionError(Exception):
    """Raised at the end of a transaction if one of its key updates turns out to be a collision.

    ``row`` is the index of that key update. The operations are then replayed without it.
    """

    def __init__(self, row: int, error: ApplyError) -> None:
        super().__init__()
        self.row, self.error = row, error


class OperationReplay:
    """Applies operations one by one to the rows of some keys of a target table."""

    def __init__(
        self,
        table: TargetTable,
        rows: pa.Table | None,
        collisions: CollisionPolicy,
        faults: OperationErrors | None = None,
        marks: tuple[int, ...] = (),
    ) -> None:
        """Start with the target's rows of the keys; None means that there are none.

        ``marks`` is only used in mode soft-delete, which keeps deleted rows: it contains the
        indexes of the columns that a delete sets.
        """
        self._table, self._collisions, self._faults = table, collisions, faults or OperationErrors()
        self._extra = {at for at, column in enumerate(table.columns) if column.extra}
        self._rows: dict[Key, list[_Row]] = {}
        self._marks = marks
        self._deleted: dict[Key, _Row | None] = {}  # None: the last row of the key moved away
        self.ignored = 0
        if rows is not None:
            columns = [to_python_values(rows[column.name]) for column in table.columns]
            for values in zip(*columns, strict=True):
                key = tuple(values[at] for at in table.key)
                self._rows.setdefault(key, []).append(_Row(list(values)))
        self._several = {key: len(found) for key, found in self._rows.items() if len(found) > 1}
        for key in self._several:
            del self._rows[key]
        self._stored_keys = frozenset(self._rows)

    def run(self, operations: TargetOperations, unended: int | None = None) -> None:
        """Replay operations on the target table one by one, in order.

        Raises ApplyError if an operation does not fit the target's rows and the error stops the
        run, and ``_LateCollisionError`` if only later operations show that a key update does not.

        If a truncate follows, ``unended`` is the number of its transaction. If that is the last
        transaction here, it has not ended, and its keys may still have two rows.
        """
        key_pairs = key_tuples(operations.key), key_tuples(operations.old_key)
        images = logged_images(operations)
        ends = np.append(np.diff(operations.transaction) != 0, True)[: len(operations)]
        if len(operations):
            # The last transaction does not end here if a truncate follows in it.
            ends[-1] = operations.transaction[-1] != unended
        touched: dict[Key, None] = {}
        for row, (op_type, key, old) in enumerate(
            zip(operations.op_type.tolist(), *key_pairs, strict=True)
        ):
            if not self._refuse_several(operations, row, old, key):
                if op_type == KEY_UPDATE:
                    self._move(operations, row, old, key, images[row])
                else:
                    self._change(operations, row, key, images[row])
                touched[key] = None
            if ends[row]:
                for one in touched:
                    self._settle(operations, one, at_end=True)
                touched.clear()

    def row(self, key: Key) -> list[Any] | None:
        """Return the replayed row of a key as a list of values, or None if the key has no row.

        Call it only between two transactions.
        """
        rows = self._rows.get(key)
        return rows[0].values if rows else None

    def nets(self, keys: Iterable[Key]) -> NetChanges:
        """Return the net changes of the keys: a complete row each, or a delete if the row is gone.

        A key that had no row and has none now is skipped.
        """
        # A key that had no row and has none now needs no change, for example if it was inserted and
        # deleted again.
        used = self._stored_keys | self._deleted.keys()
        chosen = [key for key in dict.fromkeys(keys) if key in used or self._rows.get(key)]
        rows = [self._last_row(key) for key in chosen]
        effect = [RowEffect.DELETE if row is None else RowEffect.REPLACE for row in rows]
        columns = self._table.columns
        values = tuple(_column(rows, at, column.type) for at, column in enumerate(columns))
        return NetChanges(
            table=self._table,
            effect=np.array(effect, np.uint8),
            expected=np.array([key in self._stored_keys for key in chosen], bool),
            first=np.zeros(len(chosen), np.int64),
            last=np.zeros(len(chosen), np.int64),
            leading=np.zeros(len(chosen), np.int64),
            key=tuple(
                pa.array([key[number] for key in chosen], columns[at].type)
                for number, at in enumerate(self._table.key)
            ),
            values=values if chosen else (ABSENT,) * len(columns),
        )

    def _last_row(self, key: Key) -> list[Any] | None:
        """Return the values of a key's row. If it was deleted, return those of the kept row (soft-delete), or else None."""
        rows = self._rows.get(key)
        row = rows[0] if rows else self._deleted.get(key)
        return None if row is None else row.values

    def _change(
        self, operations: TargetOperations, row: int, key: Key, image: Sequence[Any]
    ) -> None:
        """Replay an insert, an update or a delete."""
        self._settle(operations, key)
        op_type = operations.op_type[row]
        if op_type == INSERT:
            self._insert(operations, row, key, image)
        elif op_type == DELETE:
            self._delete(operations, row, key, image)
        else:
            self._update(operations, row, key, image)

    def _insert(
        self, operations: TargetOperations, row: int, key: Key, image: Sequence[Any]
    ) -> None:
        rows = self._rows.get(key)
        if not rows:
            self._rows[key] = [_Row(self._new_values(image))]
        elif self._collisions.overlays:
            _write(rows[0], image)
        else:
            self._refuse(operations, row, expected=False)

    def _update(
        self, operations: TargetOperations, row: int, key: Key, image: Sequence[Any]
    ) -> None:
        rows = self._rows.get(key)
        if rows:
            _write(rows[0], image)
        elif self._collisions.inserts:
            self._rows[key] = [_Row(self._set_key(self._new_values(image), key))]
        elif self._collisions.overlays:
            self.ignored += int(operations.weight[row])
        else:
            self._refuse(operations, row, expected=True)

    def _delete(
        self, operations: TargetOperations, row: int, key: Key, image: Sequence[Any]
    ) -> None:
        rows = self._rows.get(key)
        if rows:
            if self._marks and not self._keep(operations, row, key, image):
                return
            rows.pop(0)
        elif self._collisions.overlays:
            self.ignored += int(operations.weight[row])
        else:
            self._refuse(operations, row, expected=True)

    def _keep(self, operations: TargetOperations, row: int, key: Key, image: Sequence[Any]) -> bool:
        """Replay a delete in mode soft-delete: keep the row of the key, and set its marks (``_deleted``).

        Returns False, and rejects the delete, if a value of the row is unknown.
        """
        deleted = self._rows[key][0]
        for at in self._marks:
            deleted.values[at] = image[at]
        for at, value in enumerate(deleted.values):
            if value is NOT_LOGGED and at not in self._extra:
                self._refuse(operations, row, expected=True, column=at)
                return False
        self._deleted[key] = deleted
        return True

    def _refuse(self, operations: TargetOperations, row: int, **how: Any) -> None:
        """Add the error of an operation that does not fit the target's rows, or raise it if it stops the run.

        ``how`` are the keywords of ``collision_error``.
        """
        self._faults.add(int(operations.order[row]), collision_error(operations, row, **how))

    def _refuse_several(self, operations: TargetOperations, row: int, old: Key, key: Key) -> bool:
        """Refuse an operation if several rows of the target have its old or new key. Returns whether it is refused."""
        for one in (old, key):
            count = self._several.get(one)
            if count is not None:
                error = several_rows_error(operations, row, count, old=one == old)
                self._faults.add(int(operations.order[row]), error)
                return True
        return False

    def _move(
        self, operations: TargetOperations, row: int, old: Key, key: Key, image: Sequence[Any]
    ) -> None:
        rows = self._rows.get(old)
        if rows:
            moved = rows.pop(0)
            if self._marks:
                self._deleted[old] = None
        elif self._collisions.overlays:
            moved = _Row([NOT_LOGGED] * len(image))
        elif self._collisions.inserts:
            moved = _Row(self._new_values([NOT_LOGGED] * len(image)))
        else:
            self._refuse(operations, row, expected=True, old=True)
            return
        _write(moved, image)
        moved.moved = row
        moved.logged.update(at for at, value in enumerate(image) if value is not NOT_LOGGED)
        self._set_key(moved.values, key)
        moved.logged.update(self._table.key)
        self._rows.setdefault(key, []).append(moved)

    def _settle(self, operations: TargetOperations, key: Key, *, at_end: bool = False) -> None:
        """Reduce the replayed rows of a key to at most one.

        Raises an error if there are several and collisions are not overlaid. With ``at_end``, the
        transaction ends here, and it is also an error if a value of the row is unknown.
        """
        rows = self._rows.get(key)
        if not rows:
            return
        if len(rows) > 1 and self._collisions.overlays:
            for later in rows[1:]:
                # The later row overlays the earlier one, in the columns that it logs.
                for at in later.logged:
                    rows[0].values[at] = later.values[at]
            del rows[1:]
        if len(rows) > 1:
            self._refuse_late(operations, rows[-1].moved, twice=True)
        if at_end:
            for at, value in enumerate(rows[0].values):
                if value is NOT_LOGGED and at not in self._extra:
                    self._refuse_late(operations, rows[0].moved, column=at)
            # The next transaction counts anew which values it logs.
            rows[0].logged.clear()

    def _refuse_late(self, operations: TargetOperations, row: int, **how: Any) -> None:
        """Raise the error for a key update that later operations show to be a collision."""
        error = collision_error(operations, row, expected=True, **how)
        if self._faults.stop:
            raise error
        raise _LateCollisionError(row, error)

    def _new_values(self, image: Sequence[Any]) -> list[Any]:
        """Return the values of a new row: columns that are not logged become NULL.

        Only columns that the source does not have stay ``NOT_LOGGED``, because the target sets
        them.
        """
        return [
            None if value is NOT_LOGGED and at not in self._extra else value
            for at, value in enumerate(image)
        ]

    def _set_key(self, values: list[Any], key: Key) -> list[Any]:
        for at, value in zip(self._table.key, key, strict=True):
            values[at] = value
        return values


def replay_operations(
    operations: TargetOperations,
    begin: Callable[[OperationErrors], OperationReplay],
    faults: OperationErrors,
    unended: int | None = None,
) -> OperationReplay:
    """Replay operations row by row, and return the ``OperationReplay`` with the resulting rows.

    ``begin`` creates an ``OperationReplay`` with the target's rows. If a key update turns out at
    the end of its transaction to be a collision, it is excluded, and the rest is replayed from the
    beginning. ``unended`` is described in ``OperationReplay.run``.
    """
    late: dict[int, ApplyError] = {}
    while True:
        attempt = OperationErrors(stop=faults.stop, stops=faults.stops)
        replay = begin(attempt)
        try:
            replay.run(operations, unended)
        except _LateCollisionError as late_error:
            if faults.stops(late_error.error):
                raise late_error.error from None
            late[int(operations.order[late_error.row])] = late_error.error
            # Its row would have stayed at the old key, so all later operations are replayed too.
            rows = np.arange(len(operations))
            operations = operations.take(rows[rows != late_error.row])
            continue
        for number, error in (late | attempt.errors).items():
            faults.add(number, error)
        return replay


def logged_images(operations: TargetOperations) -> list[tuple[Any, ...]]:
    """Convert the values of operations to a tuple for each operation. Values that are not logged are ``NOT_LOGGED``."""
    rows = len(operations)
    columns = []
    for one in operations.values:
        column = [NOT_LOGGED] * rows if one.values is None else to_python_values(one.values)
        for row in np.flatnonzero(one.is_missing(rows)).tolist():
            column[row] = NOT_LOGGED
        columns.append(column)
    return list(zip(*columns, strict=True))


def collect_keys(operations: TargetOperations) -> list[Key]:
    """Return all old and new keys of operations on a target table, each once, in order of first appearance."""
    both = zip(key_tuples(operations.old_key), key_tuples(operations.key), strict=True)
    return list(dict.fromkeys(key for pair in both for key in pair))


def _column(rows: Sequence[list[Any] | None], at: int, arrow_type: pa.DataType) -> StateColumn:
    """Build a column of a target table from replayed rows.

    A value is NULL if the row is None, and missing if it is ``NOT_LOGGED``.
    """
    cells = [None if row is None else row[at] for row in rows]
    missing = np.array([value is NOT_LOGGED for value in cells], bool)
    values = pa.array([None if value is NOT_LOGGED else value for value in cells], arrow_type)
    return StateColumn(values, missing if missing.any() else None)


def key_tuples(columns: Sequence[pa.Array]) -> list[Key]:
    """Convert the key columns of a target table to one tuple of Python values per row."""
    return list(zip(*map(to_python_values, columns), strict=True))


def to_python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Convert a column to the Python values that ``OperationReplay`` compares.

    Every NaN becomes the same object, so that keys and values with NaN compare equal in tuples and
    lists. Dates and timestamps become numbers of days or units, because a target's table may have
    some that Python lacks, such as ``infinity`` or the year 20000.
    """
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [NAN if one is not None and one != one else one for one in values]  # noqa: PLR0124
    return values


def _write(row: _Row, image: Sequence[Any]) -> None:
    for at, value in enumerate(image):
        if value is not NOT_LOGGED:
            row.values[at] = value
