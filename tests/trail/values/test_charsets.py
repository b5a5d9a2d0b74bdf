"""Strings in the character sets of databases, whole columns at once."""

from __future__ import annotations

import codecs

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trail.batches import operations_of
from trail.building import INSERT, LARGE, cell, piece, record, text
from trailgate.columnar.code_pages import SingleBytePage, code_page
from trailgate.errors import DecodeError, EncodeError, OptionError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.values.charsets import (
    CHARSETS,
    ROWS,
    decode_strings,
    encode_strings,
    find_charset,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.codec)
def test_every_set_is_found_by_its_names(row: object) -> None:
    for name in [*row.names, row.codec, row.names[0].lower()]:  # type: ignore[attr-defined]
        assert find_charset(name) == row.codec  # type: ignore[attr-defined]


def test_an_unknown_name_tells_those_that_are_known() -> None:
    with pytest.raises(OptionError, match=r"'KLINGON' is not known.*UTF-8, UTF-16"):
        find_charset("KLINGON")


@given(st.sampled_from(sorted(CHARSETS)), st.lists(st.none() | st.binary(max_size=12), max_size=8))
def test_strings_are_those_of_python(charset: str, raw: list[bytes | None]) -> None:
    values = pa.array([b"in front", *raw], pa.binary()).slice(1)
    try:
        expected = [None if one is None else one.decode(charset) for one in raw]
    except UnicodeDecodeError:
        with pytest.raises(DecodeError) as caught:
            decode_strings(values, charset)
        assert caught.value.where.raw == raw[caught.value.where.record or 0]
        return

    found = decode_strings(values, charset)

    found.validate(full=True)
    assert found.to_pylist() == expected


@given(st.sampled_from(sorted(CHARSETS)), st.lists(st.none() | st.text("aä日 ", max_size=5)))
def test_strings_are_written_as_python_does(charset: str, strings: list[str | None]) -> None:
    values = pa.array(strings, pa.string())
    try:
        expected = [None if one is None else one.encode(charset) for one in strings]
    except UnicodeEncodeError:
        with pytest.raises(EncodeError, match="has characters that"):
            encode_strings(values, charset)
        return
    assert encode_strings(values, charset).to_pylist() == expected


def test_single_bytes_are_single() -> None:
    for row in ROWS:
        if isinstance(code_page(row.codec), SingleBytePage):
            whole = bytes(range(256)).decode(row.codec, "ignore")
            assert len(whole) == sum(
                len(bytes((byte,)).decode(row.codec, "ignore")) for byte in range(256)
            )
        assert codecs.lookup(row.codec)


TABLE = Table(
    "S.T",
    (
        Column("A", 64, 20),
        Column("U", 64, 20, sub_type=7),
        Column("N", 66, 20, sub_type=1),
        Column("X", 66, 20),
    ),
)


def read(*records: bytes, charset: str = "WE8MSWIN1252") -> dict[str, str]:
    found = decode(
        b"".join(records),
        Definitions((TABLE,)),
        file_number=1,
        base_offset=0,
        state=ReaderState(charset=charset),
        finish=True,
    )
    after: dict[str, str] = operations_of(found.batch)[0]["after"]
    return after


def test_each_column_is_in_its_own_character_set() -> None:
    data = cell(0, text(b"\x80")) + cell(1, text("€")) + cell(2, text(b"\x20\xac"))

    assert read(record(INSERT, data)) == {"A": "€", "U": "€", "N": "€"}


def test_a_large_object_is_in_the_character_set_of_its_column() -> None:
    pieces = [
        record(LARGE, piece(i, (1, 1, 0), raw)) for i, raw in ((0, b"\x80"), (2, b"\x20\xac"))
    ]

    assert read(record(INSERT, cell(0, text(None))), *pieces) == {"A": "€", "N": "€"}


def test_a_byte_that_the_set_does_not_have_is_named() -> None:
    with pytest.raises(DecodeError, match=r"text is not cp1252 .*field A, bytes 00 00 00 02 61 81"):
        read(record(INSERT, cell(0, text(b"a\x81"))))


def test_a_national_text_of_which_the_definition_tells_nothing_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"character set of this national text.*field X"):
        read(record(INSERT, cell(3, text(b"\x20\xac"))))
