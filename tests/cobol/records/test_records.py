"""RecordBytes to columns: flat, as a tree, of varying length, with errors, and back."""

from __future__ import annotations

import csv
import pickle
from cProfile import Profile
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shared_data
from cobol.items import layout_of
from laws import examples
from oracles import cobol_naive as naive
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookLayout, Usage
from trailgate.cobol.records import decoding
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.record_bytes import RecordBytes, records_at, records_of_length
from trailgate.cobol.records.record_options import (
    BadFieldPolicy,
    ColumnShape,
    DependingLength,
    RecordOptions,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.codec import BlankPolicy, IntegerRepresentation, ValueOptions
from trailgate.errors import DecodeError, DefinitionError, EncodeError, OptionError, TrailgateError

JRECORD = shared_data.folder("jrecord")
ASCII = ValueOptions(CobolDialect(code_page="ascii"))
PLAIN = """
01 ORDER-REC.
   05 ID PIC 9(3).
   05 FILLER PIC X.
   05 NAME PIC X(4).
   05 AMOUNT PIC S9(3)V99 COMP-3.
   05 PARTS REDEFINES AMOUNT PIC X(3).
"""
NESTED = """
01 R.
   05 N PIC 9.
   05 T OCCURS 0 TO 3 DEPENDING ON N.
      10 M PIC 9.
      10 U OCCURS 0 TO 2 DEPENDING ON M PIC X(2).
   05 Z PIC S9(3).
   05 ZR REDEFINES Z PIC X(3).
   05 A.
      10 Z PIC 9.
"""


def decoded(layout: CopybookLayout, records: RecordBytes, **options: Any) -> pa.RecordBatch:
    return RecordDecoder(layout, RecordOptions(ASCII, **options)).decode(records)


def of(*records: bytes) -> RecordBytes:
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    lengths = np.array([len(record) for record in records], np.int64)
    return records_at(b"".join(records), ends - lengths, ends)


def plain(rows: int = 2) -> RecordBytes:
    return records_of_length(b"007 JIM \x12\x34\x5d042 ANN \x00\x00\x1c" * (rows // 2), 11)


def test_elementary_items_become_columns() -> None:
    batch = decoded(layout_of(PLAIN), plain(), columns=("ID", "NAME", "AMOUNT"))

    assert batch.to_pylist() == [
        {"ID": 7, "NAME": "JIM", "AMOUNT": Decimal("-123.45")},
        {"ID": 42, "NAME": "ANN", "AMOUNT": Decimal("0.01")},
    ]
    assert batch.schema.field("AMOUNT").type == pa.decimal128(5, 2)


def test_groups_become_structs_and_occurs_lists() -> None:
    records = of(b"21ab2cdef12C7", b"01239")

    batch = decoded(
        layout_of(NESTED), records, shape=ColumnShape.TREE, depending=DependingLength.REAL
    )

    tables = [{"M": 1, "U": ["ab"]}, {"M": 2, "U": ["cd", "ef"]}]
    assert batch.to_pylist() == [
        {"N": 2, "T": tables, "Z": 123, "ZR": "12C", "A": {"Z": 7}},
        {"N": 0, "T": [], "Z": 123, "ZR": "123", "A": {"Z": 9}},
    ]


def test_elements_that_are_not_there_are_null_columns() -> None:
    """Of most length their bytes are there, and are not looked at."""
    record = b"11abXX" + b"?" * 10 + b"12C7"

    (row,) = decoded(layout_of(NESTED), of(record)).to_pylist()

    assert (row["N"], row["M_1"], row["U_1_1"], row["U_1_2"]) == (1, 1, "ab", None)
    assert (row["M_2"], row["M_3"], row["R_Z"], row["A_Z"]) == (None, None, 123, 7)


def test_a_bad_field_stops_with_everything_that_is_known_of_it() -> None:
    layout = layout_of(PLAIN)
    records = records_of_length(b"007 JIM \x12\x34\x5d04x ANN \x31\x32\x33", 11, first=10, base=500)

    with pytest.raises(DecodeError) as caught:
        decoded(layout, records)

    told = "not a zoned number (record 12, byte 511, field ID, text '04x')"
    assert str(caught.value) == told
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_bytes_after_the_last_item_are_an_error_unless_dropped() -> None:
    layout, records = layout_of("01 R. 05 A PIC X(2)."), of(b"AB", b"AB999")

    with pytest.raises(
        DecodeError, match=r"more bytes than .*record 2, byte 4, field R, text '999'"
    ):
        decoded(layout, records)
    bad = decoded(layout, records, errors=BadFieldPolicy.COLUMN).to_pylist()
    dropped = decoded(layout, records, surplus=TrailingBytesPolicy.DROP).to_pylist()

    assert [row["A"] for row in bad] == ["AB", "AB"]
    assert [error["raw"] for row in bad for error in row["_errors"]] == ["39 39 39"]
    assert dropped == [{"A": "AB"}, {"A": "AB"}]


def test_bytes_after_the_elements_that_are_there_are_an_error() -> None:
    layout = layout_of("01 R. 05 N PIC 9. 05 T PIC X OCCURS 0 TO 3 DEPENDING ON N.")

    with pytest.raises(DecodeError, match=r"more bytes than .*record 2, byte 4, .*depending=most"):
        decoded(layout, of(b"1a", b"1abc"), depending=DependingLength.REAL)
    assert decoded(layout, of(b"1abc")).to_pylist() == [
        {"N": 1, "T_1": "a", "T_2": None, "T_3": None}
    ]


def test_a_field_that_is_not_there_has_no_bytes() -> None:
    with pytest.raises(
        DecodeError, match=r"before the field's end \(record 1, byte 3, field B, no bytes\)"
    ):
        decoded(layout_of("01 R. 05 A PIC X(3). 05 B PIC X."), of(b"abc"))


def test_a_count_of_zero_is_an_empty_array_where_one_is_the_least() -> None:
    text = "01 R. 05 N PIC 9. 05 T PIC X OCCURS 1 TO 3 DEPENDING ON N. 05 Z PIC X."
    options = {"shape": ColumnShape.TREE, "depending": DependingLength.REAL}

    batch = decoded(layout_of(text), of(b"0z", b"2abz"), **options)

    assert [row["T"] for row in batch.to_pylist()] == [[], ["a", "b"]]
    with pytest.raises(DecodeError, match="is 1, but the item occurs 2 to 3 times"):
        decoded(layout_of(text.replace("1 TO", "2 TO")), of(b"1az"), **options)


@pytest.mark.parametrize("shape", ColumnShape)
def test_items_of_one_name_are_numbered(shape: ColumnShape) -> None:
    text = "01 R. 05 A PIC X. 05 A PIC X. 05 G. 10 A PIC X. 05 B PIC X OCCURS 2. 05 B_2 PIC X."
    batch = decoded(layout_of(text), of(b"abcdef"), shape=shape)

    (row,) = batch.to_pylist()
    if shape is ColumnShape.TREE:
        assert row == {"A": "a", "A_2": "b", "G": {"A": "c"}, "B": ["d", "e"], "B_2": "f"}
    else:
        assert row == {"R_A": "a", "R_A_2": "b", "G_A": "c", "B_1": "d", "B_2": "e", "B_2_2": "f"}


def test_decoding_takes_linear_steps_in_named_fields() -> None:
    def steps(fields: int) -> int:
        lines = [f" 05 F-{number} PIC 9(5)." for number in range(fields)]
        layout = layout_of("\n".join(["01 R.", *lines]))
        with Profile() as profile:
            RecordDecoder(layout).decode(records_of_length(b"\xf1" * 15 * fields, 5 * fields))
        return sum(entry.callcount for entry in profile.getstats())

    steps(1)
    assert steps(1_000) < 2.5 * steps(500)


def test_a_hint_names_what_the_bytes_look_like() -> None:
    with pytest.raises(DecodeError, match=r"field AMOUNT, text '123'\)\. Is it zoned\?"):
        decoded(layout_of(PLAIN), of(b"007 JIM 123"))


def test_bad_fields_go_to_a_column_by_option() -> None:
    records = of(b"00x JIM \x12\x34\x5d", b"042 ANN \x00\x00\x1c", b"0")

    batch = decoded(layout_of(PLAIN), records, errors=BadFieldPolicy.COLUMN, raw=True)

    bad, good, short = batch.to_pylist()
    assert bad["ID"] is None
    assert bad["_errors"] == [
        {"field": "ID", "offset": 0, "raw": "30 30 78", "reason": "not a zoned number"}
    ]
    assert good["_errors"] == []
    assert good["_raw"] == b"042 ANN \x00\x00\x1c"
    assert {name for name, value in short.items() if value is None} == {
        *("ID", "NAME", "AMOUNT", "PARTS")
    }
    assert [error["offset"] for error in short["_errors"]] == [0, 4, 8, 8]
    assert "the record ends" in short["_errors"][0]["reason"]


@pytest.mark.parametrize("depending", DependingLength)
@pytest.mark.parametrize("shape", ColumnShape)
def test_a_count_outside_its_bounds_is_reported(
    depending: DependingLength, shape: ColumnShape
) -> None:
    record = b"9" + b"x" * 20

    with pytest.raises(DecodeError, match="N is 9, but the item occurs 0 to 3 times"):
        decoded(layout_of(NESTED), of(record), depending=depending, shape=shape)


def test_what_follows_an_unknown_count_is_null_and_its_error_tells_of_the_counter() -> None:
    batch = decoded(
        layout_of(NESTED),
        of(b"x1237", b"01237"),
        depending=DependingLength.REAL,
        errors=BadFieldPolicy.COLUMN,
        shape=ColumnShape.TREE,
    )

    bad, good = batch.to_pylist()
    assert [error["field"] for error in bad["_errors"]] == ["N", "T", "R_Z", "ZR", "A_Z"]
    assert [error["offset"] for error in bad["_errors"]] == [0, 1, None, None, None]
    assert "depends on N, which is not a valid count" in bad["_errors"][-1]["reason"]
    assert (bad["T"], bad["Z"], bad["A"]) == (None, None, {"Z": None})
    assert (good["T"], good["Z"], good["A"]) == ([], 123, {"Z": 7})


def test_only_the_columns_asked_for_are_decoded() -> None:
    """A bad field that nobody asked for is not looked at."""
    batch = decoded(layout_of(PLAIN), of(b"x?? JIM \x12\x34\x5d"), columns=("name", "PARTS"))

    assert batch.schema.names == ["NAME", "PARTS"]


def test_a_group_stands_for_what_is_in_it() -> None:
    decoder = RecordDecoder(layout_of(NESTED), RecordOptions(ASCII, columns=("T",)))
    assert decoder.schema.names[:3] == ["M_1", "U_1_1", "U_1_2"]


def test_an_unknown_column_names_near_ones() -> None:
    with pytest.raises(OptionError, match=r"no field AMUONT.*Did you mean AMOUNT"):
        RecordDecoder(layout_of(PLAIN), RecordOptions(ASCII, columns=("AMUONT",)))


def test_an_unknown_page_names_its_field() -> None:
    options = RecordOptions(ValueOptions(CobolDialect(code_page="cp038")))
    with pytest.raises(OptionError, match="field ID"):
        RecordDecoder(layout_of(PLAIN), options)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, records = layout_of(PLAIN), plain(20)
    whole = decoded(layout, records)

    monkeypatch.setattr(decoding, "CHUNK_ROWS", (3, 3))

    assert decoded(layout, records).equals(whole)
    assert len(list(RecordDecoder(layout, RecordOptions(ASCII)).batches(records))) == 7


@pytest.mark.parametrize("shape", ColumnShape)
@pytest.mark.parametrize("depending", DependingLength)
@pytest.mark.parametrize("text", [PLAIN, NESTED])
def test_no_records_have_the_schema_of_some(
    shape: ColumnShape, depending: DependingLength, text: str
) -> None:
    options = RecordOptions(ASCII, shape, depending, errors=BadFieldPolicy.COLUMN, raw=True)
    decoder = RecordDecoder(layout_of(text), options)
    some = of(b"21ab2cdef12C7      " if text == NESTED else b"007 JIM \x12\x34\x5d")

    assert decoder.decode(some).schema == decoder.schema
    assert decoder.decode(of()).num_rows == 0


def test_layouts_and_options_go_to_other_processes() -> None:
    options = RecordOptions(ASCII, columns=("ID",))
    assert pickle.loads(pickle.dumps((layout_of(PLAIN), options))) == (layout_of(PLAIN), options)


@st.composite
def nested_rows(draw: st.DrawFn) -> dict[str, Any]:
    row: dict[str, Any] = {"N": draw(st.integers(0, 3))}
    for t in range(3):
        there = t < row["N"]
        row[f"M_{t + 1}"] = draw(st.integers(0, 2)) if there else None
        for u in range(2):
            here = there and u < row[f"M_{t + 1}"]
            row[f"U_{t + 1}_{u + 1}"] = draw(st.sampled_from(["", "a", "xy"])) if here else None
    row["R_Z"] = draw(st.integers(-999, 999))
    return {**row, "A_Z": draw(st.integers(0, 9))}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(nested_rows(), min_size=1, max_size=6), st.sampled_from(DependingLength))
def test_records_are_read_as_they_were_written(
    rows: list[dict[str, Any]], depending: DependingLength
) -> None:
    layout = layout_of(NESTED)
    names = list(rows[0])
    strings = {name for name in names if name.startswith("U")}
    columns = {
        name: pa.array([row[name] for row in rows], pa.string() if name in strings else pa.int64())
        for name in names
    }
    options = RecordOptions(ASCII, depending=depending, columns=tuple(names))

    records = RecordEncoder(layout, options).encode(columns)
    found = RecordDecoder(layout, options).decode(records)

    assert found.to_pylist() == rows
    if depending is DependingLength.REAL:
        sizes = [5 + sum(1 + 2 * row[f"M_{t}"] for t in range(1, row["N"] + 1)) for row in rows]
        assert (records.ends - records.starts).tolist() == sizes


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.text("0123ab", max_size=14), max_size=5),
    st.sampled_from(DependingLength),
    st.sampled_from(ColumnShape),
    st.sampled_from(BadFieldPolicy),
)
def test_any_records_give_columns_or_our_error(
    strings: list[str], depending: DependingLength, shape: ColumnShape, errors: BadFieldPolicy
) -> None:
    options = RecordOptions(ASCII, shape, depending, errors=errors)
    decoder = RecordDecoder(layout_of(NESTED), options)
    try:
        found = decoder.decode(of(*(text.encode() for text in strings)))
    except TrailgateError:
        assert errors is BadFieldPolicy.STOP
        return

    assert found.num_rows == len(strings)
    found.validate(full=True)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.binary(min_size=11, max_size=11), max_size=8))
def test_columns_are_what_the_oracle_reads(raws: list[bytes]) -> None:
    layout = layout_of(PLAIN)
    found = decoded(layout, of(*raws), errors=BadFieldPolicy.COLUMN)

    expected = []
    for raw in raws:
        row = []
        for field in (f for f in layout.root.children if not f.filler):
            try:
                part = raw[field.offset : field.offset + field.size]
                row.append(naive.read_value(field, part, naive.Reading(page="ascii")))
            except ValueError:
                row.append(None)
        expected.append(row)
    names = ["ID", "NAME", "AMOUNT", "PARTS"]
    assert [[row[name] for name in names] for row in found.to_pylist()] == expected


SEGMENTS = """
01 R.
   05 KIND PIC X.
   05 BODY.
      10 N PIC 9.
      10 T OCCURS 0 TO 3 DEPENDING ON N PIC 9.
      10 AFTER-T PIC X(2).
   05 OTHER REDEFINES BODY.
      10 FIXED PIC X(2).
      10 NUMBERED PIC 9.
   05 P PIC 9.
   05 Q OCCURS 2.
      10 M PIC 9.
      10 U OCCURS 0 TO 2 DEPENDING ON M PIC X.
      10 V PIC X.
   05 W OCCURS 1 TO 2 DEPENDING ON P PIC X.
   05 LAST-ONE PIC X.
"""
COUNTED = {
    NESTED: (b"21ab2cdef12C7", b"11ab2xx112C7", b"01239"),
    SEGMENTS: (b"A2121ab11xvxy1pq" + b"zyxwv" * 2, b"B0ab21x2xyvwwz" + b"abcde" * 2),
}


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from([(text, record) for text, records in COUNTED.items() for record in records]),
    st.sampled_from(DependingLength),
    st.data(),
)
def test_records_with_any_byte_damaged_are_what_the_oracle_reads(
    given: tuple[str, bytes], depending: DependingLength, data: st.DataObject
) -> None:
    text, record = given
    place = data.draw(st.integers(0, len(record) - 1))
    damaged = record[:place] + data.draw(st.sampled_from([b"x", b"9", b" "])) + record[place + 1 :]

    rows = read_with_errors(text, depending, record, damaged)

    for raw, row in zip((record, damaged), rows, strict=True):
        expected = [item.value for item in naive_items(text, depending, raw)]
        assert list(row.values())[:-1] == expected


@pytest.mark.parametrize("depending", DependingLength)
@pytest.mark.parametrize("text", COUNTED)
def test_an_unread_counter_takes_only_what_depends_on_it(
    text: str, depending: DependingLength
) -> None:
    """Each counter in turn: other items are as before, and each lost value has an entry in _errors."""
    counters = {f.occurs.counter for f in layout_of(text).root.walk() if f.occurs} - {None}
    tried = set()
    for record in COUNTED[text]:
        items = naive_items(text, depending, record)
        for counter in items:
            if counter.name not in counters or counter.value is None:
                continue
            tried.add(counter.name)
            damaged = bytearray(record)
            assert counter.at is not None
            damaged[counter.at] = ord("?")
            whole, row = read_with_errors(text, depending, record, bytes(damaged))
            told = {error["field"] for error in row["_errors"]}

            for column, item in zip(whole, items, strict=False):
                shared = item.at is not None and item.at <= counter.at < item.at + item.size
                if counter.name not in item.counters and not shared:
                    assert row[column] == whole[column]
                if row[column] is None and whole[column] is not None:
                    assert told & {column, *item.repeated}
    assert tried == counters


def read_with_errors(
    text: str, depending: DependingLength, *records: bytes
) -> list[dict[str, Any]]:
    options = {
        "errors": BadFieldPolicy.COLUMN,
        "surplus": TrailingBytesPolicy.DROP,
        "depending": depending,
    }
    rows: list[dict[str, Any]] = decoded(layout_of(text), of(*records), **options).to_pylist()
    return rows


def naive_items(text: str, depending: DependingLength, record: bytes) -> list[naive.VaryingItem]:
    how = naive.Reading(page="ascii")
    return naive.VaryingReader(record, how, depending is DependingLength.REAL).read(layout_of(text))


def test_columns_that_do_not_depend_on_a_counter_do_not_ask_for_it() -> None:
    records = of(b"B?b421x2xyvwwz")

    batch = decoded(
        layout_of(SEGMENTS), records, columns=("FIXED",), depending=DependingLength.REAL
    )

    assert batch.to_pylist() == [{"FIXED": "?b"}]
    with pytest.raises(DecodeError, match="field N"):
        decoded(layout_of(SEGMENTS), records, columns=("P",), depending=DependingLength.REAL)


def test_a_missing_column_is_not_invented() -> None:
    encoder = RecordEncoder(layout_of(PLAIN), RecordOptions(ASCII))
    with pytest.raises(EncodeError, match=r"no column for a field.*field NAME"):
        encoder.encode({"ID": pa.array([1])})


def test_a_value_that_does_not_fit_names_record_and_field() -> None:
    encoder = RecordEncoder(layout_of(PLAIN), RecordOptions(ASCII))
    columns = {"ID": pa.array([1, 1000]), "NAME": pa.array(["A", "B"])}
    columns["AMOUNT"] = pa.array([Decimal(1), Decimal(2)])
    with pytest.raises(EncodeError, match=r"more than 3 digits: 1000 .record 2, field ID"):
        encoder.encode(columns)


@shared_data.needs("jrecord")
def test_published_records_have_their_published_values() -> None:
    text = (JRECORD / "DTAR020.cbl").read_text()
    layout = layout_of(text)
    with (JRECORD / "DTAR020.csv").open() as lines:
        _, *expected = csv.reader(lines, delimiter="\t")

    batch = RecordDecoder(layout).decode(
        records_of_length((JRECORD / "DTAR020.bin").read_bytes(), layout.size)
    )

    assert [[str(value) for value in row.values()] for row in batch.to_pylist()] == expected
    assert len(expected) == 379
    data = RecordEncoder(layout).encode(batch).data.tobytes()
    assert data == (JRECORD / "DTAR020.bin").read_bytes()


@pytest.mark.parametrize(
    ("counter", "problem"),
    [
        ("PIC X", "a whole number"),
        ("PIC 9V9", "a whole number"),
        ("PIC 9(20)", "a whole number"),
        ("COMP-2", "a whole number"),
    ],
)
def test_a_counter_is_a_whole_number(counter: str, problem: str) -> None:
    text = f"01 R.\n  05 N {counter}.\n  05 T OCCURS 1 TO 2 DEPENDING ON N PIC X."
    with pytest.raises(DefinitionError, match=problem):
        RecordDecoder(layout_of(text), RecordOptions(ASCII))


def test_very_long_records_are_taken_few_at_a_time() -> None:
    assert decoding._rows_of(27) == 1 << 14
    assert decoding._rows_of(1300) == 2419
    assert decoding._rows_of(10 << 20) == 6
    assert decoding._rows_of(1 << 27) == 1


@pytest.mark.parametrize("integers", IntegerRepresentation)
def test_counters_count_whatever_integers_become(integers: IntegerRepresentation) -> None:
    options = RecordOptions(replace(ASCII, integers=integers), depending=DependingLength.REAL)
    decoder = RecordDecoder(layout_of(NESTED), options)

    (row,) = decoder.decode(of(b"21ab2cdef12C7")).to_pylist()

    assert (int(row["N"]), row["U_2_2"], int(row["A_Z"])) == (2, "ef", 7)


def test_a_field_that_cannot_be_decoded_is_named() -> None:
    field = replace(layout_of(PLAIN).root.children[0], usage=Usage.EDITED, picture="ZZ")
    layout = CopybookLayout(replace(layout_of(PLAIN).root, children=(field,)))
    with pytest.raises(DefinitionError, match=r"the picture ZZ does not print 3 .*field ID"):
        RecordDecoder(layout)


def test_a_record_that_is_one_item_is_one_column() -> None:
    for shape in ColumnShape:
        batch = decoded(layout_of("01 X PIC X(3)."), of(b"abc"), shape=shape)
        assert batch.to_pylist() == [{"X": "abc"}]


def test_a_nameless_group_gives_its_members() -> None:
    text = "01 R.\n 05 FILLER OCCURS 2.\n  10 A PIC X.\n  10 B PIC 9.\n 05 FILLER.\n  10 C PIC X."

    batch = decoded(layout_of(text), of(b"a1b2c"), shape=ColumnShape.TREE)

    elements = [{"A": "a", "B": 1}, {"A": "b", "B": 2}]
    assert batch.to_pylist() == [{"FILLER": elements, "C": "c"}]


def test_slack_bytes_are_skipped_in_each_element() -> None:
    text = "01 R.\n 05 T OCCURS 2.\n  10 A PIC X.\n  10 B PIC S9(4) COMP SYNC.\n 05 C PIC X."

    batch = decoded(layout_of(text), of(b"a?\0\1b?\0\2c"), shape=ColumnShape.TREE)

    assert batch.to_pylist() == [{"T": [{"A": "a", "B": 1}, {"A": "b", "B": 2}], "C": "c"}]


def test_members_of_nameless_groups_with_one_name_are_numbered() -> None:
    text = "01 R.\n 05 FILLER.\n  10 C PIC X.\n 05 C-2 PIC X.\n 05 FILLER.\n  10 C PIC X."

    batch = decoded(layout_of(text), of(b"abc"), shape=ColumnShape.TREE)

    assert batch.to_pylist() == [{"C": "a", "C-2": "b", "C_2": "c"}]


@pytest.mark.parametrize("columns", [None, ("T",), ("N", "T")])
@pytest.mark.parametrize("blank", [BlankPolicy.ERROR, BlankPolicy.NULL])
@pytest.mark.parametrize("depending", DependingLength)
def test_an_invalid_counter_is_always_reported(
    columns: tuple[str, ...] | None, blank: BlankPolicy, depending: DependingLength
) -> None:
    """Also where nobody asked for its column, or where blanks are NULL."""
    values = replace(ASCII, blank=blank)
    options = RecordOptions(values, ColumnShape.FLAT, depending, columns, BadFieldPolicy.COLUMN)

    batch = RecordDecoder(layout_of(NESTED), options).decode(of(b" 1abc" + b"0" * 20))

    (row,) = batch.to_pylist()
    told = [error["reason"] for error in row["_errors"] if error["field"] == "N"]
    assert len(told) == 1
    assert told[0].startswith("blanks, not a zoned number")
    assert row["M_1"] is None
