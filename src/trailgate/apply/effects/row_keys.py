"""The keys of rows in target tables, in three forms: tuples of Python values, Arrow tables, and integer codes.

Operations that are replayed row by row compare tuples. A table of keys asks a target for its rows.
Array operations compare codes, in which equal keys have the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.tables import TargetTable
from trailgate.arrays import Longs

Key = tuple[Any, ...]

NAN: Final = float("nan")


def collect_keys(operations: TargetOperations) -> list[Key]:
    """Return all old and new keys of operations as tuples, each once, in order of first appearance."""
    both = zip(key_tuples(operations.old_key), key_tuples(operations.key), strict=True)
    return list(dict.fromkeys(key for pair in both for key in pair))


def key_tuples(columns: Sequence[pa.Array]) -> list[Key]:
    """Convert the key columns of rows to one tuple of Python values per row."""
    return list(zip(*map(to_python_values, columns), strict=True))


def to_python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Convert a column to the Python values that ``OperationReplay`` compares.

    Every NaN becomes the same object, so that keys and values with NaN compare equal in tuples and
    lists. Dates and timestamps become numbers of days or units, because a target's table may have
    some that Python lacks, such as ``infinity`` or the year 20000.
    """
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [NAN if one is not None and one != one else one for one in values]  # noqa: PLR0124
    return values


def build_key_table(table: TargetTable, keys: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Convert row keys, each a tuple of Python values, to an Arrow table of the target table's key columns."""
    columns = [
        pa.array([key[number] for key in keys], table.columns[at].type)
        for number, at in enumerate(table.key)
    ]
    return pa.table(columns, names=list(table.key_names))


def encode_keys(columns: Sequence[pa.Array]) -> tuple[Longs, int]:
    """Assign an integer code to each distinct key in some key columns of equal length.

    NULL counts as a value, NaN equals NaN, and 0.0 equals -0.0. Returns the code of each row, and the number of codes: [5, 7, 5] has the
    codes [0, 1, 0], and 2.
    """
    codes, count = _codes(columns[0])
    # Encode again after each column: the numbers stay below the number of rows, so the product
    # of two of them fits 64 bits.
    for column in columns[1:]:
        more, size = _codes(column)
        codes, count = _codes(pa.array(codes * size + more))
    return codes, count


def _codes(column: pa.Array) -> tuple[Longs, int]:
    if pa.types.is_floating(column.type):
        # Arrow's dictionaries distinguish 0.0 and -0.0: adding 0.0 to -0.0 gives 0.0.
        column = pc.add(column, pa.scalar(0.0, column.type))
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
