"""Headers and trailers of files are left out: by bytes, by records, and by the names of records."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from typing import Any

import pytest

from framed_files import frame, split_rows
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import DecodeError, OptionError

COPYBOOK = """
01 HEAD.
   05 DAY PIC X(8).
01 R.
   05 A PIC 9(4).
01 TAIL.
   05 N PIC 9(2).
"""
RECORDS = [b"%04d" % number for number in range(1, 40)]


def rows(path: Path, copybook: Path, **options: Any) -> list[dict[str, Any]]:
    return split_rows(path, copybook=copybook, code_page="ascii", **options)


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "r.cpy"
    path.write_text(COPYBOOK)
    return path


@pytest.mark.parametrize("kind", [FrameKind.FIXED, FrameKind.LINE, FrameKind.RDW, FrameKind.BDW])
@pytest.mark.parametrize("split_bytes", [1 << 20, 30])
def test_a_header_and_a_trailer_are_skipped_by_name(
    tmp_path: Path, copybook: Path, kind: FrameKind, split_bytes: int
) -> None:
    path = tmp_path / "data"
    path.write_bytes(frame([b"20260105", *RECORDS, b"39"], Framing(kind, 1)))
    how = {"record_format": kind.value, "split_bytes": split_bytes, "number_column": True}

    found = rows(path, copybook, header="HEAD", trailer="tail", **how)

    assert [row["A"] for row in found] == list(range(1, 40))
    first = 1 if kind is FrameKind.FIXED else 2
    assert [row["_record_number"] for row in found] == list(range(first, 39 + first))


@pytest.mark.parametrize("kind", [FrameKind.FIXED, FrameKind.LINE, FrameKind.RDW])
@pytest.mark.parametrize("split_bytes", [1 << 20, 30])
def test_bytes_before_and_after_the_records_are_skipped(
    tmp_path: Path, copybook: Path, kind: FrameKind, split_bytes: int
) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\0\n\xff" + frame(RECORDS, Framing(kind, 4)) + b"\n\xff")
    how = {"record_format": kind.value, "record": "R", "skip_first": 1, "offset_column": True}

    found = rows(path, copybook, header_bytes=3, trailer_bytes=2, split_bytes=split_bytes, **how)

    assert [row["A"] for row in found] == list(range(2, 40))
    head = {FrameKind.FIXED: 4, FrameKind.LINE: 5, FrameKind.RDW: 12}
    assert found[0]["_offset"] == 3 + head[kind]
    path.write_bytes(b"\0\n\xff\n\xff")
    assert rows(path, copybook, header_bytes=3, trailer_bytes=2, **how) == []


def test_what_cannot_be_is_named(tmp_path: Path, copybook: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"0001")
    with pytest.raises(DecodeError, match=r"4 bytes are fewer than a header of 3 and a trailer of"):
        rows(path, copybook, record="R", header_bytes=3, trailer_bytes=2)
    with pytest.raises(OptionError, match=r"header cannot be combined with options that skip"):
        rows(path, copybook, record="R", header="HEAD", skip_first=1)
    with pytest.raises(OptionError, match=r"no record HEAT .*HEAD"):
        rows(path, copybook, record="R", header="HEAT")
    packed = tmp_path / "data.gz"
    packed.write_bytes(gzip.compress(b"xx00010002"))
    assert [row["A"] for row in rows(packed, copybook, record="R", header_bytes=2)] == [1, 2]
    with pytest.raises(
        DecodeError, match="trailer of 1 bytes cannot be found in a compressed file"
    ):
        rows(packed, copybook, record="R", trailer_bytes=1)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("split_bytes", [1 << 20, 10])
@pytest.mark.parametrize("page", ["utf-8", "ascii", "latin-1"])
def test_the_byte_order_mark_of_a_text_file_is_not_in_its_first_record(
    tmp_path: Path, page: str, split_bytes: int, packed: bool
) -> None:
    path = tmp_path / ("data.gz" if packed else "data")
    raw = codecs.BOM_UTF8 + b"0001 ab\n0002\n0003 c\n"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    text = "01 R. 05 A PIC 9(4). 05 FILLER PIC X. 05 B PIC X(9)."
    how: dict[str, Any] = {"copybook_text": text, "code_page": page, "record_format": "line"}

    found = split_rows(path, split_bytes=split_bytes, offset_column=True, number_column=True, **how)

    values = [(row["A"], row["B"], row["_record_number"], row["_offset"]) for row in found]
    assert values == [(1, "ab", 1, 3), (2, "", 2, 11), (3, "c", 3, 16)]


def test_bytes_like_a_mark_are_kept_in_records_that_are_not_lines(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(codecs.BOM_UTF8 + b"1")
    found = split_rows(tmp_path / "data", copybook_text="01 R. 05 A PIC X(4).", code_page="latin-1")
    assert found == [{"A": "\u00ef\u00bb\u00bf1"}]
