"""Rows laid out for a width: the head of a row in columns, its data beside the head or on lines below it.

Nothing is cut off: what does not fit in a line continues in the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from trailgate.cli.columns.layout import GAP, RowParts, laid_out

INDENT: Final = "    "  # of the lines that continue a row
BESIDE: Final = 48  # columns that data need beside the head; with fewer they are below it


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
            bool(self._widths) and self._head_width + len(GAP) + BESIDE <= self._width
        )
        if not self._widths and not self._data:
            return []
        names = [Part(name, name) for name in self._headings]
        if not self._beside:
            return self._head(names)
        return [f"{self._padded(names)}{GAP}{self._data}".rstrip()]

    def lines(self, row: Shown) -> Iterator[str]:
        """Yield the lines of a row."""
        if self._width is None:
            yield GAP.join([self._padded(row.head), *(part.painted for part in row.data)]).rstrip()
        elif not self._widths and not self._data:
            yield from flowed(self._named(row.head), self._width)
        elif self._beside:
            yield from self._side_by_side(row, self._width)
        else:
            yield from self._head(row.head)
            yield from flowed(row.data, self._width, INDENT)

    def texts(self, rows: RowParts) -> pa.Array:
        """Return the lines of each row without the last line break; null where ``lines`` must make them."""
        if not self._widths:
            return pa.nulls(len(rows.starts) - 1, pa.string())
        indent = self._head_width + len(GAP) if self._beside else len(INDENT)
        return laid_out(rows, self._widths, self._width, indent, beside=self._beside)

    @property
    def _head_width(self) -> int:
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1)

    def _head(self, parts: Sequence[Part]) -> list[str]:
        """Return the cells of a head in columns, or over several lines where these are too wide."""
        if self._fits(parts):
            return [self._padded(parts).rstrip()]
        first, *rest = parts
        return list(flowed([first, *_unpadded(rest)], self._width or 0))

    def _fits(self, parts: Sequence[Part]) -> bool:
        """Return whether each cell fits its column."""
        return bool(self._widths) and all(
            width_of(part.text) <= width for part, width in zip(parts, self._widths, strict=True)
        )

    def _padded(self, parts: Sequence[Part]) -> str:
        return GAP.join(
            part.painted + " " * (width - width_of(part.text))
            for part, width in zip(parts, self._widths, strict=True)
        )

    def _side_by_side(self, row: Shown, width: int) -> Iterator[str]:
        indent = " " * (self._head_width + len(GAP))
        rest = flowed(row.data, width, indent)
        if self._fits(row.head):
            yield f"{self._padded(row.head)}{GAP}{next(rest, indent)[len(indent) :]}".rstrip()
        else:
            yield from self._head(row.head)
        yield from rest

    def _named(self, parts: Sequence[Part]) -> list[Part]:
        return [
            Part(f"{name}={part.text}", f"{name}={part.painted}")
            for name, part in zip(self._headings, parts, strict=True)
        ]


def _unpadded(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that are not empty, without the blanks that align them in a column."""
    return [Part(p.text.strip(), p.painted.strip()) for p in parts if p.text.strip()]


def flowed(parts: Sequence[Part], width: int, indent: str = "") -> Iterator[str]:
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
