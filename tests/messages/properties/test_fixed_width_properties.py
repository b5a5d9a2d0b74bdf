"""The ``fixed.*`` properties together: defaults, layouts, and each wrong one named by its line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from held_captures import fixed_capture, messages_of
from trailgate.capture.capture import Capture
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import DefinitionError, OptionError, TrailgateError
from trailgate.formats.fixed_width.options import FixedWidthOptions
from trailgate.messages.property_rows import SourceKind

WRONG = tomllib.loads((Path(__file__).parent / "cases/wrong_fixed.toml").read_text())
LEAST = """fixed.copybook=a.cpy
fixed.header=HEADER
fixed.optype=OP
fixed.table=REC
"""
HEADER = """
01 HEADER.
   05 OP   PIC X.
   05 REC  PIC X(4).
   05 AT   PIC 9(8).
"""
FILES = {"a.cpy": f"{HEADER}01 ROW.\n   05 A PIC X.\n", "header.cpy": HEADER}


def capture_of(record: str, more: str = "") -> Capture:
    return fixed_capture(LEAST + more, {"a.cpy": f"{HEADER}01 ROW.\n{record}"})


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_wrong_property_is_named_with_its_line(case: dict[str, Any]) -> None:
    text = LEAST.replace(case.get("replace", "\0"), case.get("by", "")) + case.get("add", "")

    with pytest.raises(OptionError) as caught:
        fixed_capture(text, FILES)

    assert case["says"] in caught.value.problem
    assert case.get("hint", "") in caught.value.hint
    assert caught.value.where.source == "a.properties"
    assert caught.value.where.line == case.get("line")


def test_the_least_file_takes_defaults() -> None:
    capture = fixed_capture(LEAST, FILES)
    least = capture.options

    assert isinstance(least, FixedWidthOptions)
    assert least.seqid.kind is SourceKind.SEQ_ID
    assert least.timestamp.kind is SourceKind.TIMESTAMP
    assert least.framing == Framing(FrameKind.LINE, returns=True)
    assert least.values.dialect.code_page == "utf-8"
    assert [slot.column.name for slot in least.carried] == ["AT"]
    assert [table.name for table in capture.definitions] == ["ROW"]
    assert [column.name for column in capture.definitions.tables[0].columns] == ["AT", "A"]


def test_what_binds_itself_is_a_field_of_a_definitions_header_alone() -> None:
    text = """fixed.userdefs.tables=A.H,A.T
fixed.userdefs.A.H.columns=optype,table,seqid,other
fixed.userdefs.A.H.optype=vchar 1
fixed.userdefs.A.H.table=vchar 8
fixed.userdefs.A.H.seqid=vchar 8
fixed.userdefs.A.H.other=vchar 2
fixed.userdefs.A.T.columns=x
fixed.userdefs.A.T.x=vchar 2
fixed.header=a.h
"""
    options = fixed_capture(text, {}).options

    assert isinstance(options, FixedWidthOptions)
    assert (options.optype.name, options.seqid.name) == ("optype", "seqid")
    assert [source.name for source in options.table] == ["table"]
    assert [slot.column.name for slot in options.carried] == ["other"]


def test_a_field_behind_one_that_varies_is_refused() -> None:
    varying = "   05 N PIC 9.\n   05 B PIC X OCCURS 1 TO 3 DEPENDING ON N.\n"
    behind = f"{varying}   05 C PIC X.\n"

    with pytest.raises(DefinitionError, match=r"B occurs depending .*fixed\.depending=most"):
        capture_of(behind)
    assert len(capture_of(behind, "fixed.depending=most\n").definitions.tables[0].columns) == 6
    assert len(capture_of(varying).definitions.tables[0].columns) == 5


def test_two_records_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"two records are named ROW .*a\.cpy"):
        capture_of("   05 A PIC X.\n01 ROW.\n   05 B PIC X.\n")


@pytest.mark.parametrize(
    ("record", "more"),
    [
        ("   05 B PIC 9(30)P(9).\n", ""),
        ("   05 B PIC 9(3).\n", "fixed.codepage=utf-16\n"),
    ],
)
def test_a_field_that_nothing_can_read_is_refused_before_messages_come(
    record: str, more: str
) -> None:
    with pytest.raises(TrailgateError) as caught:
        capture_of(record, more)

    assert caught.value.where.field in ("B", "AT", "fixed.codepage")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("12abcd", ""),
        ("10", ""),
        ("13", "the counter of B is 3, but the record has none of its elements"),
        ("11abcd", "the counter of B is 1, but the record has more elements"),
        ("10abcd", "the counter of B is 0, but the record has more elements"),
        ("11ab    ", ""),  # a record of the longest size: its other elements were never set
        ("11ab00\0 ", ""),
        ("1", ""),  # ends before the counter
        ("13abcd", "the counter of B is 3, but the record has only 2 of its elements"),
        ("19abcdef", "B occurs 0 to 3 times, but its counter is 9"),
    ],
)
def test_a_counter_that_contradicts_its_record_is_an_error(row: str, problem: str) -> None:
    array = "   05 B OCCURS 0 TO 3 DEPENDING ON N.\n     10 C PIC X.\n     10 D PIC X.\n"
    capture = capture_of(f"   05 K PIC 9.\n   05 N PIC 9.\n{array}", "fixed.blank=null\n")

    parsed = capture.parse(messages_of([f"IROW 20260105{row}".encode()] * 2))

    assert len(parsed.problems) == (2 if problem else 0)
    assert all(problem in str(one.error) for one in parsed.problems)


@pytest.mark.parametrize("item", ["PIC 9(3)", "PIC S9(3)V99", "PIC 9(8)"])
def test_a_blank_field_names_the_property_that_reads_it(item: str) -> None:
    date = "* DATEFORMAT YYYYMMDD\n" if "9(8)" in item else ""
    capture = capture_of(f"   05 K PIC 9.\n{date}   05 A {item}.\n")

    (problem,) = capture.parse(messages_of([f"IROW 202601051{' ' * 8}".encode()])).problems

    assert "fixed.blank=null" in problem.error.hint
