"""Items are NULL where an indicator states so, and their bytes are not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trailgate.errors import DecodeError, OptionError
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.writing import write_records

UNLOADED = """
01 R.
   05 ID PIC 9(2).
   05 PAY PIC S9(3) COMP-3.
   05 PAY-NULL PIC X.
   05 BONUS PIC 9(2).
   05 BONUS-NULL PIC S9(4) COMP.
   05 G OCCURS 2.
      10 CODE PIC 9.
      10 CODE-NULL PIC X.
"""
NAMES = "PAY=PAY-NULL, BONUS=bonus-null, code=CODE-NULL"
VALUE = b"\xf0\xf1" + b"\x12\x3c\0" + b"\xf4\xf2\0\0" + b"\xf7\x40" + b"\xf8\x6f"
NULLS = b"\xf0\xf2" + b"\xff\xff\xff" + b"??\xff\xff" + b"x\x6f" + b"\xf8\0"


def rows(path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    found = read_records(path, copybook_text=text, **options)
    return [row for batch in found for row in batch.to_pylist()]


def test_an_item_is_null_by_its_indicator(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(VALUE + NULLS)

    found = rows(path, UNLOADED, indicators=NAMES, columns="ID,PAY,BONUS,CODE")

    assert found == [
        {"ID": 1, "PAY": 123, "BONUS": 42, "G": [{"CODE": 7}, {"CODE": None}]},
        {"ID": 2, "PAY": None, "BONUS": None, "G": [{"CODE": None}, {"CODE": 8}]},
    ]
    with pytest.raises(DecodeError, match="record 2, byte 15, field PAY"):
        rows(path, UNLOADED)


def test_items_are_null_by_bits(tmp_path: Path) -> None:
    copybook = "01 R. 05 K PIC X. 05 BITS PIC X(2)." + "".join(
        f" 05 A{number} PIC 9." for number in range(9)
    )
    path = tmp_path / "data"
    path.write_bytes(b"a\x40\x80" + b"0?2345678"[:8] + b"x" + b"b\0\0" + b"012345678")

    wanted = [f"A{number}" for number in range(9)]
    found = rows(path, copybook, indicators="*=BITS", code_page="ascii", columns=wanted)

    assert [[row[f"A{number}"] for number in range(9)] for row in found] == [
        [0, None, 2, 3, 4, 5, 6, 7, None],
        list(range(9)),
    ]
    with pytest.raises(OptionError, match="BITS has 16 bits, but 17 items need one each"):
        rows(path, copybook + "".join(f" 05 B{n} PIC X." for n in range(8)), indicators="*=BITS")


def test_what_is_not_an_indicator_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(VALUE.replace(b"\x3c\0", b"\x3c\7"))
    with pytest.raises(DecodeError, match=r"not a NULL indicator .*byte 4, field PAY-NULL"):
        rows(path, UNLOADED, indicators=NAMES)
    (row,) = rows(path, UNLOADED, indicators=NAMES, errors="column")
    assert row["PAY"] is None
    assert [error["field"] for error in row["_errors"]] == ["PAY-NULL"]
    with pytest.raises(OptionError, match=r"no item PAY-NUL in .*PAY-NULL"):
        rows(path, UNLOADED, indicators="PAY=PAY-NUL")
    with pytest.raises(OptionError, match="indicators is an option for reading"):
        write_records([], tmp_path / "new", copybook_text=UNLOADED, indicators=NAMES)


def test_kinds_have_their_own_indicators(tmp_path: Path) -> None:
    copybook = """
01 H. 05 K PIC X. 05 A PIC 9. 05 A-NULL PIC X.
01 D. 05 K PIC X. 05 B PIC 9. 05 B-NULL PIC X.
"""
    path = tmp_path / "data"
    path.write_bytes(b"H1?D2 D??")

    found = rows(
        path,
        copybook,
        kinds="K: H=H, D=D",
        indicators={"A": "A-NULL", "B": "B-NULL"},
        columns="A,B",
        code_page="ascii",
    )

    values = [row["H"] or row["D"] for row in found]
    assert values == [{"A": None}, {"B": 2}, {"B": None}]
