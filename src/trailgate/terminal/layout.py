"""Lay out rows for a terminal: the head of a row in columns, its data beside or below it.

The head is a few short cells, such as position and table; the data is a list of parts such as
``NAME=value``. Nothing is cut off: text that does not fit in a line continues in the next. For
example, with data beside the head::

    position  table      op  columns
    0:1234    HR.EMP     U   ID=7  NAME=Ann -> Anne
                             SALARY=100

``RowLayout`` chooses the layout by the first rows. Neither pyarrow nor numpy is loaded until whole
columns are laid out.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trailgate.terminal.output import GAP, make_painter, printable, terminal_width

if TYPE_CHECKING:
    import pyarrow as pa

    from trailgate.terminal.table_columns import RowParts

INDENT: Final = "    "  # of the lines that continue a row
OPERATION_NAMES: Final = {
    "I": "inserts",
    "U": "updates",
    "K": "key updates",
    "D": "deletes",
    "T": "truncates",
}
BESIDE: Final = 48  # if fewer columns are free beside the head, data goes below it
LINES: Final = 3  # if data needs more lines beside the head, it goes below it, in the full width


class PaintedText(NamedTuple):
    """A string to print: its text without colours, whose width is measured, and its text with colour codes."""

    text: str
    painted: str


class TableRow(NamedTuple):
    """A row to print: the cells of its head, and its data in parts.

    A part that fits in a line is not split.
    """

    head: Sequence[PaintedText]
    data: Sequence[PaintedText] = ()


class RowLayout:
    """Lays out the rows of a printed table in lines of a given width.

    Without a width (None), each row is one line.

    ``headings`` name the cells of a row's head, and ``data`` is the heading of the data after them.
    If ``data`` is "", rows have only cells; if these do not fit the width in columns, they are
    printed as ``NAME=value`` instead. ``numbers`` are the indexes of right-aligned columns.
    """

    def __init__(
        self,
        headings: Sequence[str],
        data: str,
        width: int | None,
        numbers: Collection[int] = (),
    ) -> None:
        self._headings, self._data, self._width = headings, data, width
        self._numbers = numbers
        self._widths: list[int] = []
        self._beside = False

    def begin(self, rows: Sequence[TableRow]) -> list[str]:
        """Choose the column widths from the first rows, and return the lines of the heading."""
        columns = (
            zip(*(row.head for row in rows), strict=True) if rows else [()] * len(self._headings)
        )
        self._widths = [
            max([len(name), *(display_width(part.text) for part in column)])
            for name, column in zip(self._headings, columns, strict=True)
        ]
        # The columns together are too wide: no columns.
        if self._width is not None and self._head_width > self._width:
            self._widths = []
        self._beside = self._width is None or (
            bool(self._widths) and self._fits_beside(rows, self._width)
        )
        if not self._widths and not self._data:
            return []
        names = [PaintedText(name, name) for name in self._headings]
        if not self._beside:
            return self._head(names)
        return [f"{self._pad(names)}{GAP}{self._data}".rstrip()]

    def lines(self, row: TableRow) -> Iterator[str]:
        """Yield the printed lines of a row."""
        if self._width is None:
            yield GAP.join([self._pad(row.head), *(part.painted for part in row.data)]).rstrip()
        elif not self._widths and not self._data:
            yield from wrap_row_parts(self._name(row.head), self._width)
        elif self._beside:
            yield from self._side_by_side(row, self._width)
        else:
            yield from self._head(row.head)
            yield from wrap_row_parts(row.data, self._width, INDENT)

    def strings(self, rows: RowParts) -> pa.Array:
        """Return the printed lines of each row as one text, or null if ``lines`` must format it."""
        import pyarrow as pa  # noqa: PLC0415  not for a few rows

        from trailgate.terminal.table_columns import format_rows  # noqa: PLC0415  as above

        # without columns, each row is printed as names with values
        if not self._widths:
            return pa.nulls(len(rows.starts) - 1, pa.string())
        indent = self._head_width + len(GAP) if self._beside else len(INDENT)
        return format_rows(rows, self._widths, self._width, indent, next_to=self._beside)

    def _fits_beside(self, rows: Sequence[TableRow], width: int) -> bool:
        """Return whether the data of all rows take only a few lines when printed beside their heads."""
        room = width - self._head_width - len(GAP)
        sizes = (sum(display_width(part.text) + len(GAP) for part in row.data) for row in rows)
        return room >= BESIDE and max(sizes, default=0) <= LINES * room

    @property
    def _head_width(self) -> int:
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1)

    def _head(self, parts: Sequence[PaintedText]) -> list[str]:
        """Return the cells of a head in columns, or over several lines if they do not fit."""
        if self._fits(parts):
            return [self._pad(parts).rstrip()]
        first, *rest = parts
        return list(wrap_row_parts([first, *_remove_padding(rest)], self._width or 0))

    def _fits(self, parts: Sequence[PaintedText]) -> bool:
        """Return whether each cell of a head fits its column; False if there are no columns."""
        return bool(self._widths) and all(
            display_width(part.text) <= width
            for part, width in zip(parts, self._widths, strict=True)
        )

    def _pad(self, parts: Sequence[PaintedText]) -> str:
        cells = []
        for at, (part, width) in enumerate(zip(parts, self._widths, strict=True)):
            blanks = " " * (width - display_width(part.text))
            cells.append(blanks + part.painted if at in self._numbers else part.painted + blanks)
        return GAP.join(cells)

    def _side_by_side(self, row: TableRow, width: int) -> Iterator[str]:
        indent = " " * (self._head_width + len(GAP))
        rest = wrap_row_parts(row.data, width, indent)
        if self._fits(row.head):
            # The first line of data starts with the indent, in whose place the head is printed.
            yield f"{self._pad(row.head)}{GAP}{next(rest, indent)[len(indent) :]}".rstrip()
        else:
            yield from self._head(row.head)
        yield from rest

    def _name(self, parts: Sequence[PaintedText]) -> list[PaintedText]:
        return [
            PaintedText(f"{name}={part.text}", f"{name}={part.painted}")
            for name, part in zip(self._headings, parts, strict=True)
        ]


def _remove_padding(parts: Sequence[PaintedText]) -> list[PaintedText]:
    """Return the non-empty parts without the blanks that align them in a column."""
    return [PaintedText(p.text.strip(), p.painted.strip()) for p in parts if p.text.strip()]


def wrap_row_parts(parts: Sequence[PaintedText], width: int, indent: str = "") -> Iterator[str]:
    """Wrap the parts of a printed row's data to lines of the terminal's width, and yield the lines.

    A part longer than a line is split.

    All lines but the first are indented.
    """
    line, used = indent, len(indent)
    later = indent or INDENT  # of the lines after the first
    begun = False  # whether the line contains a part already
    for part in parts:
        size = display_width(part.text)
        if begun and used + len(GAP) + size > width:
            yield line
            line, used, begun = later, len(later), False
        if begun:
            line, used = line + GAP, used + len(GAP)
        if used + size <= width:
            line, used = line + part.painted, used + size
        else:
            # Use at least 8 columns, however narrow the terminal is, so that the loop advances.
            first = _cut(part.text, max(width - used, 8))[0]
            line += first
            for piece in _cut(part.text[len(first) :], max(width - len(later), 8)):
                yield line
                line = later + piece
            used = display_width(line)
        begun = True
    if begun:
        yield line


def _cut(text: str, width: int) -> list[str]:
    from rich.cells import chop_cells  # noqa: PLC0415  only output for people needs it

    return list(chop_cells(text, width))


def display_width(text: str) -> int:
    """Return the number of terminal columns that a string occupies."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  only output for people needs it

    return cell_len(text)


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Lay out and print a few rows in columns, with headings.

    If the last cell of a row is a list, its items are wrapped to the width.
    """
    heading, lines = row_lines(headings, rows)
    paint = make_painter()
    sys.stdout.writelines(f"{paint(line, 'bold')}\n" for line in heading)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def row_lines(
    headings: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[str]]:
    """Lay out a few rows as ``print_rows`` does, and return the lines of the heading and of the rows."""
    numbers = {at for row in rows for at, cell in enumerate(row) if isinstance(cell, int)}
    # The last column is data if its cells are lists.
    data = headings[-1] if any(not isinstance(row[-1], str | int) for row in rows) else ""
    size = len(headings) - bool(data)
    shown = [
        TableRow([*map(_part, row[:size])], [_part(text) for cell in row[size:] for text in cell])
        for row in rows
    ]
    layout = RowLayout(headings[:size], data, terminal_width(), numbers)
    return layout.begin(shown), [line for row in shown for line in layout.lines(row)]


def _part(cell: Any) -> PaintedText:
    text = f"{cell:,}" if isinstance(cell, int) else printable(cell)
    return PaintedText(text, text)


def counts_table(
    operations: Mapping[str, Mapping[str, int]],
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Arrange counts of operations for ``print_rows``: return the headings, and one row per table."""
    present = {kind for counts in operations.values() for kind in counts}
    kinds = {kind: name for kind, name in OPERATION_NAMES.items() if kind in present}
    rows = [
        (name, *(counts.get(kind, 0) for kind in kinds), sum(counts.values()))
        for name, counts in operations.items()
    ]
    return ("table", *kinds.values(), "all"), rows
