"""Delimiters, quotes and record ends are found as a reading byte by byte finds them."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import examples
from oracles.delimited_naive import MalformedError, split
from trailgate.columnar import delimited_kernels as kernels
from trailgate.columnar.delimited import (
    PROBLEMS,
    DelimitedDialect,
    DelimitedFields,
    UnbalancedQuotesError,
    index_fields,
)
from trailgate.errors import DecodeError

COMMAS = DelimitedDialect(b",", b"\n", b'"')
PIPES = DelimitedDialect(b"|", b"||", b"'")
DIALECTS = (
    COMMAS,
    DelimitedDialect(b",", b"\n"),
    DelimitedDialect(b",", b"\n", b'"', b'\\"'),
    DelimitedDialect(b",", b"\n", b'"', b'"\'"'),
    DelimitedDialect(b",", b"\r\n", b'"'),
    DelimitedDialect(b",", b"\n", b'"', returns=True),
    DelimitedDialect(b",", b"\n", returns=True),
    DelimitedDialect(b"\xc7", b"\x0a", b"'", b"''"),
    DelimitedDialect(b"||", b"\n", b'"'),
    DelimitedDialect(b",,", b"\r\n", b"<>", b"^"),
    DelimitedDialect(b"~!", b"#!", b"``", b"``^``"),
    PIPES,
)
CRLF = DelimitedDialect(b",", b"\r\n", b'"')
# Known to be read otherwise than byte by byte, the smallest strings found.
OTHERWISE = {
    "half a quote in front of an escaped one is data": (
        DelimitedDialect(b"~!", b"#!", b"``", b"`^`"),
        [b"```^```"],
    ),
}


def indexed(
    bodies: list[bytes], dialect: DelimitedDialect, gap: bytes = b""
) -> list[list[list[bytes]]]:
    """Return each body's records, found in columns; ``gap`` lies between the bodies."""
    data = gap.join(bodies)
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + len(gap)) - lengths - len(gap)
    fields = index_fields(np.frombuffer(data, np.uint8), starts, starts + lengths, dialect)
    return _by_body(data, fields, len(bodies))


def _by_body(data: bytes, fields: DelimitedFields, bodies: int) -> list[list[list[bytes]]]:
    found: list[list[list[bytes]]] = [[] for _ in range(bodies)]
    places = list(zip(fields.starts.tolist(), fields.ends.tolist(), strict=True))
    for first, count, body in zip(
        fields.first.tolist(), fields.count.tolist(), fields.body.tolist(), strict=True
    ):
        found[body].append([data[a:b] for a, b in places[first : first + count]])
    return found


@st.composite
def bodies_as_array(draw: st.DrawFn, dialect: DelimitedDialect) -> list[bytes]:
    """Return bodies of the dialect's own tokens and some text, so that they meet often."""
    tokens = [dialect.field, dialect.line, b"a", b"bc"]
    if dialect.quote:
        tokens += [
            dialect.quote,
            dialect.quote,
            dialect.escaped_quote,
            dialect.field + dialect.quote,
        ]
    if dialect.returns:
        tokens += [b"\r", b"\r\n"]
    body = st.lists(st.sampled_from(tokens), min_size=1, max_size=12).map(b"".join)
    return draw(st.lists(body, min_size=1, max_size=4))


@st.composite
def rows_of(draw: st.DrawFn, dialect: DelimitedDialect) -> list[list[list[bytes]]]:
    """Return bodies of records of fields as a program writes them, quoted where needed."""
    plain = st.sampled_from([b"", b"x", b"12", "é".encode()])
    field = plain
    if dialect.quote:
        inner = st.lists(
            st.sampled_from([b"", b"y", dialect.field, dialect.line, dialect.escaped_quote]),
            max_size=4,
        )
        quote = dialect.quote
        field = st.one_of(plain, inner.map(lambda parts: quote + b"".join(parts) + quote))
    record = st.lists(field, min_size=2, max_size=4)
    return draw(st.lists(st.lists(record, min_size=1, max_size=3), min_size=1, max_size=4))


@pytest.mark.parametrize("gap", [b"\n", b"}\n{"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_any_text_is_split_as_byte_by_byte(
    dialect: DelimitedDialect, gap: bytes, data: st.DataObject
) -> None:
    bodies = data.draw(bodies_as_array(dialect))
    try:
        expected = [split(body, dialect) for body in bodies]
    except MalformedError as error:
        with pytest.raises(DecodeError, match=str(error)):
            indexed(bodies, dialect, gap)
        return

    assert indexed(bodies, dialect, gap) == expected


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@settings(max_examples=examples(40))
@given(data=st.data(), ended=st.booleans())
def test_written_rows_come_back(
    dialect: DelimitedDialect, data: st.DataObject, ended: bool
) -> None:
    rows = data.draw(rows_of(dialect))
    strings = [dialect.line.join(dialect.field.join(record) for record in body) for body in rows]
    if ended:
        strings = [text + dialect.line for text in strings]

    found = indexed(strings, dialect, b"\n")

    assert found == [split(text, dialect) for text in strings]
    assert dialect is PIPES or found == rows  # an empty field makes "||" of two "|"


def test_a_return_before_a_line_feed_is_dropped_and_counted() -> None:
    data = b'a,b\r\n"c\r\n","d"\r\ne,f\n\r\ng,h\r'
    every = np.array([0]), np.array([len(data)])
    octets = np.frombuffer(data, np.uint8)

    fields = index_fields(octets, *every, DelimitedDialect(b",", b"\n", b'"', returns=True))

    rows = [[b"a", b"b"], [b'"c\r\n"', b'"d"'], [b"e", b"f"], [b""], [b"g", b"h\r"]]
    assert _by_body(data, fields, 1) == [rows]
    assert fields.returned == 3


ODD = {
    "a quote after the rest of a longer run of delimiter bytes is data": (
        DelimitedDialect(b"||", b"\n", b'"'),
        [b'|||"'],
    ),
    "the longer of two delimiters counts": (DelimitedDialect(b"||", b"|"), [b"a||b"]),
    "no delimiter begins in one body and ends behind it": (CRLF, [b"a\r", b"b"]),
}


@pytest.mark.parametrize("why", ODD)
def test_text_at_the_border_of_delimiters_is_split_as_byte_by_byte(why: str) -> None:
    dialect, bodies = ODD[why]

    assert indexed(bodies, dialect, b"\n") == [split(body, dialect) for body in bodies]


@pytest.mark.parametrize("why", OTHERWISE)
def test_odd_text_is_split_as_byte_by_byte(why: str) -> None:
    dialect, bodies = OTHERWISE[why]

    assert indexed(bodies, dialect, b"\n") == [split(body, dialect) for body in bodies]


def test_half_a_line_delimiter_does_not_close_a_quote() -> None:
    with pytest.raises(DecodeError, match="text follows a closing quote"):
        indexed([b'a,"b"\r', b"c,d"], CRLF, b"\n")


@example(data=b"", delimiters=[b"a", b"ab", b"b"])
@example(data=b"a,b\n", delimiters=[b",", b"\n", b'"'])
@given(
    data=st.binary(max_size=30),
    delimiters=st.lists(st.binary(min_size=1, max_size=3), min_size=3, max_size=4, unique=True),
)
def test_any_bytes_are_split_or_refused(data: bytes, delimiters: list[bytes]) -> None:
    try:
        fields = index_fields(
            np.frombuffer(data, np.uint8),
            np.zeros(1 if data else 0, np.int64),
            np.full(1 if data else 0, len(data)),
            DelimitedDialect(delimiters[0], delimiters[1], delimiters[2], *delimiters[3:]),  # type: ignore[arg-type]
        )
    except DecodeError:
        assert data != b"a,b\n" or delimiters != [b",", b"\n", b'"']
        return
    assert bool((fields.starts <= fields.ends).all())


def test_the_position_of_a_broken_quote_is_reported() -> None:
    with pytest.raises(DecodeError, match="a quoted value is not closed") as unclosed:
        indexed([b'a,"b', b"c,d"], COMMAS, b"\n")
    with pytest.raises(DecodeError, match="text follows a closing quote") as trailing:
        indexed([b'a,"b"c,d'], COMMAS)

    assert unclosed.value.where.offset == 2
    assert trailing.value.where.offset == 4


def test_all_bodies_with_broken_quotes_are_reported_at_once() -> None:
    bodies = [b'a,"b', b'a,"b"', b'"a"b,"c', b"d", b'"']

    with pytest.raises(UnbalancedQuotesError) as caught:
        indexed(bodies, COMMAS, b"\n")

    found = caught.value
    problems = [PROBLEMS[kind][0] for kind in found.kinds.tolist()]
    assert [*zip(found.bodies.tolist(), problems, found.offsets.tolist(), strict=True)] == [
        (0, "a quoted value is not closed", 2),
        (2, "text follows a closing quote", 2),
        (4, "a quoted value is not closed", 0),
    ]
    assert found.raw.to_pylist() == [b'"b', b'"b,"c', b'"']


@pytest.mark.parametrize("between", [b'\n"\n', b'\n""\n', b',"\n', b'\nx"y"\n'])
def test_quotes_between_bodies_are_not_seen(between: bytes) -> None:
    bodies = [b'a,"b"', b'"c,""d",e', b"f"]

    assert indexed(bodies, COMMAS, between) == [split(body, COMMAS) for body in bodies]


def test_many_rows_split_as_few_do() -> None:
    row = b'1,"two, ""2""",,"",x"y,"\n",end'
    few = split(row, COMMAS)

    assert indexed([row] * 3000, COMMAS, b"\n") == [few] * 3000
    assert indexed([b"\n".join([row] * 3000)], COMMAS) == [few * 3000]


@pytest.mark.parametrize("dialect", [COMMAS, DelimitedDialect(b"||", b"\n")], ids=str)
@pytest.mark.parametrize("record", [b"", b",", b"ab"])
def test_many_short_records_in_one_body_are_all_found(
    dialect: DelimitedDialect, record: bytes
) -> None:
    record = record.replace(b",", dialect.field)
    body = (record + dialect.line) * 20_000

    assert indexed([body], dialect) == [split(record + dialect.line, dialect) * 20_000]


ALIKE = (
    b"",
    b"I",
    b"U",
    b"a\0",
    b"eight by",
    b"eight bytes",
    b"eight bytez",
    b"a text of more words",
    b"a text of some words",
    b"other",
    b"\x21",
)


@given(st.lists(st.sampled_from(ALIKE) | st.binary(max_size=3), min_size=1, max_size=40))
def test_strings_of_a_field_are_numbered_in_the_order_they_occur(strings: list[bytes]) -> None:
    data = np.frombuffer(b",".join(strings), np.uint8)
    ends = np.cumsum([len(text) + 1 for text in strings]) - 1
    starts = ends - [len(text) for text in strings]
    # Two columns: every record has two fields, the text of its own and that of the next record.
    rows = len(strings) - 1
    codes, known = np.empty((2, rows), np.int64), np.empty((2, kernels.MOST_KNOWN), np.int64)
    slots, counts = np.full(2 * kernels.SLOTS, -1), np.empty(2, np.int64)

    spans = (starts.astype(np.int32), ends.astype(np.int32), np.zeros(len(strings), np.uint8))
    done = kernels.code_fields(
        kernels.FieldSpans(data, *spans),
        np.arange(rows),
        np.arange(2),
        codes.ravel(),
        known.ravel(),
        counts,
        kernels.TextSlots(slots, np.empty(len(slots), np.uint64), slots.copy(), slots.copy()),
    )

    assert done == 0
    for column, own in enumerate((strings[:-1], strings[1:])):
        different = list(dict.fromkeys(own))
        assert [own[row] for row in known[column, : counts[column]]] == different
        assert [different[code] for code in codes[column]] == own


USUAL = (
    COMMAS,
    DelimitedDialect(b",", b"\n"),
    DelimitedDialect(b",", b"\n", b'"', b'\\"'),
    CRLF,
    DelimitedDialect(b"|", b"\r\n", b"'", b"^'"),
)


@pytest.mark.parametrize("dialect", USUAL, ids=str)
@settings(max_examples=examples(60))
@given(data=st.data(), shift=st.integers(0, 70))
def test_text_longer_than_a_window_is_split_as_byte_by_byte(
    dialect: DelimitedDialect, data: st.DataObject, shift: int
) -> None:
    rows = data.draw(rows_of(dialect))
    odd = data.draw(bodies_as_array(dialect))
    strings = [dialect.line.join(dialect.field.join(record) for record in body) for body in rows]
    bodies = [b"x" * shift + dialect.field + text * 4 for text in [*strings, odd[0]]]
    try:
        expected = [split(body, dialect) for body in bodies]
    except MalformedError as error:
        with pytest.raises(DecodeError, match=str(error)):
            indexed(bodies, dialect, b"\n")
        return

    assert indexed(bodies, dialect, b"\n") == expected


@pytest.mark.parametrize("dialect", USUAL, ids=str)
@settings(max_examples=examples(40))
@given(data=st.data(), shift=st.integers(0, 70))
def test_written_rows_need_no_scanner_of_odd_text(
    dialect: DelimitedDialect, data: st.DataObject, shift: int
) -> None:
    rows = data.draw(rows_of(dialect))
    strings = [dialect.line.join(dialect.field.join(record) for record in body) for body in rows]
    bodies = [b"x" * shift + dialect.field + text for text in strings]

    with patch.object(kernels, "scan", side_effect=AssertionError):
        found = indexed(bodies, dialect, b"\n")

    assert found == [split(body, dialect) for body in bodies]
