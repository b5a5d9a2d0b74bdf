"""What a trail determines of the rows of a table that was loaded before: which rows exist, and which of their columns have a known value.

Nothing is known of a row at first. An operation on a key of which nothing is known is taken to fit: a row that is updated, deleted or moved was there. So a key has a row, has none, or is not
known, and a row has known columns and others. A row that changes its key takes its known columns along. The table that keeps this has a row for each known key, with ``EXISTS_FLAG`` and a
``known`` column for each other one.

Within a transaction one case is ambiguous: if a row moves to a key of which nothing is known, and a row moves from there, that may be the same row, or one that was there before. Then
nothing is known of either row but what is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.batch import (
    FetchRows,
    TableChanges,
    build_key_table,
    join_net_changes,
    make_empty_fetch,
)
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.nets import NetChanges, RowEffect, compute_net_changes, encode_keys
from trailgate.apply.effects.operations import TargetOperations, join_arrays
from trailgate.apply.effects.replay import (
    NOT_LOGGED,
    Key,
    collect_keys,
    key_tuples,
    logged_images,
    to_python_values,
)
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.arrays import Longs, Mask
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, Image, StateColumn

EXISTS_FLAG: Final = "trailgate:there"
ABSENT_KEY: Final = -2  # places of keys in the rows that were fetched
UNKNOWN_KEY: Final = -1


def known_flag_name(column: str) -> str:
    """Return the name of the column that states whether another one is known."""
    return f"trailgate:known:{column}"


def add_known_flags(table: TargetTable) -> TargetTable:
    """Return a table with the columns that state what is known of its rows."""
    return replace(table, columns=(*table.columns, *_flags(table)))


def _flags(table: TargetTable) -> list[TargetColumn]:
    names = [known_flag_name(table.columns[at].name) for at in _others(table)]
    return [TargetColumn(name, pa.bool_()) for name in (*names, EXISTS_FLAG)]


def _others(table: TargetTable) -> list[int]:
    """Return the indexes of the columns that are not of the key."""
    return [at for at in range(len(table.columns)) if at not in table.key]


@dataclass(frozen=True, slots=True)
class LoadedTableChanges:
    """What operations determine, beginning with what is known; ``is_whole`` states whether a table is known to have no other rows, since it was truncated."""

    is_whole: Callable[[TargetTable], bool]

    def effects(
        self,
        operations: TargetOperations,
        fetch: FetchRows,
        policy: CollisionPolicy,
        faults: OperationErrors,
    ) -> Sequence[TableChanges]:
        """Return what a batch writes to the table of known keys; ``fetch`` gives rows of it."""
        del faults  # what was discarded is not among the operations
        *earlier, (last, _) = operations.between_truncates()
        table = operations.table
        is_whole = bool(earlier) or self.is_whole(table)
        known = _KnownKeys(make_empty_fetch(add_known_flags(table)) if earlier else fetch, is_whole)
        nets, number = compute_net_changes(last)
        parts = [_determined(nets, known, policy)]
        again = np.flatnonzero(number < 0)
        if len(again):
            parts.append(_replayed(last.take(again), known, policy))
        return (TableChanges(join_net_changes(parts), bool(earlier), len(again)),)


@dataclass(frozen=True, slots=True)
class _KnownKeys:
    fetch: FetchRows
    is_whole: bool

    def places(self, keys: Sequence[pa.Array], names: Sequence[str], rows: pa.Table) -> Longs:
        """Return for each key the row that is known of it, ``ABSENT_KEY`` if it has none, else ``UNKNOWN_KEY``."""
        codes, count = encode_keys(
            [
                join_arrays([own, rows[name].combine_chunks().cast(own.type)])
                for own, name in zip(keys, names, strict=True)
            ]
        )
        size = len(keys[0])
        place = np.full(count, ABSENT_KEY if self.is_whole else UNKNOWN_KEY)
        place[codes[size:]] = np.arange(rows.num_rows)
        found: Longs = place[codes[:size]]
        return found


def _determined(nets: NetChanges, known: _KnownKeys, policy: CollisionPolicy) -> NetChanges:
    """Return what effects on clean keys determine."""
    if not len(nets):
        return _with_flags(nets, np.zeros(0, bool))
    rows = known.fetch(nets.keys(), True)
    at = known.places(nets.key, nets.table.key_names, rows)
    held = at >= 0
    there = held.copy()
    if held.any():
        there[held] = np.asarray(rows[EXISTS_FLAG].combine_chunks().take(pa.array(at[held])))
    absent = (held & ~there) | (at == ABSENT_KEY)
    updates, gone = nets.effect == RowEffect.PATCH, nets.effect == RowEffect.DELETE
    patched = there & (updates | (nets.effect == RowEffect.INSERT))
    effect = np.where(patched, RowEffect.PATCH, RowEffect.REPLACE).astype(np.uint8)
    found = _with_flags(replace(nets, effect=effect, expected=held), gone)
    # An update of a row that is known not to be there is ignored.
    return found if policy.inserts else found.where(~(updates & absent))


def _with_flags(nets: NetChanges, gone: Mask) -> NetChanges:
    """Return effects on the table of known keys: a row that is ``gone`` is one that is known not to be there."""
    rows, table = len(nets), nets.table
    flags: list[StateColumn] = []
    for at in _others(table):
        missing = nets.values[at].is_missing(rows)
        flags.append(StateColumn(pa.array(~missing & ~gone), missing))
    flags.append(StateColumn(pa.array(~gone)))
    values = tuple(_without(one, gone) for one in nets.values)
    return replace(nets, table=add_known_flags(table), values=(*values, *flags))


def _without(one: StateColumn, gone: Mask) -> StateColumn:
    """Return a column without the values of rows that are gone."""
    if one.values is None or not gone.any():
        return one
    values = pa.compute.if_else(pa.array(gone), pa.scalar(None, one.values.type), one.values)
    return StateColumn(values, one.is_missing(len(gone)) | gone)


@dataclass(slots=True)
class _Row:
    """A row: its values, of which those that are not known are ``NOT_LOGGED``, and the columns that key updates of the open transaction logged.

    If it is not ``certain``, nothing is known, and there may be no such row.
    """

    values: list[Any]
    certain: bool = True
    logged: set[int] = field(default_factory=set)


def _replayed(
    operations: TargetOperations, known: _KnownKeys, policy: CollisionPolicy
) -> NetChanges:
    """Return what operations determine that are followed row by row."""
    table, keys = operations.table, collect_keys(operations)
    rows = known.fetch(build_key_table(table, keys), False)
    replay = _Replay(table, policy)
    replay.begin(keys, rows, known.is_whole)
    replay.run(operations)
    return replay.nets(keys)


class _Replay:
    """What is known of some keys, and what operations make of it. During a transaction a key may have several rows, of which a key update takes the oldest."""

    def __init__(self, table: TargetTable, policy: CollisionPolicy) -> None:
        self._table, self._policy = table, policy
        self._held: dict[Key, list[_Row]] = {}
        self._begin: set[Key] = set()  # keys that are in the table of known keys
        self._ambiguous: set[Key] = set()  # keys with any number of rows, in the open transaction

    def begin(self, keys: Iterable[Key], rows: pa.Table, is_whole: bool) -> None:
        """Take rows of the table of known keys; of other keys nothing is known, unless the table is whole."""
        columns = [to_python_values(rows[one.name]) for one in self._table.columns]
        known = [
            [True] * rows.num_rows
            if at in self._table.key
            else rows[known_flag_name(one.name)].to_pylist()
            for at, one in enumerate(self._table.columns)
        ]
        for number, is_there in enumerate(rows[EXISTS_FLAG].to_pylist()):
            values = [
                column[number] if flags[number] else NOT_LOGGED
                for column, flags in zip(columns, known, strict=True)
            ]
            key = tuple(values[at] for at in self._table.key)
            self._begin.add(key)
            self._held[key] = [_Row(values)] if is_there else []
        for key in keys:
            self._held.setdefault(key, [] if is_whole else [self._unknown(certain=False)])

    def _unknown(self, *, certain: bool = True) -> _Row:
        return _Row([NOT_LOGGED] * len(self._table.columns), certain)

    def run(self, operations: TargetOperations) -> None:
        """Carry operations out in their order."""
        images = logged_images(operations)
        keys, olds = key_tuples(operations.key), key_tuples(operations.old_key)
        ends = np.append(np.diff(operations.transaction) != 0, True)[: len(operations)]
        touched: set[Key] = set()
        for kind, key, old, image, is_last in zip(
            operations.op_type.tolist(), keys, olds, images, ends.tolist(), strict=True
        ):
            touched.add(key)
            if kind == KEY_UPDATE:
                self._move(old, key, image)
            else:
                self._settle(key)
                self._change(kind, key, image)
            if is_last:
                for one in touched:
                    self._settle(one)
                touched.clear()
                self._ambiguous.clear()

    def _change(self, kind: int, key: Key, image: Sequence[Any]) -> None:
        held = self._held[key]
        if kind == DELETE:
            held.clear()
        elif held:
            held[0].certain = True
            self._write(held[0], key, image)
        elif kind == INSERT or self._policy.inserts:
            held.append(self._unknown())
            self._write(held[0], key, image)

    def _move(self, old: Key, key: Key, image: Sequence[Any]) -> None:
        held = self._held[old]
        moved = held.pop(0) if held else self._unknown()
        if not moved.certain:
            if held:  # the row that moves may be the next one as well
                self._ambiguous.add(old)
            if old in self._ambiguous:
                held[:] = [self._unknown(certain=False)]
            moved = self._unknown()
        self._write(moved, key, image)
        moved.logged.update(at for at, value in enumerate(image) if value is not NOT_LOGGED)
        self._held[key].append(moved)

    def _settle(self, key: Key) -> None:
        """Leave a key with one row at most."""
        held = self._held[key]
        if len(held) > 1:
            own = [one for one in held if one.certain]
            for later in own[1:]:  # as overlaid rows are written
                for at in later.logged:
                    own[0].values[at] = later.values[at]
            held[:] = own[:1]
        self._ambiguous.discard(key)
        for one in held:
            one.logged.clear()

    def _write(self, row: _Row, key: Key, image: Sequence[Any]) -> None:
        for at, value in enumerate(image):
            if value is not NOT_LOGGED:
                row.values[at] = value
        for at, value in zip(self._table.key, key, strict=True):
            row.values[at] = value

    def nets(self, keys: Sequence[Key]) -> NetChanges:
        """Return what is written for keys: what is known, and a delete of what is not known any more."""
        rows = [self._held[key][0] if self._held[key] else None for key in keys]
        forgotten = np.array([row is not None and not row.certain for row in rows], bool)
        gone = np.array([row is None for row in rows], bool)
        none = np.zeros(len(keys), np.int64)
        nets = NetChanges(
            self._table,
            np.where(forgotten, RowEffect.DELETE, RowEffect.REPLACE).astype(np.uint8),
            np.array([key in self._begin for key in keys], bool),
            none,
            none,
            none,
            tuple(one.combine_chunks() for one in build_key_table(self._table, list(keys)).columns),
            self._image(rows),
        )
        found = _with_flags(nets, gone)
        return found.where(~forgotten | found.expected)

    def _image(self, rows: Sequence[_Row | None]) -> Image:
        found = []
        for at, column in enumerate(self._table.columns):
            values = [NOT_LOGGED if row is None else row.values[at] for row in rows]
            missing = np.array([value is NOT_LOGGED for value in values], bool)
            plain = [None if value is NOT_LOGGED else value for value in values]
            found.append(StateColumn(pa.array(plain, column.type), missing))
        return tuple(found)
