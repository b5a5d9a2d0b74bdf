"""Random histories of tables whose keys and values have several types, written as a trail, and the rows of targets read back.

The oracles know small integers alone (oracles/apply_naive.py): a key is a number, and so is a value of column a, b or c. A shape gives both their types, so that a new type is a row
of ``SHAPES``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from apply.naive_batches import transaction_indicators
from oracles.apply_naive import COLUMNS, Operation, Source, damaged, renumbered
from trailgate import TrailAppender, read_trail
from trailgate.model.changes import (
    ABSENT,
    ChangeBatch,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.positions import format_positions
from trailgate.model.tables import Column, Definitions, Table

TEXT, BIN64, DATE_TIME = 64, 134, 192
NUMBER = 2  # sub data type of text whose content is a number
KEYS: Final = 6
START: Final = 1_700_000_000_000_000  # of the first transaction, in microseconds
SECOND: Final = 1_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """The types of a table: the columns of its key and all its keys, and the columns a, b and c with the values 0 to 4 of each. A table without a key has only key columns."""

    key: tuple[Column, ...]
    keys: tuple[tuple[Any, ...], ...]
    columns: tuple[tuple[Column, tuple[Any, ...]], ...]
    read: Mapping[Any, Any]  # values that a target gives otherwise than a trail has them

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns beside the key."""
        return COLUMNS[: len(self.columns)]

    def table(self, name: str) -> Table:
        """Return the definition of a table of this shape."""
        return Table(name, (*self.key, *(column for column, _ in self.columns)))

    def image(self, key: int, values: Mapping[str, Any]) -> Row:
        """Return an image in the values of a trail."""
        found = dict(zip((one.name for one in self.key), self.keys[key], strict=True))
        for name, (column, own) in zip(self.names, self.columns, strict=True):
            if name in values:
                found[column.name] = None if values[name] is None else own[values[name]]
        return found

    def read_row(self, row: Mapping[str, Any]) -> tuple[int | None, dict[str, Any]]:
        """Return the number of a target's row's key, None for NULLs, and those of its values."""
        key = tuple(_comparable(one, row[one.name.lower()]) for one in self.key)
        known = {self._read_key(own): at for at, own in enumerate(self.keys)}
        values: dict[str, Any] = {}
        for name, (column, own) in zip(self.names, self.columns, strict=True):
            numbers = {self._read(column, one): at for at, one in enumerate(own)} | {None: None}
            values[name] = numbers[_comparable(column, row[column.name.lower()])]
        return known.get(key), values

    def _read_key(self, own: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._read(*one) for one in zip(self.key, own, strict=True))

    def _read(self, column: Column, value: Any) -> Any:
        return _comparable(column, self.read.get(value, value))


def _comparable(column: Column, value: Any) -> Any:
    """Return a value of a target or a trail as both have it: numbers as text are numbers in some databases."""
    return Decimal(value) if column.sub_type == NUMBER and value is not None else value


def _key(name: str, kind: int, length: int, *, sub: int = 0, key: bool = True) -> Column:
    return Column(name, kind, length, sub_type=sub, key=key)


A = (Column("A", BIN64, 8), (0, 1, -1, 1 << 62, -(1 << 63)))
B = (Column("B", TEXT, 20), ("", "x", "X", "é ü", 'it\'s "q"'))
NUMBERS = (
    Column("C", TEXT, 40, sub_type=NUMBER),
    ("0", "1", "-2.5", "1" + 25 * "0", "0.1"),
)
TIMES = ("0001-01-01 00:00:00.000000", "1969-12-31 23:59:59.999999", "2026-02-28 12:00:00.000001", "9999-12-31 23:59:59.999999", "2026-02-28 12:00:00.000000")  # fmt: skip
TIME = (Column("C", DATE_TIME, 26), TIMES)
CENTS = (
    Column("C", BIN64, 8, scale=2),
    tuple(map(Decimal, ("0.00", "1.00", "-0.01", "12345678901234567.89", "0.10"))),
)
READ: Final = {one: datetime.fromisoformat(one) for one in TIMES}
DAYS: Final = ("0001-01-01", "2026-02-28", "9999-12-31")
READ_DAYS: Final = {one: date.fromisoformat(one) for one in DAYS}
SHAPES: Final[Mapping[str, Shape]] = {
    "integer": Shape(
        (_key("ID", BIN64, 8),), ((0,), (1,), (-1,), ((1 << 53) + 1,), ((1 << 63) - 1,), (7,)), (A, B, TIME), READ
    ),
    "text": Shape(
        (_key("CODE", TEXT, 20),), (("a",), ("A",), ("ab",), ("é",), ("a b",), ("'\"",)), (A, B, NUMBERS), {}
    ),
    "number": Shape(
        (_key("NUM", TEXT, 40, sub=NUMBER),),
        (("1",), ("2",), ("10",), ("-3.5",), ("1" + 30 * "0",), ("0.001",)),
        (A, B, CENTS),
        {},
    ),
    "pair": Shape(
        (_key("REGION", TEXT, 10), _key("DAY", DATE_TIME, 10)),
        tuple((one, day) for one in ("n", "s") for day in DAYS),
        (A, (replace(NUMBERS[0], name="B"), NUMBERS[1]), TIME),
        READ | READ_DAYS,
    ),
    "no key": Shape(
        (_key("ID", BIN64, 8, key=False), _key("NAME", TEXT, 20, key=False)),
        ((1, "x"), (1, None), (None, None), (2, "x"), (None, "x"), (2, "")),
        (),
        {},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class History:
    """A log of several tables by their names, each with its shape."""

    log: list[Operation]
    shapes: Mapping[str, Shape]

    @property
    def definitions(self) -> Definitions:
        """Return the definitions of the tables."""
        return Definitions(tuple(shape.table(name) for name, shape in self.shapes.items()))


def history(
    own: random.Random, transactions: int = 8, *, damage: int = 0, tangled: bool = False
) -> History:
    """Return a history of one to three tables, whose log was damaged at most so often.

    Of a ``tangled`` history, many operations do not fit the rows, and transactions on several tables depend on each other.
    """
    log: list[Operation] = []
    tables = own.choice((2, 3) if tangled else (1, 1, 2, 3))
    chosen = [own.choice(list(SHAPES)) for _ in range(tables)]
    shapes = {f"HR.T{at}": SHAPES[name] for at, name in enumerate(chosen)}
    sources = [
        Source(own, KEYS, table=name, columns=shape.names, log=log)
        for name, shape in shapes.items()
    ]
    number = 0
    while len({one.transaction for one in log}) < transactions:
        number += 1
        for _ in range(own.randint(1, 4)):
            source = own.choice(sources)
            (source.guess if tangled else source.act)(number)
    for _ in range(own.randint(0, damage)):
        log = damaged(own, log)
    return History(renumbered(log), shapes)


def write(prefix: Path, made: History, log: Sequence[Operation] | None = None) -> None:
    """Append a log, or all of the history, to a trail, which is begun where there is none."""
    operations = made.log if log is None else log
    indicators = transaction_indicators(operations)
    blocks = []
    for name, shape in made.shapes.items():
        rows = [at for at, one in enumerate(operations) if one.table == name]
        if rows:
            blocks.append(_block(shape.table(name), shape, rows, operations, indicators))
    with TrailAppender(str(prefix), made.definitions) as trail:
        if operations:
            trail.append(ChangeBatch(blocks, len(operations)))
            trail.commit(str(operations[-1].transaction))


def time_of(transaction: int) -> int:
    """Return when a transaction is committed, in microseconds since 1970."""
    return START + transaction * SECOND


def _block(
    table: Table,
    shape: Shape,
    rows: Sequence[int],
    log: Sequence[Operation],
    indicators: NDArray[np.uint8],
) -> ChangeBlock:
    chosen = [log[at] for at in rows]
    before = [shape.image(one.old, one.earlier) if one.kind in "UKD" else None for one in chosen]
    after = [shape.image(one.key, one.logged) if one.kind in "IUK" else None for one in chosen]
    texts = pa.array([str(one.transaction) for one in chosen])
    return ChangeBlock(
        table=table,
        order=np.array(rows),
        op_type=np.array([ord(one.kind) for one in chosen], np.uint8),
        op_ts=np.array([time_of(one.transaction) for one in chosen]),
        tx_ind=indicators[rows],
        tx_id=texts,
        csn=texts,
        seq_id=None,
        position=format_positions(0, np.array(rows)),
        before=_image(table, before),
        after=_image(table, after),
    )


def _image(table: Table, rows: Sequence[Row | None]) -> Image:
    found = []
    for column in table.columns:
        missing = np.array([row is None or column.name not in row for row in rows])
        values = pa.array([(row or {}).get(column.name) for row in rows], column.arrow_type)
        found.append(ABSENT if missing.all() else StateColumn(values, missing))
    return tuple(found)


def positions(prefix: Path) -> dict[str | None, int | None]:
    """Return the numbers of a trail's operations by their positions."""
    found = read_trail(prefix).read_all()["position"].to_pylist()
    return {None: None, **{one: at for at, one in enumerate(found)}}
