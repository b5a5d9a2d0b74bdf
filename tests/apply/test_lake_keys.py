"""Rows of data files are found by their keys: a bitmap of integer keys finds what Arrow's lookup finds, in every integer type and at its limits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from laws import chance, examples
from trailgate.apply.targets.lake_keys import MOST_BYTES, NOT_FOUND, IntegerKeys, KeyLookup

TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_bitmap_finds_the_rows_with_a_key(kind: pa.DataType) -> None:
    limits = np.iinfo(kind.to_pandas_dtype())
    for number in range(examples(200)):
        own = chance(f"bitmap {kind} {number}")
        begin = own.choice((int(limits.min), 0, 5, int(limits.max) - 20))
        near = range(begin, begin + 20)
        others = (None, int(limits.min), int(limits.max))
        keys = pa.array(own.choices(near, k=own.randint(1, 12)), kind)
        column = pa.array(own.choices((*near, *others), k=30), kind)
        bitmap = IntegerKeys.of(keys)
        assert bitmap is not None

        found = bitmap.find(column)

        assert found.tolist() == pc.is_in(column, value_set=keys).to_pylist()


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([], pa.int64()),
        pa.array([1, None]),
        pa.array([0, MOST_BYTES]),
        pa.array([-(1 << 63), (1 << 63) - 1]),
        pa.array([1], pa.uint64()),
        pa.array(["1"]),
        pa.array([1.0]),
    ],
    ids=str,
)
def test_other_keys_have_no_bitmap(keys: pa.Array) -> None:
    assert IntegerKeys.of(keys) is None


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_a_lookup_in_iceberg_files_finds_nan_and_both_zeros(kind: pa.DataType) -> None:
    lookup = KeyLookup([pa.array([0.0, np.nan, 2.0], kind)])
    column = pa.chunked_array([pa.array([-0.0, 1.0, np.nan, 0.0, None], kind)])

    assert lookup.find([column]).tolist() == [0, NOT_FOUND, 1, 0, NOT_FOUND]
