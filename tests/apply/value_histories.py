"""Histories of the naive source (oracles/apply_naive.py) on tables whose keys and values are of every type.

The source knows numbers: key 3, value 1. A ``Naming`` gives each number a value of a column's type, so that different keys are stored as different values, and spells it anew
each time where a target stores several spellings as one value (00012, 12). What the source's rows are then named as is what the target has to have.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from apply.naive_batches import block_of_images
from apply.value_table import VALUES, Held, Row, Value, Values
from oracles.apply_naive import COLUMNS, Operation, Source
from trailgate import TrailAppender
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

FEW: Final = 6
MANY: Final = 150
PIECES: Final = 3
# Of each mode the rows of a table that are those of the source.
SHOWN: Final[Mapping[str, Callable[[Row], bool]]] = {
    "current": lambda _: True,
    "append": lambda _: True,
    "soft-delete": lambda row: not row["_deleted"],
    "history": lambda row: bool(row["_is_current"]),
}
FORMS: Final = ("single", "pair", "none")
Apply = Callable[[Path, str, int], object]


@dataclass
class Naming:
    """The values of one column: ``spellings`` of each number of the source, which are stored as one value each."""

    column: Column
    target: Held
    spellings: list[list[Value]]

    @classmethod
    def drawn(
        cls, chance: random.Random, one: Values, name: str, target: Held, count: int, *, key: bool
    ) -> Naming:
        """Draw values that are stored as ``count`` different ones, or fewer where the type has no more."""
        column = one.as_column(name, key=key)
        own = [value for value in one.values if not target.refuses(column, value)]
        chance.shuffle(own)
        found: dict[Value, list[Value]] = {}
        for value in own:
            found.setdefault(target.stored(column, value), []).append(value)
        # With many keys the type's own values stay: they are the ends of what its files have.
        names = list(found)[: max(count, 0)]
        for _ in range(20 * count):
            if len(names) >= count:
                break
            value = one.more(chance)
            stored = target.stored(column, value)
            if stored not in found and not target.refuses(column, value):
                found[stored] = [value]
                names.append(stored)
        return cls(column, target, [found[stored] for stored in names])

    def __len__(self) -> int:
        return len(self.spellings)

    def spelled(self, chance: random.Random, number: int | None) -> Value:
        """Return a spelling of a number's value."""
        return None if number is None else chance.choice(self.spellings[number % len(self)])

    def stored(self, number: int | None) -> Value:
        """Return what the target keeps of a number's value."""
        return None if number is None else self.target.stored(self.column, self._first(number))

    def _first(self, number: int) -> Value:
        return self.spellings[number % len(self)][0]


@dataclass
class History:
    """A table whose source does transactions, written to a trail piece by piece."""

    chance: random.Random
    table: Table
    keys: list[Naming]
    values: list[Naming]
    source: Source
    keyless: bool
    written: int = 0
    emitted: list[tuple[str, Row]] = field(default_factory=list)  # each operation and its image
    rows: dict[int, list[dict[str, Any]]] = field(
        default_factory=dict
    )  # a key holds several in mid-statement

    @classmethod
    def drawn(
        cls,
        chance: random.Random,
        name: str,
        form: str,
        target: Held,
        key: Values | None = None,
        *,
        many: bool = False,
    ) -> History:
        """Draw a table with a key of a form, and types of the other columns."""
        count = MANY if many else FEW
        types = [key or chance.choice(VALUES)]
        if form != "single":
            types += [chance.choice(VALUES)]
        marked = form != "none"
        each = count if form == "single" else math.isqrt(count) + 1
        keys = [
            Naming.drawn(chance, one, f"K{at}", target, each, key=marked)
            for at, one in enumerate(types)
        ]
        if not marked:
            chance.choice(keys).spellings[-1] = [None]
        values = [
            Naming.drawn(chance, chance.choice(VALUES), column.upper(), target, 5, key=False)
            for column in COLUMNS
        ]
        columns = [one.column for one in (*keys, *values)]
        chance.shuffle(columns)
        source = Source(chance, min(count, math.prod(map(len, keys))))
        return cls(chance, Table(f"HR.{name}", tuple(columns)), keys, values, source, not marked)

    def _parts(self, key: int) -> list[int]:
        """Return the numbers of a key's columns: each value is in several keys, so that neither column alone is a key."""
        size = len(self.keys[0])
        return [key] if len(self.keys) == 1 else [key % size, key // size]

    def expected(self) -> list[Row]:
        """Return the rows that the target has to have, with the names of columns in lower case."""
        return [self._stored_row(key, row) for key, row in self.source.rows.items()]

    def operations(self) -> list[Row]:
        """Return the rows that a target of every operation has to have."""
        columns = [one.column for one in (*self.keys, *self.values)]
        target = self.keys[0].target
        return [
            {"_op_type": kind}
            | {one.name.lower(): target.stored(one, image.get(one.name)) for one in columns}
            for kind, image in self.emitted
        ]

    def _stored_row(self, key: int, row: dict[str, Any]) -> Row:
        parts = zip(self.keys, self._parts(key), strict=True)
        own = {one.column.name.lower(): one.stored(part) for one, part in parts}
        return own | {
            name: one.stored(row[name]) for name, one in zip(COLUMNS, self.values, strict=True)
        }

    def _image(self, key: int, logged: dict[str, Any]) -> Row:
        parts = zip(self.keys, self._parts(key), strict=True)
        own = {one.column.name: one.spelled(self.chance, part) for one, part in parts}
        named = zip(COLUMNS, self.values, strict=True)
        return own | {
            one.column.name: one.spelled(self.chance, logged[name])
            for name, one in named
            if name in logged
        }

    def images(self, log: Sequence[Operation]) -> list[tuple[int, Row | None, Row | None]]:
        """Return operations as images; all columns are logged where the table has no key."""
        return [self._images(one) for one in log]

    def _images(self, one: Operation) -> tuple[int, Row | None, Row | None]:
        kind, held = one.kind, self.rows
        if kind == "T":
            held.clear()
            self.emitted.append((kind, {}))
            return ord(kind), None, None
        olds = held.setdefault(one.old, [])
        old = olds.pop(0) if kind != "I" else {}
        new = old | one.logged
        if kind != "D":
            rows = held.setdefault(one.key, [])
            rows.insert(0 if kind == "U" else len(rows), new)
        before = self._image(one.old, old if self.keyless else {}) if kind != "I" else None
        after = self._image(one.key, new if self.keyless else one.logged) if kind != "D" else None
        self.emitted.append((kind, (after if before is None or after else before) or {}))
        return ord(kind), before, after


def mixed_histories(chance: random.Random, target: Held, count: int) -> list[History]:
    """Draw tables with keys of every form, one of them with many keys."""
    return [
        History.drawn(chance, f"T{at}", chance.choice(FORMS), target, one, many=at == 0)
        for at, one in enumerate(chance.sample(VALUES, count))
    ]


def write_histories(prefix: Path, histories: Sequence[History], chance: random.Random) -> int:
    """Append what each source has logged since it was written last, transactions of tables in any order; return the number of operations."""
    waiting = [(one, _new_transactions(one)) for one in histories]
    waiting = [(one, log) for one, log in waiting if log]
    count = 0
    with TrailAppender(str(prefix), Definitions(tuple(one.table for one in histories))) as trail:
        while waiting:
            at = chance.randrange(len(waiting))
            history, logs = waiting[at]
            log = logs.pop(0)
            block = block_of_images(history.table, history.images(log))
            block.tx_ind[:] = MIDDLE
            block.tx_ind[0], block.tx_ind[-1] = BEGIN, END
            if len(log) == 1:
                block.tx_ind[0] = WHOLE
            count += len(log)
            same = pa.array([str(count)] * len(log))
            block = replace(block, tx_id=same, csn=same)
            trail.append(ChangeBatch([block], len(block)))
            trail.commit(str(count))
            if not logs:
                del waiting[at]
    return count


def _new_transactions(history: History) -> list[list[Operation]]:
    log = history.source.log[history.written :]
    history.written = len(history.source.log)
    return [list(own) for _, own in groupby(log, key=lambda one: one.transaction)]


def counted(rows: Sequence[Row]) -> Counter[tuple[tuple[str, Value], ...]]:
    """Return rows in a form in which their order does not count."""
    return Counter(
        tuple(sorted((name, _same(value)) for name, value in row.items())) for row in rows
    )


def _same(value: Value) -> Value:
    """Return a value that equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def check(history: History, address: str, target: Held, mode: str = "current") -> None:
    """Assert that the target's table has the rows of the source, or a row for each of its operations."""
    found = filter(SHOWN[mode], target.rows(address, history.table.name.lower()))
    expected = history.operations() if mode == "append" else history.expected()
    own_names = [column.name.lower() for column in history.table.columns]
    names = expected[0] if expected else own_names
    rows = [{name: row[name] for name in names} for row in found]
    own, wanted = counted(rows), counted(expected)
    assert own == wanted, f"missing {wanted - own}, surplus {own - wanted}, of {history}"


def run_histories(
    folder: Path,
    histories: Sequence[History],
    target: Held,
    apply: Apply,
    chance: random.Random,
    *,
    address: str = "",
    mode: str = "current",
    between: Callable[[str], None] = lambda _: None,
) -> None:
    """Write the histories in three pieces, apply each piece in batches of any size, and compare the tables after each.

    ``between`` is called with the address after each piece.
    """
    address = address or target.address.format(folder)
    for piece in range(PIECES):
        for one in histories:
            _grow(one.source, chance, first=piece == 0)
        write_histories(folder / "ot", histories, chance)
        apply(folder / "ot", address, chance.choice((1 << 20, 1 << 20, 2_000)))
        for one in histories:
            check(one, address, target, mode)
        between(address)


def _grow(source: Source, chance: random.Random, *, first: bool) -> None:
    """Let a source do a few transactions, and one with many keys some that are about most of these."""
    if source.keys > FEW and first:
        source.load(source.keys * 3 // 4)
    elif source.keys > FEW:
        source.touch()
    wanted = len(source.log) + chance.randint(1, 8)
    while len(source.log) < wanted:
        source.transaction()
