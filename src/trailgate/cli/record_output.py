"""How records are printed as a table: one line a record, what stands in it in short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from trailgate.cli.output import Row, limited, rows, terminal_width

DATA_SHOWN: Final = 24  # hexadecimal digits of a record's data
COLUMNS: Final = ("position", "length", "type", "table", "image", "tx", "time", "holds")


def print_table(batches: Iterable[pa.RecordBatch], limit: int) -> None:
    """Print records as a table; a remark says so if there are more."""
    from rich.console import Console  # noqa: PLC0415  only a table needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = [row for batch in limited(batches, limit + 1) for row in rows(batch)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(COLUMNS[-1], overflow="fold")
    for row in shown[:limit]:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    console = Console(width=terminal_width(), highlight=False)
    console.print(table)
    if len(shown) > limit:
        console.print(f"... and more after these {limit}: --limit N shows N", style="dim")


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
    """Return what a record holds: what is wrong first, then tokens, then its data in hex."""
    parts = [f"! {row['problem']}"] if row["problem"] else []
    for name in ("tokens", "user_tokens", "ddl"):
        parts += [f"{key}={_shown(value)}" for key, value in (row[name] or {}).items()]
    data = row["data"]
    if data:
        parts.append(data if len(data) <= DATA_SHOWN else f"{data[:DATA_SHOWN]}...")
    return parts


def _shown(value: str) -> str:
    return value if value.isprintable() else value.encode("unicode_escape").decode()
