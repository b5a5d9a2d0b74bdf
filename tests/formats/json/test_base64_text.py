"""Base64 text is what Python's module has."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import DecodeError
from trailgate.formats.json.base64_text import from_base64, to_base64


@given(st.lists(st.none() | st.binary(max_size=20), max_size=6))
def test_bytes_are_written_and_read_again(values: list[bytes | None]) -> None:
    strings = to_base64(pa.array(values, pa.binary()))

    assert strings.to_pylist() == [
        None if value is None else base64.b64encode(value).decode() for value in values
    ]
    assert from_base64(strings).to_pylist() == values
    assert from_base64(strings.slice(1)).to_pylist() == values[1:]


@given(st.text("ABab09+/=", max_size=12))
def test_a_text_is_read_where_it_is_what_would_be_written(text: str) -> None:
    try:
        found = from_base64(pa.array([text])).to_pylist()[0]
    except DecodeError:
        found = None

    try:
        wanted = base64.b64decode(text, validate=True)
    except ValueError:
        wanted = None
    if wanted is not None and base64.b64encode(wanted).decode() != text:
        wanted = None
    assert found == wanted


def test_an_error_has_the_row() -> None:
    with pytest.raises(DecodeError, match="not base64 text") as raised:
        from_base64(pa.array(["AAAA", None, "AA", "x"]))
    assert (raised.value.where.record, raised.value.where.raw) == (2, b"AA")
