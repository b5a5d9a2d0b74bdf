"""Record batches printed as a table, as JSON lines or as CSV; ``layout`` has how a row of a table is laid out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.errors import OptionError, TrailgateError
from trailgate.terminal.columns import (
    RowParts,
    csv_cells,
    csv_lines,
    json_lines,
    json_text,
    values_of,
)
from trailgate.terminal.layout import Part, RowLayout, Shown
from trailgate.terminal.options import Format
from trailgate.terminal.output import (
    in_colours,
    painter,
    printable,
    quiet_pipe,
    say,
    show_in_pager,
    terminal_width,
)

ROWS: Final = 1024  # that are turned into Python values at once

Row = dict[str, Any]
Paint = Callable[[str, str], str]  # a text and a style to the text as it is printed


@dataclass(frozen=True, slots=True)
class RowForm:
    """How rows are shown to people: headings, and the parts of a row in an order of their own.

    ``data`` is the heading of what follows the head; without it a row has only the cells of its head. ``rows`` are shown by
    default; ``hidden`` states what ``--wide`` would show too. ``columns`` makes the parts of all rows of a batch, as they are without colours; None
    where it cannot.
    """

    headings: Sequence[str]
    parts: Callable[[Row, Paint], Shown]
    rows: int
    data: str = ""
    hidden: str = ""
    columns: Callable[[pa.RecordBatch], RowParts | None] | None = None

    @classmethod
    def of_columns(cls, names: Sequence[str], rows: int) -> RowForm:
        """Return the form in which each column is shown as it is."""

        def parts(row: Row, _: Paint) -> Shown:
            strings = map(cell_text, row.values())
            return Shown([Part(text, text) for text in strings])

        return cls(names, parts, rows)


def print_batches(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    form: RowForm,
    *,
    format: Format = Format.TABLE,  # noqa: A002  as the option is named
    limit: int | None = None,
    wide: bool = False,
) -> int:
    """Print rows, at most ``limit`` of them, and return how many; a reader that stops early is not an error.

    Raises OptionError where two columns have one name.
    """
    check_names(names)
    counted = Counted()
    with quiet_pipe():
        if format is Format.JSON:
            print_json(counted.of(limit_rows(batches, limit)))
        elif format is Format.CSV:
            print_csv(counted.of(limit_rows(batches, limit)), names)
        else:
            with show_in_pager():
                shown = form.rows if limit is None else limit
                print_table(counted.of(batches), shown, form, wide=wide)
    return counted.rows


def check_names(names: Sequence[str]) -> None:
    """Raise OptionError where two columns have one name, which rows with named values cannot have."""
    for name, count in Counter(names).items():
        if count > 1:
            raise OptionError(f"{count} columns are named {name}", hint="Name them by AS")


class Counted:
    """Counts the rows of batches as they are taken."""

    def __init__(self) -> None:
        self.rows = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        for batch in batches:
            self.rows += batch.num_rows
            yield batch


def limit_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
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
    columns = map(values_of, batch.columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def print_json(batches: Iterable[pa.RecordBatch]) -> None:
    """Print one JSON object a line; its keys are the names of the columns."""
    for batch in batches:
        sys.stdout.writelines(json_lines(batch))


def print_csv(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> None:
    """Print a header and one line a row: maps are JSON text, NULL is empty, and an empty text is in quotes."""
    print(",".join(csv_cells(pa.array(names, pa.string())).to_pylist()))
    for batch in batches:
        sys.stdout.writelines(csv_lines(batch))


def print_table(
    batches: Iterable[pa.RecordBatch], limit: int, form: RowForm, *, wide: bool = False
) -> None:
    """Print rows as they come, laid out for the terminal, with a note if there are more than ``limit``.

    ``wide``: one line a row, however long.
    """
    paint = painter()
    layout = RowLayout(form.headings, form.data, None if wide else terminal_width())
    printed, more, begun = 0, False, False
    for batch in _until_shown(limit_rows(batches, limit + 1), limit):
        if batch is None:
            more = True
            break
        part = batch.slice(0, limit - printed)
        more = batch.num_rows > part.num_rows
        if not begun:
            begun = True
            shown = [form.parts(row, paint) for row in rows(part)]
            sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in layout.begin(shown))
        for text in _strings(part, form, layout, paint):
            print(text)
        printed += part.num_rows
    if not begun:
        sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in layout.begin([]))
    if more:
        these = "this one" if limit == 1 else f"these {limit}"
        say(f"... and more after {these}: --limit N shows N", "dim", stderr=True)
    if form.hidden and printed and not wide:
        say(form.hidden, "dim", stderr=True)


def _until_shown(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch | None]:
    """Yield batches; None for an error after ``limit`` rows, of which only is asked whether there are more."""
    taken = 0
    try:
        for batch in batches:
            taken += batch.num_rows
            yield batch
    except TrailgateError:
        if taken < limit:
            raise
        yield None


def _strings(
    batch: pa.RecordBatch, form: RowForm, layout: RowLayout, paint: Paint
) -> Iterator[str]:
    """Yield the lines of rows: those of as many rows as can be made in whole columns, or of a row."""
    if not batch.num_rows:
        return
    made = None if in_colours() or form.columns is None else form.columns(batch)
    strings = pa.nulls(batch.num_rows, pa.string()) if made is None else layout.strings(made)
    ends = np.flatnonzero(np.diff(np.asarray(strings.is_null()))) + 1
    for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
        if strings[start].is_valid:
            yield "\n".join(strings.slice(start, end - start).to_pylist())
            continue
        for row in rows(batch.slice(start, end - start)):
            yield from layout.lines(form.parts(row, paint))


def short_time(text: str | None) -> str:
    """Return a time in ISO form without its zone, and without a fraction that is zero."""
    return (text or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")


def value_text(value: str | None) -> str:
    """Return a column's value for a table: NULL by name, control characters escaped."""
    return "NULL" if value is None else printable(value)


def cell_text(value: Any) -> str:
    """Return a value for a cell of a table."""
    if isinstance(value, (dict, list)):
        return json_text(value)
    return value_text(value if value is None else str(value))
