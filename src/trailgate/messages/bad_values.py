"""Find all values of a column of messages that cannot be converted, and the error of each.

A converter handles complete columns and raises an error at the first bad value, so one call does
not find the others. Some errors list all values with the same fault (`alike`). Otherwise the
distinct values are converted in slices: if a slice has a bad value, conversion continues after that
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.errors import DecodeError
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.problems import MessageErrors

C = TypeVar("C", bound="ValueColumn")


def errors_by_row(
    convert: Callable[[pa.Array], object], values: pa.Array, error: DecodeError
) -> tuple[Longs, ErrorColumns]:
    """Find the bad values of an Arrow column, in which values may repeat: their rows and errors.

    Converts each distinct value once (`find_errors`), and returns all rows of the bad ones, in
    order. `error` is what `convert` raised for the complete column. It is raised again if no
    distinct value is bad by itself.
    """
    coded = values.dictionary_encode()
    found, errors = find_errors(convert, coded.dictionary)
    if not len(found):
        raise error
    # ``which`` is the index of a distinct value's error, or -1 if the value is good. Example: of
    # the values a, b, a, null only b is bad: which = -1 0, of_row = -1 0 -1 -1, rows = 1.
    which = np.full(len(coded.dictionary), -1)
    which[found] = np.arange(len(found))
    of_row = which[np.asarray(coded.indices.fill_null(0))]
    if coded.indices.null_count:
        of_row[np.asarray(coded.indices.is_null())] = -1
    rows = np.flatnonzero(of_row >= 0)
    return rows, errors.take(of_row[rows])


class ValueColumn(Protocol):
    """The interface of a column in which bad values are searched, such as an Arrow array."""

    def __len__(self) -> int: ...
    def slice(self, at: int, count: int, /) -> Self:
        """Return `count` consecutive values of the column, from index `at` on."""
        ...

    def take(self, rows: pa.Array, /) -> Self:
        """Return the column's values at these row indexes."""
        ...


def find_errors(convert: Callable[[C], object], values: C) -> tuple[Longs, ErrorColumns]:
    """Find the bad values of a column by converting parts of it: their indexes and errors.

    `convert` raises a DecodeError at the first bad value. The error may list the indexes of all
    values with the same fault (`alike`). These values are removed, and the others are converted
    again. If it lists fewer than two, the values are converted in slices. The indexes are returned
    in order.
    """
    errors = MessageErrors()
    rows = np.arange(len(values))
    while len(rows):
        part = values if len(rows) == len(values) else values.take(pa.array(rows))
        try:
            convert(part)
        except DecodeError as error:
            # The error concerns only one value: search for the others in slices.
            if len(error.alike) < 2:
                alone = _find_in_slices(convert, part)
                places = np.fromiter(alone, np.int64, len(alone))
                errors.add(rows[places], ErrorColumns.of_errors(list(alone.values())))
                break
            alike = np.asarray(error.alike, np.int64)
            errors.add(rows[alike], _as_rows(error, part, alike))
            rows = np.delete(rows, alike)
        else:
            break
    return errors.first_of_each()


def _as_rows(error: DecodeError, values: Any, rows: Longs) -> ErrorColumns:
    """Repeat one error for several rows of `values`, with the row number and the bytes of each."""
    strings = values if isinstance(values, pa.Array) else values.strings
    raw = strings.take(pa.array(rows))
    return ErrorColumns.of(len(rows), error.problem, error.hint, record=rows, raw=raw)


def _find_in_slices(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    """Find the bad values by converting slices whose size adapts to the distance between bad values.

    After a good slice, the next one is twice as long. After a bad value that followed n good values
    of its slice, the next one has n + 1 values. So both a few and many bad values need few
    attempts. Texts are converted in sorted order, because similar texts tend to be bad together.
    """
    if isinstance(values, pa.Array):
        order = pc.array_sort_indices(values)
        found = _find_in_slices_of(convert, values.take(order))
        return {order[at].as_py(): found[at] for at in found}
    return _find_in_slices_of(convert, values)


def _find_in_slices_of(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    errors = {}
    # Example: of 100 values number 40 is bad. The slice [0, 100) finds it, and the next ones, [41, 82)
    # and [82, 100), are good: three calls.
    at, size = 0, len(values)
    while at < len(values):
        size = min(size, len(values) - at)
        try:
            convert(values.slice(at, size))
        except DecodeError as error:
            good = error.where.record or 0
            errors[at + good] = error
            at, size = at + good + 1, 1 + good
        else:
            at, size = at + size, 2 * size
    return errors
