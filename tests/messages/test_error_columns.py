"""Errors as columns have the texts of the exceptions that their rows are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import NUMBERED, DecodeError
from trailgate.messages.error_columns import ErrorColumns

TEXTS = st.sampled_from(
    ("", "a", "A'B", 'q"', "é€", "back\\slash", " b", "n\nl", "x" * 70, "s://u:pw@h")
)
RAW = st.sampled_from(
    (b"", b"ab", b"\0\1", b"z" * 80, b" pad ", "é".encode(), b"\xff\xfe", b"it's", b"a" * 61)
)
NUMBERS = st.sampled_from((0, 1, 17))
PLACE = {
    **{name: (NUMBERS, pa.int64()) for name in NUMBERED},
    **{name: (TEXTS, pa.string()) for name in ("source", "table", "field", "text")},
    "raw": (RAW, pa.binary()),
}


@st.composite
def error_columns(draw: st.DrawFn) -> ErrorColumns:
    """Draw errors whose parts are unknown, the same in all rows, or a column that may have nulls."""
    count = draw(st.integers(1, 6))

    def part(values: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array | pa.Scalar:
        if draw(st.booleans()):
            return pa.scalar(draw(values), kind)
        return pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)

    place = {
        name: part(st.none() | values, kind)
        for name, (values, kind) in PLACE.items()
        if draw(st.booleans())
    }
    texts = {name: part(TEXTS, pa.string()) for name in ("problem", "hint")}
    kind = pa.scalar(DecodeError.__name__)
    return ErrorColumns(count, {"kind": kind, **texts, **place})


@given(error_columns())
def test_each_row_has_the_text_of_its_exception(errors: ErrorColumns) -> None:
    assert errors.texts().to_pylist() == [str(error) for error in errors]
