"""Bytes that a copybook does not allow: each policy through the front ends, and the counts of what they decided on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobol.items import layout_of
from framed_files import frame
from laws import examples
from oracles import cobol_naive as naive
from trailgate.cli.main import run
from trailgate.cobol.copybook.layouts import Endian
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.cobol.records.record_bytes import records_at
from trailgate.cobol.records.record_options import (
    BadFieldPolicy,
    RecordOptions,
    ShortRecordPolicy,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.codec import BlankPolicy, PaddingPolicy, ValueOptions
from trailgate.errors import DecodeError, OptionError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_all_records, read_records
from trailgate.mainframe.jobs.verifying import verify_records
from trailgate.mainframe.jobs.writing import write_records

COPYBOOK = "01 R. 05 A PIC X(3). 05 N PIC 9(4). 05 Q PIC S9(3) COMP-3."
RECORDS = [
    "abc  12".encode("cp037") + b"\x12\x3c",
    "abc0012".encode("cp037") + b"\x40\x40",
    "x      ".encode("cp037") + b"\x00\x00",
    "zz 7   ".encode("cp037") + b"\x12\x3d",
]
ALL = {"padding": "trim", "blank": "null", "low_values": "zero"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"".join(RECORDS))
    return [str(tmp_path / "data"), str(tmp_path / "r.cpy")]


def rows(files: list[str], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_records(*files, **options).read_all().to_pylist()
    return found


def tally(files: list[str], **options: Any) -> PolicyTally:
    found = PolicyTally()
    options = {"copybook": files[1], **options}
    read_all_records(files[0], CopybookOptions.of(options), tally=found).read_all()
    return found


def test_a_number_after_blanks_is_read_and_others_are_errors_that_name_the_option(
    files: list[str],
) -> None:
    found = rows(files, errors="column")

    assert [row["N"] for row in found] == [12, 12, None, None]
    assert found[3]["_errors"][0]["reason"].endswith("with the option padding")
    with pytest.raises(DecodeError, match=r"not a zoned number.*record 1.*option padding"):
        rows(files, padding="error")


def test_each_decision_is_counted_by_option_and_item(files: list[str]) -> None:
    assert [(row["N"], row["Q"]) for row in rows(files, **ALL)] == [
        (12, 123),
        (12, None),
        (None, 0),
        (7, -123),
    ]
    assert list(tally(files, **ALL).lines()) == [
        "blank=null: 2 values (N 1, Q 1)",
        "lowValues=zero: 1 value (Q 1)",
        "padding=trim: 2 values (N 2)",
    ]
    assert tally(files, errors="column")["errors=column", "R", "N"] == 2


def test_a_chunk_that_is_read_again_is_counted_once(files: list[str]) -> None:
    found = PolicyTally()
    options = CopybookOptions.of({"copybook": files[1], "blank": "null", "padding": "trim"})
    reader = read_all_records(files[0], options, 1, found)
    with pytest.raises(DecodeError, match="record 3"):
        reader.read_all()
    assert found["padding=trim", "R", "N"] == 1


def test_the_command_prints_the_counts(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["records", files[0], "--copybook", files[1], "-o", "errors=column"]
    expected = ["errors=column: 4 values (N 2, Q 2)", "padding=left: 1 value (N 1)"]

    assert run([*command, "--format", "csv"]) == 0
    assert capsys.readouterr().err.splitlines() == expected
    assert run([*command, "--to", str(tmp_path / "out"), "-o", "splitBytes=9"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == expected


def test_a_reader_counts_as_it_is_read(files: list[str]) -> None:
    """What was counted before stays in the counter."""
    counts = Counter({("padding=trim", "R", "N"): 5})
    options: dict[str, Any] = ALL
    reader = read_records(*files, **options, counts=counts)
    assert sum(counts.values()) == 5

    reader.read_all()

    assert counts == {
        ("padding=trim", "R", "N"): 7,
        ("blank=null", "R", "N"): 1,
        ("blank=null", "R", "Q"): 1,
        ("lowValues=zero", "R", "Q"): 1,
    }


@pytest.mark.parametrize("form", ["rdw", "line", "spanned", "bdw"])
def test_records_of_other_lengths_are_skipped_by_option_and_keep_their_numbers(
    tmp_path: Path, form: str
) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[1]).write_text("01 A. 05 K PIC X. 05 N PIC 9.\n01 B. 05 K PIC X. 05 M PIC 9.")
    records = [one.encode() for one in ("A1", "", "B2", "A3333", "B4", "A", "A6")]
    Path(files[0]).write_bytes(frame(records, Framing(FrameKind(form))))
    options: dict[str, Any] = {
        "record_format": form,
        "code_page": "ascii",
        "kinds": "K: A=A, B=B",
        "number_column": True,
        "minimum_length": 2,
        "maximum_length": 4,
    }
    counts: Counter[tuple[str, str, str]] = Counter()

    with pytest.raises(DecodeError, match="2 to 4"):
        rows(files, **options)
    found = rows(files, **options, other_lengths="skip", counts=counts)
    nested = {"parents": "B=A", "children": "nested"}
    trees = rows(files, **options, **nested, other_lengths="skip")

    assert [row["_record_number"] for row in found] == [1, 3, 5, 7]
    assert [row["_record"] for row in found] == ["A", "B", "B", "A"]
    assert counts == {("otherLengths=skip", "skipped", ""): 3}
    assert [row["_record_number"] for row in trees] == [1, 7]
    assert [one["_record_number"] for one in trees[0]["A"]["B"]] == [3, 5]
    Path(files[0]).write_bytes(frame([b"A1", b"", b"B?"], Framing(FrameKind(form))))
    with pytest.raises(DecodeError, match="record 3"):
        rows(files, **options, other_lengths="skip")
    found_bad = verify_records(*files, **options, other_lengths="skip")
    assert [place.record for place in found_bad.fields[0].examples] == [3]
    with pytest.raises(OptionError, match="otherLengths=skip needs"):
        rows(files, other_lengths="skip", record="A")


def test_dropped_bytes_and_skipped_kinds_are_counted(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[0]).write_bytes("A1..B2..C3..".encode("cp037"))
    Path(files[1]).write_text("01 A. 05 K PIC X. 05 N PIC 9.\n01 B. 05 K PIC X. 05 M PIC 9.")
    found = tally(files, kinds="K: A=A, B=B, *", record_length=4)
    assert list(found.lines()) == [
        "kinds, *: 1 record (skipped 1)",
        "surplus=drop: 2 records (A 1, B 1)",
    ]


SHORT = """
01 R.
   05 A PIC X(3).
   05 N PIC 9(3).
   05 P PIC S9(3) COMP-3.
   05 C PIC 9(4) COMP-6.
   05 B PIC S9(4) COMP.
   05 U PIC N(2).
   05 G PIC 9(2) NATIONAL.
   05 M PIC S9(2) SIGN LEADING.
   05 D COMP-2.
   05 T PIC X(2).
   05 E PIC X(2).
"""


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(b"\xf1\xd2\x40\x00\x12\x3c\xe2\x20\x31"), max_size=38), max_size=6
    ),
    *(st.sampled_from(kind) for kind in (ShortRecordPolicy, BlankPolicy, PaddingPolicy, Endian)),
)
def test_records_of_any_length_are_what_the_oracle_reads(
    parts: list[list[int]],
    short: ShortRecordPolicy,
    blank: BlankPolicy,
    padding: PaddingPolicy,
    national: Endian,
) -> None:
    records = [bytes(part) for part in parts]
    layout = layout_of(SHORT)
    values = ValueOptions(blank=blank, padding=padding, national=national)
    decoder = RecordDecoder(
        layout,
        RecordOptions(
            values, errors=BadFieldPolicy.COLUMN, surplus=TrailingBytesPolicy.DROP, short=short
        ),
    )
    how = naive.Reading(
        blank=blank.value, padding=padding.value, short=short.value, national=national.value
    )
    sizes = np.array([len(record) for record in records], np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes

    data = np.frombuffer(b"".join(records), np.uint8)
    found = decoder.decode(records_at(data, starts, ends)).to_pylist()

    touched = 0
    for record, row in zip(records, found, strict=True):
        expected, wrong, padded = {}, set(), False
        for field in layout.root.children:
            cut = field.offset + field.size > len(record)
            try:
                expected[field.name] = naive.read_item(field, record, field.offset, how)
                padded |= cut
            except ValueError:
                expected[field.name] = None
                wrong.add(field.name)
        touched += padded
        assert {error["field"] for error in row.pop("_errors")} == wrong
        assert row == expected
    assert (
        short is ShortRecordPolicy.ERROR
        or decoder.tally[f"short={short.value}", "R", ""] == touched
    )


def test_lines_are_padded_and_other_records_are_not(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[0]).write_bytes(b"abc1234\nx\n")
    Path(files[1]).write_text("01 R. 05 A PIC X(3). 05 N PIC 9(4).")
    lines = {"record_format": "line", "code_page": "ascii"}

    assert [(row["A"], row["N"]) for row in rows(files, **lines, blank="null")] == [
        ("abc", 1234),
        ("x", None),
    ]
    assert list(tally(files, **lines, blank="null").lines()) == [
        "blank=null: 1 value (N 1)",
        "short=pad: 1 record (R 1)",
    ]
    with pytest.raises(DecodeError, match=r"before the field's end.*field N.*blank"):
        rows(files, **lines)
    Path(files[0]).write_bytes(b"\0\5\0\0x")
    framed = {"record_format": "rdw", "code_page": "ascii"}
    with pytest.raises(DecodeError, match=r"before the field's end.*field A.*option short"):
        rows(files, **framed)
    assert rows(files, **framed, short="null") == [{"A": "x", "N": None}]


def test_a_record_that_ends_before_its_counter_has_no_elements(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[0]).write_bytes(b"abc2xxyyZ\nabc\n")
    Path(files[1]).write_text(
        "01 R. 05 A PIC X(3). 05 N PIC 9. 05 T PIC XX OCCURS 0 TO 3 DEPENDING ON N. 05 Z PIC X."
    )
    found = rows(files, record_format="line", code_page="ascii", blank="null")
    assert found[1] == {"A": "abc", "N": None, "T": [], "Z": ""}


def test_text_is_utf_16_of_either_order(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[1]).write_text("01 R. 05 A PIC X(6). 05 N PIC N(2). 05 Q PIC 9(2).")
    for page, order in (("utf-16-le", "little"), ("utf-16-be", "big")):
        text, digits = "aß \u65e5".encode(page), "12".encode("cp037")
        Path(files[0]).write_bytes(text[:6] + text[-2:] + " ".encode(page) + digits)
        expected = [{"A": "aß", "N": "\u65e5", "Q": 12}]
        assert rows(files, code_pages=f"R={page}") == expected
        assert rows(files, code_pages=f"A={page}", national=order) == expected
    with pytest.raises(OptionError, match=r"no byte order.*utf-16-be or utf-16-le"):
        rows(files, code_pages="A=utf-16")


def test_numbers_are_always_text_by_option_and_text_is_trimmed_at_any_side(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[1]).write_text(
        "01 R. 05 A PIC X(4). 05 N PIC S9(3)V99. 05 B PIC 9(4) COMP. 05 T PIC X OCCURS 0 TO 2 DEPENDING ON B."
    )
    Path(files[0]).write_bytes(" ab 0012}\0\2xy".encode("ascii"))
    options: dict[str, Any] = {"code_page": "ascii", "numbers": "text", "shape": "flat"}

    assert rows(files, **options, trim="both") == [
        {"A": "ab", "N": "-001.20", "B": "0002", "T_1": "x", "T_2": "y"}
    ]
    assert [rows(files, **options, trim=side)[0]["A"] for side in ("left", "right", False)] == [
        "ab ",
        " ab",
        " ab ",
    ]
    reader = read_records(*files, **options, trim=False)
    write_records(reader, tmp_path / "new", files[1], **options, trim=False)
    assert (tmp_path / "new").read_bytes() == Path(files[0]).read_bytes()
    with pytest.raises(OptionError, match=r"integers=text and numbers=text are both given"):
        rows(files, **options, integers="text")


def test_printed_floating_point_follows_blank_too(tmp_path: Path) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[1]).write_text("01 R. 05 A PIC X. 05 F PIC +9.9E+99.")
    Path(files[0]).write_bytes(b"a+1.5E+01\nb\n")
    options: dict[str, Any] = {"record_format": "line", "code_page": "ascii"}

    for blank, value in (("null", None), ("zero", 0.0)):
        assert [row["F"] for row in rows(files, **options, blank=blank)] == [15.0, value]
        assert tally(files, **options, blank=blank)[f"blank={blank}", "R", "F"] == 1
    with pytest.raises(DecodeError, match="before the field"):
        rows(files, **options)


def test_padding_after_the_layout_is_dropped_by_option_and_other_bytes_are_not(
    tmp_path: Path,
) -> None:
    files = [str(tmp_path / "data"), str(tmp_path / "r.cpy")]
    Path(files[1]).write_text("01 R. 05 A PIC X(2).")
    lines: dict[str, Any] = {"record_format": "line", "code_page": "ascii", "surplus": "padding"}
    Path(files[0]).write_bytes(b"ab  \ncd\nef \0\n")

    assert [row["A"] for row in rows(files, **lines)] == ["ab", "cd", "ef"]
    assert list(tally(files, **lines).lines()) == ["surplus=padding: 2 records (R 2)"]
    Path(files[0]).write_bytes(b"ab  \nef x\n")
    with pytest.raises(DecodeError, match=r"more bytes than the copybook.*record 2"):
        rows(files, **lines)
