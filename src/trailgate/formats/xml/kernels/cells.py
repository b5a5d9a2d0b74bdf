"""Kernels that turn the XML scanner's column records ("cells") into Arrow columns.

`word_ids` (in `match_records.py`) numbers the column names of cells, `place_columns` assigns each
cell to a column and row, and `measure_cells` and `copy_cells` build Arrow buffers from the spans.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.gather_kernels import MAX_INT32, OUTSIDE, TOO_MANY
from trailgate.columnar.word_kernels import copy_value
from trailgate.formats.xml.kernels.tables import (
    ABSENT_CELL,
    EMPTY,
    RULE,
)

MISSING: Final = -1  # MISSING and NULL are lengths of cells without a value
NULL: Final = EMPTY

# The plan has one row per rule. For each of the before and the after image: the record fields of the
# value, of its NULL mark, and of its "missing" mark, and the length to use if the value's path finds no
# element. Then the column that the rule names, or -1 if each cell names its own.
NO_FIELD: Final = -1
NEVER_FOUND: Final = -2  # the rule has a value, but no record of this batch has it
PLAN: Final = 9
SIDE: Final = 4
COLUMN: Final = 8

# Totals of a column: its bytes, its nulls, the missing ones among them, the offset of its bytes in the
# output, and the length of its longest value.
TOTALS: Final = 5
BYTES: Final = 0
NULLS: Final = 1
GONE: Final = 2
BEGIN: Final = 3
LONGEST: Final = 4
ROWS_AT_ONCE: Final = (
    64  # the bytes of one row's cells are adjacent, so blocks of rows stay in cache
)


class CellNames(NamedTuple):
    """The column names of XML cells, as numbers.

    `words` has the number of each cell's name, and `columns` the column of each name. `words` is
    empty if cells have no names. A name that is not a column has -1.
    """

    words: Longs
    columns: Longs


@kernel(writes=("starts", "lengths"))
def place_columns(
    rows: Longs,
    bounds: Longs,
    records: Offsets,
    width: int,
    plan: Longs,
    names: CellNames,
    first: int,
    last: int,
    starts: Offsets,
    lengths: Offsets,
) -> int:
    """Assign XML cells to columns: write the span of each image's value, by column and row.

    Return the number of problems: cells without a column of the table, and values whose place is
    already filled.

    Row r of the output consists of the cells `bounds[rows[r]]` to `bounds[rows[r] + 1]` - 1.
    `first` and `last` are 0 and 1 for the before image, 1 and 2 for the after image, 0 and 2 for
    both. `plan` has a row of `PLAN` columns for each rule. All output lengths must be `MISSING`
    initially.

    Example: with 2 rows and 3 columns, the after value of column 1 in row 0 is at 1 * 2 + 0 = 2.
    """
    words, columns = names.words, names.columns
    refused = 0
    count, size = len(rows), len(lengths) // (last - first)
    for row in range(count):
        for cell in range(bounds[rows[row]], bounds[rows[row] + 1]):
            record = cell * width
            own = np.int64(records[record + RULE]) * PLAN
            # The column that the rule names, or else the column that the cell names.
            column = plan[own + COLUMN]
            if column < 0 and len(words) and words[cell] >= 0:
                column = columns[words[cell]]
            if column < 0 or (column + 1) * count > size:
                refused += 1
                continue
            for side in range(first, last):
                place = (side - first) * size + column * count + row
                refused += place_value(
                    records, record, plan, own + side * SIDE, place, starts, lengths
                )
    return refused


@inner
def place_value(
    records: Offsets,
    record: int,
    plan: Longs,
    own: int,
    place: int,
    starts: Offsets,
    lengths: Offsets,
) -> int:
    """Write the span of the value that an XML rule found for a column in one image, unless it is missing there.

    `plan[own]` is the beginning of this image's columns in the row of the cell's rule. Return 1 if
    the place is already filled, otherwise 0.
    """
    if plan[own] == NO_FIELD:
        return 0
    start, length = np.int32(0), np.int32(ABSENT_CELL)
    if plan[own] >= 0:
        start, length = records[record + plan[own]], records[record + plan[own] + 1]
    if length == ABSENT_CELL:
        length = np.int32(plan[own + 3])
    # The NULL mark of this cell was found.
    if plan[own + 1] >= 0 and records[record + plan[own + 1] + 1] >= 0:
        length = np.int32(NULL)
    if length == MISSING or (plan[own + 2] >= 0 and records[record + plan[own + 2] + 1] >= 0):
        return 0
    if lengths[place] != MISSING:
        return 1
    starts[place], lengths[place] = start, length
    return 0


@kernel(writes=("offsets", "valid", "missing", "totals"))
def measure_cells(
    size: int,
    rows: int,
    spare: int,
    starts: Offsets,
    lengths: Offsets,
    offsets: Offsets,
    valid: Octets,
    missing: Mask,
    totals: Longs,
) -> int:
    """Compute Arrow's offsets and validity bits of each column of XML values, and the columns' `totals`.

    Returns the number of bytes needed, `OUTSIDE` if a value is not within the `size` bytes of text,
    or `TOO_MANY` if a column has more bytes than 32-bit offsets allow.

    A column has rows + 1 offsets and (rows + 7) // 8 validity bytes. `missing` marks missing
    values. `spare` bytes are reserved after each column's values.

    Example: one column of three rows with the lengths 2, NULL, 3 has the offsets 0, 2, 2, 5 and the
    validity bits 101.
    """
    bits = (rows + 7) // 8
    begin = np.int64(0)
    for column in range(len(totals) // TOTALS):
        total, longest, nulls, gone = np.int64(0), np.int64(0), 0, 0
        first = column * (rows + 1)
        offsets[first] = 0
        known = 0
        for row in range(rows):
            place = column * rows + row
            length = np.int64(lengths[place])
            missing[place] = length == MISSING
            if length >= 0:
                if starts[place] < 0 or starts[place] + length > size:
                    return OUTSIDE
                total += length
                longest = max(longest, length)
                if total > MAX_INT32:
                    return TOO_MANY
                # Validity bits are collected in `known` and written every eight rows.
                known |= 1 << (row & 7)
            else:
                nulls += 1
                gone += 1 if length == MISSING else 0
            offsets[first + row + 1] = total
            if row & 7 == 7 or row + 1 == rows:
                valid[column * bits + (row >> 3)] = known
                known = 0
        own = column * TOTALS
        totals[own + BYTES], totals[own + NULLS], totals[own + GONE] = total, nulls, gone
        totals[own + BEGIN], totals[own + LONGEST] = begin, longest
        # The next column begins after the bytes reserved for this one.
        begin += total + spare
    return begin


@kernel(writes=("out",))
def copy_cells(
    text: Octets,
    rows: int,
    starts: Offsets,
    lengths: Offsets,
    offsets: Offsets,
    totals: Longs,
    out: Octets,
) -> None:
    """Copy the XML values measured by `measure_cells` into Arrow's buffers, in blocks of rows."""
    # Block by block, so that the text of some rows is still in the cache for the next column.
    for first in range(0, rows, ROWS_AT_ONCE):
        for column in range(len(totals) // TOTALS):
            begin = totals[column * TOTALS + BEGIN]
            for row in range(first, min(first + ROWS_AT_ONCE, rows)):
                place = column * rows + row
                length = np.int64(lengths[place])
                if length > 0:
                    to = begin + offsets[column * (rows + 1) + row]
                    copy_value(text, np.int64(starts[place]), length, out, to)
