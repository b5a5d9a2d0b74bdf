"""Write the cells of a column in the three forms that trail values have: varying length, fixed width, binary words.

A cell is a column index u16, a length u16, a null indicator of two bytes, and the value. Column 2
with the text "AB" of varying length is ``00 02 00 06 00 00 00 02 41 42``; padded to four bytes, it
is ``00 02 00 06 00 00 41 42 20 20``. Each writer works in two passes: ``measure`` adds the size of
its cell to each record, then ``write`` writes it at the record's current offset. The first pass
determines the layout of all records, and the second one writes each column for all records in one
loop.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Words, octets
from trailgate.columnar.strings import StringBytes
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import EncodeError
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.values.codec import (
    CELL_HEAD,
    INDICATOR_BYTES,
    MAX_CELL,
    VARIABLE_HEAD,
    CellTarget,
    RecordValues,
)
from trailgate.trail.values.write_kernels import (
    MISSING,
    NULL_VALUE,
    CellFilling,
    add_sizes,
    find_bad_times,
    write_filled,
    write_varying,
    write_words,
)

NO_OFFSETS: Final = np.zeros(0, np.int32)
NO_STATES: Final = np.zeros(0, np.uint8)


def cell_states(column_values: RecordValues) -> Octets:
    """Return the state (present, NULL or missing) of each value to write, or an empty array if all values are present."""
    if not column_values.values.null_count and column_values.missing is None:
        return NO_STATES
    nulls = column_values.values.is_null().to_numpy(zero_copy_only=False)
    states: Octets = nulls * np.uint8(NULL_VALUE)
    if column_values.missing is not None:
        states[column_values.missing] = MISSING
    return states


class VaryingCells:
    """Writes trail cells that are as long as their values.

    Each value is preceded by its length, except for times with a zone (``counted`` is then false).
    """

    def __init__(
        self, target: CellTarget, column_values: RecordValues, *, counted: bool = True
    ) -> None:
        self.target, self.column_values, self.counted = target, column_values, counted
        self.strings, self.states = StringBytes.of(column_values.values), cell_states(column_values)
        self.front = VARIABLE_HEAD if counted else INDICATOR_BYTES
        self.least = _least(column_values, CELL_HEAD + self.front)

    def measure(self, sizes: Longs) -> None:
        """Add the size of each record's varying cell to ``sizes``.

        Raises EncodeError if a value is too long.
        """
        front = self.front
        longest, record = add_sizes(
            self.column_values.rows,
            self.states,
            self.strings.offsets,
            CELL_HEAD + front,
            True,
            sizes,
        )
        if longest > MAX_CELL - front:
            problem = f"a text of {longest} bytes does not fit in a record"
            raise _text_error(self.target, self.column_values, record, problem)

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells of varying length, as `CellWriter.write` describes.

        ``places`` are the offsets of the cells; they are advanced to the ends of the cells.
        """
        write_varying(
            body,
            places,
            self.column_values.rows,
            self.states,
            self.strings.offsets,
            self.strings.data,
            self.target.index,
            self.counted,
            self.target.order is ByteOrder.BIG,
            # A wide copy overwrites up to SPARE bytes after the value.
            following >= SPARE,
        )


class PaddedCells:
    """Writes strings into trail cells of one width.

    A value that is shorter than the cell is completed from ``filling``: with the filling
    ``1900-01-01:00:00:00.000`` the value ``2024-02-03 10:20:30`` gets the end ``.000``. NULL is
    written as ``null_filling``. In cells with a value, the byte at offset ``colon`` becomes a colon
    if the cells are wide enough.
    """

    def __init__(
        self,
        target: CellTarget,
        column_values: RecordValues,
        *,
        filling: bytes,
        null_filling: bytes,
        colon: int = MAX_CELL,
    ) -> None:
        self.target, self.column_values = target, column_values
        self.filling = CellFilling(octets(filling), octets(null_filling), colon)
        self.strings, self.states = StringBytes.of(column_values.values), cell_states(column_values)
        self.head = target.head(INDICATOR_BYTES + len(filling))
        self.least = _least(column_values, CELL_HEAD + INDICATOR_BYTES + len(filling))

    def measure(self, sizes: Longs) -> None:
        """Add the fixed size of each record's cell to ``sizes``.

        Raises EncodeError if a value is too long.
        """
        width = len(self.filling.of_value)
        size = CELL_HEAD + INDICATOR_BYTES + width
        longest, record = add_sizes(
            self.column_values.rows, self.states, self.strings.offsets, size, False, sizes
        )
        if longest > width:
            problem = f"a text of {longest} bytes is longer than {width}"
            raise _text_error(self.target, self.column_values, record, problem)

    def check_times(self) -> None:
        """Raise EncodeError if a value is not a date time of the column's length.

        The fraction may be missing or shorter.
        """
        width, strings = len(self.filling.of_value), self.strings
        unlike, unparted = find_bad_times(
            self.column_values.rows, self.states, strings.offsets, strings.data, width
        )
        if unlike >= 0:
            problem = f"a date time of {width} characters was expected"
            raise _text_error(self.target, self.column_values, unlike, problem)
        if unparted >= 0:
            problem = "a date and a time with a blank in between were expected"
            raise _text_error(self.target, self.column_values, unparted, problem)

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells of fixed width, as `CellWriter.write` describes.

        ``places`` are the offsets of the cells; they are advanced to the ends of the cells.
        """
        write_filled(
            body,
            places,
            self.column_values.rows,
            self.states,
            self.strings.offsets,
            self.strings.data,
            self.head,
            self.filling,
            # A wide copy writes a multiple of 32 bytes: with a width of 40, up to 24 bytes after the cell.
            following >= -len(self.filling.of_value) % SPARE,
        )


class WordCells:
    """Writes trail cells that contain the last ``width`` bytes of a big-endian word per value.

    The cell of a NULL contains a word too, so that all cells have the same size.
    """

    def __init__(
        self, target: CellTarget, column_values: RecordValues, words: Words, width: int
    ) -> None:
        self.column_values, self.words, self.width = column_values, words, width
        self.states = cell_states(column_values)
        self.head = target.head(INDICATOR_BYTES + width)
        self.least = _least(column_values, CELL_HEAD + INDICATOR_BYTES + width)

    def measure(self, sizes: Longs) -> None:
        """Add the size of each record's cell with a word to ``sizes``."""
        size = CELL_HEAD + INDICATOR_BYTES + self.width
        add_sizes(self.column_values.rows, self.states, NO_OFFSETS, size, False, sizes)

    def write(self, body: Octets, places: Longs, following: int) -> None:  # noqa: ARG002  words end with their cells
        """Write the cells of binary words, as `CellWriter.write` describes.

        ``places`` are the offsets of the cells; they are advanced to the ends of the cells.
        """
        rows, states = self.column_values.rows, self.states
        write_words(body, places, rows, states, self.words, self.head, self.width)


def _least(column_values: RecordValues, size: int) -> int:
    """Return the minimum size of a column's cell in each record to write.

    It is 0 if some records have no cell of the column.
    """
    return size if column_values.missing is None else 0


def _text_error(
    target: CellTarget, column_values: RecordValues, record: int, problem: str
) -> EncodeError:
    value = column_values.values[int(column_values.rows[record])].as_py()
    return target.error(problem, value)
