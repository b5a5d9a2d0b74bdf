"""Copybooks of other compilers and of programs: what they state beside items, numbers without pictures, and counts without an end."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import examples
from oracles import cobol_naive as naive
from oracles.cobol_naive import Reading, VaryingReader
from trailgate.cli.main import run
from trailgate.cobol.copybook.layouts import (
    COMPILERS,
    MAX_COLUMNS,
    BinarySizes,
    CobolDialect,
    CopybookField,
    Endian,
    Usage,
)
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_of_length
from trailgate.cobol.records.record_options import ColumnShape, DependingLength, RecordOptions
from trailgate.cobol.values.codec import BlankPolicy, ValueOptions
from trailgate.cobol.values.codecs import decoder, encoder
from trailgate.errors import DefinitionError, EncodeError
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.writing import write_records

SQL = """
           EXEC SQL INCLUDE SQLCA END-EXEC.
           EXEC SQL DECLARE HR.JOBS TABLE
           ( ID      CHAR(3) NOT NULL,
             TITLE   VARCHAR(20)
           ) END-EXEC.
       78  MOST-LINES VALUE IS 3.
       01  JOBS.
           EXEC SQL INCLUDE KEYS END-EXEC
           05  LINES-OF OCCURS MOST-LINES TIMES.
               10  TEXT-OF  PIC X(MOST-LINES).
"""


def items(text: str, **dialect: object) -> list[CopybookField]:
    (layout,) = read_copybook(text, dialect=CobolDialect(**dialect))  # type: ignore[arg-type]
    return [field for field in layout.root.walk() if not field.children]


def item(clauses: str, **dialect: object) -> CopybookField:
    return items(f"01 R.\n   05 X {clauses}.\n", **dialect)[0]


def decoded(field: CopybookField, raw: bytes, **options: object) -> list[Any]:
    matrix = np.frombuffer(raw, np.uint8).reshape(-1, field.size)
    found = decoder(field, ValueOptions(**options))(matrix)  # type: ignore[arg-type]
    bad = np.zeros(len(matrix), bool) if found.bad is None else found.bad
    return [
        "bad" if wrong else value
        for wrong, value in zip(bad, found.values.to_pylist(), strict=True)
    ]


def test_statements_of_sql_and_constants_are_no_items() -> None:
    def member(name: str) -> str | None:
        return "           05 ID PIC 9(4).\n" if name == "KEYS" else None

    (layout,) = read_copybook(SQL, member=member)

    assert [(f.name, f.size, f.repeats) for f in layout.root.walk()] == [
        ("JOBS", 13, 1),
        ("ID", 4, 1),
        ("LINES-OF", 3, 3),
        ("TEXT-OF", 3, 1),
    ]


def test_replace_also_adds_to_what_is_replaced_until_last_off() -> None:
    text = """
       REPLACE ==:A:== BY ==ONE==.
       01 R.
           05 :A:-1 PIC X.
       REPLACE ALSO ==:B:== BY ==TWO==.
           05 :A:-2 PIC X.
           05 :B:-3 PIC X.
       REPLACE LAST OFF.
           05 :A:-4 PIC X.
       REPLACE OFF.
           05 PLAIN PIC X.
"""
    assert [field.name for field in items(text)] == ["ONE-1", "ONE-2", "TWO-3", "ONE-4", "PLAIN"]


def test_parts_of_words_are_replaced_by_the_first_rule_that_matches() -> None:
    text = """
       REPLACE LEADING ==OLD-== BY ==NEW-==.
       01 R.
           05 OLD-A PIC X.
       REPLACE ALSO TRAILING ==-X== BY ==-Y==.
           05 OLD-B-X PIC X.
       REPLACE LAST OFF.
           05 OLD-C-X PIC X.
"""
    assert [field.name for field in items(text)] == ["NEW-A", "OLD-B-Y", "NEW-C-X"]


@pytest.mark.parametrize("statement", ["++INCLUDE KEYS", "-INC KEYS", "++INCLUDE KEYS."])
def test_members_of_panvalet_and_librarian_are_included(statement: str) -> None:
    text = f"       01 R.\n       {statement}\n           05 B PIC X.\n"
    (layout,) = read_copybook(text, member=lambda _: "       05 A PIC 9(4).\n")
    assert [field.name for field in layout.root.children] == ["A", "B"]


def test_a_constant_may_be_another_one() -> None:
    (found,) = items("78 N VALUE 3.\n78 M VALUE N.\n01 R.\n  05 A PIC X(M).\n")
    assert found.size == 3


def constant(value: str, items_before: str = "") -> int:
    """Return what a constant is, by an OCCURS of as many elements and one."""
    text = f"{items_before}78 N-OF VALUE {value}.\n78 M VALUE N-OF + 1.\n01 Z.\n  05 B PIC X OCCURS M.\n"
    return read_copybook(text)[-1].root.children[0].repeats - 1


BEFORE = """
01 R.
   05 A     PIC X(7).
   05 T     OCCURS 3.
      10 B  PIC S9(5) COMP-3.
      10 N  PIC 9.
   05 G.
      10 N  PIC 99.
   05 O     PIC X OCCURS 0 TO 9 DEPENDING ON N OF G.
"""


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("2 + 3", 5),
        ("12 / 4 * 2", 6),
        ("3 * LENGTH OF A + 1", 22),
        ("(1 + 2) * (LENGTH OF B)", 9),
        ("LENGTH OF R", 30),
        ("LENGTH OF N IN T", 1),
        ("LENGTH N OF G OF R", 2),
        ("START OF G", 19),
        ("START OF B", 7),
        ("START OF R", 0),
        ("NEXT", 22),
        ("10 - 2 - 3", 5),
        ("-2 + 3", 1),
    ],
)
def test_constants_are_computed_of_numbers_and_items(value: str, number: int) -> None:
    assert constant(value, BEFORE) == number


def test_a_constant_in_a_group_knows_the_items_before_it() -> None:
    text = """
01 R.
   78 BEGIN VALUE NEXT.
   05 A PIC X(4).
   05 B COMP-2.
   05 T OCCURS 2.
      78 OF-T VALUE NEXT.
      10 C PIC XX.
   78 OF-LAST VALUE NEXT - LENGTH OF C.
01 WIDTH CONSTANT IS GLOBAL AS LENGTH OF A.
01 S.
   05 D PIC X(OF-T) OCCURS WIDTH.
   05 E PIC X OCCURS OF-LAST.
   05 F PIC X(12).
"""
    (_, found) = read_copybook(text)
    assert [(f.name, f.size, f.repeats) for f in found.root.children] == [
        ("D", 12, 4),
        ("E", 1, 12),
        ("F", 12, 1),
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1 + 2 * 3", r"depends on the order of operators \(.*line 10, column 17\).*put \( \)"),
        ("7 / 2", "7 / 2 is not a whole number"),
        ("7 / 0", "7 / 0 is not a whole number"),
        ("LENGTH OF T", "LENGTH OF T, which occurs .*count one element, others all"),
        ("LENGTH OF N", "2 items N before the constant .*OF names its group"),
        ("LENGTH OF LATER", "no items LATER before the constant"),
        ("NOWHERE + 1", r"NOWHERE is not a whole number or a constant.*line 10, column 15"),
        ("3 AND 1", "an operator was expected, not AND"),
        ("3 +", r"a number was expected after \+"),
        ("(3 + 1", "a closing parenthesis was expected after 1"),
        ("3 * 1.5", r"1\.5 is not a whole number"),
        ("999999999999999999 * 999", "more than 18 digits"),
        (" + ".join("1" * 150), "the constant has 299 words"),
    ],
)
def test_constants_that_are_not_known_are_named(value: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        constant(value, BEFORE)


def test_a_group_is_measured_after_its_last_item() -> None:
    text = "01 R.\n  05 A PIC X.\n78 N VALUE LENGTH OF R.\n88 C VALUE 1.\n  05 B PIC X(N).\n"
    with pytest.raises(DefinitionError, match=r"R, which has items after the constant.*line 3"):
        read_copybook(text)


EXPRESSIONS = st.recursive(
    st.integers(0, 12).map(lambda number: [str(number)]),
    lambda inner: st.lists(
        st.tuples(
            inner.flatmap(lambda x: st.sampled_from([x, ["(", *x, ")"]])), st.sampled_from("+-*/")
        ),
        min_size=1,
        max_size=3,
    ).map(lambda parts: [word for own, sign in parts for word in (*own, sign)][:-1]),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
# The part in parentheses depends on the order of operators, the whole does not.
@example(["2", "+", "0", "*", "2", "-", "(", "2", "+", "0", "*", "2", ")"])
@given(EXPRESSIONS)
def test_constants_are_those_of_the_oracle(words: list[str]) -> None:
    try:
        expected = naive.constant(words)
    except ValueError:
        expected = None
    text = " ".join(words).replace("( ", "(").replace(" )", ")")
    if expected is None:
        with pytest.raises(DefinitionError, match=r"whole number|order of operators"):
            constant(text)
    elif expected >= 0:
        assert constant(text) == expected


TYPES = """
01 MONEY  PIC S9(7)V99 COMP-3 IS TYPEDEF.
01 DATE-OF TYPEDEF STRONG.
   05 YEAR-OF  PIC 9(4).
   05 PRICE    USAGE MONEY.
01 R.
   03 BOUGHT   TYPE TO DATE-OF OCCURS 2.
   03 AGAIN    TYPE DATE-OF.
   03 LAST-ONE USAGE IS MONEY.
"""


def test_items_of_a_type_have_its_description() -> None:
    (layout,) = read_copybook(TYPES)
    assert [(f.level, f.name, f.offset, f.size, f.repeats) for f in layout.root.walk()] == [
        (1, "R", 0, 32, 1),
        (3, "BOUGHT", 0, 9, 2),
        (7, "YEAR-OF", 0, 4, 1),
        (7, "PRICE", 4, 5, 1),
        (3, "AGAIN", 18, 9, 1),
        (7, "YEAR-OF", 18, 4, 1),
        (7, "PRICE", 22, 5, 1),
        (3, "LAST-ONE", 27, 5, 1),
    ]
    assert layout.root.children[-1].usage is Usage.PACKED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("01 R.\n  05 A TYPE T.", r"T is not a type .*line 2, column 13.*with TYPEDEF"),
        ("01 R.\n  05 A TYPEDEF PIC X.", "A has TYPEDEF, but is not of level 01"),
        (
            "01 T PIC X TYPEDEF.\n01 R.\n  05 A TYPE T PIC X.",
            "A has the type T and also a description",
        ),
        ("01 T TYPEDEF.\n  05 A TYPE T.", "A has the type T, which is not complete"),
        ("01 T PIC X TYPEDEF.", "the copybook has no item"),
    ],
)
def test_types_that_are_not_known_are_named(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        read_copybook(text)


QUALIFIED = """
01 R.
   05 G.
      10 N PIC 9.
   05 H.
      10 N PIC 9.
   05 A PIC X OCCURS 0 TO 3 DEPENDING ON N OF G.
   05 B PIC X OCCURS 0 TO 3 DEPENDING ON N IN H OF R.
   05 S.
      10 N PIC 9.
      10 C PIC X OCCURS 0 TO 3 DEPENDING ON N.
   05 Z PIC X(2).
"""
digit = st.sampled_from("0123")


@given(st.tuples(digit, digit, digit))
def test_a_counter_is_the_one_that_its_groups_name(counts: tuple[str, str, str]) -> None:
    g, h, s = counts
    record = f"{g}{h}{'a' * int(g)}{'b' * int(h)}{s}{'c' * int(s)}zz".encode("cp037")
    (layout,) = read_copybook(QUALIFIED)
    decode = RecordDecoder(
        layout, RecordOptions(shape=ColumnShape.TREE, depending=DependingLength.REAL)
    ).decode
    naive_items = VaryingReader(record, Reading(), real=True).read(layout)

    (row,) = decode(records_of_length(record, len(record))).to_pylist()

    assert row["A"] == ["a"] * int(g)
    assert row["B"] == ["b"] * int(h)
    assert row["S"] == {"N": int(s), "C": ["c"] * int(s)}
    assert row["Z"] == "zz"
    flat = [*row["G"].values(), *row["H"].values(), *row["A"], *row["B"], int(s), *row["S"]["C"]]
    assert [item.value for item in naive_items if item.value is not None] == [*flat, "zz"]


def test_records_of_qualified_counters_are_found_and_written(tmp_path: Path) -> None:
    records = ["12abb3ccczz", "00" + "0zz", "31aaab1czz"]
    path, options = tmp_path / "data", {"copybook_text": QUALIFIED, "record_format": "layout"}
    path.write_bytes("".join(records).encode("cp037"))

    for more in ({}, {"names": "sql", "rename": {"G": "FIRST", "N": "COUNT"}}):
        found = read_records(path, **options, **more).read_all()  # type: ignore[arg-type]
        write_records(found.to_batches(), tmp_path / "new", **options, **more)  # type: ignore[arg-type]
        assert [len(row["B"]) for row in found.to_pylist()] == [2, 0, 1]
        assert (tmp_path / "new").read_bytes() == path.read_bytes()
        (tmp_path / "new").unlink()


def test_a_counter_that_nothing_depends_on_may_hold_anything(tmp_path: Path) -> None:
    text = "01 R.\n 05 G.\n 10 N PIC 9.\n 05 H.\n 10 N PIC 9.\n 05 A PIC X OCCURS 0 TO 2 DEPENDING ON N OF H.\n"
    path = tmp_path / "data"
    path.write_text("x1a\n")
    read = read_records(
        path, copybook_text=text, record_format="line", code_page="ascii", columns="A"
    )
    assert read.read_all().to_pylist() == [{"A": ["a"]}]


@pytest.mark.parametrize(
    ("usage", "size", "raw", "value"),
    [
        ("BINARY-CHAR", 1, "ff", -1),
        ("BINARY-CHAR UNSIGNED", 1, "ff", 255),
        ("BINARY-SHORT SIGNED", 2, "8000", -32768),
        ("USAGE IS BINARY-LONG", 4, "7fffffff", 2**31 - 1),
        ("BINARY-DOUBLE", 8, "8000000000000000", -(2**63)),
        ("BINARY-DOUBLE UNSIGNED", 8, "ffffffffffffffff", 2**64 - 1),
        ("FLOAT-SHORT", 4, "42640000", 100.0),
        ("FLOAT-LONG", 8, "4264000000000000", 100.0),
        ("PIC S9(4) COMP-9", 2, "0201", 0x0102),
        ("PIC S9(7) COMP-9", 4, "ffffffff", -1),
        ("PIC 9(5) COMP-N", 3, "010203", 0x010203),
        ("PIC X(3) COMP-N", 3, "ffffff", 0xFFFFFF),
        ("PIC S9(3) USAGE NATIONAL SIGN LEADING SEPARATE", 8, "002d003100320033", -123),
        ("PIC 9V9 NATIONAL", 4, "00310032", 1.2),
        ("PIC 9(2) NATIONAL", 4, "01310032", "bad"),
        ("PIC ZZ9.9- NATIONAL", 12, "002000200037002e0035002d", -7.5),
        ("PIC ZZ9 NATIONAL", 6, "002000200137", "bad"),
        ("PIC +9.9E+99 NATIONAL", 16, "002b0031002e00350045002b00300031", 15.0),
        ("PIC X(2) COMP-5", 2, "ffff", 65535),
        ("BINARY-INT", 4, "ffffffff", -1),
        ("BINARY-LONG-LONG UNSIGNED", 8, "00000000000000ff", 255),
    ],
)
def test_usages_have_their_bytes_and_values(usage: str, size: int, raw: str, value: Any) -> None:
    field = item(usage)
    assert field.size == size
    (found,) = decoded(field, bytes.fromhex(raw))
    assert found == value if isinstance(value, str) else Decimal(str(found)) == Decimal(str(value))


def test_edited_numbers_of_national_characters_are_written_as_they_are_read() -> None:
    field = item("PIC -Z,ZZ9.99 NATIONAL")
    for order, page in ((Endian.BIG, "utf-16-be"), (Endian.LITTLE, "utf-16-le")):
        raw = "-1,234.50".encode(page)
        (value,) = decoded(field, raw, national=order)
        values = pa.array([value], pa.decimal128(6, 2))
        assert value == Decimal("-1234.50")
        assert encoder(field, ValueOptions(national=order))(values).tobytes() == raw


def test_floating_point_of_pictures_of_one_length_is_read_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("+123.45E+02+12.345E+02\n")
    text = "01 R.\n  05 A PIC +9(3).99E+99.\n  05 B PIC +99.9(3)E+99.\n"
    options: Any = {"record_format": "line", "code_page": "ascii"}
    read = read_records(tmp_path / "data", copybook_text=text, **options).read_all()
    assert read.to_pylist() == [{"A": 12345.0, "B": 1234.5}]


def test_national_numbers_have_the_order_of_national_text() -> None:
    field, raw = item("PIC 9(2) NATIONAL"), bytes.fromhex("31003200")
    assert decoded(field, raw, national=Endian.LITTLE) == [12]
    assert encoder(field, ValueOptions(national=Endian.LITTLE))(pa.array([12])).tobytes() == raw


def test_native_numbers_have_the_order_of_the_machine() -> None:
    little = CobolDialect(native=Endian.LITTLE)
    for usage in ("PIC 9(5) COMP-N", "BINARY-SHORT"):
        field = item(usage)
        assert decoded(field, b"\x01" + bytes(field.size - 1), dialect=little) == [1]


@given(st.lists(st.integers(-9999, 9999), min_size=1))
def test_numbers_are_written_as_they_are_read(values: list[int]) -> None:
    for usage in ("COMP-9", "COMP-N", "NATIONAL SIGN TRAILING SEPARATE"):
        field = item(f"PIC S9(4) {usage}")
        raw = encoder(field)(pa.array(values)).tobytes()
        assert decoded(field, raw) == values


@pytest.mark.parametrize(
    ("picture", "text", "value"),
    [
        ("+9(3).99E+99", "+123.45E+02", 12345.0),
        ("+9(3).99E+99", "-123.45E-02", -1.2345),
        ("-9V9(3)E-99", " 1234E 05", 123400.0),
        ("-9V9(3)E-99", "-1234E-05", -1.234e-5),
        ("+9.9E+99", "*1.2E+03", "bad"),
        ("+9.9E+99", " 1.2E+03", "bad"),
        ("+9.9E+99", "        ", "bad"),
    ],
)
def test_floating_point_is_read_as_it_is_printed(picture: str, text: str, value: object) -> None:
    assert decoded(item(f"PIC {picture}"), text.encode("cp037")) == [value]


def test_floating_point_of_blanks_may_be_null_and_is_not_written() -> None:
    field = item("PIC +9.9E+99")
    assert decoded(field, b"\x40" * 8, blank=BlankPolicy.NULL) == [None]
    with pytest.raises(EncodeError, match=r"\(\+9\.9E\+99\) cannot be written"):
        encoder(field)


def test_a_decimal_comma_is_the_point_of_pictures() -> None:
    edited, floated = items(
        "01 R.\n  05 A PIC Z.ZZ9,99-.\n  05 B PIC +9,9E+99.\n", decimal_comma=True
    )
    assert [float(v) for v in decoded(edited, "1.234,50-".encode("cp037"))] == [-1234.5]
    assert encoder(edited)(
        pa.array([-1234.5]).cast(pa.decimal128(6, 2))
    ).tobytes() == "1.234,50-".encode("cp037")
    assert decoded(floated, "+1,5E+01".encode("cp037")) == [15.0]


@pytest.mark.parametrize(
    ("picture", "is_comma", "after", "point"),
    [("Z.ZZ9,99", False, "comma", "point"), ("ZZZ,ZZ9.99", True, "point", "comma")],
)
def test_a_picture_of_the_other_decimal_point_is_a_warning(
    picture: str, is_comma: bool, after: str, point: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"01 R.\n  05 A PIC {picture}.\n  05 B PIC X.\n"
    items(text, decimal_comma=is_comma)
    (warning,) = caplog.messages
    assert f"the picture {picture} has a {after} after its decimal {point}" in warning
    assert "decimalComma" in warning

    caplog.clear()
    items(text, decimal_comma=not is_comma)
    assert not caplog.messages


def test_points_of_a_picture_are_counted_as_it_is_written() -> None:
    with pytest.raises(DefinitionError, match=r"Z,ZZZ,ZZ9\.99 has commas .*decimalComma"):
        items("01 R.\n  05 A PIC Z,ZZZ,ZZ9.99.\n", decimal_comma=True)


def test_an_array_without_an_end_has_what_its_counter_counts(tmp_path: Path) -> None:
    text = "01 R.\n  05 N PIC 9(2).\n  05 A PIC X(2) OCCURS 0 TO UNBOUNDED DEPENDING ON N.\n"
    path = tmp_path / "data"
    path.write_bytes("".join(f"{n:02}{'ab' * n}\n" for n in (0, 3, 99)).encode())
    read = read_records(path, copybook_text=text, record_format="line", code_page="ascii")
    assert [len(row["A"]) for row in read.read_all().to_pylist()] == [0, 3, 99]
    counted = text.replace("9(2)", "S9(9) COMP").replace("0 TO UNB", "UNB")
    assert items(counted)[1].repeats == MAX_COLUMNS - 1


@pytest.mark.parametrize(
    ("before", "counter"),
    [
        ("  05 A.\n    10 N PIC 9(3).\n  05 B.\n    10 N PIC 9.\n", "N OF A"),
        ("  05 N PIC 9(3).\n", "N"),  # and the record after it has an N of one digit
    ],
)
def test_an_array_without_an_end_is_limited_by_the_counter_that_it_names(
    before: str, counter: str
) -> None:
    text = f"01 R.\n{before}  05 T PIC X OCCURS UNBOUNDED DEPENDING ON {counter}.\n"

    (layout, _) = read_copybook(text + "01 S.\n  05 N PIC 9.\n")

    assert layout.root.children[-1].repeats == 999


@pytest.mark.parametrize(
    ("counter", "count", "most"),
    [
        ("BINARY-CHAR", b"\x02", 127),
        ("BINARY-CHAR UNSIGNED", b"\x02", 255),
        ("BINARY-SHORT", b"\x00\x02", 32_766),
        ("BINARY-LONG", b"\x00\x00\x00\x02", MAX_COLUMNS - 1),
        ("PIC X COMP-X", b"\x02", 255),
    ],
)
def test_the_counter_of_an_array_without_an_end_may_have_no_digits(
    tmp_path: Path, counter: str, count: bytes, most: int
) -> None:
    text = f"01 R.\n  05 N {counter}.\n  05 T PIC X OCCURS UNBOUNDED DEPENDING ON N.\n"
    path = tmp_path / "data"
    path.write_bytes(count + b"ab")

    read = read_records(path, copybook_text=text, record_format="layout", code_page="ascii")

    assert items(text)[1].repeats == most
    assert [row["T"] for row in read.read_all().to_pylist()] == [["a", "b"]]


@pytest.mark.parametrize(
    ("counter", "reason"),
    [
        ("BINARY-DOUBLE", "up to 18 digits, not 19 digits"),
        ("INDEX", "up to 18 digits, not raw"),
        ("PIC S9(4)V9", "up to 18 digits, not PIC S9(4)V9"),
    ],
)
def test_a_counter_that_is_not_a_whole_number_is_refused_where_records_are_read(
    tmp_path: Path, counter: str, reason: str
) -> None:
    text = f"01 R.\n  05 N {counter}.\n  05 T PIC X OCCURS UNBOUNDED DEPENDING ON N.\n"
    path = tmp_path / "data"
    path.write_bytes(bytes(10))

    with pytest.raises(DefinitionError, match=re.escape(f"a whole number of {reason} (field N)")):
        read_records(path, copybook_text=text, record_length=10).read_all()


def test_counts_of_an_array_without_an_end_may_be_codes(tmp_path: Path) -> None:
    text = "01 R.\n  05 N PIC X.\n  05 T PIC X OCCURS UNBOUNDED DEPENDING ON N.\n"
    path = tmp_path / "data"
    path.write_bytes(b"Aab")

    read = read_records(
        path,
        copybook_text=text,
        count_map={"N": {"A": 2}},
        record_format="line",
        code_page="ascii",
    )

    assert [row["T"] for row in read.read_all().to_pylist()] == [["a", "b"]]


# What LENGTH OF shows where GnuCOBOL compiles with -std=default and -std=mf, and IBM's manual.
SIZES = {
    "S9(2) COMP": (2, 1, 1),
    "S9(4) COMP": (2, 2, 2),
    "S9(6) COMP": (4, 3, 4),
    "S9(9) COMP-5": (4, 4, 4),
    "S9(10) COMP-5": (8, 5, 8),
    "S9(18) BINARY": (8, 8, 8),
    "X(4) COMP-X": (4, 4, 4),
    "9(6) COMP-6": (3, 3, 3),
}


@pytest.mark.parametrize(("clauses", "sizes"), SIZES.items())
def test_compilers_have_their_sizes(clauses: str, sizes: tuple[int, int, int]) -> None:
    names = ("ibm", "micro-focus", "gnucobol")
    assert tuple(item(f"PIC {clauses}", **COMPILERS[name]).size for name in names) == sizes


# Micro Focus's table of storage: digits with a sign, and without one, that so many bytes hold (IBMCOMP off), up to 38.
BYTES_OF_DIGITS = [
    (*(18, 19), 8),
    (*(21, 21), 9),
    (*(23, 24), 10),
    (*(26, 26), 11),
    (*(28, 28), 12),
    (*(31, 31), 13),
    (*(33, 33), 14),
    (*(35, 36), 15),
    (*(38, 38), 16),
]


def test_micro_focus_has_binary_numbers_of_up_to_38_digits() -> None:
    smallest, before = COMPILERS["micro-focus"], (17, 17)
    words = {**smallest, "binary_sizes": BinarySizes.IBM}
    for signed, unsigned, size in BYTES_OF_DIGITS:
        for sign, most, least in (("S", signed, before[0]), ("", unsigned, before[1])):
            for digits in range(least + 1, most + 1):
                for usage in ("COMP", "COMP-5"):
                    clauses = f"PIC {sign}9({digits}) {usage}"
                    assert item(clauses, **smallest).size == size
                    assert item(clauses, **words).size == (8 if digits <= 18 else 16)
        before = signed, unsigned


@pytest.mark.parametrize("compiler", ["ibm", "gnucobol", "fujitsu"])
def test_other_compilers_have_binary_numbers_of_18_digits(compiler: str) -> None:
    for usage in ("COMP", "COMP-5", "COMP-X", "COMP-9"):
        with pytest.raises(DefinitionError, match=r"of 19 digits .*line 2.*=micro-focus 38"):
            item(f"PIC S9(19) {usage}", **COMPILERS[compiler])


def test_binary_numbers_of_38_digits_are_read_and_written(tmp_path: Path) -> None:
    text = (
        "01 R.\n  05 A PIC S9(38) COMP.\n  05 B PIC S9(30)V9(8) COMP-5.\n  05 C PIC 9(24) COMP-X.\n"
    )
    values = [
        {"A": Decimal(sign * (10**38 - 1)), "B": Decimal(sign * 7).scaleb(-8), "C": Decimal(c)}
        for sign, c in ((1, 10**24 - 1), (-1, 0))
    ]
    options: Any = {"copybook_text": text, "compiler": "micro-focus"}
    schema = pa.schema(
        [
            ("A", pa.decimal128(38, 0)),
            ("B", pa.decimal128(38, 8)),
            ("C", pa.decimal128(25, 0)),
        ]
    )
    batch = pa.RecordBatch.from_pylist(values, schema)

    write_records([batch], tmp_path / "data", **options)

    raw = (tmp_path / "data").read_bytes()
    assert len(raw) == 2 * (16 + 16 + 10)
    assert raw[:16] == (10**38 - 1).to_bytes(16, "big")
    assert raw[58:74] == (-7).to_bytes(16, "little", signed=True)
    read = read_records(tmp_path / "data", **options).read_all()
    assert read.schema.types == schema.types
    assert read.to_pylist() == values
    wrong = pa.RecordBatch.from_pylist([values[0] | {"C": Decimal(2**80)}], schema)
    with pytest.raises(EncodeError, match="a number outside 0 to 1208925819614629174706175"):
        write_records([wrong], tmp_path / "wrong", **options)


# What the offset of an item after one byte is where GnuCOBOL 3.1 compiles it; with the smallest sizes Micro Focus ignores SYNC.
SYNC = {
    "PIC S9(2) COMP": (2, 1, 1),
    "PIC S9(4) COMP": (2, 1, 2),
    "PIC S9(6) COMP": (4, 1, 4),
    "PIC S9(12) COMP": (4, 1, 8),
    "PIC S9(18) COMP-5": (4, 1, 8),
    "COMP-1": (4, 1, 4),
    "COMP-2": (8, 1, 8),
    "PIC S9(5) COMP-3": (1, 1, 1),
    "PIC 9(5) COMP-X": (1, 1, 1),
}


@pytest.mark.parametrize(("clauses", "offsets"), SYNC.items())
def test_compilers_have_their_boundaries(clauses: str, offsets: tuple[int, int, int]) -> None:
    text = f"01 R.\n  05 A PIC X.\n  05 B {clauses} SYNC.\n"
    names = ("ibm", "micro-focus", "gnucobol")
    assert tuple(items(text, **COMPILERS[name])[1].offset for name in names) == offsets


def test_the_boundary_of_16_bytes_is_not_known() -> None:
    words = {**COMPILERS["micro-focus"], "binary_sizes": BinarySizes.IBM}
    with pytest.raises(DefinitionError, match="X: SYNC of a binary number of 16 bytes"):
        item("PIC S9(20) COMP SYNC", **words)


def test_fujitsu_has_the_sizes_of_ibm() -> None:
    """Assumed: fujitsu-binary-sizes."""
    for clauses, (size, _, _) in SIZES.items():
        assert item(f"PIC {clauses}", **COMPILERS["fujitsu"]).size == size


def test_a_compiler_is_an_option_and_what_is_stated_beside_it_holds(tmp_path: Path) -> None:
    path, text = tmp_path / "data", "01 R.\n  05 A PIC S9(2) COMP.\n  05 B PIC S9(4) COMP-5.\n"
    path.write_bytes(b"\x01\x02\x00")
    read = read_records(path, copybook_text=text, compiler="gnucobol")
    assert read.read_all().to_pylist() == [{"A": 1, "B": 2}]
    path.write_bytes(b"\x00\x01\x00\x02")
    read = read_records(
        path, copybook_text=text, compiler="gnucobol", binary_sizes="ibm", native="big"
    )
    assert read.read_all().to_pylist() == [{"A": 1, "B": 2}]


def test_the_command_shows_what_differs_between_compilers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.cpy"
    path.write_text("01 R.\n  05 ID PIC 9(4).\n  05 A PIC S9(2) COMP.\n  05 B PIC X.\n")
    assert run(["copybook", str(path), "--dialects"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["item", "type", "ibm", "micro-focus", "gnucobol", "fujitsu"]
    assert lines[1].split() == ["R", "record", *(word for n in "7667" for word in (n, "bytes"))]
    assert [line.split()[0] for line in lines[2:4]] == ["A", "B"]
    assert run(["copybook", str(path), "--compiler", "gnucobol", "--format", "json"]) == 0
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fact["length"] for fact in facts] == [6, 4, 1, 1]


def test_compilers_that_refuse_a_copybook_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.cpy"
    path.write_text("01 R.\n  05 A PIC S9(20) COMP.\n")
    assert run(["copybook", str(path), "--dialects"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split() == ["item", "type", "micro-focus"]
    assert [line.split(":")[0] for line in shown.err.splitlines()] == ["ibm", "gnucobol", "fujitsu"]
    path.write_text("01 R.\n  05 A PIC Q.\n")
    assert run(["copybook", str(path), "--dialects"]) == 1


def test_a_counter_that_no_item_is_has_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    text = "01 R.\n  05 CNT PIC 9.\n  05 A PIC X OCCURS 1 TO 3 DEPENDING ON {}.\n"
    for counter, hint in {"CNT": None, "CNTT": "Did you mean CNT?", "ZZZ": ""}.items():
        caplog.clear()
        read_copybook(text.format(counter), source="od.cpy")
        if hint is None:
            assert not caplog.messages
        else:
            (warning,) = caplog.messages
            assert (
                f"A depends on {counter}, which is not an item of this record (od.cpy, line 3"
                in warning
            )
            assert warning.endswith(hint or ")")


@pytest.mark.parametrize(
    ("entry", "problem", "hint"),
    [
        ("A PIC X OCCURS 1 TO 3.", "A occurs 1 to 3 times without DEPENDING ON", "read with 3 elements"),
        ("A PIC X(5) COMP-1.", "A is COMP-1, which has no picture", "Its picture X(5) has no effect"),
        ("A PIC 9(5) USAGE INDEX.", "A is INDEX, which has no picture", "Its picture 9(5) has no effect"),
    ],
)  # fmt: skip
def test_words_without_effect_are_a_warning(
    entry: str, problem: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    read_copybook(f"01 R.\n  05 {entry}\n", source="words.cpy")

    (warning,) = caplog.messages
    assert f"{problem} (words.cpy, line 2" in warning
    assert hint in warning


@pytest.mark.parametrize(
    "text",
    [
        "01 R.\n* one\x85two\u2028three\n  05 A PIC X VALUE '\x85'.\n  05 B PIC {}.\n",
        "01 R.\x85* comment\x85  05 A PIC X.\x85  05 B PIC {}.\x85",
        "01 R.\r* comment\r  05 A PIC X.\r  05 B PIC {}.",
        "01 R.\n* comment\n\x0c  05 A PIC X.\n  05 B PIC {}.\n\x1a",
    ],
)
def test_lines_end_where_an_editor_ends_them(text: str) -> None:
    (layout,) = read_copybook(text.format("9"), source="lines.cpy")

    assert [field.name for field in layout.root.children] == ["A", "B"]
    with pytest.raises(DefinitionError, match=r"'Q' .* \(lines.cpy, line 4, column"):
        read_copybook(text.format("Q"), source="lines.cpy")
