"""Positions: 20 digits whose text order is their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import OptionError
from trailgate.model.positions import (
    format_message_positions,
    format_positions,
    parse_position,
    split_message_position,
)

parts = st.integers(0, 10**10 - 1)


@given(st.lists(st.tuples(parts, parts)))
def test_positions_go_there_and_back(pairs: list[tuple[int, int]]) -> None:
    numbers = np.array([a for a, _ in pairs], np.int64)
    offsets = np.array([b for _, b in pairs], np.int64)

    strings = format_positions(numbers, offsets).to_pylist()

    assert [parse_position(text) for text in strings] == pairs
    assert sorted(strings) == [f"{a:010}{b:010}" for a, b in sorted(pairs)]


def test_one_number_serves_all_rows() -> None:
    assert format_positions(3, np.array([0, 42])).to_pylist() == [
        "0" * 9 + "3" + "0" * 10,
        "0" * 9 + "3" + "0" * 8 + "42",
    ]


@pytest.mark.parametrize("text", ["", "1", "x" * 20, "٣" * 20, "1" * 21])
def test_text_that_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(OptionError):
        parse_position(text)


@pytest.mark.parametrize("offset", [-1, 10**10])
def test_a_part_out_of_range_is_refused(offset: int) -> None:
    with pytest.raises(OptionError):
        format_positions(0, np.array([offset]))


@given(st.lists(st.tuples(parts, parts | st.integers(10**10, 2**63 - 1))))
def test_positions_of_messages_go_there_and_back(pairs: list[tuple[int, int]]) -> None:
    numbers = np.array([a for a, _ in pairs], np.int64)
    offsets = np.array([b for _, b in pairs], np.int64)
    strings = format_message_positions(numbers, offsets).to_pylist()

    assert [split_message_position(text) for text in strings] == pairs
    assert strings == [f"{a:010}{b:010}" for a, b in pairs]


@pytest.mark.parametrize("text", ["", "1" * 19, "x" * 20, "٣" * 20, "9" * 29, "1" * 30])
def test_text_that_is_not_a_position_of_a_message_is_none(text: str) -> None:
    assert split_message_position(text) is None


@pytest.mark.parametrize(("number", "offset"), [(10**10, 10**10), (-1, 10**10), (0, -1)])
def test_a_part_of_a_messages_position_out_of_range_is_refused(number: int, offset: int) -> None:
    with pytest.raises(OptionError):
        format_message_positions(np.array([0, number]), np.array([10**10, offset]))
