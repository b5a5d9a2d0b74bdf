"""Records whose own bytes state how long they are: numbers of any usage, sums, values with lengths, and counters of OCCURS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framed_files import split_rows
from laws import examples
from trailgate.errors import DecodeError, OptionError, TruncatedError
from trailgate.mainframe.jobs.reading import read_records
from trailgate.mainframe.jobs.writing import write_records

USAGES = {
    "PIC 9(4)": b"\xf0\xf0\xf0",
    "PIC S9(4)": b"\xf0\xf0\xf0",
    "PIC X(4)": b"\xf0\xf0\xf0",
    "PIC 9(7) COMP-3": b"\x00\x00\x00",
    "PIC S9(9) COMP": b"\x00\x00\x00",
    "PIC 9(8) COMP-6": b"\x00\x00\x00",
    "PIC S9(4) SIGN LEADING": b"\xc0\xf0\xf0",
}
LAST = {"COMP-3": b"\x8c", "COMP": b"\x08", "COMP-6": b"\x08", "S9(4)": b"\xc8"}


def rows(path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    found = read_records(path, copybook_text=text, **options)
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("usage", USAGES)
def test_a_length_is_a_number_of_any_usage(tmp_path: Path, usage: str) -> None:
    copybook = f"01 R.\n 05 K PIC X.\n 05 L {usage}.\n 05 T PIC X(3)."
    length = USAGES[usage] + LAST.get(usage.rsplit(maxsplit=1)[-1], b"\xf8")
    path = tmp_path / "data"
    path.write_bytes(2 * (b"\xc1" + length + "xyz".encode("cp037")))

    found = rows(path, copybook, record_format="length-field", length_field="L", columns="T")

    assert found == [{"T": "xyz"}] * 2


@pytest.mark.parametrize(
    ("length", "records"),
    [
        ("L + 2", [b"1xy", b"3xyzz"]),
        ("2 * L", [b"2xyz", b"3xyzzz"]),
        ("L*3 - 2", [b"2xyz", b"1"]),
        ("10*L + M - 12", [b"16xy", b"17xyz"]),
    ],
)
def test_a_length_is_a_sum(tmp_path: Path, length: str, records: list[bytes]) -> None:
    copybook = "01 R.\n 05 L PIC 9.\n 05 M PIC X.\n 05 T PIC X."
    path = tmp_path / "data"
    path.write_bytes(b"".join(records))
    how: dict[str, Any] = {"record_format": "length-field", "surplus": "drop", "raw": True}

    found = rows(path, copybook, length_field=length, code_page="ascii", columns="L", **how)

    assert [row["_raw"] for row in found] == records


def test_values_have_lengths(tmp_path: Path) -> None:
    copybook = "01 R.\n 05 K PIC X(2).\n 05 T PIC X(4)."
    path = tmp_path / "data"
    path.write_bytes(b"AAaaaaB bC bAAxxxxZZzzz")
    how: dict[str, Any] = {"record_format": "length-field", "length_field": "K", "raw": True}
    how |= {"code_page": "ascii", "columns": "K"}

    found = rows(path, copybook, length_map="AA=6, B=3, C=3, *=5", **how)

    assert [row["_raw"] for row in found] == [b"AAaaaa", b"B b", b"C b", b"AAxxxx", b"ZZzzz"]
    assert rows(path, copybook, length_map={"AA": 6, "B": 3, "C": 3, "*": 5}, **how) == found
    with pytest.raises(DecodeError, match=r"no record length is known .*byte 18"):
        rows(path, copybook, length_map="AA=6, B=3, C=3", **how)


COUNTED = """
01 R.
   05 N PIC 9.
   05 A OCCURS 0 TO 3 DEPENDING ON N.
      10 X PIC X(2).
   05 M PIC S9(3) COMP-3.
   05 B PIC X OCCURS 1 TO 5 DEPENDING ON M.
   05 C PIC 9(2) OCCURS 2.
"""


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12),
    st.integers(1, 60),
)
def test_records_are_as_long_as_their_elements(
    tmp_path_factory: pytest.TempPathFactory, counts: list[tuple[int, int]], split_bytes: int
) -> None:
    records = [
        (str(n) + "ab" * n).encode("cp037")
        + bytes([m >> 4, m << 4 & 0xF0 | 0x0C])
        + ("x" * m + "0102").encode("cp037")
        for n, m in counts
    ]
    path = tmp_path_factory.mktemp("records") / "data"
    path.write_bytes(b"".join(records))
    how: dict[str, Any] = {"record_format": "layout", "split_bytes": split_bytes}

    found = split_rows(path, copybook_text=COUNTED, raw=True, number_column=True, **how)

    assert [row["_raw"] for row in found] == records
    assert [row["_record_number"] for row in found] == list(range(1, len(records) + 1))
    assert [(row["N"], row["M"]) for row in found] == counts


def test_kinds_have_their_own_lengths(tmp_path: Path) -> None:
    copybook = """
01 H. 05 K PIC X. 05 A PIC X(3).
01 D. 05 K PIC X. 05 N PIC 9. 05 T PIC X OCCURS 0 TO 4 DEPENDING ON N.
"""
    path = tmp_path / "data"
    path.write_bytes(b"HabcD2xyD0Hdef")
    how: dict[str, Any] = {"record_format": "layout", "code_page": "ascii", "raw": True}

    found = rows(path, copybook, kinds="K: H=H, D=D", **how)

    assert [row["_raw"] for row in found] == [b"Habc", b"D2xy", b"D0", b"Hdef"]
    for kinds in ("K: H=H, D=D, *", "K: A THRU H=H, D=D"):
        with pytest.raises(OptionError, match="each kind is chosen by single values"):
            rows(path, copybook, kinds=kinds, **how)
    path.write_bytes(b"HabcX")
    with pytest.raises(DecodeError, match=r"no record length is known .*byte 4"):
        rows(path, copybook, kinds="K: H=H, D=D", **how)


def test_records_of_their_own_lengths_are_written_and_read_again(tmp_path: Path) -> None:
    batch = pa.record_batch({"N": [2, 0, 1], "T_1": ["a", None, "c"], "T_2": ["b", None, None]})
    how: dict[str, Any] = {
        "copybook_text": "01 R. 05 N PIC 9. 05 T PIC X OCCURS 0 TO 2 DEPENDING ON N.",
        "record_format": "layout",
        "shape": "flat",
    }

    assert write_records([batch], tmp_path / "data", **how) == 3

    found = pa.Table.from_batches(read_records(tmp_path / "data", **how))
    assert found.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("copybook", "options", "message"),
    [
        ("01 R. 05 L PIC 9V9. 05 T PIC X.", {"length_field": "L"}, "cannot be a length"),
        ("01 R. 05 L PIC 9. 05 T PIC X.", {"length_field": "LL"}, "LL is not one item .* L"),
        ("01 R. 05 L PIC 9. 05 T PIC X.", {"length_field": "L * L"}, "cannot be multiplied"),
        ("01 R. 05 L PIC 9. 05 T PIC X.", {"length_field": "L +"}, "not a length: 'L .'"),
        ("01 R. 05 L PIC 9. 05 T PIC X.", {"length_map": "A=1"}, "needs lengthField"),
        (
            "01 R. 05 L PIC 9. 05 T PIC X.",
            {"length_field": "L", "length_map": "A=3"},
            "cannot have the value 'A'",
        ),
        (
            "01 R. 05 T PIC X(3). 05 L PIC 9.",
            {"length_field": "L", "length_map": "1=3"},
            "of 3 bytes ends before L does",
        ),
        (
            "01 R. 05 L PIC 9.",
            {"length_field": "L", "length_offset": 1},
            "which determines lengthOffset",
        ),
    ],
)
def test_lengths_that_cannot_be_are_wrong_options(
    tmp_path: Path, copybook: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        rows(tmp_path, copybook, record_format="length-field", **options)


def test_a_table_in_a_table_is_refused_where_its_length_is_not_a_sum(tmp_path: Path) -> None:
    inner = "10 M PIC 9. 10 T PIC X OCCURS 0 TO 3 DEPENDING ON M."
    with pytest.raises(OptionError, match="is not a sum over its counters"):
        rows(
            tmp_path,
            f"01 R. 05 N PIC 9. 05 G OCCURS 0 TO 2 DEPENDING ON N. {inner}",
            record_format="layout",
        )
    path = tmp_path / "data"
    path.write_bytes(b"1a2bc0001x")
    found = rows(
        path,
        f"01 R. 05 G OCCURS 2. {inner}",
        record_format="layout",
        code_page="ascii",
        raw=True,
    )
    assert [row["_raw"] for row in found] == [b"1a2bc", b"00", b"01x"]


def test_a_counter_that_is_not_one_is_an_error_with_its_place(tmp_path: Path) -> None:
    copybook = "01 R. 05 N PIC 9. 05 T PIC X OCCURS 0 TO 2 DEPENDING ON N."
    path = tmp_path / "data"
    how: dict[str, Any] = {"record_format": "layout", "code_page": "ascii", "errors": "column"}
    path.write_bytes(b"1a3abc")
    with pytest.raises(DecodeError, match=r"is not a valid number .*data, byte 2, field N"):
        rows(path, copybook, **how)
    path.write_bytes(b"1a2b")
    with pytest.raises(TruncatedError, match=r"2 bytes are left over .*byte 2"):
        rows(path, copybook, **how)


def test_a_length_that_was_not_named_is_in_the_hint(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\x00\x08ABCDEF" * 2)
    message = r"read from 4 bytes at offset 0 of each record .*set lengthField=ITEM"
    with pytest.raises(TruncatedError, match=message):
        rows(path, "01 R. 05 L PIC 9(4) COMP. 05 A PIC X(6).", record_format="length-field")
