"""Rows are grouped, taken and found as the plain ways do it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trailgate.arrays import octets
from trailgate.columnar.delimited import find_token_offsets
from trailgate.columnar.gather import take_text
from trailgate.columnar.rows import FEW, group_rows


@given(keys=st.lists(st.integers(-3, 2 * FEW), max_size=200))
def test_groups_have_the_rows_of_each_key_in_order(keys: list[int]) -> None:
    expected = {key: [i for i, k in enumerate(keys) if k == key] for key in sorted(set(keys))}

    found = [(key, rows.tolist()) for key, rows in group_rows(np.array(keys, np.int64))]

    assert found == list(expected.items())


@given(
    strings=st.lists(st.one_of(st.none(), st.text(max_size=30)), min_size=1, max_size=8),
    picked=st.lists(st.integers(0, 7), max_size=12),
    begin=st.integers(0, 3),
)
def test_strings_are_taken_as_arrow_takes_them(
    strings: list[str | None], picked: list[int], begin: int
) -> None:
    values = pa.array(["before"] * begin + strings, pa.string()).slice(begin)
    rows = np.array([row % len(strings) for row in picked], np.int64)

    assert take_text(values, rows).equals(values.take(pa.array(rows)))


@given(
    pieces=st.lists(st.sampled_from([b"a", b"ab", b"aab", b"\n", b"x" * 70]), max_size=20),
    token=st.sampled_from([b"a", b"ab", b"aa", b"\n", b"xx"]),
)
def test_a_token_is_found_from_left_to_right(pieces: list[bytes], token: bytes) -> None:
    text, expected, at = b"".join(pieces), [], 0
    while (at := text.find(token, at)) >= 0:
        expected.append(at)
        at += len(token)

    assert find_token_offsets(octets(text), token).tolist() == expected
