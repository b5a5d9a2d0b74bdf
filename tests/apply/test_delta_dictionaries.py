"""A MERGE into a Delta table writes dictionaries only for columns in which they save space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from apply.naive_batches import block_of_images
from trailgate import TrailAppender, apply_trail
from trailgate.apply.targets.delta_properties import FEWEST_ROWS, find_plain_columns
from trailgate.model.changes import INSERT, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

ROWS = 2 * FEWEST_ROWS
NAMES = ("FEW", "MANY", "PART.X")
TABLE = Table("HR.N", (Column("K", 134, 8, key=True), *(Column(name, 64, 40) for name in NAMES)))


def rows_of(count: int = ROWS) -> pa.Table:
    drawn = np.random.default_rng(1)
    many = [f"a longer value {number}" for number in drawn.integers(0, 1 << 40, count)]
    few = [f"value {number % 10}" for number in range(count)]
    texts = {"few": few, "many": many, "part.x": many}
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        }
    )


def apply_changes(folder: Path, *changes: tuple[int, Any, Any]) -> None:
    block = block_of_images(TABLE, changes)
    with TrailAppender(str(folder / "ot"), Definitions((TABLE,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("all")
    apply_trail(folder / "ot", f"delta:{folder}/lake")


def update(key: int) -> tuple[int, Any, Any]:
    return (UPDATE, {"K": key}, {"K": key, "FEW": "new"})


def footer(table: DeltaTable) -> pq.FileMetaData:
    (address,) = table.file_uris()
    return pq.ParquetFile(address.removeprefix("file://")).metadata


def test_a_column_of_many_values_gets_no_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "lake/hr/n"
    write_deltalake(path, rows_of())
    apply_changes(tmp_path, update(3))

    written = footer(DeltaTable(path))
    columns = [written.row_group(0).column(at) for at in range(written.num_columns)]
    assert {one.path_in_schema: "RLE_DICTIONARY" in one.encodings for one in columns} == {
        "k": False,
        "few": True,
        "many": False,
        "part.x": True,
    }
    assert {one.compression for one in columns} == {"SNAPPY"}
    assert all(one.statistics.has_min_max for one in columns)
    stored = DeltaTable(path).to_pyarrow_table().sort_by("k")
    expected = rows_of().to_pylist()
    expected[3]["few"] = "new"
    assert stored.to_pylist() == expected


@pytest.mark.parametrize("count", [0, 100])
def test_a_small_table_is_written_as_delta_rs_chooses(count: int, tmp_path: Path) -> None:
    path = tmp_path / "lake/hr/n"
    write_deltalake(path, rows_of(count))
    apply_changes(tmp_path, (INSERT, None, {"K": count, "FEW": "a", "MANY": "b", "PART.X": "c"}))

    assert len(DeltaTable(path).to_pyarrow_table()) == count + 1


def test_columns_are_chosen_by_their_bytes_for_each_row(tmp_path: Path) -> None:
    count = FEWEST_ROWS
    numbers = np.random.default_rng(2).integers(0, 1 << 31, count)
    columns = {
        "long": numbers,
        "int": numbers.astype(np.int32),
        "double": numbers / 7,
        "same": np.zeros(count, np.int64),
        "flag": numbers % 2 == 0,
        "null": pa.nulls(count, pa.string()),
        "list": [["a longer value", str(number)] for number in numbers],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")

    plain = find_plain_columns(pq.ParquetFile(tmp_path / "x.parquet").metadata)

    assert plain == ["long", "int", "double"]
