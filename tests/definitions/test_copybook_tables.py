"""Copybook items become columns by one rule, and a record the table that gendef writes."""

from __future__ import annotations

import pytest

from trailgate.cobol.copybook.flat_columns import flat_columns
from trailgate.cobol.copybook.layouts import CopybookLayout
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.definitions.copybook_tables import table_of_layout
from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.definitions.defgen_layout import find_layout_fault
from trailgate.errors import DefinitionError
from trailgate.model.tables import Definitions

TEXT = """
01 REC.
   05 ID PIC 9(4).
   05 FILLER PIC X(2).
   05 HOME.
      10 CITY PIC X(3).
      10 PHONE PIC 9(2) OCCURS 2.
   05 WORK.
      10 CITY PIC X(3).
   05 ROW OCCURS 2.
      10 PART.
         15 SUB PIC X OCCURS 2.
      10 CITY PIC X.
"""


def layout_of(text: str) -> CopybookLayout:
    return read_copybook(text)[0]


@pytest.mark.parametrize(
    ("form", "picture", "length"),
    [
        ("YYMMDD", "9(6)", 10),
        ("YYYY-MM-DD HH:MM:SS", "X(19)", 19),
        ("YYYY-MM-DD HH:MM:SS.FFF", "X(23)", 23),
        ("YYYY-MM-DD HH:MM:SS.FFF", "X(29)", 29),
        ("YYYY-MM-DD HH:MM:SS.FFF", "X(32)", 29),
        ("YYYYMMDDHHMISSFFFF", "9(18)", 24),
    ],
)
def test_a_date_column_has_the_fraction_that_its_field_has_room_for(
    form: str, picture: str, length: int
) -> None:
    text = f"01 R.\n* DATEFORMAT {form}\n   05 D PIC {picture}."

    assert [column.external_length for column in table_of_layout(layout_of(text)).columns] == [
        length
    ]


def test_names_are_qualified_where_they_occur_twice_and_elements_have_their_index() -> None:
    found = [(column.name, column.offset) for column in flat_columns(layout_of(TEXT))]

    assert found == [
        ("ID", 0),
        ("HOME_CITY", 6),
        ("PHONE_1", 9),
        ("PHONE_2", 11),
        ("WORK_CITY", 13),
        ("SUB_1_1", 16),
        ("SUB_1_2", 17),
        ("ROW_CITY_1", 18),
        ("SUB_2_1", 19),
        ("SUB_2_2", 20),
        ("ROW_CITY_2", 21),
    ]


def test_groups_are_named_as_far_out_as_tells_columns_apart() -> None:
    text = "01 R. 05 A. 10 G. 15 X PIC X. 05 B. 10 G. 15 X PIC X. 05 Y PIC X."

    assert [column.name for column in flat_columns(layout_of(text))] == ["A_G_X", "B_G_X", "Y"]


def test_a_record_of_too_many_elements_is_an_error() -> None:
    text = "01 R. 05 A OCCURS 200. 10 B OCCURS 200. 15 C PIC X."
    with pytest.raises(DefinitionError, match="more than 32767 elements"):
        flat_columns(layout_of(text))


def test_the_type_translation_of_the_manual() -> None:
    """capture properties §5.1: PIC XX is CHAR(2), 9(4) NUMBER(4), a date DATE(10), ..."""
    text = """
01 T.
* KEY
   05 A PIC XX.
   05 B PIC 9(4).
* YYMMDD
   05 C PIC 9(6).
   05 D PIC 99.99.
   05 E PIC 9(5)V99.
   05 F PIC S9(25)V99 COMP-3.
   05 G COMP-1.
   05 H PIC N(3).
   05 I PIC 9(3)PP.
   05 J POINTER.
* DATEFORMAT YYYY-MM-DD-HH.MM.SS.FF
   05 K PIC X(22).
"""
    table = table_of_layout(layout_of(text), "S.T")

    found = [(c.name, c.data_type, c.external_length, c.scale, c.sub_type) for c in table.columns]
    assert found == [
        ("A", 0, 2, 0, 0),
        ("B", 134, 4, 0, 0),
        ("C", 192, 10, 0, 0),
        ("D", 134, 4, 2, 0),
        ("E", 134, 7, 2, 0),
        ("F", 64, 29, 2, 3),
        ("G", 64, 50, 0, 2),
        ("H", 64, 9, 0, 0),
        ("I", 134, 5, 0, 0),
        ("J", 64, 8, 0, 4),
        ("K", 192, 22, 0, 0),
    ]
    assert [c.name for c in table.columns if c.key] == ["A"]


def test_a_generated_definition_obeys_the_formulas_and_is_read_back() -> None:
    table = table_of_layout(layout_of(TEXT), "S.REC")

    written = write_sourcedefs(Definitions((table,)))

    assert find_layout_fault(table) is None
    assert read_sourcedefs(written).table("S.REC") == table
