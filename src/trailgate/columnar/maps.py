"""Convert columns to maps and back: one map per row, from column name to value.

The columns A = (1, NULL) and B = (missing, 2) become the maps {A: 1} and {A: NULL, B: 2}: a missing
column has no key, and NULL has a null value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar import gather_kernels as kernels
from trailgate.columnar.rows import row_error
from trailgate.columnar.strings import NO_NULLS, text_view
from trailgate.columnar.strings import build_binary_column as column_of
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError, EncodeError, Where

_ALL: Final = np.zeros(0, bool)  # no mask: all are kept


def columns_to_maps(
    names: Sequence[str],
    values: Sequence[pa.StringArray | None],
    missing: Sequence[Mask | None],
    rows: int,
) -> pa.MapArray:
    """Convert string columns to one map<string, string> per row, from column name to value.

    Missing columns have no key, and NULLs have a null value.

    A column whose values are None is missing in every row. Raises EncodeError if a row is marked
    missing but has a value, or if the values exceed 2 GB.
    """
    present = [i for i, column in enumerate(values) if column is not None]
    if not present or not rows:
        return _empty_maps(rows)
    columns = [values[i] for i in present]
    marks = [missing[i] for i in present]
    valid = _valid(columns, rows)
    keep = _kept(marks, valid)
    try:
        items = _interleave(columns, valid, keep)
    except pa.ArrowInvalid as error:
        raise EncodeError("the values of one chunk exceed 2 GB") from error
    kept_names = [names[i] for i in present]
    # ``items`` has the values of row 0 in the order of the columns, then those of row 1, and so on. Without a mask each
    # row has a value of every column; otherwise ``keep`` is a matrix of rows and columns.
    if keep is None:
        offsets = np.arange(0, (rows + 1) * len(present), len(present), dtype=np.int32)
        keys = _tile(kept_names, rows)
    else:
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(keep.sum(axis=1), out=offsets[1:])
        which = np.broadcast_to(np.arange(len(present), dtype=np.int32), keep.shape)[keep]
        keys = pa.array(kept_names, pa.string()).take(pa.array(which))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


def _empty_maps(rows: int) -> pa.MapArray:
    none = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), none, none)


def _valid(columns: Sequence[pa.Array], rows: int) -> Mask | None:
    """Return a matrix (rows x columns) that is false for nulls, or None if the columns have no nulls."""
    if not any(column.null_count for column in columns):
        return None
    valid = np.ones((rows, len(columns)), bool)
    for i, column in enumerate(columns):
        if column.null_count:
            valid[:, i] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _kept(marks: Sequence[Mask | None], valid: Mask | None) -> Mask | None:
    """Return a matrix (rows x columns) that is false for missing values, or None if none is missing."""
    known = [(i, mark) for i, mark in enumerate(marks) if mark is not None and mark.any()]
    if not known:
        return None
    keep = np.ones((len(known[0][1]), len(marks)), bool)
    for i, mark in known:
        keep[:, i] = ~mark
    # A column without nulls has no room for a missing value, which is null.
    if valid is None or (valid & ~keep).any():
        raise EncodeError("a row is marked as missing a column and has a value in it")
    return keep


def _interleave(
    columns: Sequence[pa.Array], valid: Mask | None, keep: Mask | None
) -> pa.StringArray:
    """Join columns to the items of maps: the values row by row, without those that ``keep`` excludes."""
    offsets, data = text_view(pa.concat_arrays(columns))
    kept = _ALL if keep is None else keep.reshape(-1)
    # One offset more than values. SPARE bytes follow, because values are copied in words.
    items = np.empty(1 + (np.count_nonzero(kept) if len(kept) else len(offsets) - 1), np.int32)
    out = np.empty(int(offsets[-1] - offsets[0]) + SPARE, np.uint8)
    size = kernels.interleave_columns(data, offsets, len(columns), kept, items, out)
    assert size >= 0, "Arrow's values are within its buffers"
    nulls = NO_NULLS
    if valid is not None:
        nulls = ~(valid.reshape(-1) if keep is None else valid[keep])
    return column_of(items, out[:size], nulls, text=True)


def _tile(names: Sequence[str], rows: int) -> pa.StringArray:
    """Return the keys of maps that have all columns: all names, repeated ``rows`` times."""
    # Example: the names A and BC for 2 rows. The ends within a row are 1 and 3, rows start at 0 and
    # 3, so the offsets are 0 1 3 4 6 in the bytes ABCABC.
    encoded = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    starts = np.arange(rows, dtype=np.int64)[:, None] * ends[-1]
    offsets = np.zeros(rows * len(names) + 1, np.int32)
    offsets[1:] = (starts + ends).reshape(-1)
    data = b"".join(encoded) * rows
    return pa.StringArray.from_buffers(rows * len(names), pa.py_buffer(offsets), pa.py_buffer(data))


def maps_to_columns(
    maps: pa.MapArray, names: Sequence[str]
) -> list[tuple[pa.StringArray | None, Mask | None]]:
    """Convert maps to columns: for each named column, return its values and a boolean mask of the rows in which it is missing.

    The values are None if the column is missing in every row, and the mask is None if it is missing
    in no row. In a null map every column is missing. Names are compared ignoring case. Raises
    DecodeError, with the row in ``where.record``, for a key that is not among the names or occurs
    twice in one map.
    """
    rows = len(maps)
    keys, items, row_of = map_entries(maps)
    which = _column_of(keys, names, row_of)
    # slots[column, row] is the index of the entry, or -1. Two entries for one slot overwrite each other, so
    # fewer slots than entries are filled.
    slots = np.full((len(names), rows), -1, np.int64)
    slots[which, row_of] = np.arange(len(keys))
    if np.count_nonzero(slots >= 0) != len(keys):
        raise _twice(which, row_of, names)
    return [_pick(items, line) for line in slots]


def map_entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, Longs]:
    """Return the keys and values of all maps' entries, and the row of each entry."""
    dense = maps.drop_null() if maps.null_count else maps
    offsets = dense.offsets.to_numpy()
    start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    dense_rows = np.arange(len(maps))
    if maps.null_count:
        dense_rows = np.flatnonzero(maps.is_valid().to_numpy(zero_copy_only=False))
    # Each row is repeated for each of its entries. Example: the offsets 0, 2, 3 of the rows 0 and 4
    # give 0 0 4.
    row_of = np.repeat(dense_rows, np.diff(offsets))
    return dense.keys.slice(start, count), dense.items.slice(start, count), row_of


def _column_of(keys: pa.Array, names: Sequence[str], row_of: Longs) -> Longs:
    index = pc.index_in(keys, pa.array(names, pa.string()))
    if index.null_count:
        folded = pa.array([name.casefold() for name in names], pa.string())
        # casefold and lower differ for a few letters only; the exact match above comes first.
        index = pc.index_in(pc.utf8_lower(keys), folded)
    if index.null_count:
        slot = int(np.flatnonzero(index.is_null().to_numpy(zero_copy_only=False))[0])
        error = row_error(f"no column {keys[slot].as_py()} in the table", keys, slot)
        raise DecodeError(error.problem, where=Where(record=int(row_of[slot]), raw=error.where.raw))
    columns: Longs = index.to_numpy(zero_copy_only=False).astype(np.int64)
    return columns


def _twice(which: Longs, row_of: Longs, names: Sequence[str]) -> DecodeError:
    # A cell's number is unique in the batch. Sorted, a repeated cell equals the one before it.
    # Example: 2 names, the cells 3 0 3: sorted 0 3 3, so the last one is repeated, in row 1.
    # Of several the one of the first row is reported.
    cells = row_of * len(names) + which
    order = np.argsort(cells, kind="stable")
    repeated = order[1:][np.diff(cells[order]) == 0]
    slot = int(repeated[np.argmin(row_of[repeated])])
    name = names[int(which[slot])]
    where = Where(record=int(row_of[slot]), field=name, raw=name.encode())
    return DecodeError(f"column {name} occurs twice in one row", where=where)


def _pick(items: pa.Array, slots: Longs) -> tuple[pa.StringArray | None, Mask | None]:
    absent = slots < 0
    if absent.all() and len(absent):
        return None, None
    if not absent.any():
        return items.take(pa.array(slots)), None
    return items.take(pa.array(slots, mask=absent)), absent


def merge_maps(first: pa.MapArray, second: pa.MapArray) -> pa.MapArray:
    """Merge two columns of maps row by row.

    If both have the same key, the value of the second map is used. A null map has no entries.
    """
    parts = [map_entries(first), map_entries(second)]
    keys = pa.concat_arrays([part[0] for part in parts])
    items = pa.concat_arrays([part[1] for part in parts])
    row_of = np.concatenate([part[2] for part in parts])
    coded = keys.dictionary_encode()
    pairs = row_of * (len(coded.dictionary) + 1) + coded.indices.to_numpy()
    # np.unique returns the first index of each pair (row, key). In the reversed array that is the
    # last one, so entries of the second map win.
    _, from_end = np.unique(pairs[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - from_end)
    kept = kept[np.argsort(row_of[kept], kind="stable")]
    offsets = np.zeros(len(first) + 1, np.int32)
    np.cumsum(np.bincount(row_of[kept], minlength=len(first)), out=offsets[1:])
    index = pa.array(kept)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.take(index), items.take(index))


def has_distinct_keys(keys: pa.Array, rows: Longs, count: int) -> bool:
    """Return whether no map of a column contains a key twice.

    ``rows[i]`` is the row of the entry with the key ``keys[i]``, and ``count`` the number of rows.
    """
    return entry_slots(rows, count, *number_keys(keys)) is not None


def number_keys(keys: pa.Array) -> tuple[Longs, int]:
    """Assign a number to each distinct key of maps.

    Returns the number of each key, and the number of distinct keys.
    """
    coded = keys.dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), max(1, len(coded.dictionary))


def entry_slots(rows: Longs, count: int, codes: Longs, names: int) -> Longs | None:
    """Return the index of the entry for each row and key, or None if a row contains a key twice.

    Entry i is in row ``rows[i]`` and has the key number ``codes[i]``. The result has ``count`` x
    ``names`` elements: element ``row * names + code`` is an index i, or -1 if the row lacks the
    key.
    """
    entries = np.full(count * names, -1, np.int64)
    # A duplicate overwrites the slot of the first entry, so not all entries find their own number.
    slots, numbers = rows * names + codes, np.arange(len(codes))
    entries[slots] = numbers
    return entries if (entries[slots] == numbers).all() else None
