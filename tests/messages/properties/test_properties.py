"""Capture properties: the adapter's files as they are, typed; each wrong one named by line."""

import pickle
import tomllib
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.capture.formats import find_parser_type
from trailgate.columnar.temporal import compile_format
from trailgate.errors import OptionError
from trailgate.formats.delimited.options import DelimitedOptions, delimited_options
from trailgate.messages.properties import parse_properties
from trailgate.messages.property_reader import Lookup, ValueSource, parse_bytes
from trailgate.messages.property_rows import PropertyEffect, PropertyRow, PropertyType, SourceKind
from trailgate.messages.property_table import PROPERTIES, find_property

CASES = Path(__file__).parent / "cases"
WRONG = tomllib.loads((CASES / "wrong.toml").read_text())
DOC = Path(__file__).parents[3] / "docs" / "properties.md"
LEAST = """parser.type=delim
delim.sourcedefs=x.def
delim.header=op,table,ts
delim.optype=op
delim.schemaandtable=table
"""


def checked(text: str) -> DelimitedOptions:
    properties = parse_properties(text.encode(), "a.properties")
    assert find_parser_type(properties).name == "delim"
    return delimited_options(properties)


def options(more: str = "") -> DelimitedOptions:
    return delimited_options(parse_properties((LEAST + more).encode("latin-1")))


def test_a_file_as_sites_have_it() -> None:
    plain = delimited_options(parse_properties((CASES / "plain.properties").read_bytes()))

    assert plain.sourcedefs == "dirdef/hrdemo.def"
    assert plain.header == ("optype", "tablename", "ts")
    assert plain.schemaandtable == ValueSource(SourceKind.FIELD, "tablename")
    assert plain.seqid == ValueSource(SourceKind.MESSAGE_ID)
    assert plain.txid == ValueSource(SourceKind.TX_ID)
    assert plain.txowner == ValueSource(SourceKind.LITERAL, "jsmith")
    assert plain.message_id == "JMSCorrelationID"
    assert (plain.fielddelim, plain.linedelim) == (b"\xc7", b"||\r\n")
    assert (plain.quote, plain.quote_escaped) == (b'"', b"\\'")
    assert (plain.hasbefores, plain.hasnames) == (True, False)
    assert plain.date_format == compile_format("MM/DD/YYYY-HH:MM:SS")
    assert plain.table_date_formats == {"MY.TABLE": compile_format("DD/MMM/YYYY")}
    assert plain.column_date_formats == {("MY.TABLE", "EXP_DATE"): compile_format("YYMM")}


def test_parameters_without_effect_are_listed_with_the_reason() -> None:
    notes = dict(parse_properties((CASES / "plain.properties").read_bytes()).notes)

    assert set(notes) == {
        "gg.log",
        "gg.log.level",
        "jvm.bootoptions",
        "java.naming.provider.url",
        "java.naming.factory.initial",
        "jms.connectionFactory",
        "jms.destination",
    }
    assert all(reason.startswith("without effect: ") for reason in notes.values())


def test_the_least_file_takes_defaults_and_names_the_time() -> None:
    properties = parse_properties(LEAST.encode())
    least = delimited_options(properties)

    assert least.seqid.kind is SourceKind.SEQ_ID
    assert least.timestamp.kind is SourceKind.TIMESTAMP
    assert least.txid.kind is SourceKind.TX_ID
    assert (least.fielddelim, least.linedelim, least.quote) == (b",", b"\n", None)
    assert (least.nullindicator, least.timestamp_format, least.txind) == (None, None, None)
    assert dict(least.optype_values) == {b"I": "I", b"U": "U", b"D": "D", b"T": "T"}
    letters = {b"B": "B", b"M": "M", b"E": "E", b"W": "W"}
    assert dict(least.txind_values) == letters | {b"0": "B", b"1": "M", b"2": "E", b"3": "W"}
    assert [name for name, _ in properties.notes] == ["delim.timestamp"]


def test_a_property_of_another_parser_is_reported_as_unused() -> None:
    notes = dict(parse_properties((LEAST + "fixed.header=HEADER\n").encode()).notes)

    assert notes["fixed.header"] == "without effect: parser.type is delim"


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_wrong_property_is_named_with_its_line(case: dict[str, Any]) -> None:
    text = LEAST.replace(case.get("replace", "\0"), case.get("by", "")) + case.get("add", "")

    with pytest.raises(OptionError) as caught:
        checked(text)

    assert case["says"] in caught.value.problem
    assert case.get("hint", "") in caught.value.hint
    assert caught.value.where.source == "a.properties"
    assert caught.value.where.line == case.get("line")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"\x0a", b"\n"),
        (r"\x0d\x0a", b"\r\n"),
        (r"a\x2Cb", b"a,b"),
        (r"\x20|\x20", b" | "),
        (r"\n", b"\\n"),
        (r"\'", b"\\'"),
        ("\\", b"\\"),
        ("a b", b"a b"),
        ("é", "é".encode()),
    ],
)
def test_bytes_are_text_and_hexadecimal_mixed(written: str, value: bytes) -> None:
    assert parse_bytes(written) == value


def test_bytes_that_are_no_utf_8_are_kept_in_delimiters_only() -> None:
    assert options("delim.fielddelim=\xc7").fielddelim == b"\xc7"
    with pytest.raises(OptionError, match="not UTF-8"):
        options("delim.txname=\xc7")
    with pytest.raises(OptionError, match="not UTF-8"):
        options("delim.dateformat.A.\xc7=YY")


def test_a_delimiter_that_looks_like_an_escape_is_noted() -> None:
    notes = dict(parse_properties(rb"delim.linedelim=\n").notes)

    assert "used literally" in notes["delim.linedelim"]


@pytest.mark.parametrize(
    ("alias", "name"),
    [(alias, row.name) for row in PROPERTIES for alias in row.aliases],
)
def test_an_alias_is_read_as_its_property(alias: str, name: str) -> None:
    entry = parse_properties(f"{alias}=ts".encode()).entries[0]

    assert (entry.name, entry.written) == (name, alias)


def test_a_property_may_be_given_twice_with_one_value() -> None:
    assert options("delim.optype.insert=A\ndelim.optype.insertval=A").optype_values[b"A"] == "I"


def test_lines_may_end_as_on_windows_and_begin_with_a_mark() -> None:
    data = b"\xef\xbb\xbf" + LEAST.replace("\n", "\r\n").encode()

    assert delimited_options(parse_properties(data)) == options()


def test_date_formats_may_name_quoted_tables() -> None:
    formats = options('delim.dateformat."A.B"."C D".E=YY').column_date_formats

    assert formats == {("A.B.C D", "E"): compile_format("YY")}


def test_options_are_frozen_and_survive_pickling() -> None:
    some = options("delim.dateformat.A.B=YY")
    again = pickle.loads(pickle.dumps(some))

    assert (again, hash(again)) == (some, hash(some))
    with pytest.raises(FrozenInstanceError):
        again.quote = b"'"
    with pytest.raises(FrozenInstanceError):
        again.optype_values.pairs = ()


def test_properties_survive_pickling() -> None:
    properties = parse_properties(LEAST.encode(), "a.properties")

    assert pickle.loads(pickle.dumps(properties)) == properties


def test_a_lookup_is_a_mapping() -> None:
    lookup = Lookup((("a", 1), ("b", 2)))

    assert (lookup["b"], lookup.get("c"), len(lookup), list(lookup)) == (2, None, 2, ["a", "b"])
    assert lookup == {"a": 1, "b": 2}


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.name)
def test_every_row_is_found_by_its_names_and_is_whole(row: PropertyRow) -> None:
    example = row.name.replace("<SCHEMA.TABLE>", "A.B").replace("<COLUMN>", "C").replace("*", "x.y")

    assert [find_property(name) for name in (example, *row.aliases)] == [row] * (
        1 + len(row.aliases)
    )
    assert (row.kind is PropertyType.SOURCE) == bool(row.sources)
    assert (row.effect is PropertyEffect.NONE) == bool(row.reason)
    assert row.doc
    assert row.origin


def documented(row: PropertyRow) -> str:
    value = row.kind.value
    if row.sources:
        value = ", ".join(f"`{k.value}`" if k.value[0] in '$*"' else "field" for k in row.sources)
    elif row.choices:
        value = ", ".join(f"`{choice}`" for choice in row.choices)
    names = ", ".join(f"`{name}`" for name in (row.name, *row.aliases))
    default = f"`{row.default}`" if row.default else ""
    effect = (
        row.doc if row.effect is PropertyEffect.USED else f"{row.doc}; without effect: {row.reason}"
    )
    return f"| {names} | {value} | {default} | {effect} | {row.origin} |"


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row.name)
def test_every_property_is_documented(row: PropertyRow) -> None:
    assert documented(row) in DOC.read_text().splitlines()


LINES = st.one_of(
    st.text(max_size=20),
    st.builds(
        "{}={}".format,
        st.sampled_from([name for row in PROPERTIES for name in (row.name, *row.aliases)]),
        st.one_of(
            st.sampled_from(["op", "ts", "*ts", "*txid", "$x", '"a"', "true", r"\x0a", "delim"]),
            st.text(max_size=6),
        ),
    ),
)


@given(st.lists(LINES, max_size=6), st.booleans())
def test_any_text_is_options_or_our_error(lines: list[str], whole: bool) -> None:
    text = (LEAST if whole else "") + "\n".join(lines)
    _read_or_refuse(text.encode("utf-8", "replace"))


@given(st.binary(max_size=60))
def test_any_bytes_are_options_or_our_error(data: bytes) -> None:
    _read_or_refuse(LEAST.encode() + data)


def _read_or_refuse(data: bytes) -> None:
    try:
        read = delimited_options(parse_properties(data, "a.properties"))
    except OptionError as error:
        refusal = error
    else:
        assert pickle.loads(pickle.dumps(read)) == read
        return

    assert refusal.where.source == "a.properties"
    assert str(refusal).encode()
