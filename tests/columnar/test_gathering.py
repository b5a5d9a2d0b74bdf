"""Joined batches have the rows of those that they were made of, in their order, and no more than is allowed."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trailgate.columnar.rows import join_small_batches


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12), st.integers(1, 200))
def test_rows_stay_in_their_order_in_batches_of_no_more_than_is_allowed(
    sizes: list[int], rows: int, size: int
) -> None:
    count = 0
    batches = []
    for own in sizes:
        batches.append(pa.record_batch({"n": range(count, count + own)}))
        count += own

    found = list(join_small_batches(batches, rows, size))

    assert [n for batch in found for n in batch["n"].to_pylist()] == list(range(count))
    largest = max(sizes, default=0)
    assert all(len(batch) <= max(rows, largest) for batch in found)
    assert all(batch.nbytes <= max(size, 8 * largest) for batch in found)
    if rows == 12 and size == 200 and count <= rows:
        assert len(found) <= 1


def test_small_batches_are_joined_and_other_columns_are_not() -> None:
    numbers, names = pa.record_batch({"n": [1]}), pa.record_batch({"name": ["a"]})

    assert [len(batch) for batch in join_small_batches([numbers] * 5)] == [5]
    mixed = join_small_batches([numbers, numbers, names, numbers])
    assert [len(batch) for batch in mixed] == [2, 1, 1]
    assert list(join_small_batches([])) == []
