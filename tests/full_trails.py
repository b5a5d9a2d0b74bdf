"""Trails of random transactions of ``full_operations``' tables, whose operations have complete images."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from full_operations import DEFINITIONS
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.operations_table import from_operations
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

TEXTS = ["", "a", "b ", '"', "'", ",", ";", "\n", "\r", "\\", "é", "漢", "<&>"]


def value(draw: Random, name: str) -> str | None:
    """Return a value of a column of ``full_operations.TABLE``; only keys are never null."""
    if name != "K" and not draw.randrange(5):
        return None
    number = draw.randint(-(10**9), 10**9)
    texts = {
        "N": f"{number / 100:.2f}",
        "D": f"{2000 + number % 30}-02-{1 + number % 28:02} 23:59:{number % 60:02}.000120",
        "F": str(number / 8),
        "X": draw.randbytes(draw.randrange(5)).hex().upper(),
        "P": f"{number / 1000:.3f}",
    }
    return texts.get(name, "".join(draw.choices(TEXTS, k=1 + draw.randrange(6))))


def operations(draw: Random, transactions: int) -> list[dict[str, Any]]:
    """Return transactions of operations with complete images, as rows of the operations table."""
    rows: list[dict[str, Any]] = []
    for number in range(transactions):
        count = draw.choice([1, 1, 2, 3, 7])
        for i in range(count):
            table = draw.choice(list(DEFINITIONS))
            names = [column.name for column in table.columns]
            before = {name: value(draw, name) for name in names}
            after = {name: value(draw, name) for name in names}
            kind = draw.choice("IUKD")
            if kind == "U":
                after["K"] = before["K"]
            row = {
                "table": table.name,
                "op_type": "U" if kind == "K" and after["K"] == before["K"] else kind,
                "op_ts": 1_700_000_000_000_000 + number * 1001,
                "tx_ind": "W" if count == 1 else "B" if not i else "E" if i == count - 1 else "M",
                "tx_id": f"t{number}",
                "csn": f"{number:06}",
                "before": {} if kind == "I" else before,
                "after": {} if kind == "D" else after,
            }
            rows.append(row)
    return rows


def write_operations(prefix: Path, rows: list[dict[str, Any]]) -> str:
    """Write operations as three files of a trail."""
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
    starts = [i for i, row in enumerate(rows) if row["tx_ind"] in "BW"]
    bounds = [starts[len(starts) * part // 3] for part in range(3)] + [len(rows)]
    for number in range(3):
        part = rows[bounds[number] : bounds[number + 1]]
        batch = from_operations(pa.RecordBatch.from_pylist(part, OPERATIONS_SCHEMA), DEFINITIONS)
        header = encode_header(FileHeader(trail=TrailInfo(seqno=number)))
        Path(f"{prefix}{number:09}").write_bytes(header + bytes(encode(batch).body))
    return str(prefix)
