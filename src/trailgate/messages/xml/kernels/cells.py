"""The cells of a table's operations: which words they name, and where the value of each row and column is."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets, Words
from trailgate.columnar.kernels.compiled import kernel
from trailgate.columnar.kernels.gather import MAX_INT32, OUTSIDE, TOO_MANY
from trailgate.columnar.kernels.words import copy_value
from trailgate.messages.xml.kernels.layout import NAMES
from trailgate.messages.xml.kernels.names import NO_ROOM, find_name, insert_name

NO_WORD: Final = -1
MISSING: Final = -1  # lengths of cells that are not values
NULL: Final = -2


@kernel(writes=("ids", "firsts", "table", "keys", "info", "pool", "used"))
def word_ids(
    text: Octets,
    starts: Longs,
    lengths: Longs,
    ids: Longs,
    firsts: Longs,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Write the number of each word, ``NO_WORD`` where there is none, and the first place of each number; return how many words there are.

    Returns ``NO_ROOM`` where they are too many, or one is empty.
    """
    for row in range(len(starts)):
        size = lengths[row]
        if size < 0:
            ids[row] = NO_WORD
            continue
        if size == 0:
            return NO_ROOM
        number = find_name(text, starts[row], size, table, keys, info, pool)
        if number < 0:
            number = insert_name(
                text, starts[row], size, -1 - number, table, keys, info, pool, used
            )
            if number < 0:
                return NO_ROOM
            firsts[number] = row
        ids[row] = number
    return used[NAMES]


@kernel(writes=("offsets", "nulls"))
def measure_values(size: int, starts: Longs, lengths: Longs, offsets: Offsets, nulls: Mask) -> int:
    """Write Arrow's offsets of values and which are null; return the sum of their lengths, ``OUTSIDE`` or ``TOO_MANY``."""
    total = np.int64(0)
    offsets[0] = 0
    for row in range(len(starts)):
        length = lengths[row]
        nulls[row] = length < 0
        if length > 0:
            if starts[row] < 0 or starts[row] + length > size:
                return OUTSIDE
            total += length
            if total > MAX_INT32:
                return TOO_MANY
        offsets[row + 1] = total
    return total


@kernel(writes=("out",))
def copy_values(text: Octets, starts: Longs, lengths: Longs, offsets: Offsets, out: Octets) -> None:
    """Copy the values that ``measure_values`` found; ``out`` has ``SPARE`` bytes more than they."""
    for row in range(len(starts)):
        if lengths[row] > 0:
            copy_value(text, starts[row], lengths[row], out, np.int64(offsets[row]))


@kernel(writes=("cells", "row"))
def find_cells(place: Longs, operation: Longs, cells: Longs, row: Longs) -> int:
    """Write the cells whose operations have a place, and that; return how many they are."""
    count = 0
    for cell in range(len(operation)):
        own = place[operation[cell]]
        if own >= 0:
            cells[count], row[count] = cell, own
            count += 1
    return count


@kernel(writes=("start", "length"))
def put_values(
    cells: Longs,
    rules: Longs,
    by: Mask,
    starts: Longs,
    lengths: Longs,
    start: Longs,
    length: Longs,
) -> None:
    """Write the place of each cell's value where its rule has the property, ``NULL`` where none was found."""
    for at in range(len(cells)):
        cell = cells[at]
        if by[rules[cell]]:
            start[at] = starts[cell]
            length[at] = lengths[cell] if lengths[cell] >= 0 else NULL


@kernel(writes=("length",))
def mark_cells(
    cells: Longs, rules: Longs, by: Mask, lengths: Longs, meaning: int, length: Longs
) -> None:
    """Make cells ``NULL`` or ``MISSING`` where their rule's condition was found."""
    for at in range(len(cells)):
        cell = cells[at]
        if by[rules[cell]] and lengths[cell] >= 0:
            length[at] = meaning


@kernel(writes=("starts", "lengths"))
def scatter(
    column: Longs,
    row: Longs,
    start: Longs,
    length: Longs,
    rows: int,
    starts: Longs,
    lengths: Longs,
) -> int:
    """Write the cells that are not missing to their columns and rows; return how many were there already."""
    again = 0
    for at in range(len(column)):
        if length[at] == MISSING or column[at] < 0:
            continue
        place = column[at] * rows + row[at]
        if lengths[place] != MISSING:
            again += 1
            continue
        starts[place], lengths[place] = start[at], length[at]
    return again
