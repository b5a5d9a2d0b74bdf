"""Work out what a trail reveals about a table that was loaded before the trail begins: which rows exist, and which of their values are known.

``--verify`` compares such a table with the trail. The table's first contents are not in the trail,
so nothing is known at first. Each operation is assumed to have succeeded: a row that is updated,
deleted or moved to another key existed. After the operations, each key is in one of three states:

- the key has a row; some of its columns are known (they were logged), the others are not
- the key has no row
- unknown: no operation has named the key yet

A row that moves to another key keeps its known columns. The results are stored in a table with one
row per key of the first two states. Its column ``THERE`` is true if the row exists, and each column
outside the key has a boolean column (``known_name``) that is true if its value is known. For
example, after ``UPDATE ... SET PRICE = 5 WHERE ID = 7``, if only the changed column was logged:

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

from trailgate.apply.effects.batch import Effects, Fetch, join_nets, key_table, no_rows
from trailgate.apply.effects.collisions import Collisions
from trailgate.apply.effects.faults import Faults
from trailgate.apply.effects.nets import Effect, Nets, key_codes, net_effects
from trailgate.apply.effects.operations import Operations, concat
from trailgate.apply.effects.replay import (
    NOT_LOGGED,
    Key,
    key_lists,
    keys_of,
    logged_images,
    python_values,
)
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.arrays import Longs, Mask
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, Image, StateColumn

THERE: Final = "trailgate:there"
ABSENT_KEY: Final = -2  # places of keys in the rows that were fetched
UNKNOWN_KEY: Final = -1


def known_name(column: str) -> str:
    """Return the name of the boolean column that is true if the value of ``column`` is known."""
    return f"trailgate:known:{column}"


def determined_table(table: TargetTable) -> TargetTable:
    """Return the table with the boolean columns that record which rows exist and which values are known."""
    return replace(table, columns=(*table.columns, *_flags(table)))


def _flags(table: TargetTable) -> list[TargetColumn]:
    names = [known_name(table.columns[at].name) for at in _others(table)]
    return [TargetColumn(name, pa.bool_()) for name in (*names, THERE)]


def _others(table: TargetTable) -> list[int]:
    """Return the indexes of the columns outside the key."""
    return [at for at in range(len(table.columns)) if at not in table.key]


@dataclass(frozen=True, slots=True)
class Determined:
    """Compute effects on the table of known keys, which records what the trail reveals about a loaded table.

    ``is_whole`` returns true for a table whose rows are all known, because a truncate emptied it. A
    key without a row in the table of known keys then has no row, and is not merely unknown.
    """

    is_whole: Callable[[TargetTable], bool]

    def effects(
        self, operations: Operations, fetch: Fetch, policy: Collisions, faults: Faults
    ) -> Sequence[Effects]:
        """Return the changes that a batch makes to the table of known keys.

        ``fetch`` reads rows of that table.
        """
        del faults  # what was discarded is not among the operations
        *earlier, (last, _) = operations.between_truncates()
        table = operations.table
        is_whole = bool(earlier) or self.is_whole(table)
        known = _KnownKeys(no_rows(determined_table(table)) if earlier else fetch, is_whole)
        nets, number = net_effects(last)
        parts = [_determined(nets, known, policy)]
        again = np.flatnonzero(number < 0)
        if len(again):
            parts.append(_replayed(last.take(again), known, policy))
        return (Effects(join_nets(parts), bool(earlier), len(again)),)


@dataclass(frozen=True, slots=True)
class _KnownKeys:
    fetch: Fetch
    is_whole: bool

    def places(self, keys: Sequence[pa.Array], names: Sequence[str], rows: pa.Table) -> Longs:
        """For each key, return the index of its row in ``rows``.

        The index is ``UNKNOWN_KEY`` for a key without a row, or ``ABSENT_KEY`` if all rows are
        known, so that the key has no row.
        """
        codes, count = key_codes(
            [
                concat([own, rows[name].combine_chunks().cast(own.type)])
                for own, name in zip(keys, names, strict=True)
            ]
        )
        size = len(keys[0])
        place = np.full(count, ABSENT_KEY if self.is_whole else UNKNOWN_KEY)
        place[codes[size:]] = np.arange(rows.num_rows)
        found: Longs = place[codes[:size]]
        return found


def _determined(nets: Nets, known: _KnownKeys, policy: Collisions) -> Nets:
    """Return the changes to the table of known keys that follow from the net changes of clean keys."""
    if not len(nets):
        return _with_flags(nets, np.zeros(0, bool))
    rows = known.fetch(nets.keys(), True)
    at = known.places(nets.key, nets.table.key_names, rows)
    held = at >= 0
    there = held.copy()
    if held.any():
        there[held] = np.asarray(rows[THERE].combine_chunks().take(pa.array(at[held])))
    absent = (held & ~there) | (at == ABSENT_KEY)
    updates, gone = nets.effect == Effect.PATCH, nets.effect == Effect.DELETE
    patched = there & (updates | (nets.effect == Effect.INSERT))
    effect = np.where(patched, Effect.PATCH, Effect.REPLACE).astype(np.uint8)
    found = _with_flags(replace(nets, effect=effect, expected=held), gone)
    # An update of a row that is known not to be there is ignored.
    return found if policy.inserts else found.where(~(updates & absent))


def _with_flags(nets: Nets, gone: Mask) -> Nets:
    """Convert net changes to changes of the table of known keys, by setting its boolean columns.

    ``gone`` selects the rows that are known not to exist. They are stored too, with ``THERE`` false
    and no known value.
    """
    rows, table = len(nets), nets.table
    flags: list[StateColumn] = []
    for at in _others(table):
        missing = nets.values[at].is_missing(rows)
        flags.append(StateColumn(pa.array(~missing & ~gone), missing))
    flags.append(StateColumn(pa.array(~gone)))
    values = tuple(_without(one, gone) for one in nets.values)
    return replace(nets, table=determined_table(table), values=(*values, *flags))


def _without(one: StateColumn, gone: Mask) -> StateColumn:
    """Return a column with the values of the rows in ``gone`` set to NULL and marked as missing."""
    if one.values is None or not gone.any():
        return one
    values = pa.compute.if_else(pa.array(gone), pa.scalar(None, one.values.type), one.values)
    return StateColumn(values, one.is_missing(len(gone)) | gone)


@dataclass(slots=True)
class _Row:
    """A row during the replay. Values that are not known are ``NOT_LOGGED``.

    If ``certain`` is false, nothing is known of the row, and it may not even exist. ``logged``
    contains the indexes of the columns that key updates of the open transaction logged.
    """

    values: list[Any]
    certain: bool = True
    logged: set[int] = field(default_factory=set)


def _replayed(operations: Operations, known: _KnownKeys, policy: Collisions) -> Nets:
    """Replay operations row by row, and return the changes to the table of known keys."""
    table, keys = operations.table, keys_of(operations)
    rows = known.fetch(key_table(table, keys), False)
    replay = _Replay(table, policy)
    replay.begin(keys, rows, known.is_whole)
    replay.run(operations)
    return replay.nets(keys)


class _Replay:
    """Replay operations on what is known of some keys.

    During a transaction several rows may have the same key, oldest first. A key update moves the
    oldest one.
    """

    def __init__(self, table: TargetTable, policy: Collisions) -> None:
        self._table, self._policy = table, policy
        self._held: dict[Key, list[_Row]] = {}
        self._begin: set[Key] = set()  # keys that are in the table of known keys
        self._ambiguous: set[Key] = set()  # keys with any number of rows, in the open transaction

    def begin(self, keys: Iterable[Key], rows: pa.Table, is_whole: bool) -> None:
        """Start with rows of the table of known keys.

        Every other key is unknown, or has no row if ``is_whole`` is set.
        """
        columns = [python_values(rows[one.name]) for one in self._table.columns]
        known = [
            [True] * rows.num_rows
            if at in self._table.key
            else rows[known_name(one.name)].to_pylist()
            for at, one in enumerate(self._table.columns)
        ]
        for number, is_there in enumerate(rows[THERE].to_pylist()):
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

    def run(self, operations: Operations) -> None:
        """Apply the operations in order."""
        images = logged_images(operations)
        keys, olds = key_lists(operations.key), key_lists(operations.old_key)
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
        """Merge the rows of a key into one, or none."""
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

    def nets(self, keys: Sequence[Key]) -> Nets:
        """Return the changes to the table of known keys.

        The row of a key about which nothing is known any longer is deleted from that table.
        """
        rows = [self._held[key][0] if self._held[key] else None for key in keys]
        forgotten = np.array([row is not None and not row.certain for row in rows], bool)
        gone = np.array([row is None for row in rows], bool)
        none = np.zeros(len(keys), np.int64)
        nets = Nets(
            self._table,
            np.where(forgotten, Effect.DELETE, Effect.REPLACE).astype(np.uint8),
            np.array([key in self._begin for key in keys], bool),
            none,
            none,
            none,
            tuple(one.combine_chunks() for one in key_table(self._table, list(keys)).columns),
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
