"""Sequential files of variable records as Micro Focus has them: a header, words with types, and padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framed_files import split_rows
from laws import examples
from trailgate import (
    DecodeError,
    EncodeError,
    OptionError,
    TruncatedError,
    read_records,
    write_records,
)
from trailgate.mainframe.jobs.editing import edit_records
from trailgate.mainframe.jobs.writing import WritingOptions


def header(width: int, longest: int, organization: int = 1, compression: int = 0) -> bytes:
    """Return the header, by its published table."""
    head = bytearray(128)
    head[:4] = b"\x30\x7e\0\0" if width == 2 else b"\x30\0\0\x7c"
    head[36:38] = b"\0\x3e"
    head[39], head[41], head[48] = organization, compression, 1
    head[54:58] = longest.to_bytes(4, "big")
    return bytes(head)


def typed(record: bytes, width: int, kind: int = 4) -> bytes:
    """Return a record after its word, padded to a multiple of four bytes, and eight at least."""
    word = (len(record) | kind << (8 * width - 4)).to_bytes(width, "big")
    made = word + record
    return made.ljust(max(8, -(-len(made) // 4) * 4))


UNIT = {2: 1, 4: 250}  # bytes of an item: the longest record has 24 bytes, or 5,004


def copybook(width: int) -> str:
    return f"01 R. 05 N PIC 9(4). 05 T PIC X({UNIT[width]}) OCCURS 0 TO 20 DEPENDING ON N."


def record(count: int, width: int = 2) -> bytes:
    return f"{count:04d}{'x' * count * UNIT[width]}".encode()


HOW: dict[str, Any] = {"record_format": "micro-focus", "code_page": "ascii", "native": "big"}


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from([2, 4]),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([4, 4, 4, 2, 1, 3])), max_size=30),
    st.integers(1, 200),
)
def test_records_are_found_and_written_again(
    tmp_path_factory: pytest.TempPathFactory,
    width: int,
    records: list[tuple[int, int]],
    split_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    longest = 4 + 20 * UNIT[width]
    parts = [typed(record(count, width), width, kind) for count, kind in records]
    (folder / "data").write_bytes(header(width, longest) + b"".join(parts))
    data = [record(count, width) for count, kind in records if kind == 4]
    how = {**HOW, "copybook_text": copybook(width)}

    found = read_records(folder / "data", raw=True, **how).read_all()
    split = split_rows(folder / "data", raw=True, split_bytes=split_bytes * UNIT[width], **how)
    plain = found.drop_columns(["_raw"])
    write_records(plain, folder / "again", **how)

    assert found["_raw"].to_pylist() == data
    assert [row["_raw"] for row in split] == data
    written = (folder / "again").read_bytes()
    assert written == header(width, longest) + b"".join(typed(one, width) for one in data)


def test_the_padding_of_the_last_record_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(header(2, 24) + typed(record(3), 2).rstrip())
    found = read_records(tmp_path / "data", copybook_text=copybook(2), raw=True, **HOW).read_all()
    assert found["_raw"].to_pylist() == [record(3)]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (typed(record(3), 2), DecodeError, "begins with 30 7E 00 00 or 30 00 00 7C"),
        (header(2, 9, organization=2), DecodeError, "has the organization 2"),
        (header(2, 9, compression=1), DecodeError, "is compressed"),
        (header(2, 9)[:100], TruncatedError, "100 bytes are left over"),
        (header(2, 9) + typed(record(3), 2)[:-4], TruncatedError, "are left over .*byte 128"),
        (header(2, 9) + typed(record(3), 2, 7), DecodeError, "type 7 .*byte 128"),
        (header(2, 9) + bytes(8), DecodeError, "type 0 .*byte 128"),
    ],
)
def test_other_files_are_errors_with_their_place(
    data: bytes, error: type[DecodeError], message: str, tmp_path: Path
) -> None:
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(error, match=message):
        read_records(tmp_path / "data", copybook_text=copybook(2), **HOW).read_all()


def test_fields_of_such_files_are_not_set(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(header(2, 24) + typed(record(3), 2))
    options = WritingOptions.of(
        {**HOW, "copybook_text": "01 R. 05 N PIC 9(4). 05 T PIC X(3)."}, in_place=True
    )
    with pytest.raises(OptionError, match="cannot set fields in Micro Focus files"):
        edit_records(tmp_path / "data", str(tmp_path / "new"), ["N=1"], options)


def test_a_file_without_records_has_its_header(tmp_path: Path) -> None:
    how = {**HOW, "copybook_text": "01 R. 05 A PIC X(3)."}
    write_records(pa.table({"A": pa.array([], pa.string())}), tmp_path / "data", **how)
    assert (tmp_path / "data").read_bytes() == header(2, 3)
    assert read_records(tmp_path / "data", **how).read_all().num_rows == 0


def test_a_record_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    how = {**HOW, "copybook_text": "01 R. 05 A PIC X(3).", "raw": True, "surplus": "drop"}
    table = pa.table({"A": ["abc"], "_raw": [b"abcde"]})
    with pytest.raises(
        EncodeError, match="a record of 5 bytes is longer than the copybook allows: 3"
    ):
        write_records(table, tmp_path / "data", **how)
