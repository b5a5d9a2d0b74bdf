"""Columns that state where a record is: its file, number, offset and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framed_files import frame, split_rows
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.writing import write_records

COPYBOOK = "01 H. 05 K PIC X. 05 A PIC X(3).\n01 D. 05 K PIC X. 05 B PIC 9(3)."
RECORDS = [b"Habc", b"D123", b"D456"]
PLACES: dict[str, Any] = {
    "file_column": True,
    "number_column": True,
    "offset_column": True,
    "raw": True,
}
FORMATS = {
    "fixed": (Framing(FrameKind.FIXED, 4), [0, 4, 8]),
    "line": (Framing(FrameKind.LINE), [0, 5, 10]),
    "V": (Framing(FrameKind.RDW), [4, 12, 20]),
    "VB": (Framing(FrameKind.BDW), [8, 16, 24]),
    "VBS": (Framing(FrameKind.SPANNED), [8, 16, 32]),
}


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "r.cpy"
    path.write_text(COPYBOOK)
    return path


def rows(path: Path, copybook: Path, **options: Any) -> list[dict[str, Any]]:
    return split_rows(path, copybook=copybook, code_page="ascii", **options)


@pytest.mark.parametrize("record_format", FORMATS)
@pytest.mark.parametrize("split_bytes", [1 << 20, 6])
def test_a_record_has_its_file_number_offset_and_bytes(
    tmp_path: Path, copybook: Path, record_format: Any, split_bytes: int
) -> None:
    framing, offsets = FORMATS[record_format]
    path = tmp_path / "data"
    path.write_bytes(frame(RECORDS, framing))
    how = {"record_format": record_format, "split_bytes": split_bytes, **PLACES}

    found = rows(path, copybook, record="D", columns="K", **how)
    kinds = rows(path, copybook, kinds="K: H=H, D=D", **how)
    segment = rows(path, copybook, kinds="K: H=H, D=D", segment="D", **how)

    expected = [
        {"_raw": raw, "_file": str(path), "_record_number": number, "_offset": offset}
        for number, (raw, offset) in enumerate(zip(RECORDS, offsets, strict=True), 1)
    ]
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert [{name: row[name] for name in expected[0]} for row in kinds] == expected
    assert [{name: row[name] for name in expected[0]} for row in segment] == expected[1:]


def test_with_ids_the_file_is_named_once(tmp_path: Path, copybook: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"".join(RECORDS))

    found = rows(path, copybook, kinds="K: H=H, D=D", parents="D=H", **PLACES)

    assert [row["_record_id"] for row in found] == [row["_offset"] for row in found]
    assert {row["_file"] for row in found} == {str(path)}


def test_places_are_not_decoded_unless_asked_for_and_not_written(
    tmp_path: Path, copybook: Path
) -> None:
    named: dict[str, Any] = {
        "copybook": copybook,
        "record": "D",
        "code_page": "ascii",
        "shape": "flat",
    }
    options = CopybookOptions.of({**named, **PLACES})
    path = tmp_path / "data"
    path.write_bytes(b"".join(RECORDS[1:]))

    assert options.only(["B", "_offset"]).decoder().schema.names == ["B", "_raw", "_offset"]
    batches = list(read_records(path, **named, **PLACES))
    assert write_records(batches, tmp_path / "again", **named, **PLACES) == 2
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
