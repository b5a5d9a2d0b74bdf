"""Values gathered from a shared buffer, whatever the order in which they lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.arrays import octets
from trailgate.columnar.gather import gather, gather_matrix, sliding_words
from trailgate.columnar.strings import matrix_to_binary
from trailgate.errors import DecodeError

DATA = bytes(range(65, 91))
SPANS = st.lists(
    st.tuples(st.integers(0, 26), st.integers(0, 26)).map(lambda s: (min(s), max(s))), max_size=8
)


@settings(max_examples=examples(100), deadline=None)
@given(SPANS, st.booleans(), st.data())
def test_any_spans_give_their_bytes(
    spans: list[tuple[int, int]], ascending: bool, data: st.DataObject
) -> None:
    spans = sorted(spans) if ascending else spans
    nulls = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    starts, ends = (np.array([s[i] for s in spans], np.int64) for i in (0, 1))
    mask = np.array(nulls, bool)

    for text in (False, True):
        found = gather(pa.py_buffer(DATA), starts, ends, nulls=mask, text=text)
        found.validate(full=True)
        expected = [None if n else DATA[a:b] for (a, b), n in zip(spans, nulls, strict=True)]
        assert found.cast(pa.binary()).to_pylist() == expected
        assert found.type == (pa.string() if text else pa.binary())


def test_a_null_row_may_point_anywhere() -> None:
    places = np.array([-5, 0]), np.array([10**12, 3])
    found = gather(DATA, *places, nulls=np.array([True, False]), text=True)

    assert found.to_pylist() == [None, "ABC"]


def test_text_that_is_not_utf_8_is_named_with_its_bytes() -> None:
    places = np.array([0, 3]), np.array([3, 5])
    with pytest.raises(DecodeError, match=r"not UTF-8 .byte 3, bytes 64 ff"):
        gather(b"abcd\xff", *places, text=True)


def test_a_span_outside_the_buffer_is_an_error() -> None:
    with pytest.raises(DecodeError, match="outside its 26 bytes"):
        gather(DATA, np.array([20]), np.array([27]))


def test_words_are_read_at_any_offset() -> None:
    data = octets(b"\x01\x02\x03\x04\x05")

    assert sliding_words(data, "u2").tolist() == [0x0102, 0x0203, 0x0304, 0x0405]
    assert sliding_words(data, "u4", "<")[1:].tolist() == [0x05040302]
    assert len(sliding_words(octets(b""), "u2")) == 0
    assert gather_matrix(data, np.array([3, 0]), 2).tolist() == [[4, 5], [1, 2]]


def test_rows_of_a_matrix_become_values() -> None:
    found = matrix_to_binary(np.array([[65, 66], [67, 68]], np.uint8))

    assert found.to_pylist() == [b"AB", b"CD"]
