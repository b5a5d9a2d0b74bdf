"""Bad rows are found by halves, each with its own error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trailgate.columnar.rows import BadRowIsolation
from trailgate.errors import DecodeError


@given(st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_each_bad_row_has_its_error_and_each_good_one_is_worked_on_once(
    count: int, bad: set[int]
) -> None:
    done: list[int] = []

    isolation = BadRowIsolation(count)
    for rows in isolation:
        with isolation:
            wrong = [row for row in rows if row in bad]
            if wrong:
                raise DecodeError(f"row {wrong[0]}")
            done.extend(rows)

    assert {row: error.problem for row, error in isolation.errors.items()} == {
        row: f"row {row}" for row in sorted(bad) if row < count
    }
    assert done == [row for row in range(count) if row not in bad]
