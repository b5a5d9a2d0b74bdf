"""Trail records to columns and back, beside the naive oracle and a copy of memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest, figure_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from oracles import trail_naive as naive
from trailgate.arrays import octets
from trailgate.model.changes import (
    ABSENT,
    BEGIN,
    END,
    INSERT,
    MIDDLE,
    ChangeBatch,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import find_records
from trailgate.trail.records.table_metadata import (
    METADATA_LEVEL,
    PersistentMap,
    TrailTable,
    TrailTables,
)
from trailgate.trail.writing.trail_format import TrailFormat
from trailgate.trail.writing.writer import encode

RECORDS = 500_000
TARGETS: Final = {
    ("trail to columns", "M records/s"): Target(4, of="figure"),
    ("12.2-like trail to columns", "M records/s"): Target(0.8),
    ("columns to trail", "M records/s"): Target(5, of="figure"),
}
NAIVE_RECORDS = 10_000
RUNS = 5
TABLE = Table(
    "SALES.ORDERS",
    (
        Column("ID", 134, 8, key=True),
        *(Column(f"TEXT_{i}", 64, 50) for i in range(5)),
        Column("AMOUNT", 134, 8),
        Column("AT", 192, 26),
    ),
)
DEFINITIONS = Definitions((TABLE,))
NOTHING = Definitions(())
# Little-endian, tables by index into the file's own metadata.
NEWER = TrailFormat(level=METADATA_LEVEL, order=ByteOrder.LITTLE)


def sample(rows: int) -> ChangeBatch:
    """Return inserts of 8 columns, ten to a transaction: 5 strings, 2 int64, 1 timestamp."""
    random = np.random.default_rng(7)
    words = pa.array(["w" * length for length in range(4, 24)])
    strings = [words.take(pa.array(random.integers(0, 20, rows))) for _ in range(5)]
    amounts = pa.array(random.integers(0, 9**15, rows))
    stamps = pa.array([f"2024-01-02 03:04:{i:02d}.123456" for i in range(60)])
    times = stamps.take(pa.array(np.arange(rows) % 60))
    number = np.arange(rows)
    indicator = np.full(rows, MIDDLE, np.uint8)
    indicator[0::10], indicator[9::10] = BEGIN, END
    transaction = pa.array(number // 10).cast(pa.string())
    block = ChangeBlock(
        table=TABLE,
        order=number,
        op_type=np.full(rows, INSERT, np.uint8),
        op_ts=1_700_000_000_000_000 + number,
        tx_ind=indicator,
        tx_id=transaction,
        csn=transaction,
        seq_id=None,
        position=transaction,
        before=(ABSENT,) * len(TABLE.columns),
        after=tuple(StateColumn(v) for v in (pa.array(number), *strings, amounts, times)),
    )
    return ChangeBatch([block], rows)


def run(*, quick: bool) -> list[Figure]:
    """Return the figures of both directions; it takes seconds, quick or not."""
    del quick
    return [figure_of(row, TARGETS.get((row["name"], row["unit"]))) for row in rows()]


def rows() -> list[dict[str, Any]]:
    """Return one row a figure, each beside its yardstick of the same run; one core."""
    batch = sample(RECORDS)
    body = encode(batch).body
    few = encode(sample(NAIVE_RECORDS)).body.to_pybytes()
    records = naive.read_records(few, DEFINITIONS)
    data = octets(body)
    start = ReaderState()

    def read() -> object:
        return decode(body, DEFINITIONS, file_number=1, base_offset=0, state=start)

    newer = encode(batch, NEWER, DEFINITIONS).body
    told = ReaderState(
        order=NEWER.order, tables=TrailTables(PersistentMap({1: TrailTable(1, TABLE.name, TABLE)}))
    )

    def read_newer() -> object:
        return decode(newer, NOTHING, file_number=1, base_offset=0, state=told)

    # In turn, so that whatever else the machine does falls on both.
    seconds = [(fastest(read, 1), fastest(read_newer, 1)) for _ in range(RUNS)]
    read_rate, newer_rate = (RECORDS / min(times) / 1e6 for times in zip(*seconds, strict=True))
    write_rate = RECORDS / fastest(lambda: encode(batch), RUNS) / 1e6
    naive_read = NAIVE_RECORDS / fastest(lambda: naive.read_records(few, DEFINITIONS), 3) / 1e6
    naive_write = (
        NAIVE_RECORDS / fastest(lambda: [naive.write_record(r, TABLE) for r in records], 3) / 1e6
    )
    copy_rate = body.size / fastest(data.copy, RUNS) / 1e6
    find_rate = body.size / fastest(lambda: find_records(data), RUNS) / 1e6
    size = body.size / RECORDS
    copied = ("memory copy", copy_rate)
    return [
        _row("trail to columns", read_rate, "M records/s", ("naive oracle", naive_read)),
        _row("trail to columns", read_rate * size, "MB/s", copied),
        _row("columns to trail", write_rate, "M records/s", ("naive encoder", naive_write)),
        _row("columns to trail", write_rate * size, "MB/s", copied),
        _row("12.2-like trail to columns", newer_rate, "M records/s", ("level 3", read_rate)),
        _row("finding records", find_rate, "MB/s", copied),
    ]


def _row(name: str, figure: float, unit: str, yardstick: tuple[str, float]) -> dict[str, Any]:
    beside, measured = yardstick
    return {
        "name": name,
        "figure": figure,
        "unit": unit,
        "yardstick name": beside,
        "yardstick figure": measured,
        "ratio": figure / measured,
    }
