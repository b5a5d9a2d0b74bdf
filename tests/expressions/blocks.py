"""Blocks of one table that tests of expressions are evaluated over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from trailgate.model.changes import ABSENT, INSERT, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Table

MISSING = object()
TABLE = Table(
    "S.T",
    (
        Column("ID", 134, 8, key=True),
        Column("NAME", 64, 20),
        Column("CITY", 0, 10),
        Column("PRICE", 134, 18, scale=2),
        Column("AMOUNT", 64, 40, sub_type=2),
        Column("DAY", 192, 10),
        Column("AT", 192, 26),
        Column("RATE", 143, 8),
        Column("RAW", 64, 8, sub_type=4),
        Column("BIG", 135, 8),
    ),
)
NAMES = tuple(column.name for column in TABLE.columns)


def state_column(column: Column, values: Sequence[object]) -> StateColumn:
    """Return a column of values, of which None is NULL and MISSING a missing one."""
    missing = np.array([value is MISSING for value in values], bool)
    plain = [None if value is MISSING else value for value in values]
    if missing.all():
        return ABSENT
    return StateColumn(pa.array(plain, column.arrow_type), missing if missing.any() else None)


def image(rows: int, columns: Mapping[str, Sequence[object]]) -> tuple[StateColumn, ...]:
    """Return an image; a column that is not given is missing."""
    return tuple(
        state_column(column, columns.get(column.name, [MISSING] * rows)) for column in TABLE.columns
    )


def block_of(
    after: Mapping[str, Sequence[object]],
    before: Mapping[str, Sequence[object]] | None = None,
    kind: int = INSERT,
    **members: pa.Array,
) -> ChangeBlock:
    """Return operations of one kind with these images."""
    rows = len(next(iter((after or before or {"": ()}).values())))
    text = pa.array([str(row) for row in range(rows)], pa.string())
    return ChangeBlock(
        table=TABLE,
        order=np.arange(rows),
        op_type=np.full(rows, kind, np.uint8),
        op_ts=np.full(rows, 1_767_603_600_000_000, np.int64),
        tx_ind=np.full(rows, ord("W"), np.uint8),
        tx_id=text,
        csn=text,
        seq_id=text,
        position=text,
        before=image(rows, before or {}),
        after=image(rows, after),
        **members,
    )
