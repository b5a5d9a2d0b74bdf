"""How records are printed as a table: one line a record with a summary of its content."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from trailgate.cli.output import Row, print_cells

DATA_SHOWN: Final = 24  # hexadecimal digits of a record's data
HEADINGS: Final = MappingProxyType(
    {
        **dict.fromkeys(("position", "length", "type", "table", "image", "tx", "time"), False),
        "holds": True,
    }
)


def print_table(batches: Iterable[pa.RecordBatch], limit: int) -> None:
    """Print records as a table, with a note if there are more."""
    print_cells(batches, limit, HEADINGS, _cells)


def _cells(row: Row) -> tuple[str, ...]:
    time = (row["io_time"] or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")
    return (
        row["position"],
        str(row["length"]),
        f"{row['io_type']} {row['type_name']}",
        row["table"] or "",
        row["image"],
        str(row["trans_ind"]),
        time,
        "  ".join(_held(row)),
    )


def _held(row: Row) -> list[str]:
    """Return a record's content: its problem first, then tokens, then its data in hex."""
    parts = [f"! {row['problem']}"] if row["problem"] else []
    for name in ("tokens", "user_tokens", "ddl"):
        parts += [f"{key}={_shown(value)}" for key, value in (row[name] or {}).items()]
    data = row["data"]
    if data:
        parts.append(data if len(data) <= DATA_SHOWN else f"{data[:DATA_SHOWN]}...")
    return parts


def _shown(value: str) -> str:
    return value if value.isprintable() else value.encode("unicode_escape").decode()
