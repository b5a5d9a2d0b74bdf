"""Print record batches in the format of ``--format``: as a table, as JSON lines or as CSV.

Batches are divided into pieces of a few rows and printed as they arrive, so that the first rows
appear at once. Tables are formatted in whole columns if possible (``table_columns``), and otherwise
row by row by ``layout``. JSON and CSV (``json_csv``) are always formatted in columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import TrailgateError
from trailgate.terminal.flags import OutputFormat
from trailgate.terminal.json_csv import (
    check_column_names,
    print_csv,
    print_json,
)
from trailgate.terminal.layout import PaintedText, RowLayout, TableRow
from trailgate.terminal.output import (
    make_painter,
    quiet_pipe,
    say,
    show_in_pager,
    shows_colours,
    terminal_width,
)
from trailgate.terminal.plain_values import Row, cell_text, row_dictionaries
from trailgate.terminal.table_columns import RowParts

ROWS: Final = 1024  # the most rows formatted at once

Paint = Callable[[str, str], str]  # a text and a style to the text as it is printed


@dataclass(frozen=True, slots=True)
class RowForm:
    """How rows are printed as a table: the headings, and a function that formats one row.

    ``rows`` is the number of rows that are printed by default. ``data`` is the heading of the data
    after the head, or "" if rows have only a head. ``hidden`` is a note about data that is only
    shown with ``--wide``. ``columns`` formats a complete batch without colours, or returns None if
    it cannot.
    """

    headings: Sequence[str]
    parts: Callable[[Row, Paint], TableRow]
    rows: int
    data: str = ""
    hidden: str = ""
    columns: Callable[[pa.RecordBatch], RowParts | None] | None = None

    @classmethod
    def of_columns(cls, names: Sequence[str], rows: int) -> RowForm:
        """Return the table form that shows each column unchanged."""

        def parts(row: Row, _: Paint) -> TableRow:
            strings = map(cell_text, row.values())
            return TableRow([PaintedText(text, text) for text in strings])

        return cls(names, parts, rows)


def print_batches(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    form: RowForm,
    *,
    format: OutputFormat = OutputFormat.TABLE,  # noqa: A002  as the option is named
    limit: int | None = None,
    wide: bool = False,
) -> int:
    """Print at most ``limit`` rows of record batches, and return their number.

    A reader of the output that stops early is not an error.

    Raises OptionError if two columns have the same name.
    """
    check_column_names(names)
    counted = RowCounter()
    with quiet_pipe():
        if format is OutputFormat.JSON:
            print_json(counted.of(limit_rows(batches, limit)))
        elif format is OutputFormat.CSV:
            print_csv(counted.of(limit_rows(batches, limit)), names)
        else:
            with show_in_pager():
                shown = form.rows if limit is None else limit
                print_table(counted.of(batches), shown, form, wide=wide)
    return counted.rows


class RowCounter:
    """Counts the rows of batches that pass through."""

    def __init__(self) -> None:
        self.rows = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches unchanged, and count their rows."""
        for batch in batches:
            self.rows += batch.num_rows
            yield batch


def limit_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield pieces of batches with at most ``limit`` rows in total (None: all), and then stop."""
    left = limit
    # Before anything is read from the source.
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


def print_table(
    batches: Iterable[pa.RecordBatch], limit: int, form: RowForm, *, wide: bool = False
) -> None:
    """Print at most ``limit`` rows as a table, and a note if there are more.

    With ``wide`` each row is one line, however long.
    """
    paint = make_painter()
    layout = RowLayout(form.headings, form.data, None if wide else terminal_width())
    printed, more, started = 0, False, False
    # Read one row more than is shown, to know whether there are more.
    for batch in _until_shown(limit_rows(batches, limit + 1), limit):
        if batch is None:
            more = True
            break
        # Without the extra row.
        part = batch.slice(0, limit - printed)
        more = batch.num_rows > part.num_rows
        if not started:
            started = True
            # The first rows decide about the layout.
            shown = [form.parts(row, paint) for row in row_dictionaries(part)]
            sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in layout.begin(shown))
        for text in _strings(part, form, layout, paint):
            print(text)
        printed += part.num_rows
    if not started:
        sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in layout.begin([]))
    if more:
        these = "this one" if limit == 1 else f"these {limit}"
        say(f"... and more after {these}: --limit N shows N", "dim", stderr=True)
    if form.hidden and printed and not wide:
        say(form.hidden, "dim", stderr=True)


def _until_shown(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch | None]:
    """Yield batches to print. If an error occurs after ``limit`` rows, yield None instead of it.

    The rows after the limit are read only to see whether there are more, so their errors do not
    matter.
    """
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
    """Yield the lines of rows: one text for each run of rows formatted in columns, otherwise line by line."""
    if not batch.num_rows:
        return
    made = None if shows_colours() or form.columns is None else form.columns(batch)
    strings = pa.nulls(batch.num_rows, pa.string()) if made is None else layout.strings(made)
    # The ends of runs of rows that were (or were not) formatted in columns, by validity.
    ends = np.flatnonzero(np.diff(np.asarray(strings.is_null()))) + 1
    for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
        if strings[start].is_valid:
            yield "\n".join(strings.slice(start, end - start).to_pylist())
            continue
        for row in row_dictionaries(batch.slice(start, end - start)):
            yield from layout.lines(form.parts(row, paint))
