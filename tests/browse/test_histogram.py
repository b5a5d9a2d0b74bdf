"""Counts over time fit into a fixed number of bins, whatever comes."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.browse.histogram import (
    WIDTHS,
    BinWidth,
    TimeHistogram,
    add_each,
    month_numbers,
    wider,
)

SECOND = 1_000_000
DAY = 86_400 * SECOND
TIMES = st.lists(
    st.lists(st.integers(0, 4_000_000_000 * SECOND), min_size=1, max_size=5), max_size=8
)


@settings(max_examples=examples(100))
@given(TIMES)
def test_every_time_is_in_the_bin_that_begins_at_or_before_it(batches: list[list[int]]) -> None:
    found = TimeHistogram(1, 8)
    for times in batches:
        bounds = (min(times), max(times))
        found.add(np.array(times, np.int64), np.zeros(len(times), np.int64), bounds)

    edges, counts = found.filled_bins()
    every = np.array([one for times in batches for one in times], np.int64)
    bins = np.searchsorted(edges, every, "right") - 1
    assert counts.shape[1] <= 8
    assert np.bincount(bins, minlength=counts.shape[1]).tolist() == counts[0].tolist()
    narrower = {wider(one): one for one in WIDTHS}.get(found.width)
    if narrower is not None:  # it had too few bins
        numbers = [narrower.number_of(int(one)) for one in (every.min(), every.max())]
        assert numbers[1] - numbers[0] >= 7


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
    found.add(np.array([9 * SECOND, 0, 5]), np.array([0, 1, -1]), (0, 9 * SECOND))

    assert found.filled_bins()[1].tolist() == [[0, 1], [1, 0]]
    assert found.width == BinWidth(5 * SECOND)


@pytest.mark.parametrize("narrow", WIDTHS)
def test_each_bin_is_made_up_of_whole_narrower_bins(narrow: BinWidth) -> None:
    wide = wider(narrow)
    edges = wide.edges(wide.number_of(1_000_000_000 * SECOND), 40).tolist()
    first, last = narrow.number_of(edges[0]), narrow.number_of(edges[-1])

    assert narrow.divides(wide)
    assert not wide.divides(narrow)
    assert set(edges) <= set(narrow.edges(first, last - first).tolist())
    assert [wide.number_of(one) for one in edges] == [
        wide.number_of(edges[0]) + at for at in range(41)
    ]
    assert [wide.begin_of(wide.number_of(one)) for one in edges] == edges


@given(st.lists(st.dates(date(1970, 1, 1), date(2100, 12, 31)), min_size=1))
def test_the_months_of_times_are_those_of_the_calendar(days: list[date]) -> None:
    for first in (0, DAY - 1):
        times = np.array(days, "M8[us]").astype(np.int64) + first
        assert month_numbers(times).tolist() == [12 * one.year + one.month - 1 for one in days]


def test_a_histogram_of_years_has_every_month() -> None:
    """1,024 days are less than three years, so that the bins of longer times are months."""
    found = TimeHistogram(1)
    days = np.arange(DAY * 20_000, DAY * (20_000 + 5 * 365), DAY)
    for part in np.array_split(days, 7):
        found.add(part, np.zeros(len(part), np.int64), (int(part[0]), int(part[-1])))

    edges, counts = found.filled_bins()
    begins = edges.astype("M8[us]")
    assert found.width == BinWidth(1, in_months=True)
    assert (begins == begins.astype("M8[M]")).all()
    assert counts[0, 1:-1].tolist() == (np.diff(edges) // DAY)[1:-1].tolist()
    assert counts.sum() == len(days)
