"""Segments of their own lengths in files with nothing but records, read and written by one rule (recordFormat=layout)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate import DecodeError, read_records, write_records

COPYBOOK = """
01  POLICY.
    05  SEG      PIC X.
    05  ID       PIC 9(3).
    05  BODY.
        10  NAME     PIC X(6).
    05  PART REDEFINES BODY.
        10  N        PIC 9.
        10  LINE OCCURS 0 TO 9 DEPENDING ON N.
            15  CODE PIC XX.
    05  SUM-OF REDEFINES BODY.
        10  AMOUNT   PIC S9(5) COMP-3.
    05  LONG-ONE REDEFINES BODY.
        10  NOTE     PIC X(12).
        10  PAIRS.
            15  M    PIC 9.
            15  A    PIC X OCCURS 0 TO 3 DEPENDING ON M.
            15  K    PIC 9.
            15  B    PIC 99 OCCURS 0 TO 3 DEPENDING ON K.
"""
KINDS = "SEG: B=BODY, P|Q=PART, S=SUM-OF, L=LONG-ONE"
HOW: dict[str, Any] = {
    "copybook_text": COPYBOOK,
    "kinds": KINDS,
    "record_format": "layout",
    "code_page": "ascii",
}
BODIES = st.text("abc", min_size=6, max_size=6).map(lambda text: f"B001{text}".encode())
PARTS = st.lists(st.text("xy", min_size=2, max_size=2), max_size=9).map(
    lambda codes: f"P002{len(codes)}{''.join(codes)}".encode()
)
SUMS = st.integers(0, 999).map(lambda n: b"S003" + bytes.fromhex(f"{n:05d}C"))
LONGS = st.tuples(st.text("mn", max_size=3), st.lists(st.integers(10, 99), max_size=3)).map(
    lambda own: (
        f"L004{'n' * 12}{len(own[0])}{own[0]}{len(own[1])}{''.join(map(str, own[1]))}".encode()
    )
)


@settings(max_examples=examples(24), deadline=None)
@given(st.lists(st.one_of(BODIES, PARTS, SUMS, LONGS), min_size=1, max_size=20))
def test_each_segment_ends_with_its_own_last_item(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("segments")
    (folder / "data").write_bytes(b"".join(records))

    table = read_records(folder / "data", raw=True, **HOW).read_all()
    plain = table.drop_columns(["_raw"])
    written = write_records(plain.to_batches(), folder / "again", **HOW)

    assert table["_raw"].to_pylist() == records
    assert written == len(records)
    assert (folder / "again").read_bytes() == b"".join(records)


def test_segments_can_have_the_whole_length_of_their_record(tmp_path: Path) -> None:
    text = (
        COPYBOOK.split("    05  LONG-ONE", maxsplit=1)[0]
        .replace("0 TO 9", "2")
        .replace("DEPENDING ON N", "")
    )
    how = {**HOW, "copybook_text": text, "kinds": "SEG: B=BODY, P=PART, S=SUM-OF"}
    records = [b"B001abcdef", b"P0022xxyy ", b"S003\x00\x12\x3c   "]
    (tmp_path / "data").write_bytes(b"".join(records))

    found = read_records(tmp_path / "data", raw=True, segment_length="record", **how).read_all()
    write_records(
        found.drop_columns(["_raw"]).to_batches(),
        tmp_path / "again",
        segment_length="record",
        **how,
    )

    assert found["_raw"].to_pylist() == records
    assert (tmp_path / "again").read_bytes() == b"".join(records)
    with pytest.raises(DecodeError):
        read_records(tmp_path / "data", **how).read_all()


def test_items_after_the_segments_are_in_each_record(tmp_path: Path) -> None:
    text = COPYBOOK.split("    05  PART", maxsplit=1)[0]
    text += "    05  SHORT-ONE REDEFINES BODY.\n        10  C  PIC XX.\n    05  LAST-ONE PIC X.\n"
    how = {**HOW, "copybook_text": text, "kinds": "SEG: B=BODY, C=SHORT-ONE"}
    records = [b"B001abcdef.", b"C002yy    !"]
    (tmp_path / "data").write_bytes(b"".join(records))

    found = read_records(tmp_path / "data", raw=True, **how).read_all()

    assert found["_raw"].to_pylist() == records
    assert found["SHORT-ONE"].to_pylist()[1] == {"SEG": "C", "ID": 2, "C": "yy", "LAST-ONE": "!"}


def test_an_unknown_kind_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"B001abcdefX000")
    with pytest.raises(DecodeError, match=r"'X' .*|no record length is known.*byte 10"):
        read_records(tmp_path / "data", **HOW).read_all()
