"""Loops over JSON objects: the members of many objects found by name, numbers told from other texts, and base64 text read and written."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.formats.json.scan_kernels import ARRAY, NULL, OBJECT, TRUE, number_end

NO_NODE: Final = -1
# Names that are not columns.
UNKNOWN: Final = -1
PASSED_OVER: Final = -2


@kernel(writes=("found",))
def pick_members(
    parents: Longs, name: Offsets, kind: Octets, last: Offsets, slot: Longs, found: Longs
) -> int:
    """Write the members of objects whose names have a slot, slot by slot; return how many there are."""
    rows = len(parents)
    count = 0
    for row in range(rows):
        parent = parents[row]
        if parent < 0 or kind[parent] != OBJECT:
            continue
        node, end = parent + 1, np.int64(last[parent])
        while node < end:
            own = slot[name[node]]
            if own >= 0:
                found[own * rows + row] = node
                count += 1
            node = np.int64(last[node])
    return count


@kernel(writes=("cells", "begins", "sizes", "unknown", "again"))
def place_cells(
    parents: Longs,
    name: Offsets,
    kind: Octets,
    start: Longs,
    length: Longs,
    last: Offsets,
    column_of: Longs,
    columns: int,
    cells: Offsets,
    begins: Longs,
    sizes: Offsets,
    unknown: Longs,
    again: Longs,
) -> tuple[int, int]:
    """Write the node of each column in each object, and where its text is, column by column; the size of a null stays as it was.

    Returns how many problems objects have, and how many values are objects and arrays.

    ``column_of`` is the column of each name, ``UNKNOWN`` or ``PASSED_OVER``; from ``columns`` on it is a column that is missing where the member is true.
    ``unknown`` and ``again`` are a member of each object that is not a column, and one whose column another member is already.
    """
    rows = len(parents)
    bad = nested = 0
    for row in range(rows):
        parent = parents[row]
        if parent < 0 or kind[parent] != OBJECT:
            continue
        node, end = parent + 1, np.int64(last[parent])
        flags = False
        while node < end:
            column = column_of[name[node]]
            if column >= columns:
                flags = True
            elif column >= 0:
                cell = column * rows + row
                if cells[cell] != NO_NODE:
                    again[row] = node
                    bad += 1
                cells[cell] = node
                if kind[node] != NULL:
                    begins[cell], sizes[cell] = start[node], length[node]
                    nested += kind[node] == OBJECT or kind[node] == ARRAY
            elif column == UNKNOWN:
                unknown[row] = node
                bad += 1
            node = np.int64(last[node])
        if flags:
            node = parent + 1
            while node < end:
                column = column_of[name[node]] - columns
                if column >= 0 and kind[node] == TRUE:
                    cells[column * rows + row] = NO_NODE
                    sizes[column * rows + row] = NO_NODE
                node = np.int64(last[node])
    return bad, nested


@kernel(writes=("begins", "offsets", "nulls"))
def measure_nodes(
    nodes: Longs,
    kind: Octets,
    start: Longs,
    length: Longs,
    begins: Longs,
    offsets: Offsets,
    nulls: Mask,
) -> int:
    """Write where the text of each node begins, Arrow's offsets of the strings, and which have none: null, or without a node.

    Returns how many strings are objects or arrays, or ``TOO_MANY``.
    """
    total = np.int64(0)
    nested = 0
    offsets[0] = 0
    for row in range(len(nodes)):
        node = nodes[row]
        nulls[row] = True
        begins[row] = 0
        if node >= 0 and kind[node] != NULL:
            nulls[row] = False
            begins[row] = start[node]
            total += length[node]
            nested += kind[node] == OBJECT or kind[node] == ARRAY
            if total > MAX_INT32:
                return TOO_MANY
        offsets[row + 1] = total
    return nested


@kernel(writes=("found",))
def mark_numbers(data: Octets, offsets: Offsets, found: Mask) -> int:
    """Mark the texts that are numbers as JSON has them, and return how many are not; 1e5 is one, .5 and 01 are not."""
    others = 0
    for row in range(len(found)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        found[row] = start < stop and number_end(data, start, stop) == stop
        others += not found[row]
    return others


INVALID: Final = 0xFF
PADDING: Final = 0x3D


@kernel(writes=("ends", "out"))
def decode(data: Octets, offsets: Offsets, digits: Octets, ends: Offsets, out: Octets) -> int:
    """Write the bytes of each text, and Arrow's offsets of them; return the first row that is other text, -1 for none.

    Bits that no byte has must be zero, so that bytes have one text.
    """
    to = np.int64(0)
    ends[0] = 0
    for row in range(len(offsets) - 1):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if at < 0 or end > len(data) or (end - at) & 3 != 0:
            return row
        while at < end:
            padding = 0
            if at + 4 == end:
                padding = int(data[at + 3] == PADDING)
                if padding and data[at + 2] == PADDING:
                    padding = 2
            word = np.int64(0)
            for place in range(4 - padding):
                digit = np.int64(digits[data[at + place]])
                if digit == INVALID:
                    return row
                word |= digit << (18 - 6 * place)
            if (padding == 1 and word & 0xFF) or (padding == 2 and word & 0xFFFF):
                return row
            if to + 3 > len(out):
                return row
            for place in range(3 - padding):
                out[to] = np.uint8(word >> (16 - 8 * place) & 0xFF)
                to += 1
            at += 4
        ends[row + 1] = to
    return -1


@kernel(writes=("out",))
def encode(data: Octets, offsets: Offsets, letters: Octets, ends: Offsets, out: Octets) -> None:
    """Write the text of each row's bytes at its place by ``ends``."""
    for row in range(len(offsets) - 1):
        at, end, to = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(ends[row])
        while at < end:
            word = np.int64(data[at]) << 16
            if at + 1 < end:
                word |= np.int64(data[at + 1]) << 8
            if at + 2 < end:
                word |= np.int64(data[at + 2])
            for place in range(4):
                out[to + place] = letters[word >> (18 - 6 * place) & 63]
            if at + 1 >= end:
                out[to + 2] = PADDING
            if at + 2 >= end:
                out[to + 3] = PADDING
            at += 3
            to += 4
