"""Writing each format, beside level 3; and what takes records of its own, beside a copy of memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest
from benchmarks.trail_codec import DEFINITIONS, TABLE, sample

from trailgate.arrays import octets
from trailgate.model.changes import ABSENT, UPDATE, WHOLE, ChangeBatch, StateColumn
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import encode

RECORDS: Final = 200_000
QUICK_RECORDS: Final = 50_000
RUNS: Final = 5
NEWER: Final = TrailFormat(5, ByteOrder.LITTLE)
LARGE: Final = Definitions(
    (Table("SALES.NOTES", (Column("ID", 134, 8, key=True), Column("NOTE", 64, 8000, lob_type=1))),)
)
LARGE_BYTES: Final = 100_000


def run(*, quick: bool = False) -> list[Figure]:
    """Return one row a format: its rate beside that of level 3 in the same run; one core."""
    rows = QUICK_RECORDS if quick else RECORDS
    inserts, updates, tagged = sample(rows), both_images(rows), with_tokens(rows)
    full, compact = (TrailFormat(5, updates=each) for each in list(UpdateFormat)[1:])
    large = large_objects(rows // 500)
    size = encode(large).body.size
    data = octets(pa.py_buffer(bytes(size)))
    return [
        _beside("12.2, little-endian", (inserts, NEWER), (inserts, LEVEL_3), Target(0.85)),
        _beside("with a ROWID each", (tagged, LEVEL_3), (inserts, LEVEL_3)),
        _beside("unified full", (updates, full), (updates, LEVEL_3), Target(0.85)),
        _beside("unified compact", (updates, compact), (updates, LEVEL_3)),
        Figure(
            "large objects",
            size / fastest(lambda: encode(large), RUNS) / 1e6,
            "MB/s",
            "memory copy",
            size / fastest(data.copy, RUNS) / 1e6,
        ),
    ]


def both_images(rows: int) -> ChangeBatch:
    """Return updates of one column that hold all columns before and after."""
    (block,) = sample(rows).blocks
    changed = StateColumn(pa.array(np.arange(rows) + 7))
    after = tuple(
        changed if column.name == "AMOUNT" else state
        for column, state in zip(TABLE.columns, block.after, strict=True)
    )
    kind = np.full(rows, UPDATE, np.uint8)
    return ChangeBatch([replace(block, op_type=kind, before=block.after, after=after)], rows)


def with_tokens(rows: int) -> ChangeBatch:
    """Return inserts with a ROWID each."""
    (block,) = sample(rows).blocks
    entries = np.arange(rows + 1, dtype=np.int32)
    names, ids = (pa.array([text] * rows) for text in ("ORAROWID", "AAASf9AAEAAAAINAAA"))
    tokens = pa.MapArray.from_arrays(pa.array(entries), names, ids)
    return ChangeBatch([replace(block, tokens=tokens)], rows)


def large_objects(rows: int) -> ChangeBatch:
    """Return inserts of a text of 100,000 bytes each."""
    (block,) = sample(rows).blocks
    (table,) = LARGE.tables
    notes = StateColumn(pa.array(["x" * LARGE_BYTES] * rows))
    images = (ABSENT,) * 2, (block.after[0], notes)
    whole = np.full(rows, WHOLE, np.uint8)
    return ChangeBatch(
        [replace(block, table=table, tx_ind=whole, before=images[0], after=images[1])], rows
    )


def _beside(
    name: str,
    one: tuple[ChangeBatch, TrailFormat],
    other: tuple[ChangeBatch, TrailFormat],
    target: Target | None = None,
) -> Figure:
    # In turn, so that whatever else the machine does falls on both.
    times = [
        tuple(fastest(partial(encode, *each, DEFINITIONS), 1) for each in (one, other))
        for _ in range(RUNS)
    ]
    rates = [one[0].rows / min(seconds) / 1e6 for seconds in zip(*times, strict=True)]
    return Figure(
        name=name,
        figure=rates[0],
        unit="M records/s",
        yardstick="level 3",
        yardstick_figure=rates[1],
        target=target,
    )
