"""Tables of dictionaries: what operations make of one, row by row, and a source whose own rows are the truth of what it logs.

Keys and values are small integers, or None for NULL; who writes a trail of them gives them types (apply/histories.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

COLUMNS = ("a", "b", "c")


class Operation(NamedTuple):
    """One operation: its type, the key before and after it, the columns logged after it, its transaction, its table, and the columns logged before it."""

    kind: str
    old: int
    key: int
    logged: dict[str, Any]
    transaction: int
    table: str = ""
    earlier: dict[str, Any] = {}  # noqa: RUF012  nobody changes it


class CollisionError(Exception):
    """An operation does not fit the rows; ``number`` counts the operations of its table."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass
class Held:
    """A row, the columns that moves have logged, and the number of the operation that moved it here; a column that nothing states is not in its values."""

    values: dict[str, Any]
    moved: set[str] = field(default_factory=set)
    by: int = -1


def replayed(
    rows: dict[int, dict[str, Any]], operations: Sequence[Operation], policy: str = "stop"
) -> tuple[dict[int, dict[str, Any]], int]:
    """Return the rows after operations, and how many were ignored; raises CollisionError."""
    table = NaiveTable(rows, policy)
    for number, one in enumerate(operations):
        table.do(one, number)
        if number + 1 == len(operations) or operations[number + 1].transaction != one.transaction:
            for key in list(table.held):
                table.settle(key, end=True)
    return {key: held[0].values for key, held in table.held.items() if held}, table.ignored


class NaiveTable:
    """A table in which a key may hold several rows during a transaction."""

    def __init__(
        self, rows: dict[int, dict[str, Any]], policy: str, columns: Sequence[str] = COLUMNS
    ) -> None:
        self.held = {key: [Held(dict(values))] for key, values in rows.items()}
        self.policy, self.columns, self.ignored, self.number = policy, columns, 0, -1

    def do(self, one: Operation, number: int = -1) -> None:
        """Do one operation; ``number`` is what an error names."""
        self.number = number
        if one.kind == "T":
            self.held.clear()
        elif one.kind == "K":
            self._move(one)
        else:
            self.settle(one.key, end=False)
            act = {"I": self._insert, "U": self._update, "D": self._delete}[one.kind]
            act(one, self.held.setdefault(one.key, []))

    def settle(self, key: int, *, end: bool) -> None:
        """Leave one row of a key."""
        held = self.held.get(key, [])
        if len(held) > 1:
            if self.policy != "overlay":
                raise CollisionError(held[-1].by)
            for later in held[1:]:
                held[0].values |= {name: later.values[name] for name in later.moved}
            del held[1:]
        if held and end:
            if set(held[0].values) != set(self.columns):
                raise CollisionError(held[0].by)
            held[0].moved = set()

    def _move(self, one: Operation) -> None:
        olds = self.held.get(one.old)
        if olds:
            moved = olds.pop(0)
        elif self.policy == "overlay":
            moved = Held({})
        elif self.policy == "insert-missing":
            moved = Held(dict.fromkeys(self.columns))
        else:
            raise CollisionError(self.number)
        moved.by = self.number
        moved.values |= one.logged
        moved.moved |= set(one.logged)
        self.held.setdefault(one.key, []).append(moved)

    def _insert(self, one: Operation, held: list[Held]) -> None:
        if held and self.policy != "overlay":
            raise CollisionError(self.number)
        if held:
            held[0].values |= one.logged
        else:
            held.append(Held(dict.fromkeys(self.columns) | one.logged))

    def _update(self, one: Operation, held: list[Held]) -> None:
        if held:
            held[0].values |= one.logged
        elif self.policy == "insert-missing":
            held.append(Held(dict.fromkeys(self.columns) | one.logged))
        else:
            self._miss()

    def _delete(self, _: Operation, held: list[Held]) -> None:
        if held:
            held.pop(0)
        else:
            self._miss()

    def _miss(self) -> None:
        if self.policy != "overlay":
            raise CollisionError(self.number)
        self.ignored += 1


class Source:
    """A table with random transactions, which logs full or compressed images of what it does.

    Tables that share a ``log`` are of one database. A table without ``columns`` has only those of its key.
    """

    def __init__(
        self,
        chance: random.Random,
        keys: int = 6,
        *,
        table: str = "",
        columns: Sequence[str] = COLUMNS,
        log: list[Operation] | None = None,
    ) -> None:
        self.chance, self.keys, self.table, self.columns = chance, keys, table, columns
        self.rows: dict[int, dict[str, Any]] = {}
        self.log: list[Operation] = [] if log is None else log
        self._transaction = 0

    def transaction(self) -> None:
        """Do one transaction."""
        self._transaction += 1
        for _ in range(self.chance.randint(1, 4)):
            self.act(self._transaction)

    def act(self, transaction: int) -> None:
        """Do one statement, if the rows allow the one that chance draws."""
        self._transaction = transaction
        act = self.chance.choice(
            (
                self._insert,
                self._insert,
                self._update,
                self._update,
                self._delete,
                self._move,
                self._shift,
                self._truncate,
            )
        )
        act()

    def guess(self, transaction: int) -> None:
        """Log one operation on a few keys, whether or not the rows allow it."""
        self._transaction = transaction
        kind = "T" if self.chance.random() < 0.03 else self.chance.choice("IIIUUKKDD")
        old, key = self.chance.sample(range(min(self.keys, 4)), 2)
        if kind == "T":
            self._log(kind, 0, 0, {})
        elif kind == "I":
            self._log(kind, key, key, {name: self._value() for name in self.columns})
        else:
            row = {name: self._value() for name in self.columns}
            logged = {} if kind == "D" else self._changes(row)
            self._log(kind, old if kind == "K" else key, key, logged, row)

    def load(self, count: int) -> None:
        """Insert rows with so many keys in one transaction."""
        self._transaction += 1
        for key in self.chance.sample(range(self.keys), count):
            self._insert(key)

    def touch(self) -> None:
        """Update, delete and insert about half of the keys, each in one transaction."""
        for act in (self._update, self._delete, self._insert):
            self._transaction += 1
            for key in self.chance.sample(range(self.keys), self.keys // 2):
                act(key)

    def _value(self) -> Any:
        return self.chance.choice((None, 0, 1, 2, 3, 4))

    def _log(
        self,
        kind: str,
        old: int,
        key: int,
        logged: dict[str, Any],
        before: dict[str, Any] | None = None,
    ) -> None:
        earlier = {}
        if before and self.chance.random() < 0.5:
            earlier = {name: one for name, one in before.items() if self.chance.random() < 0.7}
        found = Operation(
            kind=kind,
            old=old,
            key=key,
            logged=logged,
            transaction=self._transaction,
            table=self.table,
            earlier=earlier,
        )
        self.log.append(found)

    def _insert(self, key: int | None = None) -> None:
        key = self.chance.randrange(self.keys) if key is None else key
        if key in self.rows:
            return
        values = {name: self._value() for name in self.columns}
        self.rows[key] = dict(values)
        self._log("I", key, key, values)

    def _changes(self, values: dict[str, Any]) -> dict[str, Any]:
        changed = {name: self._value() for name in self.columns if self.chance.random() < 0.5}
        whole = self.chance.random() < 0.3
        return values | changed if whole else changed

    def _known(self, key: int | None) -> int | None:
        """Return the key if it has a row, and any key that has one if it is None."""
        if key is None:
            return self.chance.choice(list(self.rows)) if self.rows else None
        return key if key in self.rows else None

    def _update(self, key: int | None = None) -> None:
        key = self._known(key)
        if key is not None:
            before = dict(self.rows[key])
            logged = self._changes(before)
            self.rows[key] |= logged
            self._log("U", key, key, logged, before)

    def _delete(self, key: int | None = None) -> None:
        key = self._known(key)
        if key is not None:
            self._log("D", key, key, {}, self.rows.pop(key))

    def _move(self) -> None:
        free = [key for key in range(self.keys) if key not in self.rows]
        if self.rows and free:
            old, key = self.chance.choice(list(self.rows)), self.chance.choice(free)
            before = self.rows.pop(old)
            logged = self._changes(before)
            self.rows[key] = before | logged
            self._log("K", old, key, logged, before)

    def _shift(self) -> None:
        """Move several rows in one statement, whose keys are unique only at its end."""
        chosen = [key for key in self.rows if self.chance.random() < 0.6]
        by = self.chance.choice((1, -1, 2))
        moved = {(key + by) % self.keys: self.rows[key] for key in chosen}
        others = {key: row for key, row in self.rows.items() if key not in chosen}
        if len(chosen) < 2 or set(moved) & set(others):
            return
        self.rows = others | {key: dict(row) for key, row in moved.items()}
        for key in self.chance.sample(chosen, len(chosen)):
            self._log("K", key, (key + by) % self.keys, {})

    def _truncate(self) -> None:
        if self.chance.random() < 0.15:
            self.rows = {}
            self._log("T", 0, 0, {})


def damaged(chance: random.Random, log: Iterable[Operation]) -> list[Operation]:
    """Return a log with an operation dropped, doubled, or changed for its neighbour."""
    found = list(log)
    if len(found) > 1:
        at = chance.randrange(len(found) - 1)
        act = chance.randrange(3)
        if act == 0:
            del found[at]
        elif act == 1:
            found.insert(at, found[at])
        else:
            found[at], found[at + 1] = found[at + 1], found[at]
    return found


def renumbered(log: Sequence[Operation]) -> list[Operation]:
    """Return a log whose transactions are numbered from 1: operations of one that are not neighbours any more are of several."""
    runs = [list(own) for _, own in groupby(log, key=lambda one: one.transaction)]
    return [one._replace(transaction=number) for number, own in enumerate(runs, 1) for one in own]
