"""The cells of a table's operations: which words they name, where the value of each row and column is, and their columns."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets, Words
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.gather import MAX_INT32, OUTSIDE, TOO_MANY
from trailgate.columnar.kernels.words import copy_value
from trailgate.formats.xml.kernels.names import (
    ABSENT_CELL,
    EMPTY,
    NAMES,
    NO_ROOM,
    RULE,
    find_name,
    insert_name,
)

NO_WORD: Final = -1
MISSING: Final = -1  # lengths of cells that are not values
NULL: Final = EMPTY

# What a rule gives, in a plan, for the before image and for the after image: the fields of the value, of what makes it NULL and of what
# makes it missing, and what it is where its path finds no element. Then the column that the rule names, -1 where the cell does.
NO_FIELD: Final = -1
NEVER_FOUND: Final = -2  # the rule has a value, and no record has one
PLAN: Final = 9
SIDE: Final = 4
COLUMN: Final = 8

# Of a column of values: their bytes, how many are null (and missing, among them), where its bytes begin, and how many the longest value has.
TOTALS: Final = 5
BYTES: Final = 0
NULLS: Final = 1
GONE: Final = 2
BEGIN: Final = 3
LONGEST: Final = 4
ROWS_AT_ONCE: Final = 64  # copied together: their bytes are near one another


@kernel(writes=("ids", "firsts", "table", "keys", "info", "pool", "used"))
def word_ids(
    text: Octets,
    records: Offsets,
    width: int,
    field: int,
    ids: Longs,
    firsts: Longs,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Write the number of each record's word, ``NO_WORD`` where there is none, and the first record of each number; return how many words there are.

    Returns ``NO_ROOM`` where they are too many, or one is empty.
    """
    for row in range(len(ids)):
        place = row * width + field
        start, size = np.int64(records[place]), np.int64(records[place + 1])
        if size < 0:
            ids[row] = NO_WORD
            continue
        if size == 0:
            return NO_ROOM
        number = find_name(text, start, size, table, keys, info, pool)
        if number < 0:
            number = insert_name(text, start, size, -1 - number, table, keys, info, pool, used)
            if number < 0:
                return NO_ROOM
            firsts[number] = row
        ids[row] = number
    return used[NAMES]


@kernel(writes=("starts", "lengths"))
def place_cells(
    rows: Longs,
    bounds: Longs,
    records: Offsets,
    width: int,
    plan: Longs,
    words: Longs,
    columns: Longs,
    first: int,
    last: int,
    starts: Offsets,
    lengths: Offsets,
) -> int:
    """Write where the value of each image, column and row is, from the cells of these operations; return how many cells cannot be placed.

    ``words`` is empty or has the word of each cell, ``columns`` the column of each word, -1 for none. Images are those from
    ``first`` to before ``last``: 0 is before, 1 after. What is written to must have the length ``MISSING``.
    """
    refused = 0
    count, size = len(rows), len(lengths) // (last - first)
    for row in range(count):
        for cell in range(bounds[rows[row]], bounds[rows[row] + 1]):
            record = cell * width
            own = np.int64(records[record + RULE]) * PLAN
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
    """Write where a cell's value of one image is; return 1 where another cell is there already, else 0."""
    if plan[own] == NO_FIELD:
        return 0
    start, length = np.int32(0), np.int32(ABSENT_CELL)
    if plan[own] >= 0:
        start, length = records[record + plan[own]], records[record + plan[own] + 1]
    if length == ABSENT_CELL:
        length = np.int32(plan[own + 3])
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
    """Write Arrow's offsets and validity of columns of cells, which are missing, and totals; return the bytes that all need, ``OUTSIDE`` or ``TOO_MANY``.

    A column has ``rows`` + 1 offsets, and as many bytes of validity as its rows need. ``spare`` bytes are after each column's values.
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
    """Copy the values that ``measure_cells`` found, some rows of all columns after one another."""
    for first in range(0, rows, ROWS_AT_ONCE):
        for column in range(len(totals) // TOTALS):
            begin = totals[column * TOTALS + BEGIN]
            for row in range(first, min(first + ROWS_AT_ONCE, rows)):
                place = column * rows + row
                length = np.int64(lengths[place])
                if length > 0:
                    to = begin + offsets[column * (rows + 1) + row]
                    copy_value(text, np.int64(starts[place]), length, out, to)


@kernel(writes=("seen",))
def note_rules(records: Offsets, width: int, lengths: Longs, again: int, seen: Mask) -> None:
    """Mark what records show of their rules: that they match, which of their paths find a value, and which find several.

    ``seen`` has 1 + 2 * ``len(lengths)`` places a rule. ``lengths`` are the fields of the values' lengths, ``again`` that of the bits of further
    values, 0 where the records have none. A record of rule 3 with a value at the second of five lengths marks the places 33 and 35.
    """
    paths = len(lengths)
    for record in range(0, len(records), width):
        place = np.int64(records[record]) * (1 + 2 * paths)
        seen[place] = True
        for path in range(paths):
            if lengths[path] and records[record + lengths[path]] != ABSENT_CELL:
                seen[place + 1 + path] = True
        if again and records[record + again] != -1:
            for path in range(paths):
                if records[record + again] >> path & 1 == 0:
                    seen[place + 1 + paths + path] = True
