"""Record batches printed as a table, as JSON lines or as CSV.

In a table the head of a row is in columns, and its data follow it or are on the lines below. Nothing is cut off: what does not fit in a line
continues in the next one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.cli.columns import (
    GAP,
    RowParts,
    csv_cells,
    csv_lines,
    json_lines,
    json_text,
    laid_out,
    values_of,
)
from trailgate.cli.options import Format
from trailgate.cli.output import (
    in_colours,
    painter,
    printable,
    quiet_pipe,
    say,
    show_in_pager,
    terminal_width,
)
from trailgate.errors import OptionError, TrailgateError

INDENT: Final = "    "  # of the lines that continue a row
BESIDE: Final = 48  # columns that data need beside the head; with fewer they are below it
LINES: Final = 3  # that data may take beside the head; longer ones are below it, in the whole width


class Part(NamedTuple):
    """A text as it is measured, and as it is printed: with codes of colours, where there are any."""

    text: str
    painted: str


class Shown(NamedTuple):
    """A row to be shown: the cells of its head, and its data in parts that stay together where they fit."""

    head: Sequence[Part]
    data: Sequence[Part] = ()


class RowLayout:
    """Lays out rows at a width; None: each row is one line, however long it is.

    ``headings`` name the cells of the head, ``data`` the rest; without a name of it, rows have only cells, which are
    shown by name where their columns together are wider than the width.
    """

    def __init__(self, headings: Sequence[str], data: str, width: int | None) -> None:
        self._headings, self._data, self._width = headings, data, width
        self._widths: list[int] = []
        self._beside = False

    def begin(self, rows: Sequence[Shown]) -> list[str]:
        """Decide by the first rows how all are laid out, and return the lines of the heading."""
        columns = (
            zip(*(row.head for row in rows), strict=True) if rows else [()] * len(self._headings)
        )
        self._widths = [
            max([len(name), *(width_of(part.text) for part in column)])
            for name, column in zip(self._headings, columns, strict=True)
        ]
        if self._width is not None and self._head_width > self._width:
            self._widths = []
        self._beside = self._width is None or (
            bool(self._widths) and self._fits_beside(rows, self._width)
        )
        if not self._widths and not self._data:
            return []
        names = [Part(name, name) for name in self._headings]
        if not self._beside:
            return self._head(names)
        return [f"{self._pad(names)}{GAP}{self._data}".rstrip()]

    def lines(self, row: Shown) -> Iterator[str]:
        """Yield the lines of a row."""
        if self._width is None:
            yield GAP.join([self._pad(row.head), *(part.painted for part in row.data)]).rstrip()
        elif not self._widths and not self._data:
            yield from flow(self._name(row.head), self._width)
        elif self._beside:
            yield from self._side_by_side(row, self._width)
        else:
            yield from self._head(row.head)
            yield from flow(row.data, self._width, INDENT)

    def strings(self, rows: RowParts) -> pa.Array:
        """Return the lines of each row without the last line break; null where ``lines`` must make them."""
        if not self._widths:
            return pa.nulls(len(rows.starts) - 1, pa.string())
        indent = self._head_width + len(GAP) if self._beside else len(INDENT)
        return laid_out(rows, self._widths, self._width, indent, beside=self._beside)

    def _fits_beside(self, rows: Sequence[Shown], width: int) -> bool:
        """Return whether the data of rows have a few lines at most beside their heads."""
        room = width - self._head_width - len(GAP)
        sizes = (sum(width_of(part.text) + len(GAP) for part in row.data) for row in rows)
        return room >= BESIDE and max(sizes, default=0) <= LINES * room

    @property
    def _head_width(self) -> int:
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1)

    def _head(self, parts: Sequence[Part]) -> list[str]:
        """Return the cells of a head in columns, or over several lines where these are too wide."""
        if self._fits(parts):
            return [self._pad(parts).rstrip()]
        first, *rest = parts
        return list(flow([first, *_remove_padding(rest)], self._width or 0))

    def _fits(self, parts: Sequence[Part]) -> bool:
        """Return whether each cell fits its column."""
        return bool(self._widths) and all(
            width_of(part.text) <= width for part, width in zip(parts, self._widths, strict=True)
        )

    def _pad(self, parts: Sequence[Part]) -> str:
        return GAP.join(
            part.painted + " " * (width - width_of(part.text))
            for part, width in zip(parts, self._widths, strict=True)
        )

    def _side_by_side(self, row: Shown, width: int) -> Iterator[str]:
        indent = " " * (self._head_width + len(GAP))
        rest = flow(row.data, width, indent)
        if self._fits(row.head):
            yield f"{self._pad(row.head)}{GAP}{next(rest, indent)[len(indent) :]}".rstrip()
        else:
            yield from self._head(row.head)
        yield from rest

    def _name(self, parts: Sequence[Part]) -> list[Part]:
        return [
            Part(f"{name}={part.text}", f"{name}={part.painted}")
            for name, part in zip(self._headings, parts, strict=True)
        ]


def _remove_padding(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that are not empty, without the blanks that align them in a column."""
    return [Part(p.text.strip(), p.painted.strip()) for p in parts if p.text.strip()]


def flow(parts: Sequence[Part], width: int, indent: str = "") -> Iterator[str]:
    """Yield lines of parts; a part longer than a line is cut, all lines but the first are indented."""
    line, used = indent, len(indent)
    later = indent or INDENT  # of the lines after the first
    begun = False  # whether the line has a part
    for part in parts:
        size = width_of(part.text)
        if begun and used + len(GAP) + size > width:
            yield line
            line, used, begun = later, len(later), False
        if begun:
            line, used = line + GAP, used + len(GAP)
        if used + size <= width:
            line, used = line + part.painted, used + size
        else:
            # A line holds something, however narrow it is.
            first = _cut(part.text, max(width - used, 8))[0]
            line += first
            for piece in _cut(part.text[len(first) :], max(width - len(later), 8)):
                yield line
                line = later + piece
            used = width_of(line)
        begun = True
    if begun:
        yield line


def _cut(text: str, width: int) -> list[str]:
    from rich.cells import chop_cells  # noqa: PLC0415  only output for people needs it

    return list(chop_cells(text, width))


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  only output for people needs it

    return cell_len(text)


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
            strings = map(_text, row.values())
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
        say(f"... and more after these {limit}: --limit N shows N", "dim", stderr=True)
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


def print_rows(headings: Sequence[str], data: str, rows: Sequence[Shown]) -> None:
    """Print a few rows under their headings, laid out for the terminal."""
    paint, layout = painter(), RowLayout(headings, data, terminal_width())
    sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in layout.begin(rows))
    sys.stdout.writelines(f"{line}\n" for row in rows for line in layout.lines(row))


def plain_row(head: Sequence[str], data: Sequence[str] = ()) -> Shown:
    """Return a row without colours."""
    return Shown([Part(text, text) for text in head], [Part(text, text) for text in data])


def short_time(text: str | None) -> str:
    """Return a time in ISO form without its zone, and without a fraction that is zero."""
    return (text or "").replace("T", " ").removesuffix("Z").removesuffix(".000000")


def value_text(value: str | None) -> str:
    """Return a column's value for a table: NULL by name, control characters escaped."""
    return "NULL" if value is None else printable(value)


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json_text(value)
    return value_text(value if value is None else str(value))
