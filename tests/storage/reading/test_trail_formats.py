"""Trails of every format, written in parts and files, are read as the one of level 3 is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trail.batches import batch_of
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import EncodeError, StorageError
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.files.trail_files import TrailFile, find_trail
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.storage.writing.run_preparation import TableOptions, prepare_writing
from trailgate.storage.writing.table_writing import publish_parts, write_part
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat

KEY = Column("ID", 64, 40, fetch_offset=0, internal_length=40, binary_length=40, key=True)
TEXT = replace(KEY, name="TEXT", external_length=8000, fetch_offset=45, key=False, lob_type=1)
TABLES = Definitions(
    (Table("S.UNUSED", (KEY,)), Table("S.ONE", (KEY, TEXT)), Table("S.TWO", (KEY,)))
)
BIG, LITTLE = ByteOrder.BIG, ByteOrder.LITTLE
FORMATS = [
    *(TrailFormat(level) for level in range(8)),
    TrailFormat(4, LITTLE, UpdateFormat.FULL),
    TrailFormat(5, LITTLE),
    TrailFormat(7, LITTLE, UpdateFormat.FULL),
]


def operations() -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for number in range(40):
        when, key = 1_700_000_000_000_000 + number, {"ID": str(number)}
        common = {"op_ts": when, "tx_id": f"t{number}", "csn": str(100 + number)}
        large = {"TEXT": "long " * 1000} if number % 7 == 3 else {"TEXT": "short"}
        one = {"table": "S.ONE", "op_type": "U", "before": key | {"TEXT": "old"}}
        rows.append(common | one | {"after": key | large, "tx_ind": "B", "tokens": {"TK-A": "b"}})
        two = {"table": "S.TWO", "op_type": "I", "before": {}, "after": key}
        rows.append(common | two | {"tx_ind": "E"})
    return to_operations(batch_of(TABLES, rows))


def compared(batches: Any) -> list[dict[str, Any]]:
    names = ("table", "op_type", "op_ts", "tx_id", "tx_ind", "csn", "before", "after")
    return [{name: row[name] for name in names} for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "form", FORMATS, ids=lambda f: f"{f.level}-{f.order.label}-{f.updates.value}"
)
def test_a_trail_of_any_format_is_read_again(form: TrailFormat, tmp_path: Path) -> None:
    given = tmp_path / "given.def"
    given.write_bytes(write_sourcedefs(TABLES))
    target = prepare_writing(tmp_path / "xx", TableOptions(given, 9000, None, form))
    rows = operations()
    parts = [
        write_part(target, f"p{i}", [rows.slice(start, 40)]) for i, start in enumerate((0, 40))
    ]

    publish_parts(target, parts)

    trail = find_trail(tmp_path / "xx")
    assert len(trail.files) > 3
    assert compared(read_trail(trail)) == compared([rows])
    splits = plan_splits(trail, 3000)
    assert compared(batch for split in splits for batch in read_split(trail, split)) == compared(
        [rows]
    )
    for file in trail.files:
        check_header(file, form)


def test_a_table_too_large_for_metadata_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    tables = Definitions((Table("S.ONE", (KEY, replace(TEXT, external_length=70_000))),))
    given = tmp_path / "given.def"
    given.write_bytes(write_sourcedefs(tables))

    with pytest.raises(EncodeError, match=r"external length 70000 .*table S.ONE, field TEXT"):
        prepare_writing(tmp_path / "xx", TableOptions(given, trail_format=TrailFormat(5)))
    prepare_writing(tmp_path / "xx", TableOptions(given, trail_format=TrailFormat(4))).discard()

    assert [path.name for path in tmp_path.iterdir()] == ["given.def"]


def check_header(file: TrailFile, form: TrailFormat) -> None:
    with TrailFileReader(file) as reader:
        header, order = reader.header, reader.order
    assert order is form.order
    assert (header is None) == (form.level == 0)
    if header is not None:
        trail, producer = header.trail, header.producer
        assert (trail.compatibility, header.order) == (form.level, form.order)
        assert f"{producer.major_version}.{producer.minor_version}" == form.release
        assert (trail.file_size, trail.seqno) == (file.size, file.number)
        assert trail.first_csn is not None


def test_a_part_behind_a_job_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    given = tmp_path / "given.def"
    given.write_bytes(write_sourcedefs(TABLES))
    target = prepare_writing(tmp_path / "xx", TableOptions(given))
    target.discard()

    with pytest.raises(StorageError, match="the write was abandoned"):
        write_part(target, "late", [])

    assert [path.name for path in tmp_path.iterdir()] == ["given.def"]
