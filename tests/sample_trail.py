"""Small trails for tests: transactions as lists in, numbered files and definitions out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

ORDERS = Table(
    "MY.ORDERS",
    (Column("ID", 134, 8, nullable=False, key=True), Column("NAME", 64, 60)),
)
NOTES = Table("MY.NOTES", (Column("ID", 134, 8, nullable=False, key=True), Column("TEXT", 64, 60)))
DEFINITIONS = Definitions((ORDERS, NOTES))
START = 1_767_225_600_000_000  # 2026-01-01 UTC


class Op(NamedTuple):
    """An operation; ``...`` as a text says that the column is missing.

    ``old_key`` is the key before the operation, if it is another one. Without a time, operations
    are a second apart.
    """

    kind: str
    key: int
    text: object = "text"
    before: object = ...
    table: Table = ORDERS
    old_key: int | None = None
    time: datetime | None = None


Transaction = Sequence[Op]


def write_trail(
    prefix: Path,
    files: Sequence[Sequence[Transaction]],
    *,
    digits: int = 9,
    torn: bool = False,
) -> Path:
    """Write each list of transactions as one file; with ``torn`` they are cut between records.

    A torn trail's files begin inside transactions: each has the same number of operations.
    """
    bodies = _torn_bodies(files) if torn else [_body(transactions) for transactions in files]
    for number, body in enumerate(bodies):
        header = encode_header(FileHeader(trail=TrailInfo(seqno=number)))
        Path(f"{prefix}{number:0{digits}}").write_bytes(header + body)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    return prefix


def _body(transactions: Sequence[Transaction]) -> bytes:
    return bytes(encode(changes(transactions)).body)


def _torn_bodies(files: Sequence[Sequence[Transaction]]) -> list[bytes]:
    encoded = encode(changes([transaction for file in files for transaction in file]))
    body, starts = bytes(encoded.body), encoded.starts.tolist()
    cuts = [starts[(len(starts) - 1) * i // len(files)] for i in range(len(files) + 1)]
    return [body[start:end] for start, end in pairwise(cuts)]


def changes(transactions: Sequence[Transaction]) -> ChangeBatch:
    """Return the transactions as blocks."""
    rows = [
        (op, _indicator(i, len(transaction)), f"tx{number}")
        for number, transaction in enumerate(transactions)
        for i, op in enumerate(transaction)
    ]
    blocks = [
        _block(table, [(order, *row) for order, row in enumerate(rows) if row[0].table is table])
        for table in dict.fromkeys((ORDERS, NOTES, *(row[0].table for row in rows)))
    ]
    return ChangeBatch([block for block in blocks if len(block)], len(rows))


def _indicator(i: int, count: int) -> int:
    if count == 1:
        return ord("W")
    return ord("B" if i == 0 else "E" if i == count - 1 else "M")


def microseconds(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _block(table: Table, rows: list[tuple[int, Op, int, str]]) -> ChangeBlock:
    count = len(rows)
    ops = [op for _, op, _, _ in rows]
    order = np.array([order for order, *_ in rows], np.int64)
    has_before = [op.before is not ... or op.kind == "D" for op in ops]
    has_after = [op.kind != "D" for op in ops]
    return ChangeBlock(
        table=table,
        order=order,
        op_type=np.array([ord(op.kind) for op in ops], np.uint8),
        op_ts=np.array(
            [
                START + number * 1_000_000 if op.time is None else microseconds(op.time)
                for number, op in zip(order.tolist(), ops, strict=True)
            ],
            np.int64,
        ),
        tx_ind=np.array([indicator for *_, indicator, _ in rows], np.uint8),
        tx_id=pa.array([tx for *_, tx in rows], pa.string()),
        csn=pa.array([str(1000 + int(tx[2:])) for *_, tx in rows], pa.string()),
        seq_id=None,
        position=pa.array([""] * count, pa.string()),
        before=(
            _column(
                [
                    (op.key if op.old_key is None else op.old_key) if has else ...
                    for op, has in zip(ops, has_before, strict=True)
                ]
            ),
            _column([op.before for op in ops], pa.string()),
        ),
        after=(
            _column([op.key if has else ... for op, has in zip(ops, has_after, strict=True)]),
            _column(
                [op.text if has else ... for op, has in zip(ops, has_after, strict=True)],
                pa.string(),
            ),
        ),
    )


def _column(values: list[object], kind: pa.DataType | None = None) -> StateColumn:
    missing = np.array([value is ... for value in values], bool)
    if missing.all():
        return StateColumn(None)
    filled = [None if value is ... else value for value in values]
    return StateColumn(pa.array(filled, kind or pa.int64()), missing if missing.any() else None)
