"""Compute every version of each row, for ``--mode history``.

Each version has ``_valid_from`` and ``_valid_to`` (commit times in UTC; ``_valid_to`` is exclusive;
``--mode scd2`` names them ``__START_AT`` and ``__END_AT``), the positions ``_from_position`` and
``_to_position`` of the operations that opened and closed it, and ``_is_current``. Example, after an
insert at 10:00 and an update at 11:00:

    ID  PRICE  _valid_from  _valid_to  _from_position  _to_position  _is_current
    7   4      10:00        11:00      p1              p2            false
    7   5      11:00        NULL       p2              NULL          true

A transaction makes at most one version of a row, because nobody sees the states within it, and none
if no value changed. If a row moves to another key, its version under the old key is closed, and one
under the new key is opened. A truncate closes all current versions.

For clean keys (see ``nets``), versions are computed with array operations: the value of a column
after an operation is the last value logged since the last insert or delete. The other keys are
replayed row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.collisions import CollisionPolicy, count_existing_rows, find_collisions
from trailgate.apply.effects.nets import (
    NetChanges,
    RowEffect,
    compute_net_changes,
    join_net_changes,
    no_net_changes,
)
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.replay import NOT_LOGGED, OperationReplay
from trailgate.apply.effects.row_keys import (
    Key,
    build_key_table,
    collect_keys,
    encode_keys,
    key_tuples,
    to_python_values,
)
from trailgate.apply.effects.table_changes import ClosingUpdate, TableChanges
from trailgate.apply.effects.tables import FetchRows, TargetColumn, TargetTable, make_empty_fetch
from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import join_arrays, mask_equal_values
from trailgate.errors import OptionError
from trailgate.model.changes import ABSENT, DELETE, INSERT, KEY_UPDATE, TRUNCATE, StateColumn

TIME: Final = pa.timestamp("us")
FROM, TO, AT, UNTIL, CURRENT = (
    "_valid_from",
    "_valid_to",
    "_from_position",
    "_to_position",
    "_is_current",
)
SCD2_PERIOD: Final = ("__START_AT", "__END_AT")  # as AUTO CDC names them


def _make_columns(begin: str, end: str) -> tuple[TargetColumn, ...]:
    return (
        TargetColumn(begin, TIME),
        TargetColumn(end, TIME),
        TargetColumn(AT, pa.string()),
        TargetColumn(UNTIL, pa.string()),
        TargetColumn(CURRENT, pa.bool_()),
    )


COLUMNS: Final = _make_columns(FROM, TO)
SCD2_COLUMNS: Final = _make_columns(*SCD2_PERIOD)
# Greater than every index, so that a minimum of indexes ignores it.
NEVER: Final = np.iinfo(np.int64).max


def add_version_columns(
    table: TargetTable, columns: tuple[TargetColumn, ...] = COLUMNS
) -> TargetTable:
    """Return the target table with the columns of row versions added (``--mode history``).

    The key of the result is still the source's key, by which operations find current rows.
    """
    return replace(table, columns=(*table.columns, *columns))


def find_period_columns(table: TargetTable) -> tuple[str, str]:
    """Return the names of the two columns with the period of a version: ``_valid_from`` and ``_valid_to``, or their names in ``--mode scd2``."""
    return (FROM, TO) if any(one.name == FROM for one in table.columns) else SCD2_PERIOD


def _find_version_columns(table: TargetTable) -> frozenset[str]:
    return frozenset((*find_period_columns(table), AT, UNTIL, CURRENT))


def with_version_key(table: TargetTable) -> TargetTable:
    """Return the table of row versions with the key of its stored rows: the source's key and ``_from_position``."""
    at = [column.name for column in table.columns].index(AT)
    return replace(table, key=(*table.key, at))


def compute_versions(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> list[TableChanges]:
    """Compute the row versions that a batch opens and closes (``--mode history``), as a list of steps.

    The operations before each truncate are one step, and the truncate itself is another step, which
    closes all current rows. Raises OptionError unless collisions and errors stop the run: a history
    cannot represent operations that do not fit.
    """
    if policy is not CollisionPolicy.STOP or not faults.stop:
        raise OptionError("--mode history works only with --on-collision stop and --on-error stop")
    stored = with_version_key(operations.table)
    truncates = operations.take(np.flatnonzero(operations.op_type == TRUNCATE))
    current = _fetch_current(fetch)
    steps: list[TableChanges] = []
    for number, (part, unended) in enumerate(operations.between_truncates()):
        if number:
            # Truncate 0 is between the parts 0 and 1, truncate 1 between the parts 1 and 2.
            row = number - 1
            at = truncates.position[row].as_py()
            time = pa.scalar(int(truncates.op_ts[row]), pa.int64()).cast(TIME)
            end = find_period_columns(stored)[1]
            values = {end: time, UNTIL: pa.scalar(at), CURRENT: pa.scalar(False)}
            steps.append(
                TableChanges(
                    no_net_changes(stored), closing=ClosingUpdate(CURRENT, True, values), at=at
                )
            )
            # The truncate closes all stored versions, so later parts find no current row.
            current = make_empty_fetch(operations.table)
        if len(part):
            nets, replayed = _part_versions(part, current, unended)
            at = part.position[len(part) - 1].as_py()
            steps.append(TableChanges(nets, replayed=replayed, at=at))
    return steps


def _fetch_current(fetch: FetchRows) -> FetchRows:
    """Return a function that fetches only the current versions of rows: those with ``_is_current``."""

    def rows(keys: pa.Table, keys_alone: bool) -> pa.Table:
        fetched = fetch(keys, False)
        live = fetched.filter(pc.fill_null(fetched[CURRENT], False))
        return live.select(keys.column_names) if keys_alone else live

    return rows


def _part_versions(
    part: TargetOperations, current: FetchRows, unended: int | None
) -> tuple[NetChanges, int]:
    """Return the row versions that operations between two truncates open and close, and the number of replayed operations.

    The transaction ``unended`` continues with a truncate, so its operations leave no visible state.
    ``current`` fetches current rows.
    """
    nets, number = compute_net_changes(part)
    counts = count_existing_rows(nets, current)
    bad = find_collisions(nets, counts, CollisionPolicy.STOP, part)
    # Replayed one by one are operations without a net change (number -1), and all operations of a
    # key with a collision. The second condition is needed because bad[-1] is the last key's mark.
    is_replayed = number < 0
    if bad.any():
        is_replayed |= bad[number] & (number >= 0)
    # No transaction has the number -1.
    seen = part.transaction != (-1 if unended is None else unended)
    clean = np.flatnonzero(~is_replayed)
    parts = [_column_versions(part.take(clean), nets, number[clean], seen[clean], current)]
    rows = np.flatnonzero(is_replayed)
    if len(rows):
        parts.append(_replay_versions(part.take(rows), seen[rows], current))
    return join_net_changes(parts), len(rows)


def _column_versions(
    operations: TargetOperations, nets: NetChanges, number: Longs, seen: Mask, current: FetchRows
) -> NetChanges:
    """Return the row versions that operations on clean keys open and close, computed with array operations.

    ``number`` is the index of each operation's key in ``nets``. ``seen`` is a mask of the
    operations whose transaction opens versions (it does not if it ends with a truncate).

    Operations are sorted by key. Only the last operation of each key in each transaction leaves a
    visible state; ``kept`` is the index of each of these. Example, for one key without a row, with
    transactions 1 1 2:

        row                    0       1       2
        operation              I(a=1)  U(a=2)  U(a=2)
        last of transaction    no      yes     yes
        reset (last I or D)    0       0       0
        logged (column a)      0       1       2

    So ``kept`` is [1, 2], with a = 2 in both states. The first one opens a version. The second one
    equals it, and opens none.
    """
    table, rows = operations.table, len(operations)
    if not rows:
        return no_net_changes(with_version_key(table))
    order = np.argsort(number, kind="stable")
    operations, group, seen = operations.take(order), number[order], seen[order]
    current_rows = current(nets.keys(), False)
    stored_row = _row_indexes(nets, current_rows)
    op_types, index = operations.op_type, np.arange(rows)
    is_complete, reset, kept = _visible_states(operations, group, seen)
    if not len(kept):
        return no_net_changes(with_version_key(table))
    group = group[kept]
    first = np.append(True, np.diff(group) != 0)
    # From here on, index i is the state after operation kept[i]. ``was``: a row existed before it,
    # in the table for a key's first state (row ``before``), otherwise as the state i - 1.
    exists = op_types[kept] != DELETE
    before = np.where(first, stored_row[group], -1)
    was = np.where(first, before >= 0, np.append(False, exists[:-1]))
    values: list[pa.Array | None] = []
    equal = np.ones(len(kept), bool)
    version_columns = _find_version_columns(table)
    for column, one in zip(table.columns, operations.values, strict=True):
        if column.name in version_columns:
            values.append(None)
            continue
        # The last operation up to each state that logs this column, perhaps of an earlier key:
        # then it precedes ``reset``, and the value is that of the stored row instead.
        is_logged = ~one.is_missing(rows) & (op_types != DELETE)
        # The running maximum repeats the index of the last logging operation on all later ones.
        logged = np.maximum.accumulate(np.where(is_logged, index, -1))[kept]
        logged_values = pa.nulls(rows, column.type) if one.values is None else one.values
        stored_values = _single_array(current_rows[column.name]).cast(column.type)
        from_row = (logged < reset[kept]) & ~is_complete[reset[kept]]
        # Indexes into the logged values followed by the stored values. Wrong ones (of a key without
        # a row, or without a logged value) are masked by ``no_value``.
        source = np.where(from_row, rows + stored_row[group], logged)
        no_value = np.where(from_row, stored_row[group] < 0, logged < reset[kept])
        value = join_arrays([logged_values, stored_values]).take(pa.array(source, mask=no_value))
        # The same column in the state before, to compare with.
        earlier = np.where(first, len(kept) + before, np.arange(len(kept)) - 1)
        previous = join_arrays([value, stored_values]).take(pa.array(earlier, mask=~was))
        equal &= mask_equal_values(value, previous)
        values.append(value)
    # A deleted row only closes a version, and an unchanged one does neither.
    opens = exists & (~was | ~equal)
    closes = was & (~exists | ~equal)
    return _version_changes(
        operations, (kept, group, opens, closes), values, (current_rows, stored_row)
    )


def _visible_states(
    operations: TargetOperations, group: Longs, seen: Mask
) -> tuple[Mask, Longs, Longs]:
    """Find the operations after which a row's state is visible to other transactions.

    These are the last operation of each key in each transaction, if the transaction is in the mask
    ``seen``. ``group`` is the key number of each operation; the operations are sorted by it.

    Returns a mask of the inserts and deletes; for each operation, the index of the last insert or
    delete of its key up to there, or else of its key's first operation; and the indexes of the
    operations with a visible state. For one key with the operations D, I, U in one transaction:
    [True, True, False], [0, 1, 1] and [2].
    """
    begins = np.append(True, np.diff(group) != 0)  # the first operation of each key
    is_complete = (operations.op_type == INSERT) | (operations.op_type == DELETE)
    index = np.arange(len(operations))
    # The running maximum repeats the index of the last reset on all later operations of the key.
    # It cannot reach back into another key, because each key begins with a reset.
    reset = np.maximum.accumulate(np.where(begins | is_complete, index, 0))
    is_last = np.append(begins[1:], True) | np.append(np.diff(operations.transaction) != 0, True)
    return is_complete, reset, np.flatnonzero(is_last & seen)


def _row_indexes(nets: NetChanges, rows: pa.Table) -> Longs:
    """Return for each key the index of its current row in ``rows``, or -1 if it has none."""
    names = nets.table.key_names
    both = [
        join_arrays([key, _single_array(rows[name]).cast(key.type)])
        for key, name in zip(nets.key, names, strict=True)
    ]
    codes, count = encode_keys(both)
    row_of_code = np.full(count, -1)
    row_of_code[codes[len(nets) :]] = np.arange(rows.num_rows)
    result: Longs = row_of_code[codes[: len(nets)]]
    return result


def _single_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _find_closing_states(closes: Mask, group: Longs) -> tuple[Longs, Mask]:
    """For each state of a row, find the next later state of the same key that closes a version.

    ``closes`` is a mask of the states that do so, and ``group`` the key number of each state.

    Returns the indexes of these states, and a mask of the states that have one.
    """
    # For closes = [1, 0, 1], index is [0, NEVER, 2], its minimum from the right is [0, 2, 2], and
    # after is [2, 2, NEVER].
    index = np.where(closes, np.arange(len(closes)), NEVER)
    after = np.append(np.minimum.accumulate(index[::-1])[::-1][1:], NEVER)
    end = np.where(after == NEVER, 0, after)
    # The next closing state counts only if it belongs to the same key.
    return end, (after != NEVER) & (group[end] == group)


def _version_changes(
    operations: TargetOperations,
    events: tuple[Longs, Longs, Mask, Mask],
    values: Sequence[pa.Array | None],
    rows: tuple[pa.Table, Longs],
) -> NetChanges:
    """Return inserts of the versions that are opened, and patches of stored versions that are closed.

    ``events`` is (kept, group, opens, closes): operation ``kept[i]`` leaves a state of key
    ``group[i]``, which may open a version, and may close the one before it. ``rows`` contains the
    current rows, and for each key the index of its row. Example: one key without a row gets the
    states A and B, so opens is [1, 1] and closes is [0, 1]. A is inserted as a version that B
    closed, and B as the current version.
    """
    kept, group, opens, closes = events
    current_rows, stored_row = rows
    table = operations.table
    stored = with_version_key(table)
    times, positions = operations.op_ts[kept], operations.position.take(pa.array(kept))
    end, ends = _find_closing_states(closes, group)
    opened_at = np.flatnonzero(opens)
    chosen = pa.array(opened_at)
    valid_from, valid_to = find_period_columns(table)
    added = {
        valid_from: pa.array(times[opened_at]).cast(TIME),
        # ``ends`` is False for a version that is still current: its ``end`` has no meaning, so it
        # becomes NULL.
        valid_to: pa.array(times[end[opened_at]], mask=~ends[opened_at]).cast(TIME),
        AT: positions.take(chosen),
        UNTIL: positions.take(pa.array(end[opened_at], mask=~ends[opened_at])),
        CURRENT: pa.array(~ends[opened_at]),
    }
    opened = _build_changes(
        stored,
        RowEffect.INSERT,
        [
            added[column.name] if value is None else value.take(chosen)
            for column, value in zip(table.columns, values, strict=True)
        ],
    )
    # Stored rows are closed by the first closing state of their key ...
    firsts = np.full(len(stored_row), NEVER)
    # ``at`` handles repeated groups: groups 0 0 1 with states 2 5 6 give firsts 2 6.
    np.minimum.at(firsts, group[closes], np.flatnonzero(closes))
    closed = np.flatnonzero((stored_row >= 0) & (firsts != NEVER))
    # ... unless the batch opens a version before that state: then that version is closed.
    # If both are the same state, it is an update: it closes the stored row and opens a version.
    opened_first = np.full(len(stored_row), NEVER)
    np.minimum.at(opened_first, group[opens], opened_at)
    closed = closed[firsts[closed] <= opened_first[closed]]
    closed_by = firsts[closed]
    rows_closed = current_rows.take(pa.array(stored_row[closed]))
    patch = {
        valid_to: pa.array(times[closed_by]).cast(TIME),
        UNTIL: positions.take(pa.array(closed_by)),
        CURRENT: pa.array(np.zeros(len(closed), bool)),
    }
    key_names = {*table.key_names, AT}
    closings = _build_changes(
        stored,
        RowEffect.PATCH,
        [
            patch.get(column.name)
            if column.name not in key_names
            else _single_array(rows_closed[column.name]).cast(column.type)
            for column in table.columns
        ],
    )
    return join_net_changes([opened, closings])


def _build_changes(
    table: TargetTable, effect: RowEffect, columns: Sequence[pa.Array | None]
) -> NetChanges:
    """Build net changes to a table of row versions that all have one effect. A column that is None is missing."""
    rows = len(next(one for one in columns if one is not None))
    zeros = np.zeros(rows, np.int64)
    return replace(
        no_net_changes(table),
        effect=np.full(rows, effect, np.uint8),
        expected=np.full(rows, effect is RowEffect.PATCH),
        first=zeros,
        last=zeros,
        leading=zeros,
        key=tuple(columns[at] for at in table.key),
        values=tuple(
            ABSENT
            if one is None
            else StateColumn(one.cast(column.type), _default_rows(one, column))
            for column, one in zip(table.columns, columns, strict=True)
        ),
    )


def _default_rows(values: pa.Array, column: TargetColumn) -> Mask | None:
    """Return a mask of the rows that get the column's default value: those with NULL.

    Returns None if the source has the column, because NULL is then a value of the source.
    """
    return np.asarray(values.is_null()) if column.extra else None


def _replay_versions(operations: TargetOperations, seen: Mask, current: FetchRows) -> NetChanges:
    """Return the row versions that operations open and close, if they must be replayed row by row.

    ``seen`` is a mask of the operations whose transaction opens versions.
    """
    table = operations.table
    rows = current(build_key_table(table, collect_keys(operations)), False)
    replay = OperationReplay(table, rows, CollisionPolicy.STOP)
    row_versions = _RowVersions(table, rows)
    for begin, end in _transactions(operations):
        part = operations.take(np.arange(begin, end))
        replay.run(part, None if seen[begin] else int(part.transaction[0]))
        if seen[begin]:
            for key, row in _named_keys(part).items():
                at = part.position[row].as_py()
                row_versions.show(key, replay.row(key), int(part.op_ts[row]), at)
    return row_versions.nets()


class _RowVersions:
    """Collects the opened and closed versions of rows whose operations are replayed one by one.

    A version is a list with a value per column of the target table.
    """

    def __init__(self, table: TargetTable, rows: pa.Table) -> None:
        self._table = table
        names = [column.name for column in table.columns]
        version_columns = _find_version_columns(table)
        self._valid_from, self._valid_to = find_period_columns(table)
        self._value_columns = [at for at, name in enumerate(names) if name not in version_columns]
        self._column_index = {name: names.index(name) for name in version_columns}
        self._opened: list[list[Any]] = []
        self._closed: list[list[Any]] = []
        self._shown: dict[Key, list[Any]] = {}
        for row in zip(*(to_python_values(rows[name]) for name in names), strict=True):
            self._shown[tuple(row[at] for at in table.key)] = list(row)

    def show(self, key: Key, row: list[Any] | None, time: int, at: str) -> None:
        """Record a key's row after a replayed transaction, or None if there is no row, as a possible new version.

        If its values changed, this closes the current version and opens a new one. ``time`` and
        ``at`` are the commit time (microseconds since 1970 UTC) and the position of the change.
        """
        current = self._shown.get(key)
        if current is not None and row is not None and self._values(current) == self._values(row):
            return
        if current is not None:
            self._set(self._shown.pop(key), {self._valid_to: time, UNTIL: at, CURRENT: False})
            # A version that this batch opened is inserted with its end, so it needs no patch.
            if not any(current is one for one in self._opened):
                self._closed.append(current)
        if row is not None:
            version = list(row)
            begun = {self._valid_from: time, AT: at}
            self._set(version, {**begun, self._valid_to: None, UNTIL: None, CURRENT: True})
            self._opened.append(version)
            self._shown[key] = version

    def _values(self, version: list[Any]) -> list[Any]:
        return [version[at] for at in self._value_columns]

    def _set(self, version: list[Any], values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            version[self._column_index[name]] = value

    def nets(self) -> NetChanges:
        """Return inserts of the opened versions, and patches of the stored versions that were closed."""
        stored = with_version_key(self._table)
        patched = {*self._table.key_names, AT, self._valid_to, UNTIL, CURRENT}
        opened = [self._column(self._opened, at) for at in range(len(stored.columns))]
        closed = [
            self._column(self._closed, at) if column.name in patched else None
            for at, column in enumerate(stored.columns)
        ]
        return join_net_changes(
            [
                _build_changes(stored, RowEffect.INSERT, opened),
                _build_changes(stored, RowEffect.PATCH, closed),
            ]
        )

    def _column(self, rows: list[list[Any]], at: int) -> pa.Array:
        column = self._table.columns[at]
        values = [row[at] for row in rows]
        if column.name in (self._valid_from, self._valid_to):
            return pa.array(values, pa.int64()).cast(TIME)  # set by ``show``, in microseconds
        plain = [None if one is NOT_LOGGED else one for one in values]
        return pa.array(plain, column.type)


def _transactions(operations: TargetOperations) -> Iterator[tuple[int, int]]:
    """Yield the index of each transaction's first operation, and the index after its last operation."""
    cuts = np.flatnonzero(np.diff(operations.transaction) != 0) + 1
    bounds = [0, *cuts.tolist(), len(operations)]
    yield from pairwise(bounds)


def _named_keys(part: TargetOperations) -> dict[Key, int]:
    """Return all old and new keys of a transaction's operations, each with the index of the last operation that has this key."""
    new, old = key_tuples(part.key), key_tuples(part.old_key)
    last_rows: dict[Key, int] = {}
    for row, op_type in enumerate(part.op_type.tolist()):
        if op_type == KEY_UPDATE:
            last_rows[old[row]] = row
        last_rows[new[row]] = row
    return last_rows
