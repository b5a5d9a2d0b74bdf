"""Code pages: every byte of every page, and what is between shift-out and shift-in."""

from __future__ import annotations

import codecs

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from oracles import cobol_naive as naive
from trailgate.columnar.code_pages import (
    DOUBLE_BYTES,
    PAGES,
    UNWRITTEN,
    DoubleBytePage,
    MixedPage,
    SingleBytePage,
    code_page,
    decode_column,
    double_byte_page,
    double_codes,
    sequences,
)
from trailgate.errors import EncodeError, OptionError

ASKED = (
    *[
        "037",
        "273",
        "277",
        "278",
        "280",
        "284",
        "285",
        "297",
        "420",
        "424",
        "500",
        "870",
        "871",
        "875",
        "880",
        "1025",
        "1026",
        "1047",
    ],
    *["1140", "1141", "1142", "1143", "1144", "1145", "1146", "1147", "1148", "1149"],
    *["300", "930", "935", "937", "939", "1364", "1388"],
    *["274", "275", "838", "933", "1160", "1390", "1399"],
)
SINGLE = [page for page in PAGES if page not in DOUBLE_BYTES]
MIXED = [page for page in DOUBLE_BYTES if page != "300"]
EVERY_BYTE = np.arange(256, dtype=np.uint8).reshape(256, 1)


def test_every_page_of_the_mainframe_is_there() -> None:
    assert {page.lstrip("0") for page in ASKED} <= set(PAGES)


@pytest.mark.parametrize(
    "name", ["cp037", "IBM-037", "037", "37", "ibm037", "CCSID 37", "x-IBM037", "EBCDIC-CP-37"]
)
def test_a_page_has_many_names(name: str) -> None:
    assert code_page(name) == code_page("cp037")


@pytest.mark.parametrize("page", SINGLE)
def test_every_byte_that_is_read_is_written_again(page: str) -> None:
    found = code_page(page).decode(EVERY_BYTE)
    rows = found.values.is_valid().to_numpy(zero_copy_only=False)

    written = code_page(page).encode(found.values.drop_null()).to_pylist()

    twice = UNWRITTEN.get(page, b"")
    pairs = list(zip(written, (bytes(row) for row in EVERY_BYTE[rows]), strict=True))
    assert all((made == raw) == (raw not in twice) for made, raw in pairs)
    again = code_page(page).decode(np.frombuffer(b"".join(written), np.uint8).reshape(-1, 1))
    assert again.values.equals(found.values.drop_null())
    assert (found.bad is None and rows.all()) or (found.bad == ~rows).all()


@pytest.mark.parametrize("page", ["1140", "1141", "1142", "1143", "1144", "1145", "1146", "1147"])
def test_a_euro_page_differs_from_its_elder_in_one_character(page: str) -> None:
    elder = dict(zip(range(1140, 1149), (37, 273, 277, 278, 280, 284, 285, 297, 500), strict=True))
    one, other = code_page(page), code_page(str(elder[int(page)]))
    assert isinstance(one, SingleBytePage)
    assert isinstance(other, SingleBytePage)
    differing = [(a, b) for a, b in zip(one.characters, other.characters, strict=True) if a != b]
    assert differing == [("€", "¤")]


@pytest.mark.parametrize("name", ["cp037", "cp500", "cp1026", "cp424", "cp1252", "koi8-r", "ascii"])
def test_pages_of_python_read_as_python_does(name: str) -> None:
    found = code_page(name).decode(EVERY_BYTE).values.to_pylist()

    expected: list[str | None] = []
    for byte in range(256):
        try:
            expected.append(bytes([byte]).decode(name))
        except UnicodeDecodeError:
            expected.append(None)
    assert found == expected


@pytest.mark.parametrize("page", DOUBLE_BYTES)
def test_every_pair_that_is_read_is_read_again_when_written(page: str) -> None:
    double = double_byte_page(code_page(page))
    pairs = np.flatnonzero(double_codes(page)).astype(">u2").view(np.uint8).reshape(-1, 2)

    found = double.decode(pairs)

    assert found.bad is None
    assert len(pairs) > 7000
    written = np.frombuffer(b"".join(double.encode(found.values).to_pylist()), np.uint8)
    assert double.decode(written.reshape(-1, 2)).values.equals(found.values)


def test_double_bytes_mean_what_they_are_known_to_mean() -> None:
    """By IBM's tables: 4040 is the wide blank, 4562 4566 is Japan's name."""
    double = double_byte_page(code_page("939"))
    raw = np.frombuffer(bytes.fromhex("404045624566"), np.uint8).reshape(1, 6)

    assert double.decode(raw).values.to_pylist() == ["\N{IDEOGRAPHIC SPACE}日本"]


@pytest.mark.parametrize(
    ("page", "raw", "text"),
    [
        ("838", "C1F1FB", "A1\u0e4c"),
        ("1160", "C1F1FE", "A1€"),
        ("933", "0E8861D0650FC1", "가한A"),
        ("1390", "62C1", "aA"),
        ("1399", "8181", "aa"),
        ("274", "5AA2", "]s"),
        ("275", "5A7B", "$Õ"),
    ],
)
def test_pages_mean_what_they_are_known_to_mean(page: str, raw: str, text: str) -> None:
    data = bytes.fromhex(raw)
    found = code_page(page).decode(np.frombuffer(data, np.uint8).reshape(1, -1))
    assert found.values.to_pylist() == [text]
    assert code_page(page).encode(found.values).to_pylist() == [data]


@pytest.mark.parametrize("page", ["1390", "1399"])
def test_a_pair_can_be_a_letter_with_a_mark_or_a_character_of_two_units(page: str) -> None:
    mixed, wide = code_page(page), double_byte_page(code_page(page))
    texts = ["A\u304b\u309a\u304b", "\U0002000b\u65e5", "\u00e6\u0300"]

    for own in (mixed, wide):
        own_texts = [text.lstrip("A") for text in texts] if own is wide else texts
        for text in own_texts:
            (raw,) = own.encode(pa.array([text])).to_pylist()
            matrix = np.frombuffer(raw * 2, np.uint8).reshape(2, -1)
            assert own.decode(matrix).values.to_pylist() == [text, text]


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(MIXED), st.data())
def test_shifts_are_read_as_the_oracle_does(page: str, data: st.DataObject) -> None:
    mixed = code_page(page)
    assert isinstance(mixed, MixedPage)
    some = st.sampled_from(
        [b"\x0e", b"\x0f", b"\xb3\x50\xec\xb5", b"\x0e\x45\x62\x0f", b"\x45\x62", b"\xc1", b"\x40"]
    )
    parts = st.lists(st.one_of(some, st.binary(max_size=2)), max_size=8)
    rows = data.draw(st.lists(parts.map(lambda p: b"".join(p).ljust(12, b"\x40")[:12]), max_size=6))
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), 12)

    found = mixed.decode(matrix)

    expected: list[str | None] = []
    for row in rows:
        try:
            expected.append(
                naive.read_shifted(
                    row,
                    mixed.single.characters,
                    double_codes(mixed.double.name),
                    sequences().strings,
                )
            )
        except ValueError:
            expected.append(None)
    assert found.values.to_pylist() == expected
    bad = np.zeros(len(rows), bool) if found.bad is None else found.bad
    assert bad.tolist() == [text is None for text in expected]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(ASKED), st.lists(st.text("aZ09 -Äß日本あア한国é", max_size=5)))
def test_text_comes_back_or_is_refused_with_its_row(page: str, strings: list[str]) -> None:
    asked = code_page(page)
    try:
        written = asked.encode(pa.array(strings, pa.string())).to_pylist()
    except EncodeError as error:
        row = error.where.record or 0
        assert repr(strings[row]) in error.problem  # noqa: PT017 - it may also be written
        return

    for raw, text in zip(written, strings, strict=True):
        found = asked.decode(np.frombuffer(raw, np.uint8).reshape(1, -1))
        assert found.values.to_pylist() == [text]


@pytest.mark.parametrize(
    ("name", "hint"), [("cp036", "cp037"), ("lattin-1", "latin-1"), ("base64", "cp1047")]
)
def test_an_unknown_page_names_near_ones(name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f"no code page.*{hint}"):
        code_page(name)


def test_a_page_without_pairs_has_no_dbcs() -> None:
    with pytest.raises(OptionError, match="no double bytes"):
        double_byte_page(code_page("037"))


def test_tables_are_read_only_when_they_are_wanted() -> None:
    assert isinstance(code_page("300"), DoubleBytePage)
    assert not double_codes("300").flags.writeable
    assert codecs.lookup("cp037").name == code_page("037").name


def value_of(page: str, raw: bytes) -> str | None:
    if not raw:
        return ""
    (text,) = code_page(page).decode(np.frombuffer(raw, np.uint8).reshape(1, -1)).values
    return None if not text.is_valid else str(text)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from(["cp037", "ascii", "cp273", "utf-8", "cp930"]),
    st.lists(st.none() | st.binary(max_size=5)),
)
def test_a_column_of_varying_length_reads_as_its_values_do(
    page: str, raws: list[bytes | None]
) -> None:
    found = decode_column(code_page(page), pa.array(raws, pa.binary()))

    expected = [None if raw is None else value_of(page, raw) for raw in raws]
    assert found.values.to_pylist() == expected
    bad = np.zeros(len(raws), bool) if found.bad is None else found.bad
    assert bad.tolist() == [
        text is None and raw is not None for raw, text in zip(raws, expected, strict=True)
    ]


@settings(max_examples=examples(150), deadline=None)
@given(
    page=st.sampled_from([*SINGLE, "latin-1"]),
    size=st.integers(1, 30),
    step=st.integers(0, 9),
    raw=st.binary(max_size=300),
    left=st.booleans(),
    right=st.booleans(),
)
def test_rows_of_a_page_are_translated_and_trimmed_as_values_are(
    page: str, size: int, step: int, raw: bytes, *, left: bool, right: bool
) -> None:
    found = code_page(page)
    assert isinstance(found, SingleBytePage)
    blank = found.blank
    # Half of the bytes are blanks, so that there is something to trim.
    padded = b"".join(bytes([one]) + blank * (one % 11) for one in raw)
    width = size + step
    rows = len(padded) // width
    matrix = np.frombuffer(padded[: rows * width], np.uint8).reshape(rows, width)[:, :size]

    expected = []
    for row in matrix:
        text = "".join(found.characters[byte] for byte in row)
        text = text.rstrip(" ") if right else text
        expected.append(text.lstrip(" ") if left else text)
    values = found.decode_if_valid(matrix, left=left, right=right)
    if any("\ufffe" in text for text in expected):
        assert values is None
    else:
        assert values is not None
        assert values.to_pylist() == expected
