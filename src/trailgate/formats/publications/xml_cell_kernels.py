"""Kernels for XML publications: place the values of cells in rows and columns, and search messages for attributes that are set."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import first_mark, marks64
from trailgate.formats.xml.kernels.cells import MISSING, NULL
from trailgate.formats.xml.kernels.characters import after_blanks, is_blank

# Indexes into `fields`, which is the slot in a record of each value of a cell (a `col` element). After
# each of the values OWN, OLD and NEW follow the marks of its element: NIL, INVALID and RAW.
ELEMENT: Final = 0
NAME: Final = 1
TYPE: Final = 2
MORE: Final = 3
OWN: Final = 4
OLD: Final = 8
NEW: Final = 12
NIL: Final = 1
INVALID: Final = 2
RAW: Final = 3
MORE_OLD: Final = 16
MORE_NEW: Final = 17

# The faults of a cell.
GOOD: Final = 0
NOT_COLUMN: Final = 1
NO_NAME: Final = 2
NO_TYPE: Final = 3  # no type element
SEVERAL: Final = 4  # more than one type element
NESTED: Final = 5  # beforeVal or afterVal in a row that is not an update
NO_AFTER: Final = 6
NIL_WITH_VALUE: Final = 7
UNCONVERTED: Final = 8
UNCONVERTED_RAW: Final = 9
BAD_MARK: Final = 10
REPEATED: Final = 11  # more than one beforeVal or afterVal
MIXED: Final = 12  # text beside beforeVal or afterVal
NOT_BOOLEAN: Final = -1

INSERT: Final = 73
DELETE: Final = 68


WINDOW: Final = 64
RARE: Final = 5  # index of the rare letter B in "hasLOBCols"
LETTER: Final = 0x42  # B
ONE: Final = np.uint64(1)


@inner
def boolean(text: Octets, at: int, end: int) -> int:
    """Parse an XML publication's boolean: `1`, `true` give 1, `0`, `false` 0, others NOT_BOOLEAN."""
    at = after_blanks(text, at, end)
    while end > at and is_blank(text[end - 1]):
        end -= 1
    size = end - at
    if size == 1 and (text[at] == 0x30 or text[at] == 0x31):
        return int(text[at]) - 0x30
    # true
    if (
        size == 4
        and text[at] == 0x74
        and text[at + 1] == 0x72
        and text[at + 2] == 0x75
        and text[at + 3] == 0x65
    ):
        return 1
    # false
    if (
        size == 5
        and text[at] == 0x66
        and text[at + 1] == 0x61
        and text[at + 2] == 0x6C
        and text[at + 3] == 0x73
        and text[at + 4] == 0x65
    ):
        return 0
    return NOT_BOOLEAN


@kernel(writes=("found",))
def booleans(text: Octets, starts: Longs, lengths: Longs, found: Mask) -> int:
    """Parse a boolean attribute of several XML publications or rows, false if missing.

    Return the first row that is not a boolean, or -1.
    """
    for row in range(len(starts)):
        found[row] = False
        if lengths[row] >= 0:
            start, end = starts[row], starts[row] + lengths[row]
            if start < 0 or end > len(text):
                return row
            value = boolean(text, start, end)
            if value < 0:
                return row
            found[row] = value == 1
    return -1


@inner
def cell_value_size(records: Offsets, record: int, fields: Longs, which: int, size: int) -> int:
    """Return the length of one value of an XML publication's cell, or -1 if it is missing or not within `size` bytes.

    `record` is the offset of the cell's record in `records`, and `fields[which]` the field in it
    with the start of the value; the length is in the next field. `which` is, for example, `OLD`.
    """
    if fields[which] < 0:
        return -1
    place = record + fields[which]
    start, length = np.int64(records[place]), np.int64(records[place + 1])
    return int(length) if start >= 0 and start + length <= size else -1


@inner
def is_blank_value(text: Octets, records: Offsets, record: int, fields: Longs, which: int) -> bool:
    """Return whether the value `which` (`OWN`, `OLD` or `NEW`) of an XML publication's cell is missing, empty or blank."""
    length = cell_value_size(records, record, fields, which, len(text))
    if length <= 0:
        return True
    start = np.int64(records[record + fields[which]])
    return bool(after_blanks(text, start, start + length) == start + length)


@inner
def cell_flag(text: Octets, records: Offsets, record: int, fields: Longs, which: int) -> int:
    """Return 0 or 1 for a boolean attribute of an XML publication's cell, 0 if it is missing, or `NOT_BOOLEAN`."""
    length = cell_value_size(records, record, fields, which, len(text))
    if length < 0:
        return 0
    start = np.int64(records[record + fields[which]])
    return int(boolean(text, start, start + length))


@inner
def store_cell_value(
    text: Octets,
    records: Offsets,
    record: int,
    fields: Longs,
    which: int,
    cell: int,
    starts: Offsets,
    lengths: Offsets,
) -> int:
    """Store the start and length of the value `which` of an XML publication's cell.

    Return `GOOD`, or the code of its fault. `which` is `OWN` (the value is in the type element
    itself), `OLD` or `NEW`. For NULL only the length is stored, as `NULL`.
    """
    nil = cell_flag(text, records, record, fields, which + NIL)
    invalid = cell_flag(text, records, record, fields, which + INVALID)
    raw = cell_flag(text, records, record, fields, which + RAW)
    if nil < 0 or invalid < 0 or raw < 0:
        return BAD_MARK
    if invalid:
        return UNCONVERTED
    if raw:
        return UNCONVERTED_RAW
    place = record + fields[which]
    start, length = np.int64(records[place]), np.int64(records[place + 1])
    # NULL, unless the element has text nevertheless.
    if nil:
        if after_blanks(text, start, start + length) < start + length:
            return NIL_WITH_VALUE
        lengths[cell] = NULL
    else:
        starts[cell], lengths[cell] = start, length
    return GOOD


@inner
def is_cell_value(
    text: Octets, records: Offsets, record: int, fields: Longs, which: int, word: Octets
) -> bool:
    """Return whether the value `which` of an XML publication's cell is the given word."""
    if cell_value_size(records, record, fields, which, len(text)) != len(word):
        return False
    start = np.int64(records[record + fields[which]])
    alike = True
    for at in range(len(word)):
        alike &= text[start + at] == word[at]
    return alike


class ImageSpans(NamedTuple):
    """The spans of one image's values in XML publication rows, one per cell.

    A length may be NULL or MISSING.
    """

    starts: Offsets
    lengths: Offsets

    @classmethod
    def empty(cls, cells: int) -> ImageSpans:
        """Return the spans of `cells` missing values in XML publication rows."""
        return cls(np.zeros(cells, np.int32), np.full(cells, MISSING, np.int32))


@kernel(writes=("before", "after", "problems"))
def place_images(
    text: Octets,
    records: Offsets,
    width: int,
    fields: Longs,
    operation: Longs,
    letters: Octets,
    word: Octets,
    before: ImageSpans,
    after: ImageSpans,
    problems: Octets,
) -> int:
    """Write the spans of the before and after value of each XML publication cell. Return the number of faulty cells.

    `operation` is the row of each cell, `letters` the operation type of each row, and `word` the
    required element name ("col"). `problems` gets the fault of each cell.

    Examples of cells in an update; a before value is always a nested element:

        <col name="A"><integer>7</integer></col>                        after 7, no before value
        <col name="A"><integer><beforeVal>6</beforeVal>
          <afterVal>7</afterVal></integer></col>                        before 6, after 7
        <col name="A"><integer xsi:nil="1"/></col>                      after NULL

    In inserts and deletes only the first and third form are allowed. In a delete, the value is the
    before value.
    """
    before_start, before_length = before
    after_start, after_length = after
    count = 0
    for cell in range(len(operation)):
        record = cell * width
        letter = letters[operation[cell]]
        before_start[cell] = after_start[cell] = 0
        before_length[cell] = after_length[cell] = MISSING
        # Which of the three values the cell has: in the type element itself, in beforeVal, in
        # afterVal.
        own = cell_value_size(records, record, fields, OWN, len(text)) >= 0
        old = cell_value_size(records, record, fields, OLD, len(text)) >= 0
        new = cell_value_size(records, record, fields, NEW, len(text)) >= 0
        problem = GOOD
        if not is_cell_value(text, records, record, fields, ELEMENT, word):
            problem = NOT_COLUMN
        elif cell_value_size(records, record, fields, NAME, len(text)) < 0:
            problem = NO_NAME
        elif not own:
            problem = NO_TYPE
        elif cell_value_size(records, record, fields, MORE, len(text)) >= 0:
            problem = SEVERAL
        elif letter == DELETE:
            problem = (
                NESTED
                if old or new
                else store_cell_value(
                    text, records, record, fields, OWN, cell, before_start, before_length
                )
            )
        # An insert, or an update in which the column has only an after value.
        elif not (old or new):
            problem = store_cell_value(
                text, records, record, fields, OWN, cell, after_start, after_length
            )
        elif letter == INSERT:
            problem = NESTED
        elif not new:
            problem = NO_AFTER
        elif (
            cell_value_size(records, record, fields, MORE_OLD, len(text)) >= 0
            or cell_value_size(records, record, fields, MORE_NEW, len(text)) >= 0
        ):
            problem = REPEATED
        elif not is_blank_value(text, records, record, fields, OWN):
            problem = MIXED
        else:
            problem = store_cell_value(
                text, records, record, fields, NEW, cell, after_start, after_length
            )
            if problem == GOOD and old:
                problem = store_cell_value(
                    text, records, record, fields, OLD, cell, before_start, before_length
                )
        if problem != GOOD:
            before_length[cell] = after_length[cell] = MISSING
            count += 1
        problems[cell] = problem
    return count


@kernel(writes=("placed_starts", "placed_lengths"))
def place_in_columns(
    rows: Longs,
    bounds: Longs,
    names: Longs,
    columns: Longs,
    starts: Offsets,
    lengths: Offsets,
    begin: int,
    size: int,
    placed_starts: Offsets,
    placed_lengths: Offsets,
) -> int:
    """Copy the spans of XML publication cells to a matrix with a row for each column of the table.

    Return the number of refused cells.

    The matrix consists of the `size` elements of the output arrays from `begin` on. The cells of
    `rows[r]` are `bounds[rows[r]]` to `bounds[rows[r] + 1]` - 1. `columns` is the column of each
    name, or -1. A cell is refused if its name is not a column, or its place is already filled.

    Example: 2 rows with the cells (A=1, B=2) and (B=3), and columns A, B: the matrix is A: [1,
    missing], B: [2, 3].
    """
    refused = 0
    for row in range(len(rows)):
        for cell in range(bounds[rows[row]], bounds[rows[row] + 1]):
            column = columns[names[cell]] if names[cell] >= 0 else -1
            if column < 0 or (column + 1) * len(rows) > size:
                refused += 1
                continue
            if lengths[cell] == MISSING:
                continue
            place = begin + column * len(rows) + row
            # Two cells of the row have the same column.
            if placed_lengths[place] != MISSING:
                refused += 1
                continue
            placed_starts[place], placed_lengths[place] = starts[cell], lengths[cell]
    return refused


@kernel()
def has_set_attribute(data: Octets, start: int, end: int, word: Octets) -> bool:
    """Return whether a tag of an XML publication in [start, end) has an attribute `word` with another value than `0` and `false`.

    Only bytes equal to `LETTER` are examined, 64 at a time; in the word it is at index `RARE`.
    """
    at = start
    while at + WINDOW <= end:
        # One bit for each byte, the first byte in the lowest bit. ``marks & marks - 1`` clears the
        # lowest bit: 0b0110 & 0b0101 = 0b0100.
        marks = marks64(data, at, LETTER)
        while marks:
            if is_attribute_set_at(data, at + first_mark(marks) - RARE, start, end, word):
                return True
            marks &= marks - ONE
        at += WINDOW
    while at < end:
        if data[at] == LETTER and is_attribute_set_at(data, at - RARE, start, end, word):
            return True
        at += 1
    return False


@inner
def is_attribute_set_at(data: Octets, at: int, start: int, end: int, word: Octets) -> bool:
    """Return whether an XML attribute `word` with another value than `0` and `false` is at an offset.

    An attribute that is cut off at the end counts as set.
    """
    if at < start or at + len(word) > end:
        return False
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return False
    at += len(word)
    # Skip `="` and blanks between the name and the value.
    while at < end and (
        is_blank(data[at]) or data[at] == 0x3D or data[at] == 0x22 or data[at] == 0x27
    ):
        at += 1
    return bool(at >= end or (data[at] != 0x30 and data[at] != 0x66))
