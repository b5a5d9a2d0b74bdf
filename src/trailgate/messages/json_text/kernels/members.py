"""Members of many objects at once: those of some names, the cells of rows of columns, and where their texts are."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.messages.json_text.kernels.layout import ARRAY, NULL, OBJECT, TRUE

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
    """Write where the text of each node begins, Arrow's offsets of the texts, and which have none: null, or without a node.

    Returns how many texts are objects or arrays, or ``TOO_MANY``.
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
