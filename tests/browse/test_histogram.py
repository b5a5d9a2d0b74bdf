"""Counts over time fit into a fixed number of bins, whatever comes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.browse.histogram import NARROWEST, WIDTHS, TimeHistogram, add_each

TIMES = st.lists(
    st.lists(st.integers(0, 4_000_000_000 * NARROWEST), min_size=1, max_size=5), max_size=8
)


@settings(max_examples=examples(100))
@given(TIMES)
def test_every_time_is_in_the_bin_that_begins_at_or_before_it(batches: list[list[int]]) -> None:
    found = TimeHistogram(1, 8)
    for times in batches:
        bounds = (min(times), max(times))
        found.add(np.array(times, np.int64), np.zeros(len(times), np.int64), bounds)

    begin, counts = found.filled_bins()
    every = np.array([one for times in batches for one in times], np.int64)
    bins = (every - begin) // found.width
    assert counts.shape[1] <= 8
    assert np.bincount(bins, minlength=counts.shape[1]).tolist() == counts[0].tolist()
    if len(every) and every.max() - every.min() > 8 * NARROWEST:
        assert found.width <= every.max() - every.min()


@settings(max_examples=examples(50))
@given(TIMES)
def test_each_histogram_has_its_own_times(batches: list[list[int]]) -> None:
    alone = [TimeHistogram(1, 8) for _ in batches]
    together = [TimeHistogram(1, 8) for _ in batches]
    for one, two, times in zip(alone, together, batches, strict=True):
        bounds = (min(times), max(times))
        one.add(np.array(times, np.int64), np.zeros(len(times), np.int64), bounds)
        two.fit(*bounds)
    every = sorted((time, slot) for slot, times in enumerate(batches) for time in times)

    add_each(together, *np.array([*every, (0, -1)], np.int64).T.copy())

    assert [one.counts.tolist() for one in together] == [one.counts.tolist() for one in alone]


def test_counts_of_a_kind_stay_with_it() -> None:
    found = TimeHistogram(2, 4)
    found.add(np.array([9 * NARROWEST, 0, 5]), np.array([0, 1, -1]), (0, 9 * NARROWEST))

    assert found.filled_bins()[1].tolist() == [[0, 1], [1, 0]]
    assert found.width == 5 * NARROWEST


def test_each_width_of_a_bin_divides_the_next_one_and_a_day() -> None:
    assert all(two % one == 0 for one, two in pairwise(WIDTHS))
    assert WIDTHS[-1] == 24 * 3600
    assert WIDTHS[0] == 1
