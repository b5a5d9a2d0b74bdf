"""Operations of the naive tables (oracles/apply_naive.py) as change blocks, and a target in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracles.apply_naive import COLUMNS, Operation
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations, convert_blocks
from trailgate.apply.effects.table_changes import TableChanges, compute_table_changes
from trailgate.apply.effects.tables import make_target_table
from trailgate.model.changes import (
    ABSENT,
    BEGIN,
    END,
    MIDDLE,
    WHOLE,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.positions import format_positions
from trailgate.model.tables import Column, Table

BIN64 = 134
TABLE = Table(
    "HR.T",
    (
        Column("ID", BIN64, 8, key=True),
        *(Column(name.upper(), BIN64, 8) for name in COLUMNS),
    ),
)
TARGET = make_target_table(TABLE)


def block_of(log: Sequence[Operation], first: int = 0) -> ChangeBlock:
    """Return operations as a block; ``first`` is the number of the first one in the log."""
    rows = len(log)

    def column(values: list[Any], missing: list[bool]) -> StateColumn:
        mask = np.array(missing, bool)
        return ABSENT if mask.all() else StateColumn(pa.array(values, pa.int64()), mask)

    def image(keys: list[int | None], logged: list[dict[str, Any]]) -> Image:
        own = column(keys, [key is None for key in keys])
        others = (
            column([one.get(name) for one in logged], [name not in one for one in logged])
            for name in COLUMNS
        )
        return (own, *others)

    before = [one.old if one.kind in "UKD" else None for one in log]
    after = [one.key if one.kind in "IUK" else None for one in log]
    texts = pa.array([str(one.transaction) for one in log], pa.string())
    return ChangeBlock(
        table=TABLE,
        order=np.arange(rows),
        op_type=np.array([ord(one.kind) for one in log], np.uint8),
        op_ts=np.arange(rows, dtype=np.int64),
        tx_ind=np.zeros(rows, np.uint8),
        tx_id=texts,
        csn=texts,
        seq_id=None,
        position=format_positions(0, np.arange(first, first + rows)),
        before=image(before, [one.earlier for one in log]),
        after=image(after, [one.logged for one in log]),
    )


def transaction_indicators(log: Sequence[Operation]) -> NDArray[np.uint8]:
    """Return the place of each operation in its transaction, which is what follows one another with its number."""
    numbers = np.array([one.transaction for one in log])
    others = np.diff(numbers) != 0
    first, last = np.concatenate(([True], others)), np.concatenate((others, [True]))
    kinds = np.where(first, np.where(last, WHOLE, BEGIN), np.where(last, END, MIDDLE))
    return kinds[: len(log)].astype(np.uint8)


def operations_of(log: Sequence[Operation]) -> TargetOperations:
    """Return operations of the naive table in columns; a transaction is what follows one another with its number."""
    numbers = np.array([one.transaction for one in log])
    runs = np.cumsum(np.diff(numbers, prepend=numbers[:1]) != 0)
    return convert_blocks(TARGET, [block_of(log)], [runs])


class Memory:
    """A target in memory: the rows of one table by key."""

    def __init__(self, rows: dict[int, dict[str, Any]] | None = None) -> None:
        self.rows = {key: dict(values) for key, values in (rows or {}).items()}

    def fetch(self, keys: pa.Table, keys_alone: bool) -> pa.Table:
        """Return the rows that have the keys."""
        found = [key for key in keys["id"].to_pylist() if key in self.rows]
        names = () if keys_alone else COLUMNS
        columns = {name: [self.rows[key][name] for key in found] for name in names}
        schema = pa.schema([(name, pa.int64()) for name in ("id", *names)])
        return pa.table({"id": found, **columns}, schema=schema)

    def apply(
        self, log: Sequence[Operation], policy: str = "stop", faults: OperationErrors | None = None
    ) -> TableChanges:
        """Apply a batch; raises ApplyError where no faults are taken."""
        effects = compute_table_changes(
            operations_of(log), self.fetch, CollisionPolicy(policy), faults
        )
        self.write(effects)
        return effects

    def write(self, effects: TableChanges) -> None:
        """Carry out effects, each of which has to fit."""
        if effects.emptied:
            self.rows = {}
        nets = effects.nets
        keys = nets.key[0].to_pylist()
        for at, (effect, key) in enumerate(zip(nets.effect.tolist(), keys, strict=True)):
            if effect == RowEffect.DELETE:
                del self.rows[key]
                continue
            logged = {
                name: None if one.values is None else one.values[at].as_py()
                for name, one in zip(COLUMNS, nets.values[1:], strict=True)
                if effect != RowEffect.PATCH or not one.is_missing(len(nets))[at]
            }
            if effect == RowEffect.PATCH:
                self.rows[key] |= logged
            else:
                assert effect == RowEffect.REPLACE or key not in self.rows
                self.rows[key] = logged


Row = dict[str, Any]


def block_of_images(
    table: Table, changes: Sequence[tuple[int, Row | None, Row | None]]
) -> ChangeBlock:
    """Return operations, each a transaction, by their types and the images before and after them; None is no image."""

    def image(rows: list[Row | None]) -> tuple[StateColumn, ...]:
        found = []
        for column in table.columns:
            missing = np.array([row is None or column.name not in row for row in rows])
            values = pa.array([(row or {}).get(column.name) for row in rows], column.arrow_type)
            found.append(ABSENT if missing.all() else StateColumn(values, missing))
        return tuple(found)

    rows = len(changes)
    text = pa.array([str(number) for number in range(rows)])
    return ChangeBlock(
        table=table,
        order=np.arange(rows),
        op_type=np.array([kind for kind, _, _ in changes], np.uint8),
        op_ts=np.zeros(rows, np.int64),
        tx_ind=np.full(rows, ord("W"), np.uint8),
        tx_id=text,
        csn=text,
        seq_id=None,
        position=format_positions(0, np.arange(rows)),
        before=image([before for _, before, _ in changes]),
        after=image([after for _, _, after in changes]),
    )
