"""Writers of cells in the three forms that values have in a trail: of varying length, of one width, and binary words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import octets
from trailgate.errors import EncodeError
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.values.codec import (
    CELL_HEAD,
    INDICATOR_BYTES,
    MAX_CELL,
    VARIABLE_HEAD,
    RecordValues,
    TargetColumn,
)
from trailgate.trail.values.write_kernels import (
    MISSING,
    NULL_VALUE,
    add_sizes,
    find_bad_times,
    write_filled,
    write_varying,
    write_words,
)

NO_OFFSETS: Final = np.zeros(0, np.int32)
NO_STATES: Final = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class TextBytes:
    """The bytes of a text or binary column: value i is data[offsets[i]:offsets[i + 1]].

    ``data`` have ``SPARE`` bytes after the last value, for loops that read words, unless they are ``shared``.
    """

    offsets: Offsets
    data: Octets

    @classmethod
    def of(cls, values: pa.Array) -> TextBytes:
        """Return the bytes of a column; copied only where they end with their buffer."""
        found = cls.shared(values)
        begin, end = int(found.offsets[0]), int(found.offsets[-1])
        if end + SPARE <= len(found.data):
            return found
        spare = np.zeros(SPARE, np.uint8)
        return cls(found.offsets - begin, np.concatenate([found.data[begin:end], spare]))

    @classmethod
    def shared(cls, values: pa.Array) -> TextBytes:
        """Return the bytes of a column where they are, maybe without bytes after them."""
        if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
            values = values.cast(pa.string())
        if not len(values):
            return cls(np.zeros(1, np.int32), np.zeros(0, np.uint8))
        _, ends, buffer = values.buffers()
        offsets = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
        return cls(offsets, octets(buffer or b""))


def states_of(found: RecordValues) -> Octets:
    """Return the state of each value, as the kernels have them; nothing where all are present."""
    if not found.values.null_count and found.missing is None:
        return NO_STATES
    nulls = found.values.is_null().to_numpy(zero_copy_only=False)
    states: Octets = nulls * np.uint8(NULL_VALUE)
    if found.missing is not None:
        states[found.missing] = MISSING
    return states


class VaryingCells:
    """Cells as long as their values; but for times with a zone, the length is written before the value."""

    def __init__(self, target: TargetColumn, found: RecordValues, *, counted: bool = True) -> None:
        self.target, self.found, self.counted = target, found, counted
        self.strings, self.states = TextBytes.of(found.values), states_of(found)
        self.front = VARIABLE_HEAD if counted else INDICATOR_BYTES
        self.least = _least(found, CELL_HEAD + self.front)

    def measure(self, sizes: Longs) -> None:
        """Add the bytes of each record's cell; raises EncodeError for a value that is too long."""
        front = self.front
        longest, record = add_sizes(
            self.found.rows, self.states, self.strings.offsets, CELL_HEAD + front, True, sizes
        )
        if longest > MAX_CELL - front:
            problem = f"a text of {longest} bytes does not fit in a record"
            raise _text_error(self.target, self.found, record, problem)

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells; each place becomes the end of its cell."""
        write_varying(
            body,
            places,
            self.found.rows,
            self.states,
            self.strings.offsets,
            self.strings.data,
            self.target.index,
            self.counted,
            self.target.order is ByteOrder.BIG,
            following >= SPARE,
        )


class FilledCells:
    """Strings in cells of one width: what a value lacks is taken from the same place of ``filling``.

    NULL is ``null_filling``. The byte at ``colon`` becomes a colon where cells are wide enough to have it.
    """

    def __init__(
        self,
        target: TargetColumn,
        found: RecordValues,
        *,
        filling: bytes,
        null_filling: bytes,
        colon: int = MAX_CELL,
    ) -> None:
        self.target, self.found, self.colon = target, found, colon
        self.filling, self.null_filling = octets(filling), octets(null_filling)
        self.strings, self.states = TextBytes.of(found.values), states_of(found)
        self.head = target.head(INDICATOR_BYTES + len(filling))
        self.least = _least(found, CELL_HEAD + INDICATOR_BYTES + len(filling))

    def measure(self, sizes: Longs) -> None:
        """Add the bytes of each record's cell; raises EncodeError for a value that is too long."""
        width = len(self.filling)
        size = CELL_HEAD + INDICATOR_BYTES + width
        longest, record = add_sizes(
            self.found.rows, self.states, self.strings.offsets, size, False, sizes
        )
        if longest > width:
            problem = f"a text of {longest} bytes is longer than {width}"
            raise _text_error(self.target, self.found, record, problem)

    def check_times(self) -> None:
        """Raise EncodeError for the first value that is not a date time of the column's length."""
        width, strings = len(self.filling), self.strings
        unlike, unparted = find_bad_times(
            self.found.rows, self.states, strings.offsets, strings.data, width
        )
        if unlike >= 0:
            problem = f"a date time of {width} characters was expected"
            raise _text_error(self.target, self.found, unlike, problem)
        if unparted >= 0:
            problem = "a date and a time with a blank in between were expected"
            raise _text_error(self.target, self.found, unparted, problem)

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells; each place becomes the end of its cell."""
        write_filled(
            body,
            places,
            self.found.rows,
            self.states,
            self.strings.offsets,
            self.strings.data,
            self.head,
            self.filling,
            self.null_filling,
            self.colon,
            following >= -len(self.filling) % SPARE,
        )


class WordCells:
    """Cells that hold the last ``width`` bytes of a word of each value, big-endian; NULL has a word too."""

    def __init__(self, target: TargetColumn, found: RecordValues, words: Words, width: int) -> None:
        self.found, self.words, self.width = found, words, width
        self.states = states_of(found)
        self.head = target.head(INDICATOR_BYTES + width)
        self.least = _least(found, CELL_HEAD + INDICATOR_BYTES + width)

    def measure(self, sizes: Longs) -> None:
        """Add the bytes of each record's cell."""
        size = CELL_HEAD + INDICATOR_BYTES + self.width
        add_sizes(self.found.rows, self.states, NO_OFFSETS, size, False, sizes)

    def write(self, body: Octets, places: Longs, following: int) -> None:  # noqa: ARG002  words end with their cells
        """Write the cells; each place becomes the end of its cell."""
        rows, states = self.found.rows, self.states
        write_words(body, places, rows, states, self.words, self.head, self.width)


def _least(found: RecordValues, size: int) -> int:
    """Return how many bytes every record has, where a record with a value has that many at least."""
    return size if found.missing is None else 0


def _text_error(
    target: TargetColumn, found: RecordValues, record: int, problem: str
) -> EncodeError:
    value = found.values[int(found.rows[record])].as_py()
    return target.error(problem, value)
