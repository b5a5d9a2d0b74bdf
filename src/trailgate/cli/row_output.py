"""Print record batches as a table, as JSON lines or as CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.cli.options import Format
from trailgate.cli.output import as_cells, console, plain_table, printable, quiet_pipe

ROWS: Final = 1024  # that are turned into Python values at once

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableForm:
    """A table: its headings, each with whether its cells may be folded, and the cells of a row.

    ``rows`` are shown by default.
    """

    headings: Mapping[str, bool]
    cells: Callable[[Row], Sequence[str]]
    rows: int

    @classmethod
    def of_columns(cls, names: Sequence[str], rows: int) -> TableForm:
        """Return the form in which each column is shown as it is."""
        return cls(dict.fromkeys(names, True), lambda row: list(map(_text, row.values())), rows)


def print_batches(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    form: TableForm,
    *,
    format: Format = Format.TABLE,  # noqa: A002  as the option is named
    limit: int | None = None,
) -> None:
    """Print rows, at most ``limit`` of them; a reader that stops early is not an error."""
    with quiet_pipe():
        if format is Format.JSON:
            print_json(limited(batches, limit))
        elif format is Format.CSV:
            print_csv(limited(batches, limit), names)
        else:
            print_table(batches, form.rows if limit is None else limit, form)


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield small batches of at most ``limit`` rows together; the rest is not read."""
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
    # The cast through integers keeps the instant and needs no time zone database.
    text = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    dated = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    return pc.binary_join_element_wise(dated, "Z", "")


def print_json(batches: Iterable[pa.RecordBatch]) -> None:
    """Print one JSON object a line; its keys are the names of the columns."""
    for batch in batches:
        sys.stdout.writelines(f"{_json(row)}\n" for row in rows(batch))


def print_csv(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> None:
    """Print a header and one line a row; maps are JSON text."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for batch in batches:
        for row in rows(batch):
            nested = ((value, isinstance(value, (dict, list))) for value in row.values())
            writer.writerow([_json(value) if inner else value for value, inner in nested])


def _json(value: Any) -> str:
    """Return a value as JSON; numbers without a JSON form are text, bytes are in hex."""
    return json.dumps(
        value, ensure_ascii=False, default=lambda v: v.hex() if isinstance(v, bytes) else str(v)
    )


def print_table(batches: Iterable[pa.RecordBatch], limit: int, form: TableForm) -> None:
    """Print rows as a table, with a note if there are more than ``limit``."""
    shown = [row for batch in limited(batches, limit + 1) for row in rows(batch)]
    table = plain_table()
    for name, folded in form.headings.items():
        table.add_column(name, no_wrap=not folded, overflow="fold" if folded else "ellipsis")
    for row in shown[:limit]:
        table.add_row(*as_cells(*form.cells(row)))
    terminal = console()
    terminal.print(table)
    if len(shown) > limit:
        terminal.print(f"... and more after these {limit}: --limit N shows N", style="dim")


def short_time(text: str | None) -> str:
    """Return a time in ISO form without its zone, and without a fraction that is zero."""
    return (text or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")


def value_text(value: str | None) -> str:
    """Return a column's value for a table: NULL by name, control characters escaped."""
    return "NULL" if value is None else printable(value)


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return _json(value)
    return value_text(value if value is None else str(value))
