"""Files of records as columns: one kind of record or several, flat or as a tree, options as strings."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from framed_files import split_rows
from trailgate.cobol.records.record_options import ColumnShape, DependingLength
from trailgate.errors import DecodeError, DefinitionError, OptionError
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.writing import write_records

COPYBOOK = """
       01  HEADER.
           05  KIND     PIC X.
           05  CREATED  PIC X(8).
       01  DETAIL.
           05  KIND     PIC X.
           05  AMOUNT   PIC S9(3)V99 COMP-3.
           05  ITEM OCCURS 2.
               10  CODE PIC 9(2).
"""
HEADER = "H20260105".encode("cp037")
DETAILS = [b"\xc4\x12\x34\x5c\xf0\xf1\xf0\xf2", b"\xc4\x00\x00\x7d\xf9\xf9\xf0\xf0"]


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "detail.cpy"
    path.write_text(COPYBOOK)
    return path


def rows(path: Path, copybook: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read_records(path, copybook, **options) for row in batch.to_pylist()]


def rdw(records: list[bytes]) -> bytes:
    return b"".join((len(r) + 4).to_bytes(2, "big") + b"\0\0" + r for r in records)


def test_records_of_one_kind_are_a_tree_or_flat(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"".join(DETAILS))

    tree = rows(data, copybook, record="DETAIL")
    flat = rows(data, copybook, record="detail", shape="flat", columns="AMOUNT,CODE")

    assert tree[0] == {
        "KIND": "D",
        "AMOUNT": Decimal("123.45"),
        "ITEM": [{"CODE": 1}, {"CODE": 2}],
    }
    assert flat == [
        {"AMOUNT": Decimal("123.45"), "CODE_1": 1, "CODE_2": 2},
        {"AMOUNT": Decimal("-0.07"), "CODE_1": 99, "CODE_2": 0},
    ]


def test_records_of_several_kinds_are_a_struct_a_kind(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([HEADER, DETAILS[0], b"\xe7\x40", DETAILS[1]]))
    options = {"record_format": "rdw", "kinds": "KIND: H=HEADER, D=DETAIL, *"}

    found = rows(data, copybook, **options)

    assert [row["_record"] for row in found] == ["HEADER", "DETAIL", "DETAIL"]
    assert found[0]["HEADER"] == {"KIND": "H", "CREATED": "20260105"}
    assert found[0]["DETAIL"] is None
    assert found[2]["DETAIL"]["AMOUNT"] == Decimal("-0.07")
    with pytest.raises(DecodeError, match=r"'X' is not a kind of record .*record 3, byte 29"):
        rows(data, copybook, record_format="rdw", kinds="KIND: H=HEADER, D=DETAIL")


def test_kinds_of_one_length_need_no_record_length(tmp_path: Path, copybook: Path) -> None:
    data, same = tmp_path / "data", tmp_path / "same.cpy"
    same.write_text("01 R. 05 K PIC X. 05 A PIC X(3).\n01 S. 05 K PIC X. 05 B PIC 9(3).")
    data.write_bytes("AxyzB123".encode("cp037"))

    found = rows(data, same, kinds="K: A=R, B=S")

    assert [(row["_record"], row["R"], row["S"]) for row in found] == [
        ("R", {"K": "A", "A": "xyz"}, None),
        ("S", None, {"K": "B", "B": 123}),
    ]
    data.write_bytes(b"".join(DETAILS))
    assert len(rows(data, copybook, kinds="KIND: D=DETAIL")) == 2


def test_a_carriage_return_before_the_end_of_a_line_is_not_data(tmp_path: Path) -> None:
    data, copybook = tmp_path / "data", tmp_path / "line.cpy"
    copybook.write_text("01 R. 05 A PIC X(6).")
    options = {"record_format": "line", "code_page": "ascii", "errors": "column"}
    data.write_bytes(b"AAAAAA\r\nBBBBBB\nCCCCCC\r\n")

    found = rows(data, copybook, **options)
    kept = rows(data, copybook, delimiter="\\n", **options)

    assert [(row["A"], row["_errors"]) for row in found] == [
        ("AAAAAA", []),
        ("BBBBBB", []),
        ("CCCCCC", []),
    ]
    assert [error["raw"] for row in kept for error in row["_errors"]] == ["0d", "0d"]
    data.write_bytes(b"AAAAA\r\n")
    with pytest.raises(DecodeError, match=r"before the field's end .*record 1"):
        rows(data, copybook, record_format="line", code_page="ascii", short="error")


def test_bytes_after_the_last_item_of_a_kind_are_not_lost(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([HEADER, DETAILS[0] + b"\xf9", HEADER]))
    options = {"record_format": "rdw", "kinds": "KIND: H=HEADER, D=DETAIL"}

    with pytest.raises(
        DecodeError, match=r"more bytes than .*record 2, byte 25, field DETAIL, text '9', bytes f9"
    ):
        rows(data, copybook, **options)
    found = rows(data, copybook, errors="column", **options)
    assert [[error["raw"] for error in row["_errors"]] for row in found] == [[], ["f9"], []]


@pytest.mark.parametrize("record_format", ["line", "rdw", "length-field"])
def test_bytes_after_the_copybooks_last_item_are_not_lost(
    tmp_path: Path, record_format: str
) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 L PIC X(4). 05 A PIC X(2).")
    long = {"line": b"abcdAB999\n", "rdw": b"\0\x0d\0\0abcdAB999"}
    data.write_bytes(long.get(record_format, b"\0\0\0\x09AB999"))
    options = {"record_format": record_format, "code_page": "latin-1", "columns": "A"}

    with pytest.raises(
        DecodeError, match=r"more bytes than .*record 1, .*text '999'.*surplus=drop"
    ):
        rows(data, copybook, **options)
    assert rows(data, copybook, surplus="drop", **options) == [{"A": "AB"}]


def test_a_stated_record_length_names_the_bytes_that_are_not_read(tmp_path: Path) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 A PIC X(2).")
    data.write_bytes(b"AB9AB9")
    options = {"record_length": 3, "code_page": "ascii"}

    assert rows(data, copybook, **options) == [{"A": "AB"}] * 2
    with pytest.raises(DecodeError, match="more bytes than"):
        rows(data, copybook, surplus="error", **options)


def test_records_are_numbered_from_one_in_their_file(tmp_path: Path) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 A PIC 9(4).")
    data.write_bytes(b"0001" * 6 + b"000x" + b"0001")
    options = {"code_page": "ascii", "split_bytes": 8}

    for skipped in (0, 2):
        with pytest.raises(DecodeError, match=r"data, record 7, byte 24"):
            rows(data, copybook, skip_first=skipped, **options)
    data.write_bytes(b"0001\n" * 6 + b"000x\n")
    with pytest.raises(DecodeError, match=r"data, record 7, byte 30"):
        rows(data, copybook, record_format="line", code_page="ascii", skip_first=2)
    lines = {"record_format": "line", **options}
    with pytest.raises(DecodeError, match=r"data, record 7, byte 30, field A"):
        rows(data, copybook, **lines)
    with pytest.raises(DecodeError, match=r"data, byte 30, field A"):
        split_rows(data, copybook=copybook, **lines)


def test_bad_fields_of_several_kinds_are_reported_by_record(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([HEADER, b"\xc4\x12\x34\x55\xf0\xf1\xf0\xf2", HEADER]))
    options = {"record_format": "rdw", "kinds": "KIND: D=DETAIL,H=HEADER"}

    found = rows(data, copybook, errors="column", **options)

    assert [len(row["_errors"]) for row in found] == [0, 1, 0]
    assert found[1]["_errors"][0]["field"] == "AMOUNT"
    assert found[1]["DETAIL"]["AMOUNT"] is None
    raw = rows(data, copybook, errors="column", raw="true", **options)
    assert [row["_raw"] for row in raw][::2] == [HEADER, HEADER]
    with pytest.raises(DecodeError, match=r"data, record 2, byte 18, field AMOUNT"):
        rows(data, copybook, **options)


def test_an_item_has_a_code_page_of_its_own_and_numbers_keep_their_zeros(
    tmp_path: Path, copybook: Path
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"D" + DETAILS[0][1:])

    found = rows(
        data, copybook, record="DETAIL", shape="flat", code_pages="KIND=ascii", integers="text"
    )

    assert found == [{"KIND": "D", "AMOUNT": Decimal("123.45"), "CODE_1": "01", "CODE_2": "02"}]


def test_national_text_has_the_byte_order_that_its_code_page_states(tmp_path: Path) -> None:
    data, copybook = tmp_path / "data", tmp_path / "names.cpy"
    copybook.write_text(" 01 R.\n  05 G.\n   10 N PIC N(2).\n   10 T PIC X.\n   10 U PIC U.\n")
    data.write_bytes("日A".encode("utf-16-le") + b"\x81" + b"A   ")

    named = rows(data, copybook, shape="flat", code_pages="N=utf-16le")
    data.write_bytes("日A".encode("utf-16-be") + "é".encode("latin-1") + b"A   ")
    of_group = rows(data, copybook, shape="flat", code_pages="G=latin-1")

    assert named == [{"N": "日A", "T": "a", "U": "A"}]
    assert of_group == [{"N": "日A", "T": "é", "U": "A"}]
    with pytest.raises(OptionError, match=r"cp1140 is not a code page of UTF-16 text .*field N"):
        rows(data, copybook, code_pages="N=1140")
    with pytest.raises(OptionError, match=r"of utf-8 text .*It can be utf-8"):
        rows(data, copybook, code_pages="U=ascii")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the copybook has 2 records.*HEADER, DETAIL"),
        ({"record": "DETIAL"}, "no record DETIAL .*Did you mean DETAIL"),
        ({"record": "DETAIL", "shap": "flat"}, "format copybook has no option shap.*shape"),
        ({"record": "DETAIL", "shape": "round"}, "shape must be flat or tree, not 'round'"),
        ({"record": "DETAIL", "raw": "yes"}, "raw must be true or false, not 'yes'"),
        ({"record": "DETAIL", "kinds": "KIND: D=DETAIL"}, "record and kinds cannot be combined"),
        ({"kinds": "KIND"}, "kinds: 'KIND' has no colon after the field .*They are written FIELD"),
        ({"kinds": "KIND: D"}, "VALUE=RECORD was expected"),
        (
            {"kinds": "AMOUNT: D=DETAIL,H=HEADER", "record_format": "rdw"},
            "the record HEADER has no field AMOUNT",
        ),
        ({"kinds": "KIND: D=DETAIL,H=HEADER"}, "differ in length: DETAIL 8, HEADER 9 bytes"),
        ({"record": "DETAIL", "columns": "AMUONT"}, "no field AMUONT"),
        ({"record": "DETAIL", "code_page": "cp99999"}, "cp99999"),
        ({"record": "DETAIL", "code_pages": "KIND"}, "ITEM=PAGE was expected"),
        ({"record": "DETAIL", "code_pages": "KINT=1140"}, "no item KINT.*Did you mean KIND"),
        ({"record": "DETAIL", "code_pages": "KIND=9x9"}, "9x9"),
        (
            {"record": "DETAIL", "record_format": "rdw", "record_length": "8"},
            "recordLength is not an option of recordFormat=rdw. It is one of fixed",
        ),
        (
            {"record": "DETAIL", "delimiter": "\\n"},
            "delimiter is not an option of recordFormat=fixed. It is one of line",
        ),
        (
            {"record": "DETAIL", "record_format": "line", "little_endian": "true"},
            "littleEndian is not an option of recordFormat=line. It is one of rdw, bdw, spanned, length-field",
        ),
        ({"record": "DETAIL", "split_bytes": "0"}, "split_bytes must be a number above 0"),
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path, copybook: Path, options: dict[str, str], message: str
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"".join(DETAILS))
    with pytest.raises(OptionError, match=message):
        rows(data, copybook, **options)


def test_a_wrong_copybook_is_named_with_its_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cpy"
    bad.write_text("01 A.\n   05 B.\n")
    with pytest.raises(DefinitionError, match=r"bad\.cpy, line 2"):
        rows(tmp_path, bad)


def test_values_are_passed_as_values(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"".join(DETAILS))
    flat: Any = ColumnShape.FLAT
    as_values = read_records(
        data,
        copybook,
        record="DETAIL",
        columns=("AMOUNT", "CODE"),
        shape=flat,
        trim=False,
        code_pages={"kind": "1140"},
        record_length=8,
    )
    as_strings: dict[str, Any] = {"trim": "false", "code_pages": "KIND=1140", "record_length": "8"}

    assert as_values.schema.names == ["AMOUNT", "CODE_1", "CODE_2"]
    assert as_values.read_all().to_pylist() == rows(
        data, copybook, record="DETAIL", columns="AMOUNT,CODE", shape="flat", **as_strings
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 7}, "columns must be a list of names, not 7"),
        ({"columns": ("KIND", 7)}, "columns must be a list of names"),
        ({"trim": 1}, "trim must be true, false, left, right or both, not 1"),
        ({"record_length": True}, "record_length must be a whole number, not True"),
        ({"split_bytes": 0}, "split_bytes must be a number above 0, not 0"),
        ({"shape": DependingLength.MOST}, "shape must be flat or tree"),
        ({"code_pages": {"KIND": "9x9"}}, "9x9"),
        ({"code_pages": ["KIND"]}, "code_pages must be code pages of items"),
        ({"delimiter": 10}, "delimiter must be characters and escapes, not 10"),
    ],
)
def test_values_of_wrong_types_are_named(
    copybook: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        read_records("data", copybook, record="DETAIL", **options)


def test_the_schema_is_known_where_there_are_no_records(tmp_path: Path, copybook: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"")

    for options in ({"record": "DETAIL"}, {"kinds": "KIND: H=HEADER, D=DETAIL"}):
        named: dict[str, Any] = {**options, "record_format": "rdw"}
        empty = read_records(data, copybook, **named)
        data.write_bytes(rdw(DETAILS))
        full = read_records(data, copybook, **named).read_all()
        data.write_bytes(b"")
        assert empty.read_all().num_rows == 0
        assert full.num_rows == 2
        assert full.schema == read_records(data, copybook, **named).schema


def test_names_of_any_kind_are_columns_of_the_kinds_that_have_them(
    tmp_path: Path, copybook: Path
) -> None:
    data = tmp_path / "data"
    data.write_bytes(rdw([HEADER, DETAILS[0], HEADER]))
    options = {"record_format": "rdw", "kinds": "KIND: H=HEADER, D=DETAIL"}
    both = {row["_record"]: row for row in rows(data, copybook, **options)}

    for columns in ("AMOUNT", "CREATED", "CREATED,AMOUNT", "KIND", "ITEM,CREATED", "DETAIL"):
        for row in rows(data, copybook, columns=columns, errors="column", **options):
            kind, asked = row["_record"], columns.split(",")
            whole = both[kind][kind]
            own = whole if kind in asked else {n: whole[n] for n in whole if n in asked}
            assert row.get(kind) == (own or None)
            assert set(row) - {"_record", "_errors"} == {
                k for k in both if k in asked or any(name in both[k][k] for name in asked)
            }
    with pytest.raises(OptionError, match=r"no field AMUONT in any kind.*Did you mean AMOUNT"):
        rows(data, copybook, columns="AMUONT", **options)
    data.write_bytes(rdw([HEADER, DETAILS[0] + b"\xf9"]))
    with pytest.raises(DecodeError, match="more bytes than"):
        rows(data, copybook, columns="CREATED", **options)


def test_an_item_is_not_taken_for_a_record(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    copybook = tmp_path / "r.cpy"
    copybook.write_text(
        "01 R.\n 05 K PIC X.\n 05 A OCCURS 2.\n 10 C PIC X.\n 10 B REDEFINES C PIC 9.\n"
    )

    problem = "B is an item, which redefines C, of the record R, not a record"
    with pytest.raises(OptionError, match=problem):
        rows(tmp_path / "data", copybook, kinds="K: 1=R, 2=B")
    with pytest.raises(OptionError, match="K is an item of the record R, not a record"):
        rows(tmp_path / "data", copybook, record="k")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1A2", "field A, text '1A2', bytes f1 c1 f2"),
        ("   ", "field A, bytes 40 40 40"),
        ("1 2", "field A, text '1 2', bytes f1 40 f2"),
    ],
)
def test_bytes_are_shown_in_their_code_page(tmp_path: Path, value: str, shown: str) -> None:
    data, copybook = tmp_path / "data", tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 A PIC 9(3).")
    data.write_bytes(value.encode("cp037"))

    with pytest.raises(DecodeError, match=shown):
        rows(data, copybook)
    data.write_bytes(b"x" + value.encode("cp037"))
    copybook.write_text("01 R. 05 K PIC X. 05 A PIC 9(3).")
    with pytest.raises(DecodeError, match=r"text '1A2'" if value == "1A2" else "field A"):
        rows(data, copybook, code_page="ascii", code_pages="A=cp037")


def test_a_file_that_is_named_in_two_ways_is_read_once(
    tmp_path: Path, copybook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_bytes(DETAILS[0])
    (folder / "b").write_bytes(DETAILS[1])
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    names = ["in/a", "./in/a", str(folder / "a"), f"file://{folder}/a", "in//a", "in/../in/a"]

    for ways in ([n, m] for n in [*names, "in", "in/*", "link/a"] for m in names):
        found = read_records(ways, copybook, record="DETAIL").read_all()
        assert found.num_rows == (2 if ways[0] in ("in", "in/*") else 1)


@pytest.mark.parametrize(
    ("raw", "options", "expected"),
    [
        (b"01abc\n02de\n", {}, ["abc", "de"]),
        (b"01abc\r\n02de\r\n", {}, ["abc", "de"]),
        (b"01abc\n02de\n", {"delimiter": "\\n"}, ["abc", "de"]),
        ("01abc\x8502de\x85".encode("cp037"), {"delimiter": "\\x15"}, ["abc", "de"]),
        (b"\xf0\xf1\x81\x82\x83\n", {"code_page": "cp037"}, ["abc"]),
        (b"01abc|02de|", {"delimiter": "|", "code_page": "ascii"}, ["abc", "de"]),
    ],
)
def test_lines_are_ascii_unless_they_end_as_those_of_ebcdic(
    raw: bytes, options: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    how: dict[str, Any] = {
        "copybook_text": "01 R. 05 A PIC 99. 05 B PIC X(3).",
        "record_format": "line",
        **options,
    }
    (tmp_path / "data").write_bytes(raw)

    found = read_records(tmp_path / "data", **how).read_all()
    write_records(found.to_batches(), tmp_path / "again", **how)

    assert found["B"].to_pylist() == expected
    assert read_records(tmp_path / "again", **how).read_all() == found


def test_other_bytes_in_lines_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"01\x81\x82\x83\n")
    with pytest.raises(DecodeError, match=r"field B"):
        read_records(
            tmp_path / "data",
            copybook_text="01 R. 05 A PIC 99. 05 B PIC X(3).",
            record_format="line",
        ).read_all()


@pytest.mark.parametrize(("length", "least"), [(80, 2000), (20_000, 500), (60_000, 500)])
def test_a_batch_of_long_records_has_many_rows(length: int, least: int, tmp_path: Path) -> None:
    """The cost of a column in each batch would make wide records slow otherwise."""
    (tmp_path / "data").write_bytes(b"\x40" * length * 2000)
    reader = read_records(tmp_path / "data", copybook_text=f"01 R. 05 A PIC X({length}).")
    assert next(iter(reader)).num_rows >= least
