"""Kernels over the nodes of JSON objects: find members by name, measure values, recognize numbers, and number strings."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.gather_kernels import MAX_INT32, TOO_MANY
from trailgate.columnar.strings_kernels import spans_equal
from trailgate.formats.json.scanner_kernels import ARRAY, NULL, OBJECT, TRUE, NodeArrays, number_end

NO_NODE: Final = -1
MANY: Final = -1  # instead of a count of strings: more are distinct than there is room for
# Names that are not columns.
UNKNOWN: Final = -1
PASSED_OVER: Final = -2


class MemberCells(NamedTuple):
    """The JSON node and the text span of each column's value in each row.

    Column c of row r is at the index `c * rows + r`.
    """

    cells: Offsets
    begins: Longs
    sizes: Offsets


@kernel(writes=("found",))
def pick_members(
    parents: Longs, name: Offsets, kind: Octets, last: Offsets, slot: Longs, found: Longs
) -> int:
    """Find the members of JSON objects by name. Return how many were found.

    `slot[n]` is the output column of the members with name number n, or -1 if they are not wanted.
    The node found for output column c and row r is written to `found[c * rows + r]`.
    """
    rows = len(parents)
    count = 0
    for row in range(rows):
        parent = parents[row]
        if parent < 0 or kind[parent] != OBJECT:
            continue
        # An object's node is followed by the nodes below it. ``last`` is the node after all of these:
        # of a member, that is the next member. Example: {"a": {"x": 1}, "b": 2} has the nodes 0 (the
        # object), 1 (a), 2 (x) and 3 (b), with last = 4 3 3 4: its members are 1 and 3.
        node, end = parent + 1, np.int64(last[parent])
        while node < end:
            own = slot[name[node]]
            if own >= 0:
                found[own * rows + row] = node
                count += 1
            node = np.int64(last[node])
    return count


@kernel(writes=("placed", "unknown", "again"))
def place_members(
    parents: Longs,
    nodes: NodeArrays,
    column_of: Longs,
    columns: int,
    placed: MemberCells,
    unknown: Longs,
    again: Longs,
) -> tuple[int, int]:
    """Find the node and the text span of each table column in each JSON object.

    `column_of` is the column of each name, `UNKNOWN` or `PASSED_OVER`. A value of at least
    `columns` means that the column `value - columns` is missing if the member is true. For JSON
    null, the node is written to `placed`, but `begins` and `sizes` keep their initial values.

    Returns the number of problems, and the number of values that are objects or arrays. If a row
    has a member that is not a column, its node is written to `unknown`; if it has two members for
    the same column, the second one is written to `again`.

    Example: the object `{"ID":7,"NAME":"x","NAME_isMissing":true}` of a table with the columns ID
    and NAME has column_of = [0, 1, 3]. ID and NAME are placed; then the flag 3 = 2 + 1 removes
    column 1 again.
    """
    name, kind, start, length, last = nodes
    cells, begins, sizes = placed
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
        # A second pass for `_isMissing` members, because they may come before or after their
        # column.
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
    """Prepare JSON values for an Arrow column: text offsets, Arrow's offsets, and the mask of nulls.

    JSON null and `NO_NODE` are nulls. Returns the number of values that are objects or arrays,
    or `TOO_MANY` if the text exceeds 2 GiB.
    """
    # Example: nodes 4 and -1, where node 4 is a string of 2 bytes at 70: begins = 70 0,
    # offsets = 0 2 2, nulls = 0 1.
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
    """Mark the strings of JSON nodes that are numbers by JSON's grammar. Return the number of other strings.

    `1e5` is a number; `.5` and `01` are not.
    """
    others = 0
    for row in range(len(found)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        found[row] = start < stop and number_end(data, start, stop) == stop
        others += not found[row]
    return others


@kernel(writes=("codes", "known"))
def code_strings(text: Octets, starts: Longs, lengths: Longs, codes: Longs, known: Longs) -> int:
    """Give each distinct string of JSON text a number, from 1; equal strings get the same number.

    The number of each row is written to `codes`. A row with a negative length has no string, and
    gets the number 0. Returns the highest number plus one, or `MANY` if there are too many distinct
    strings. `known[n]` becomes the first row with the number n. Few distinct strings are expected:
    each string is first compared with the string of the row before, then with all known strings.
    Example: "U", "U", "I", "U" gives 1, 1, 2, 1 and known[1:3] = 0, 2.
    """
    count = 1
    last = 0
    for row in range(len(starts)):
        size = lengths[row]
        codes[row] = 0
        if size < 0:
            continue
        at = starts[row]
        if at < 0 or at + size > len(text):
            return MANY
        # Most strings equal the one before them.
        code = last
        if (
            code == 0
            or lengths[known[code]] != size
            or not spans_equal(text, starts[known[code]], at, size)
        ):
            code = 1
            while code < count and (
                lengths[known[code]] != size or not spans_equal(text, starts[known[code]], at, size)
            ):
                code += 1
            if code == count:
                if count == len(known):
                    return MANY
                known[count] = row
                count += 1
        codes[row] = last = code
    return count
