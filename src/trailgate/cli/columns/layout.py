"""Rows shown to people, made in whole columns: what ``row_layout`` makes of one row, for all rows of a batch at once.

A row that is not of this form has no text here, and is laid out by itself: one with a part that is longer than a line, with
control characters, or with characters whose width is not known by their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.flowing import GAP as GAP_SIZE
from trailgate.columnar.kernels.flowing import flow_texts, measure_ascii
from trailgate.columnar.views import octets

GAP: Final = " " * GAP_SIZE
# Printable characters of one column each, beside ASCII: Latin, Greek, Cyrillic; and of two: kana, CJK, Hangul, full-width forms.
NARROW: Final = r"\x{A1}-\x{AC}\x{AE}-\x{2AF}\x{391}-\x{3A1}\x{3B1}-\x{3C9}\x{400}-\x{482}"
DOUBLE: Final = (
    r"\x{3041}-\x{3096}\x{30A1}-\x{30FA}\x{4E00}-\x{9FA5}\x{AC00}-\x{D7A3}\x{FF01}-\x{FF5E}"
)
MEASURED: Final = rf"^[ -~{NARROW}{DOUBLE}]*$"


EMPTY, BESIDE, BELOW = (
    0,
    1,
    2,
)  # what is after a head: nothing, data in its line, or in lines below it


class RowParts(NamedTuple):
    """The cells of the heads of rows, one column a cell, and their data: ``starts`` has where the parts of each row begin, and the end."""

    head: Sequence[pa.Array]
    parts: pa.Array
    starts: Longs


def sizes_of(texts: pa.Array) -> Longs:
    """Return how many columns of a terminal each text takes, -1 where that is not known here."""
    _, bounds, data = texts.buffers()
    ends = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    sizes = np.empty(len(texts), np.int64)
    if measure_ascii(octets(data or b""), ends, sizes):
        others = np.flatnonzero(sizes < 0)
        found = texts.take(pa.array(others))
        doubles = pc.count_substring_regex(found, f"[{DOUBLE}]").to_numpy()
        known = _mask(pc.match_substring_regex(found, MEASURED))
        sizes[others] = np.where(known, pc.utf8_length(found).to_numpy() + doubles, -1)
    return sizes


def laid_out(
    rows: RowParts, widths: Sequence[int], width: int | None, indent: int, *, beside: bool
) -> pa.Array:
    """Return the text of each row without the last line break; null where a row must be laid out by itself.

    ``widths`` are those of the head's columns. Data are ``beside`` the head or below it; lines after the first are indented.
    """
    count = len(rows.starts) - 1
    sizes, cells = sizes_of(rows.parts), [sizes_of(cell) for cell in rows.head]
    fits = np.ones(count, np.uint8)
    before, ends_line = np.ones(len(sizes), np.uint8), np.zeros(len(sizes), np.uint8)
    if width is None:
        fits[np.repeat(np.arange(count), np.diff(rows.starts))[sizes < 0]] = 0
    else:
        flow_texts(sizes, rows.starts, width, indent, before, ends_line, fits)
    in_columns = np.ones(count, bool)
    for size, most in zip(cells, widths, strict=True):
        fits &= size >= 0
        in_columns &= (size <= most) | (width is None)
    padded = zip(rows.head, cells, widths, strict=True)
    head = pc.binary_join_element_wise(*(_padded(*cell) for cell in padded), GAP)
    parts, lengths = rows.parts, np.diff(rows.starts)
    after = np.where(lengths == 0, EMPTY, BELOW)
    if width is not None and beside:
        # Blanks at the end of a row's first line are left out.
        ends_line &= np.repeat(in_columns, lengths)
        parts = pc.if_else(_bools(ends_line), pc.utf8_rtrim(parts, " "), parts)
        after[in_columns & (lengths > 0)] = BESIDE
    if width is not None:
        head = pc.if_else(pa.array(after == BESIDE), head, pc.utf8_rtrim(head, " "))
        if not in_columns.all():
            bare = _without_blanks(rows.head)
            fits &= in_columns | (sizes_of(bare) <= width)
            head = pc.if_else(pa.array(in_columns), head, bare)
        between = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(after))
        head = pc.binary_join_element_wise(head, between, "")
    separators = pa.array(["", GAP, "\n" + " " * indent]).take(pa.array(before))
    pieces = pc.binary_join_element_wise(separators, parts, "")
    lists = pa.ListArray.from_arrays(pa.array(rows.starts.astype(np.int32)), pieces)
    texts = pc.binary_join_element_wise(head, pc.binary_join(lists, ""), "")
    if width is None:
        texts = pc.utf8_rtrim(texts, " ")
    return pc.if_else(_bools(fits), texts, pa.scalar(None, pa.string()))


def _without_blanks(cells: Sequence[pa.Array]) -> pa.Array:
    """Return the cells of each head that are not empty, without the blanks that align them in a column."""
    trimmed = [pc.utf8_trim(cell, " ") for cell in cells[1:]]
    some = [pc.if_else(pc.equal(cell, ""), pa.scalar(None, pa.string()), cell) for cell in trimmed]
    return pc.binary_join_element_wise(cells[0], *some, GAP, null_handling="skip")


def _padded(cell: pa.Array, sizes: Longs, most: int) -> pa.Array:
    """Return cells with blanks up to a width."""
    if not len(cell):
        return cell
    blanks = pa.array([" " * count for count in range(most + 1)])
    missing = np.clip(most - sizes, 0, most)
    return pc.binary_join_element_wise(cell, blanks.take(pa.array(missing)), "")


def _bools(values: Octets) -> pa.Array:
    return pa.array(values.astype(bool))


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found
