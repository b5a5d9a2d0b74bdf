"""Types of SQL in copybooks: the items that the Db2 precompiler makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailgate import read_records
from trailgate.cobol.copybook.layouts import COMPILERS, CobolDialect
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.errors import DefinitionError

LOB = [("X-LENGTH", "native", 4), ("X-DATA", "text", 100)]
TYPES = {
    "CLOB(100)": LOB,
    "CLOB ( 100 )": LOB,
    "XML AS CLOB(100)": LOB,
    "CHARACTER LARGE OBJECT(100)": LOB,
    "CLOB(2K)": [("X-LENGTH", "native", 4), ("X-DATA", "text", 2048)],
    "BLOB(1M)": [("X-LENGTH", "native", 4), ("X-DATA", "raw", 1 << 20)],
    "BINARY LARGE OBJECT (7)": [("X-LENGTH", "native", 4), ("X-DATA", "raw", 7)],
    "DBCLOB(5)": [("X-LENGTH", "native", 4), ("X-DATA", "dbcs", 10)],
    "VARBINARY(9)": [("X-LEN", "native", 2), ("X-TEXT", "raw", 9)],
    "BINARY VARYING(9)": [("X-LEN", "native", 2), ("X-TEXT", "raw", 9)],
    "BINARY(9)": [("X", "raw", 9)],
    "ROWID": [("X-LEN", "native", 2), ("X-DATA", "raw", 40)],
    "CLOB-LOCATOR": [("X", "native", 4)],
    "BLOB_LOCATOR": [("X", "native", 4)],
    "TABLE LIKE HR.JOBS AS LOCATOR": [("X", "native", 4)],
    "RESULT-SET-LOCATOR VARYING": [("X", "native", 4)],
    "CLOB-FILE": [
        ("X-NAME-LENGTH", "native", 4),
        ("X-DATA-LENGTH", "native", 4),
        ("X-FILE-OPTIONS", "native", 4),
        ("X-NAME", "text", 255),
    ],
}


@pytest.mark.parametrize(
    "clause", ["USAGE IS SQL TYPE IS", "USAGE SQL TYPE IS", "SQL TYPE IS", "SQL TYPE"]
)
@pytest.mark.parametrize("type_", TYPES)
def test_types_of_sql_are_the_items_of_the_precompiler(type_: str, clause: str) -> None:
    text = f"01 R.\n  05 A PIC X.\n  05 X {clause} {type_}.\n  05 Z PIC X.\n"

    (layout,) = read_copybook(text)

    items = [field for field in layout.root.walk() if not field.children]
    assert [(f.name, f.usage.value, f.size) for f in items[1:-1]] == TYPES[type_]
    assert items[-1].offset == 1 + sum(size for _, _, size in TYPES[type_])


def test_the_lines_of_a_declaration_can_be_broken_and_tables_occur() -> None:
    text = "01 R.\n  05 X OCCURS 3 TIMES USAGE IS\n     SQL TYPE IS\n     CLOB(10).\n  05 Y SQL TYPE IS ROWID OCCURS 2.\n"
    (layout,) = read_copybook(text)
    assert [(f.name, f.offset, f.size, f.repeats) for f in layout.root.children] == [
        ("X", 0, 14, 3),
        ("Y", 42, 42, 2),
    ]


def test_a_constant_after_a_type_has_its_length() -> None:
    text = "01 R.\n  05 X SQL TYPE IS CLOB(10).\n  78 N VALUE LENGTH OF X.\n  05 Y PIC X(N).\n"
    (layout,) = read_copybook(text)
    assert layout.root.children[-1].size == 14


@pytest.mark.parametrize(
    "type_", ["CLOB", "FLOAT(3)", "CLOB(3T)", "XML", "TIMESTAMP", "CLOB(0)", "CLOB(2G)", "BLOB(2G)"]
)
def test_other_types_are_an_error_with_its_line(type_: str) -> None:
    with pytest.raises(DefinitionError, match="line 2"):
        read_copybook(f"01 R.\n  05 X USAGE IS SQL TYPE IS {type_}.\n  05 Z PIC X.\n")


def test_lengths_are_in_the_order_of_the_machine_and_bytes_stay_bytes(tmp_path: Path) -> None:
    text = "01 R.\n  05 X USAGE IS SQL TYPE IS VARBINARY(3).\n"
    (tmp_path / "data").write_bytes(b"\x00\x02\xff\x00\x01")
    found = read_records(tmp_path / "data", copybook_text=text).read_all()
    assert found.to_pylist() == [{"X": {"X-LEN": 2, "X-TEXT": b"\xff\x00\x01"}}]
    (tmp_path / "data").write_bytes(b"\x02\x00\xff\x00\x01")
    found = read_records(tmp_path / "data", copybook_text=text, compiler="micro-focus").read_all()
    assert found["X"].to_pylist()[0]["X-LEN"] == 2
    assert CobolDialect(**COMPILERS["micro-focus"]).native.value == "little"
