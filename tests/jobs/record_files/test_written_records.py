"""Columns are written as files of records, and read again as they were."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trailgate
from trailgate.errors import EncodeError, OptionError, StorageError

COPYBOOK = """
01 R.
   05 N PIC 9.
   05 AMOUNT PIC S9(3)V99 COMP-3.
   05 T PIC X OCCURS 0 TO 3 DEPENDING ON N.
"""
BATCH = pa.record_batch(
    {
        "N": [2, 0],
        "AMOUNT": pa.array([Decimal("-1.25"), Decimal("3.00")], pa.decimal128(5, 2)),
        "T_1": ["a", None],
        "T_2": ["b", None],
        "T_3": pa.array([None, None], pa.string()),
    }
)
FRAMINGS: list[dict[str, Any]] = [
    {"record_format": "rdw"},
    {"record_format": "rdw", "little_endian": True, "adjustment": 4},
    {"record_format": "bdw"},
    {"record_format": "VBS", "little_endian": True},
    {"record_format": "VB", "block_records": 3},
    {"record_format": "VB", "block_length": 24, "bdw_twisted": True, "little_endian": True},
    {"record_format": "VBS", "block_length": 40, "block_records": 2, "bdw_adjustment": 4},
    {"record_format": "V", "twisted": True, "maximum_length": 7},
    {"record_format": "VB", "little_endian": True, "bdw_little_endian": False, "bdw_adjustment": 4},
    {"record_format": "VB", "adjustment": 4, "bdw_twisted": True, "bdw_adjustment": 0},
    {"record_format": "line", "delimiter": "\\r\\n"},
    {"record_format": "fixed", "depending": "most"},
]


@pytest.fixture
def copybook(tmp_path: Path) -> Path:
    path = tmp_path / "r.cpy"
    path.write_text(COPYBOOK)
    return path


@pytest.mark.parametrize("options", FRAMINGS, ids=str)
def test_written_records_are_read_again(
    tmp_path: Path, copybook: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "data"

    count = trailgate.write_records([BATCH, BATCH], path, copybook, **options)

    reading = {name: value for name, value in options.items() if not name.startswith("block_")}
    found = trailgate.read_records(path, copybook, shape="flat", **reading)
    assert count == 4
    assert pa.Table.from_batches(found).to_pylist() == 2 * BATCH.to_pylist()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_blocks_are_as_full_as_they_can_be_whatever_batches_hold(
    tmp_path: Path, copybook: Path, rows: int
) -> None:
    """Records of 6 and 4 bytes, with their words 10 and 8, in blocks of words of 4 bytes."""
    table = pa.Table.from_batches([BATCH, BATCH, BATCH])

    def blocks(**options: Any) -> list[int]:
        path = tmp_path / str(sorted(options.items()))
        batches = table.to_batches(max_chunksize=rows)
        assert trailgate.write_records(batches, path, copybook, record_format="VB", **options) == 6
        data, found = path.read_bytes(), []
        while data:
            size = int.from_bytes(data[:2], "big")
            found.append(size)
            data = data[size:]
        return found

    assert blocks() == [58]
    assert blocks(block_records=1) == [14, 12, 14, 12, 14, 12]
    assert blocks(block_records=4) == [40, 22]
    assert blocks(block_length=31) == [22, 22, 22]
    assert blocks(block_length=32) == [32, 30]
    assert blocks(block_length=400, block_records=5) == [50, 12]
    with pytest.raises(EncodeError, match=r"record of 10 bytes .* block of 12 \(.*, record 1\)"):
        blocks(block_length=12)
    with pytest.raises(OptionError, match="blockLength is not an option of recordFormat=rdw"):
        trailgate.write_records(
            [BATCH], tmp_path / "x", copybook, record_format="V", block_length=9
        )


def test_a_failed_write_leaves_no_file(tmp_path: Path, copybook: Path) -> None:
    path = tmp_path / "data"
    wrong = BATCH.set_column(0, "N", pa.array([2, 11]))

    with pytest.raises(EncodeError, match="record 4, field N"):
        trailgate.write_records([BATCH, wrong], path, copybook, record_format="rdw")

    assert [file.name for file in tmp_path.iterdir()] == ["r.cpy"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"record_format": "line", "delimiter": "\\xf2"},
            "not be read as it was written .*data, record 1",
        ),
        ({"record_format": "fixed"}, "framing: the file ends inside a record"),
        ({"record_format": "length-field", "length_width": 1}, "do not fit the framing"),
    ],
)
def test_records_that_would_not_be_found_again_are_refused(
    tmp_path: Path, copybook: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        trailgate.write_records([BATCH], tmp_path / "data", copybook, **options)


@pytest.mark.parametrize("name", BATCH.schema.names)
def test_a_column_that_is_not_an_item_is_refused_with_the_nearest_name(
    tmp_path: Path, copybook: Path, name: str
) -> None:
    position = BATCH.schema.get_field_index(name)
    names = [*BATCH.schema.names]
    names[position] += "X"
    renamed, more = (
        BATCH.rename_columns(names),
        BATCH.append_column("REMARK", BATCH.column(position)),
    )
    options: dict[str, Any] = {"record_format": "rdw"}

    with pytest.raises(EncodeError, match=rf"no item for the column {name}X.*Did you mean {name}"):
        trailgate.write_records([renamed], tmp_path / "data", copybook, **options)
    with pytest.raises(EncodeError, match="no item for the column REMARK"):
        trailgate.write_records([more], tmp_path / "data", copybook, **options)


def test_columns_added_by_reading_are_not_written(tmp_path: Path, copybook: Path) -> None:
    path, options = tmp_path / "data", {"record_format": "rdw"}
    added: Any = {**options, "shape": "flat", "errors": "column", "raw": True}
    trailgate.write_records([BATCH], path, copybook, record_format="rdw")
    found = list(trailgate.read_records(path, copybook, **added))

    trailgate.write_records(found, tmp_path / "again", copybook, **added)

    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    with pytest.raises(EncodeError, match="no item for the column _errors"):
        trailgate.write_records(found, tmp_path / "other", copybook, record_format="rdw")


def test_nothing_is_overwritten_and_reading_options_are_refused(
    tmp_path: Path, copybook: Path
) -> None:
    with pytest.raises(StorageError, match="already exists"):
        trailgate.write_records([BATCH], copybook, copybook, record_format="rdw")
    with pytest.raises(OptionError, match="is an option for reading"):
        trailgate.write_records([BATCH], tmp_path / "data", copybook, skip_first=1)


def test_a_record_that_would_lose_its_last_character_is_refused(tmp_path: Path) -> None:
    copybook = tmp_path / "r.cpy"
    copybook.write_text("01 R. 05 A PIC X(2).")
    batch = pa.record_batch({"A": ["ab", "a\r"]})
    options: dict[str, Any] = {"record_format": "line", "code_page": "ascii"}

    with pytest.raises(EncodeError, match=r"not be read as it was written .*data, record 2"):
        trailgate.write_records([batch], tmp_path / "data", copybook, **options)
    trailgate.write_records([batch], tmp_path / "data", copybook, delimiter="\\n", **options)

    assert (tmp_path / "data").read_bytes() == b"ab\na\r\n"


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("N", pa.array([1.5, 0.0]), "double values do not fit the item: Float value 1.500000"),
        ("T_1", pa.array([b"\xfe", b"\xfe"], pa.large_binary()), "large_binary values"),
        ("T_1", pa.array([b"\xff", None]), "binary values do not fit the item: Invalid UTF8"),
    ],
    ids=str,
)
def test_columns_that_arrow_cannot_convert_are_errors_with_their_field(
    tmp_path: Path, copybook: Path, name: str, values: pa.Array, problem: str
) -> None:
    table = pa.Table.from_batches([BATCH])
    wrong = table.set_column(table.column_names.index(name), name, values)

    with pytest.raises(EncodeError, match=re.escape(problem)) as raised:
        trailgate.write_records(wrong, tmp_path / "data", copybook, record_format="rdw")

    assert raised.value.where.field == name
    assert not (tmp_path / "data").exists()


# Of each usage with a picture of four digits: the numbers that fit two bytes, and those that warn.
LIMITS = {
    "PIC S9(4) COMP": ((-32768, -10000, 10000, 32767), (-9999, 0, 9999)),
    "PIC 9(4) BINARY": ((10000, 65535), (0, 9999)),
    "PIC S9(4) COMP-5": ((), (-32768, 32767)),
}


@pytest.mark.parametrize("usage", LIMITS)
def test_a_binary_number_above_its_picture_is_written_with_a_warning(
    usage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings(*values: int, **options: Any) -> list[str]:
        caplog.clear()
        text, path = f"01 R. 05 A {usage}.", tmp_path / "data"
        path.unlink(missing_ok=True)
        batch = pa.record_batch({"A": values})
        trailgate.write_records([batch], path, copybook_text=text, **options)
        read = trailgate.read_records(path, copybook_text=text, **options).read_all()
        assert read["A"].to_pylist() == list(values)
        return [record.getMessage() for record in caplog.records]

    above, within = LIMITS[usage]
    assert warnings(*within, *within) == []
    for value in above:
        (warning,) = warnings(0, value, *above)
        assert warning.startswith(f"A: {value} has more than the 4 digits of its picture")
        with pytest.raises(EncodeError, match="a number outside"):
            warnings(value, signs="strict")
