"""Kernels over the nodes of JSON objects: find members by name, measure values, recognize numbers, and convert base64."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.formats.json.scan_kernels import ARRAY, NULL, OBJECT, TRUE, NodeArrays, number_end

NO_NODE: Final = -1
# Names that are not columns.
UNKNOWN: Final = -1
PASSED_OVER: Final = -2


INVALID: Final = 0xFF
PADDING: Final = 0x3D


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
    """Mark the strings that are JSON numbers. Return the number of other strings.

    `1e5` is a number; `.5` and `01` are not.
    """
    others = 0
    for row in range(len(found)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        found[row] = start < stop and number_end(data, start, stop) == stop
        others += not found[row]
    return others


@kernel(writes=("ends", "out"))
def decode_base64(
    data: Octets, offsets: Offsets, digits: Octets, ends: Offsets, out: Octets
) -> int:
    """Decode a column of base64 strings into `out`, with Arrow's offsets in `ends`.

    Return the first row that is not base64, or -1.

    Four characters of 6 bits make three bytes: "AQID" is 0, 16, 8, 3, or the bytes 01 02 03. "AQI="
    has two bytes: then the 8 unused bits of the 24 must be zero, so that no two strings decode to
    the same bytes.
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
            # With one "=" the last 8 of the 24 bits are unused, with two the last 16.
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
def encode_base64(
    data: Octets, offsets: Offsets, letters: Octets, ends: Offsets, out: Octets
) -> None:
    """Encode the bytes of a column as base64. The text of row i is written to `out` from `ends[i]` on."""
    for row in range(len(offsets) - 1):
        at, end, to = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(ends[row])
        # Three bytes are four letters of six bits. Example: 4D 61 6E, 010011 010110 000101 101110 in
        # bits, is TWFu. Missing bytes count as zeros, and padding replaces their letters: 4D is TQ==.
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
