"""Work with the rows of columns: find bad rows, compare rows, group them by key, set them to null, and join arrays and record batches.

`convert_valid_rows` calls a conversion with the rows that are not null. `BadRowIsolation` processes many
rows at once; if that fails, it halves them until each bad row is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar import rows_kernels as kernels
from trailgate.errors import DecodeError, TrailgateError, Where

FEW: Final = 64  # up to this many distinct keys, comparing with each of them is faster than sorting
# Up to this many rows, or bytes of buffers, the cost of a batch matters more than that of copying it.
ROWS: Final = 8192
SIZE: Final = 8 << 20  # bytes of buffers, about


def find_failing_row(check: Callable[[pa.Array], object], values: pa.Array) -> int:
    """Return the index of the first row of a column that ``check`` rejects.

    The caller must know that ``check`` rejects the complete column.

    ``check`` raises DecodeError or an Arrow error for a column with a bad row. It is called with
    slices, each twice as long as the previous one, until one is rejected; this slice is bisected.
    So a bad row at the start is found at once.
    """
    start, size = 0, 1
    while start + size < len(values):
        try:
            check(values.slice(start, size))
        except (DecodeError, pa.ArrowException):
            break
        # These rows are good. If all slices are, the bad row is in the rest.
        start, size = start + size, 2 * size
    # From here on, the bad row is known to be in the ``size`` rows from ``start`` on.
    size = min(size, len(values) - start)
    while size > 1:
        half = size // 2
        try:
            check(values.slice(start, half))
        except (DecodeError, pa.ArrowException):
            size = half
        else:
            start, size = start + half, size - half
    return start


def row_error(problem: str, values: pa.Array, row: int, hint: str = "") -> DecodeError:
    """Build the DecodeError for a bad row of an Arrow column, with its index as the record and its bytes as the raw value."""
    raw = values[row].as_buffer()
    where = Where(record=int(row), raw=None if raw is None else raw.to_pybytes())
    return DecodeError(problem, where=where, hint=hint)


def convert_valid_rows(convert: Callable[[pa.Array], pa.Array], values: pa.Array) -> pa.Array:
    """Convert the rows of a column that are not null: call ``convert`` with them, and put the nulls back.

    The row numbers in an error of ``convert`` are translated to rows of ``values``.
    """
    if not values.null_count:
        return convert(values)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    try:
        dense = convert(values.drop_null())
    except DecodeError as error:
        record = error.where.record
        rows = np.flatnonzero(valid)
        where = Where(record=int(rows[record or 0]), raw=error.where.raw)
        translated = DecodeError(error.problem, where=where, hint=error.hint)
        translated.alike = rows[error.alike].tolist() if len(error.alike) else ()
        raise translated from None
    # valid 1 0 1 takes 0, null, 1.
    slots = np.cumsum(valid) - 1
    return dense.take(pa.array(slots, mask=~valid))


def nullify_rows(values: pa.Array, missing: Mask) -> pa.Array:
    """Set the rows of any Arrow column that the mask ``missing`` marks to null. Rows that are null stay null.

    The result shares the buffers of ``values``, unless ``values`` is a slice.
    """
    if values.offset:  # its validity bits do not begin at bit 0, so let Arrow shift them
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)
    # Arrow's validity bits: row i is bit i % 8 of byte i // 8, and 1 means not null. Example: of
    # three rows the second is missing: the byte is 0b101. A row that was null stays null (&=).
    bits = np.packbits(~missing, bitorder="little")
    valid, *parts = values.buffers()
    if valid is not None:
        bits &= np.frombuffer(valid, np.uint8, len(bits))
    return pa.Array.from_buffers(values.type, len(values), [pa.py_buffer(bits), *parts])


def mask_as_null(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return a column with null in the rows of the mask ``nulls``, copied if there are any. Rows that are null stay null."""
    if nulls is None or not nulls.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=nulls))


def encode_distinct(values: pa.Array) -> tuple[Longs, list[str]]:
    """Encode a column by its distinct values. Returns the index of each row's value among them, and the distinct values.

    Null counts as a value.
    """
    coded = values.dictionary_encode("encode")
    return np.asarray(coded.indices), coded.dictionary.to_pylist()


def first_of_each(keys: Longs) -> tuple[Longs, Longs]:
    """Return the distinct numbers in ``keys`` in ascending order, and the index of the first row of each.

    Keys that already ascend are not sorted again.
    """
    steps = np.diff(keys)
    if (steps > 0).all():
        return keys, np.arange(len(keys))
    if (steps >= 0).all():
        first = np.flatnonzero(np.append(True, steps > 0))
        return keys[first], first
    distinct, first = np.unique(keys, return_index=True)
    return distinct, first


def distinct_numbers(numbers: Longs) -> tuple[Longs, Longs]:
    """Return the distinct numbers in ascending order, and each row's index into them."""
    if len(numbers) and (numbers == numbers[0]).all():
        return numbers[:1], np.zeros(len(numbers), np.int64)
    return np.unique(numbers, return_inverse=True)


def group_rows(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Yield each distinct key and the indexes of its rows, in ascending order of the keys."""
    codes = np.empty(len(keys), np.int64)
    known, sizes = np.empty(FEW, np.int64), np.empty(FEW, np.int64)
    count = kernels.number_keys(keys, codes, known, sizes)
    if count == kernels.FULL:
        known, codes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        count = len(known)
    # A counting sort: the rows of code c are rows[ends[c] - sizes[c] : ends[c]].
    ends = np.cumsum(sizes[:count])
    rows = np.empty(len(keys), np.int64)
    kernels.order_rows(codes, ends - sizes[:count], rows)
    for code in np.argsort(known[:count]).tolist():
        yield int(known[code]), rows[ends[code] - sizes[code] : ends[code]]


class BadRowIsolation:
    """Processes rows 0 to ``count`` - 1 in as few parts as possible, so that each bad row is in a part of its own.

    ``errors`` maps each bad row to its error.

    The parts are in ascending order. A part that raises TrailgateError is tried again in halves:

        isolation = BadRowIsolation(len(values))
        for rows in isolation:
            with isolation:
                convert(values.slice(rows.start, len(rows)))
    """

    def __init__(self, count: int) -> None:
        self.errors: dict[int, TrailgateError] = {}
        self._waiting = [range(count)]
        self._rows = range(0)

    def __iter__(self) -> Iterator[range]:
        while self._waiting:
            self._rows = self._waiting.pop()
            if self._rows:
                yield self._rows

    def __enter__(self) -> None:
        """Start processing the part that was yielded last."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, TrailgateError):
            return False
        rows = self._rows
        half = len(rows) // 2
        if half:
            # A stack: the first half is on top, so that parts are yielded in ascending order.
            self._waiting += [rows[half:], rows[:half]]
        else:
            self.errors[rows.start] = error
        return True


def join_small_batches(
    batches: Iterable[pa.RecordBatch], rows: int = ROWS, size: int = SIZE
) -> Iterator[pa.RecordBatch]:
    """Join small Arrow record batches of one schema, up to ``rows`` rows and about ``size`` bytes each, in their order.

    This saves costs that every batch has. A larger batch is returned unchanged.
    """
    buffered: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        count, total = count + len(batch), total + batch.get_total_buffer_size()
        if buffered and (count > rows or total > size or batch.schema != buffered[0].schema):
            yield _join(buffered)
            buffered, count, total = [], len(batch), batch.get_total_buffer_size()
        buffered.append(batch)
    if buffered:
        yield _join(buffered)


def _join(buffered: list[pa.RecordBatch]) -> pa.RecordBatch:
    return buffered[0] if len(buffered) == 1 else pa.concat_batches(buffered)


def as_slice(rows: Longs) -> Longs | slice:
    """Convert the row numbers 0, 1, ... n-1 to a slice, so that selecting the rows copies nothing.

    Other row numbers are returned unchanged. The numbers must ascend, without repeating one.
    """
    return slice(len(rows)) if len(rows) and rows[-1] == len(rows) - 1 else rows


def mask_equal_values(one: pa.Array, other: pa.Array) -> Mask:
    """Compare two Arrow columns of one type row by row, and return a mask of the equal values.

    NULL equals NULL, and NaN equals NaN.
    """
    same = pc.fill_null(pc.equal(one, other), False)
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.is_nan(one), pc.is_nan(other))
        same = pc.or_(same, pc.fill_null(both, False))
    equal: Mask = np.asarray(same) | (np.asarray(one.is_null()) & np.asarray(other.is_null()))
    return equal


def join_arrays(parts: Sequence[pa.Array]) -> pa.Array:
    """Concatenate Arrow arrays of one type. A single array is returned as it is, without a copy."""
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def condition_to_mask(values: pa.Array) -> Mask:
    """Convert the boolean result of an Arrow condition to a mask, in which null is False."""
    found: Mask = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
    return found
