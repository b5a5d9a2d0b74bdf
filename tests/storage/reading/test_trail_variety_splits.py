"""Splits of a 12.2-like trail: metadata, DDL and pieces within transactions never tear them apart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from trail.building import (
    DDL_RECORD,
    FRAGMENT,
    INSERT,
    LARGE,
    LITTLE,
    cell,
    piece,
    record,
    table_record,
    text,
)
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header

TABLE = Table("S.T", (Column("ID", 64, 10, key=True), Column("NOTE", 64, 50)))


def write_trail(path: Path) -> Path:
    """Write a trail of 40 transactions, with all that may stand within one."""
    header = encode_header(FileHeader(TrailInfo(compatibility=5), order=LITTLE))
    by = {"table_index": 1, "order": LITTLE}
    parts = [header, table_record(TABLE, 1, LITTLE)]
    for number in range(40):
        ids = [(ord("6"), b"1.2.%d" % number), (ord("L"), b"%d" % (1000 + number))]
        key = cell(0, text(f"k{number}", LITTLE), LITTLE)
        whole = key + cell(1, text("note", LITTLE), LITTLE)
        parts += [
            record(INSERT, key, trans_ind=0, tokens=ids, **by),
            table_record(TABLE, 1, LITTLE),
            record(INSERT, whole[:9], trans_ind=1, continued=1, **by),
            record(FRAGMENT, whole[9:], trans_ind=1, **by),
            record(DDL_RECORD, b",B3='x',", name="", partition=0, order=LITTLE),
            record(INSERT, key, trans_ind=2, **by),
            record(LARGE, piece(1, (2, 2, 3), b"ge", LITTLE), continued=1, trans_ind=2, **by),
            record(LARGE, piece(1, (2, 1, 0), b"lar", LITTLE), trans_ind=2, **by),
        ]
    (path / "rt000000000").write_bytes(b"".join(parts))
    return path / "rt"


@pytest.mark.assumed
@pytest.mark.parametrize("split_bytes", [200, 777, 1500, 1 << 20])
def test_splits_hold_every_operation_once_with_its_transaction(
    tmp_path: Path, split_bytes: int
) -> None:
    trail = find_trail(write_trail(tmp_path), Definitions(()))

    whole = pa.Table.from_batches(read_trail(trail)).to_pylist()
    parts = [
        row
        for split in plan_splits(trail, split_bytes)
        for batch in read_split(trail, split)
        for row in batch.to_pylist()
    ]

    assert parts == whole
    assert [row["tx_ind"] for row in whole] == ["B", "M", "E"] * 40
    assert [row["tx_id"] for row in whole] == [f"1.2.{n // 3}" for n in range(120)]
    assert [dict(row["after"]).get("NOTE") for row in whole] == [None, "note", "large"] * 40
