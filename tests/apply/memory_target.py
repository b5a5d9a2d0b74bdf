"""A target in memory, which commits all tables at once or each by itself, and can be killed at any of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets.target import AppliedPosition, ApplyTarget, TablePosition

Name = tuple[str, ...]
Row = tuple[Any, ...]


class KilledError(Exception):
    """The process of a target is gone."""


@dataclass
class _State:
    tables: dict[Name, TargetTable] = field(default_factory=dict)
    rows: dict[Name, list[Row]] = field(default_factory=dict)
    done: dict[tuple[str, Name], AppliedPosition] = field(default_factory=dict)


class MemoryTarget:
    """Tables in memory. With ``each_alone`` a table is committed when it is written, as in a lake; else all are with the position."""

    widens = True
    folds_names = False

    def __init__(self, *, each_alone: bool) -> None:
        self.commits_alone = each_alone
        self.group = ""
        self._stored, self._open = _State(), _State()

    def opened(self, group: str) -> MemoryTarget:
        """Return the target as a group sees it: what was not committed is forgotten."""
        self.group = group
        self.rollback()
        return self

    def table(self, name: Name) -> list[dict[str, Any]]:
        """Return the committed rows of a table."""
        if name not in self._stored.tables:
            return []
        names = self._stored.tables[name].schema.names
        return [dict(zip(names, row, strict=True)) for row in self._stored.rows[name]]

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return how far a table, or with None all tables, were applied."""
        return self._open.done.get((self.group, () if table is None else table.name))

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied."""
        done = self._open.done.items()
        own = [(name, at.position) for (group, name), at in done if name and group == self.group]
        return [TablePosition(".".join(name), at) for name, at in own]

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is."""
        own = self._open.tables.get(table.name)
        return None if own is None else table.as_defined(table.name, own.schema)

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table: its columns keep all values of their types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table."""
        self._open.tables[table.name] = table
        self._open.rows[table.name] = []
        self._settle()

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns, NULL in all rows."""
        self._open.tables[table.name] = table
        self._open.rows[table.name] = [
            (*row, *(None for _ in names)) for row in self._open.rows[table.name]
        ]
        self._settle()

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Give columns of integers eight bytes."""
        del names
        self._open.tables[table.name] = table
        self._settle()

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys."""
        wanted = {tuple(row.values()) for row in keys.to_pylist()}
        found = [one for one in self._open.rows[table.name] if _key(table, one) in wanted]
        names = table.key_names if keys_alone else table.schema.names
        whole = pa.table(
            [
                pa.array([row[at] for row in found], one.type)
                for at, one in enumerate(table.columns)
            ],
            schema=table.schema,
        )
        return whole.select(list(names))

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        raise NotImplementedError

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write effects; each has to fit the rows that are there."""
        nets, table = effects.nets, effects.nets.table
        rows = [] if effects.emptied else list(self._open.rows[table.name])
        names = table.schema.names
        if effects.closing is not None:
            closing = effects.closing
            place = names.index(closing.column)
            new = {names.index(name): value.as_py() for name, value in closing.values.items()}
            rows = [
                tuple(new.get(i, one) for i, one in enumerate(row))
                if (row[place] is True) == closing.when
                else row
                for row in rows
            ]
        values = [
            [None] * len(nets) if one.values is None else one.values.to_pylist()
            for one in nets.values
        ]
        missing = [one.is_missing(len(nets)) for one in nets.values]
        keys = list(zip(*(one.to_pylist() for one in nets.key), strict=True)) or [()] * len(nets)
        by_key = {} if effects.appended else {_key(table, row): row for row in rows}
        assert effects.appended or len(by_key) == len(rows)
        for slot, (effect, key) in enumerate(zip(nets.effect.tolist(), keys, strict=True)):
            own = [column[slot] for column in values]
            for place, value in zip(table.key, key, strict=True):
                own[place] = value
            if effects.appended:
                rows.append(tuple(own))
                continue
            there = key in by_key
            assert (
                there == (effect in (RowEffect.PATCH, RowEffect.DELETE))
                or effect == RowEffect.REPLACE
            )
            if effect == RowEffect.REPLACE and not effects.emptied:
                assert there == nets.expected[slot], (key, there)
            if effect == RowEffect.DELETE:
                del by_key[key]
                continue
            if effect == RowEffect.PATCH:
                own = [
                    by_key[key][at] if missing[at][slot] and at not in table.key else value
                    for at, value in enumerate(own)
                ]
            by_key[key] = tuple(own)
        self._open.rows[table.name] = rows if effects.appended else list(by_key.values())
        self._open.done[self.group, table.name] = at
        self._settle()

    def commit(self, at: AppliedPosition) -> None:
        """Commit what was written."""
        self._open.done[self.group, ()] = at
        self._store()

    def rollback(self) -> None:
        """Forget what was not committed."""
        self._open = _copied(self._stored)

    def release(self) -> None:
        """Forget what was not committed."""
        self.rollback()

    def close(self) -> None:
        """Forget what was not committed."""
        self.rollback()

    def _settle(self) -> None:
        if self.commits_alone:
            self._store()

    def _store(self) -> None:
        self._stored = _copied(self._open)


def _copied(state: _State) -> _State:
    return _State(
        dict(state.tables),
        {name: list(rows) for name, rows in state.rows.items()},
        dict(state.done),
    )


def _key(table: TargetTable, row: Row) -> Row:
    return tuple(row[at] for at in table.key)


class KilledTarget:
    """A target whose process is killed at the end of one of its steps: ``after`` is how many tables are written, or batches committed, before."""

    def __init__(self, target: ApplyTarget, after: int) -> None:
        self._target, self._left = target, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write effects, or be killed before."""
        self._step()
        self._target.write(effects, at)

    def commit(self, at: AppliedPosition) -> None:
        """Commit what was written, or be killed before."""
        self._step()
        self._target.commit(at)

    def rollback(self) -> None:
        """Forget what was not committed, which a process that is killed does not do."""
        if self._left >= 0:
            self._target.rollback()

    def close(self) -> None:
        """Close the target, once."""
        if self._left >= 0:
            self._target.close()

    def _step(self) -> None:
        if self._left == 0:
            self._left = -1
            self._target.close()
            raise KilledError
        self._left -= 1
