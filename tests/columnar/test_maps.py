"""Columns to maps and back: the three states stay apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.columnar.maps import columns_to_maps, maps_to_columns, merge_maps
from trailgate.errors import DecodeError, EncodeError

NAMES = ("ID", "NAME", "X")
MAP = pa.map_(pa.string(), pa.string())
states = st.sampled_from(["missing", None, "", "é"]) | st.text(max_size=5)


@given(st.lists(st.tuples(states, states, states)), st.integers(0, 2))
def test_maps_equal_the_naive_ones_and_go_back(
    rows: list[tuple[str | None, ...]], cut: int
) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 3
    masks = [np.array([v == "missing" for v in column], bool) for column in columns]
    values = [
        pa.array([None if v == "missing" else v for v in column], pa.string()) for column in columns
    ]
    expected = [[(n, v) for n, v in zip(NAMES, row, strict=True) if v != "missing"] for row in rows]

    maps = columns_to_maps(NAMES, values, masks, len(rows))

    maps.validate(full=True)
    assert maps.type == MAP
    assert maps.to_pylist() == expected
    part = maps.slice(cut)
    for i, (found, missing) in enumerate(maps_to_columns(part, ["id", "Name", "x"])):
        mask = missing if missing is not None else np.full(len(part), found is None)
        assert mask.tolist() == masks[i][cut:].tolist()
        if found is not None:
            assert found.to_pylist() == values[i].slice(cut).to_pylist()


def test_a_null_map_misses_every_column() -> None:
    maps = pa.array([None, [("ID", "1")]], MAP)

    (values, missing), other, _ = maps_to_columns(maps, NAMES)

    assert values is not None
    assert missing is not None
    assert (values.to_pylist(), missing.tolist()) == ([None, "1"], [True, False])
    assert other == (None, None)


@pytest.mark.parametrize("bad", [[("WHO", "1")], [("ID", "1"), ("id", "2")]])
def test_an_unknown_or_double_key_is_refused(bad: list[tuple[str, str]]) -> None:
    with pytest.raises(DecodeError) as caught:
        maps_to_columns(pa.array([[], None, bad], MAP), NAMES)

    assert caught.value.where.record == 2


def test_a_missing_value_must_be_null() -> None:
    with pytest.raises(EncodeError):
        columns_to_maps(["A"], [pa.array(["x"])], [np.array([True])], 1)


MAPS = st.lists(
    st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | st.text(max_size=2))
)


@given(MAPS, st.data())
def test_maps_are_joined_and_the_second_one_counts(
    first: list[dict[str, str | None] | None], data: st.DataObject
) -> None:
    second = data.draw(MAPS.map(lambda rows: (rows + [None] * len(first))[: len(first)]))
    one, two = (pa.array([m and list(m.items()) for m in maps], MAP) for maps in (first, second))

    found = merge_maps(one, two)

    found.validate(full=True)
    wanted = [(a or {}) | (b or {}) for a, b in zip(first, second, strict=True)]
    assert found.to_pylist(maps_as_pydicts="strict") == wanted
