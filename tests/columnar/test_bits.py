"""Marks as bits behave as the same marks one by one."""

from __future__ import annotations

from itertools import accumulate
from operator import xor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trailgate.arrays import Mask, Words
from trailgate.columnar import bits

MARKS = st.lists(st.booleans(), max_size=300).map(lambda marks: np.array(marks, bool))


def marked(words: Words, count: int) -> list[int]:
    return [int(place) for place in bits.places(words, count)]


@given(marks=MARKS)
def test_places_are_those_that_were_packed(marks: Mask) -> None:
    assert marked(bits.packed(marks), len(marks)) == np.flatnonzero(marks).tolist()


@given(marks=MARKS)
def test_a_running_xor_is_that_of_the_marks_so_far(marks: Mask) -> None:
    expected = [i for i, odd in enumerate(accumulate(marks.tolist(), xor)) if odd]

    assert marked(bits.running_xor(bits.packed(marks)), len(marks)) == expected


@given(marks=MARKS)
def test_moves_go_one_place_across_words(marks: Mask) -> None:
    places, count = np.flatnonzero(marks).tolist(), len(marks)
    words = bits.packed(marks)

    assert marked(bits.up(words), count) == [i + 1 for i in places if i + 1 < count]
    assert marked(bits.down(words), count) == [i - 1 for i in places if i]


@given(marks=MARKS, wanted=st.lists(st.integers(0, 299), max_size=5))
def test_a_bit_is_found_where_it_is_set(marks: Mask, wanted: list[int]) -> None:
    within = [i for i in wanted if i < len(marks)]
    positions = np.array(within, np.int64)

    assert bits.any_at(bits.packed(marks), positions) == any(marks[i] for i in within)
