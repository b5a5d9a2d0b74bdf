"""A trail as a pyarrow reader: its schema is known at once, and whatever reads Arrow takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sample_trail import NOTES, Op, write_trail
from trailgate.errors import DecodeError, OptionError, StorageError, TrailgateError
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.table_names import TablePatterns
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trails import read_trail

FILES = [
    [[Op("I", 1, "one")], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "nine")]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_trail(tmp_path / "ot", FILES)


def test_a_trail_is_a_table_of_operations(prefix: Path) -> None:
    reader = read_trail(prefix)

    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == OPERATIONS_SCHEMA
    assert pa.table(reader)["op_type"].to_pylist() == ["I", "U", "D", "I", "I"]


@pytest.mark.parametrize(
    "options", [{}, {"table": "MY.NOTES"}, {"tables": "MY.NOTES"}, {"records": "all"}]
)
def test_every_batch_has_the_schema_of_the_reader(prefix: Path, options: dict[str, Any]) -> None:
    reader = read_trail(prefix, **options)

    assert all(batch.schema.equals(reader.schema, check_metadata=True) for batch in reader)


@pytest.mark.parametrize("options", [{}, {"table": "MY.NOTES"}, {"records": "all"}])
def test_the_schema_is_known_where_there_are_no_rows(prefix: Path, options: dict[str, Any]) -> None:
    full = read_trail(prefix, **options).read_all()
    empty = read_trail(prefix, after="9" * 20, **options).read_all()

    assert full.num_rows > 0
    assert empty.num_rows == 0
    assert empty.schema == full.schema


def test_values_are_passed_as_values(prefix: Path) -> None:
    definitions = Path(f"{prefix}.def")

    patterns: Any = TablePatterns(("MY.NOTES",))

    for tables in ("my.n*,A.B", ["my.n*", "A.B"], patterns):
        rows = read_trail(prefix, tables=tables, definitions=definitions).read_all()
        assert rows["table"].to_pylist() == ["MY.NOTES"]
    own = find_trail(prefix).definitions
    assert read_trail(prefix, definitions=own, limit=2).read_all().num_rows == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tables": 7}, "tables must be str or Iterable or TablePatterns or None, not 7"),
        ({"tables": ["A.B", 7]}, "tables must be patterns of tables"),
        ({"table": 7}, "table must be str or None, not 7"),
        ({"records": "some"}, "records must be 'operations' or 'all', not 'some'"),
        ({"after": 12}, "after must be str or None, not 12"),
        (
            {"definitions": 1.5},
            "definitions must be str or PathLike or Definitions or None, not 1.5",
        ),
    ],
)
def test_a_wrong_value_is_an_error_at_once(
    prefix: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        read_trail(prefix, **options)


def test_a_missing_trail_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        read_trail(tmp_path / "ot")


def test_a_damaged_trail_is_our_error_where_the_reader_meets_it(prefix: Path) -> None:
    path = Path(f"{prefix}000000001")
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(bytes(data))
    Path(f"{prefix}.manifest.json").unlink(missing_ok=True)
    reader = read_trail(prefix)

    with pytest.raises(DecodeError, match="ot000000001") as caught:
        reader.read_all()

    assert isinstance(caught.value, TrailgateError)
