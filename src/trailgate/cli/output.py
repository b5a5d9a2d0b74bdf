"""How operations are printed: a table that fits the terminal, JSON lines, CSV."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.model.operations_schema import OPERATIONS_SCHEMA

ROWS: Final = 1024  # rows turned into Python values at once
HEADINGS: Final = MappingProxyType(
    {"position": False, "time": False, "tx": False, "table": True, "op": True, "columns": True}
)
WIDTH: Final = 140  # columns of a table without a terminal

Row = dict[str, Any]


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Accept that a reader such as ``head`` closes the pipe early."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit: give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def terminal_width() -> int:
    """Return how many columns a table may have."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield small batches, together at most ``limit`` rows; later rows are not read."""
    left = limit
    if left == 0:
        return
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            piece = batch.slice(start, ROWS if left is None else min(ROWS, left))
            yield piece
            if left is not None:
                left -= piece.num_rows
                if left == 0:
                    return


def rows(batch: pa.RecordBatch) -> list[Row]:
    """Return rows as dictionaries: times in ISO form, maps as dictionaries, bytes in hex."""
    names = batch.schema.names
    columns = [_values(batch[name]) for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return list(_iso(column).to_pylist())
    if pa.types.is_decimal(column.type):
        whole = column.type.scale == 0
        return [None if v is None else int(v) if whole else str(v) for v in column.to_pylist()]
    if pa.types.is_binary(column.type):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if not pa.types.is_map(column.type):
        return list(column.to_pylist())
    return [None if pairs is None else dict(pairs) for pairs in column.to_pylist()]


def _iso(column: pa.Array) -> pa.Array:
    # By way of numbers: the instant stays, and no time zone database is asked.
    text = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    dated = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    return pc.binary_join_element_wise(dated, "Z", "")


def print_json(batches: Iterable[pa.RecordBatch]) -> None:
    """Print one JSON object a line; its keys are the columns' names."""
    for batch in batches:
        lines = [json.dumps(row, ensure_ascii=False, default=_json_form) for row in rows(batch)]
        sys.stdout.write("\n".join(lines) + "\n" if lines else "")


def print_csv(
    batches: Iterable[pa.RecordBatch], names: Sequence[str] = OPERATIONS_SCHEMA.names
) -> None:
    """Print a header and one line a row; maps are JSON text."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for batch in batches:
        for row in rows(batch):
            writer.writerow([_cell(value) for value in row.values()])


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=_json_form)
    return value


def _json_form(value: Any) -> str:
    """Return the JSON form of values without one: exact numbers as text, bytes in hexadecimal."""
    return value.hex() if isinstance(value, bytes) else str(value)


def print_table(batches: Iterable[pa.RecordBatch], limit: int) -> None:
    """Print operations as a table, with a note if there are more."""
    print_cells(batches, limit, HEADINGS, _cells)


def print_rows(batches: Iterable[pa.RecordBatch], limit: int, names: Sequence[str]) -> None:
    """Print rows of any columns as a table, with a note if there are more."""
    headings = dict.fromkeys(names, True)
    print_cells(batches, limit, headings, lambda row: tuple(_plain(v) for v in row.values()))


def _plain(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=_json_form)
    return _shown(value if value is None else str(value))


def print_cells(
    batches: Iterable[pa.RecordBatch],
    limit: int,
    headings: Mapping[str, bool],
    cells: Callable[[Row], tuple[str, ...]],
) -> None:
    """Print rows as a table; each heading states whether its cells may be folded."""
    from rich.console import Console  # noqa: PLC0415  only a table needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = [row for batch in limited(batches, limit + 1) for row in rows(batch)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, folded in headings.items():
        table.add_column(name, no_wrap=not folded, overflow="fold" if folded else "ellipsis")
    for row in shown[:limit]:
        table.add_row(*(Text(cell) for cell in cells(row)))
    console = Console(width=terminal_width(), highlight=False)
    console.print(table)
    if len(shown) > limit:
        console.print(f"... and more after these {limit}: --limit N shows N", style="dim")


def _cells(row: Row) -> tuple[str, ...]:
    time = (row["op_ts"] or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")
    transaction = f"{row['tx_ind'] or ''} {row['tx_id'] or ''}"
    return (
        row["position"] or "",
        time,
        transaction,
        row["table"] or "",
        row["op_type"] or "",
        _change(row["before"] or {}, row["after"] or {}),
    )


def _change(before: dict[str, str | None], after: dict[str, str | None]) -> str:
    """Return columns as ``NAME=value``, and ``NAME=old -> new`` where both are known."""
    parts = []
    for name in dict.fromkeys([*after, *before]):
        if name not in after:
            parts.append(f"{name}={_shown(before[name])}{' -> not logged' if after else ''}")
        elif name in before and before[name] != after[name]:
            parts.append(f"{name}={_shown(before[name])} -> {_shown(after[name])}")
        else:
            parts.append(f"{name}={_shown(after[name])}")
    return "  ".join(parts)


def _shown(value: str | None) -> str:
    """Return a value for display: control characters escaped, NULL as ``NULL``."""
    if value is None:
        return "NULL"
    return value if value.isprintable() else value.encode("unicode_escape").decode()
