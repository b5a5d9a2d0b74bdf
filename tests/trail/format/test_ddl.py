"""The text of DDL records is read by its codes."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.errors import DecodeError
from trailgate.trail.records.record_data import FIELDS, read_ddl

SPECIAL, ESCAPED = r"([\\',=()])", r"\\\1"
PRINTED = (
    ",C5='7',,B7='',,B2='0',,C21='',,B3='test',,B4='ogg_test',,C12='',,C13='',,B5='TABLE',"
    ",B6='CREATE',,B8='GGSUSER.GGS_DDL_HIST',C1='{}',"
)


def test_the_printed_fields_are_read_by_name() -> None:
    """trail format §10.6."""
    found = read_ddl(PRINTED.format("create table ogg_test (c1 int)").encode())

    assert found == {
        "marker_sequence": "7",
        "ddl_sequence": "",
        "object_id": "0",
        "C21": "",
        "owner": "test",
        "name": "ogg_test",
        "master_owner": "",
        "master_name": "",
        "object_type": "TABLE",
        "ddl_type": "CREATE",
        "history_table": "GGSUSER.GGS_DDL_HIST",
        "statement": "create table ogg_test (c1 int)",
    }


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("c char default \\'x\\'", "c char default 'x'"),
        ("c char default 'x', d int", "c char default 'x', d int"),
        ("a\\\\b", "a\\b"),
        ("f\\(x\\)\\=1\\,2", "f(x)=1,2"),
        ("c char default ''", "c char default ''"),
        ("keep \\n", "keep \\n"),
    ],
)
def test_quotes_in_a_statement_are_read_with_and_without_escapes(text: str, statement: str) -> None:
    assert read_ddl(PRINTED.format(text).encode())["statement"] == statement


@pytest.mark.assumed
@given(
    st.dictionaries(
        st.sampled_from([*FIELDS.values(), "D9"]), st.text(st.characters(codec="utf-8"))
    )
)
def test_values_with_escapes_are_read_as_they_were(fields: dict[str, str]) -> None:
    codes = {name: code for code, name in FIELDS.items()}
    written = (
        f",{codes.get(name, name)}='{re.sub(SPECIAL, ESCAPED, value)}',"
        for name, value in fields.items()
    )

    assert read_ddl("".join(written).encode()) == fields


@given(st.binary(max_size=60) | st.text("'=,\\BC1", max_size=40).map(str.encode))
@example(b",B3='a'")
def test_any_text_gives_fields_or_our_error(text: bytes) -> None:
    try:
        read_ddl(text)
    except DecodeError:
        assert text != b",B3='a'"


@pytest.mark.parametrize("text", [b"create table", b",B3='open", b",B3='a',x", b",B3=a", b"\xff"])
def test_what_is_no_field_is_named_with_its_place(text: bytes) -> None:
    with pytest.raises(DecodeError, match="byte"):
        read_ddl(text)
