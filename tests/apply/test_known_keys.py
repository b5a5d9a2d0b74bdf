"""What a trail determines of tables that were loaded before it: that on which all tables agree that the trail fits."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from apply.naive_batches import TARGET, Memory, operations_of
from apply.test_net_effects import cut
from laws import chance, examples
from oracles.apply_naive import CollisionError, Operation, Source, replayed
from trailgate import ApplyError
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.folding import fold_operations
from trailgate.apply.effects.known_keys import (
    EXISTS_FLAG,
    LoadedTableChanges,
    add_known_flags,
    known_flag_name,
)
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations

Rows = dict[int, dict[str, Any]]
KEYS, COLUMNS, VALUES = range(3), ("a", "b"), (0, 1)
ROWS = [dict(zip(COLUMNS, own, strict=True)) for own in product(VALUES, repeat=2)]
# All tables that there can be, with c fixed: two columns show what becomes of one that is not logged.
BEGINS: list[Rows] = [
    {key: row | {"c": 0} for key, row in zip(KEYS, own, strict=True) if row is not None}
    for own in product((None, *ROWS), repeat=3)
]


class KnownRows:
    """The table of known keys, in memory."""

    def __init__(self) -> None:
        self.table = add_known_flags(TARGET)
        self.rows: dict[int, dict[str, Any]] = {}
        self.is_whole = False

    def fetch(self, keys: pa.Table, keys_alone: bool) -> pa.Table:
        """Return the rows of keys; of all columns, or of the key and whether it is there."""
        names = ["id", EXISTS_FLAG] if keys_alone else self.table.schema.names
        found = [self.rows[key] for key in keys["id"].to_pylist() if key in self.rows]
        schema = pa.schema([self.table.schema.field(name) for name in names])
        return pa.Table.from_pylist([{name: row[name] for name in names} for row in found], schema)

    def apply(self, operations: TargetOperations, policy: CollisionPolicy) -> None:
        """Apply a batch, whose effects have to fit."""
        own = LoadedTableChanges(lambda _: self.is_whole)
        (effects,) = own.effects(operations, self.fetch, policy, OperationErrors())
        nets = effects.nets
        if effects.emptied:
            self.rows, self.is_whole = {}, True
        for at, key in enumerate(nets.key[0].to_pylist()):
            assert nets.expected[at] == (key in self.rows) or effects.emptied
            if nets.effect[at] == RowEffect.DELETE:
                del self.rows[key]
                continue
            row = self.rows.setdefault(key, {})
            for column, one in zip(self.table.columns, nets.values, strict=True):
                missing = bool(one.is_missing(len(nets))[at])
                if nets.effect[at] == RowEffect.REPLACE or not missing:
                    row[column.name] = None if one.values is None else one.values[at].as_py()
            row["id"] = key

    def known(self) -> dict[int, dict[str, Any] | None]:
        """Return the known columns of each known key; None for one without a row."""
        found: dict[int, dict[str, Any] | None] = dict.fromkeys(KEYS) if self.is_whole else {}
        for key, row in self.rows.items():
            names = [name for name in COLUMNS if row[known_flag_name(name)]]
            found[key] = {name: row[name] for name in names} if row[EXISTS_FLAG] else None
        return found


def agreed(ends: Sequence[Rows]) -> dict[int, dict[str, Any] | None]:
    """Return what all ends have in common."""
    found: dict[int, dict[str, Any] | None] = {}
    for key in KEYS:
        rows = [one.get(key) for one in ends]
        if all(row is None for row in rows):
            found[key] = None
        elif all(row is not None for row in rows):
            own = [row for row in rows if row is not None]
            found[key] = {
                name: own[0][name] for name in COLUMNS if len({row[name] for row in own}) == 1
            }
    return found


def ends_of(log: Sequence[Operation]) -> list[Rows]:
    """Return the rows after a log of each table that it fits."""
    found = []
    for begin in BEGINS:
        try:
            found.append(replayed(begin, log)[0])
        except CollisionError:
            continue
    return found


class SmallSource(Source):
    """A source of three rows, of which two columns are logged if they change."""

    def __init__(self, own: random.Random) -> None:
        super().__init__(own, len(KEYS))
        self.rows = {key: dict(row) for key, row in own.choice(BEGINS).items()}

    def _value(self) -> Any:
        return self.chance.choice(VALUES)

    def _changes(self, values: dict[str, Any]) -> dict[str, Any]:
        del values  # no image is whole
        return {name: self._value() for name in COLUMNS if self.chance.random() < 0.5}


def is_ambiguous(log: Sequence[Operation]) -> bool:
    """Return whether a transaction moves a row to a key, and one away from it: the rows may be the same."""
    moved = [one for one in log if one.kind == "K"]
    return any(
        one.key == other.old and one.transaction == other.transaction
        for at, one in enumerate(moved)
        for other in moved[at:]
    )


def random_log(own: random.Random) -> list[Operation]:
    source = SmallSource(own)
    for _ in range(own.randint(1, 7)):
        source.transaction()
    return source.log


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("policy", CollisionPolicy)
def test_what_is_determined_is_what_all_tables_agree_on(
    policy: CollisionPolicy, folded: bool
) -> None:
    """All 125 tables of three keys are tried, and the log is applied to each that it fits, row by row."""
    known_rows = 0
    for number in range(examples(40)):
        own = chance(f"determined {policy} {folded} {number}")
        log, target = random_log(own), KnownRows()
        for batch in cut(own, log):
            operations = operations_of(batch)
            target.apply(fold_operations(operations) if folded else operations, policy)
        wanted, found = agreed(ends_of(log)), target.known()
        for key, row in found.items():
            assert key in wanted, (log, key)
            assert _is_within(row, wanted[key]), (log, key, row, wanted[key])
        known_rows += len(found)
        if not is_ambiguous(log):
            assert found == wanted, (log, found, wanted)
    assert known_rows


def _is_within(row: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> bool:
    if row is None or wanted is None:
        return row is None and wanted is None
    return row.items() <= wanted.items()


def test_tables_loaded_while_the_source_changed_have_what_is_determined() -> None:
    """The load is of a later moment than the trail's beginning, and overlaid until it converges."""
    compared = 0
    for number in range(examples(100)):
        own = chance(f"determined late {number}")
        source = Source(own, 5)
        source.rows = {key: dict.fromkeys("abc", 0) for key in range(own.randrange(5))}
        for _ in range(own.randint(0, 4)):
            source.transaction()
        loaded, known = Memory(source.rows), KnownRows()
        for _ in range(own.randint(1, 8)):
            source.transaction()
        try:
            for batch in cut(own, source.log):
                loaded.apply(batch, "overlay")
                known.apply(operations_of(batch), CollisionPolicy.OVERLAY)
        except ApplyError:  # a row moved that was not loaded
            continue
        if loaded.rows != source.rows:  # some moves without all columns cannot be overlaid
            continue
        for key, row in known.known().items():
            assert _is_within(row, source.rows.get(key)), (source.log, key, row)
            compared += 1
    assert compared
