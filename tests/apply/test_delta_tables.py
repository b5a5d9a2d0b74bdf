"""Delta tables that others created: each is applied to as it is, or the error says what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from apply.deletion_vectors import delete_by_vector, vectors
from apply.naive_batches import block_of_images
from apply.test_keys_and_values import HISTORIES, TABLES
from apply.value_histories import FORMS, History, run_histories
from apply.value_table import TARGETS, VALUES
from laws import WHOLE, chance, examples
from trailgate import TrailAppender, apply_trail, verify_tables
from trailgate.apply.tables import target_table
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

T: Final = Table("HR.T", (Column("ID", 134, 8, key=True), Column("V", 64, 20)))
NUMBERS: Final = Table("HR.N", (Column("K", 135, 8, key=True), Column("A", 134, 8, scale=2)))
Change = tuple[int, dict[str, Any] | None, dict[str, Any] | None]


def write(prefix: Path, *changes: Change, table: Table = T) -> None:
    """Append operations to a trail, each a transaction."""
    block = block_of_images(table, changes)
    with TrailAppender(str(prefix), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("all")


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(DeltaTable(path).scan()).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


# How others create a table of a schema.
CREATED: Final[Mapping[str, Callable[[Path, pa.Schema], object]]] = {
    "statistics of all columns": DeltaTable.create,
    "columns in another order": lambda path, schema: DeltaTable.create(
        path, pa.schema(reversed(list(schema)))
    ),
    "partitions": lambda path, schema: DeltaTable.create(
        path, schema, partition_by=[name for name in schema.names if _parts(schema.field(name))][:1]
    ),
    "mapped columns": lambda path, schema: DeltaTable.create(
        path,
        schema,
        configuration={
            "delta.columnMapping.mode": "name",
            "delta.minReaderVersion": "2",
            "delta.minWriterVersion": "5",
        },
    ),
    "deletion vectors": DeltaTable.create,
}


def _parts(field: pa.Field) -> bool:
    """Return whether a column may part a table: the value of a partition is text, and empty text there is NULL."""
    return bool(pa.types.is_integer(field.type) or pa.types.is_decimal(field.type))


def mark_copies(path: str) -> None:
    """Write a table anew with each row twice, and delete the copies by a deletion vector."""
    table = DeltaTable(path)
    found = pa.table(table.scan()).cast(pa.schema(table.schema()))
    if found.num_rows:
        write_deltalake(table, pa.concat_tables([found, found]), mode="overwrite")
        (file,) = (Path(uri).name for uri in DeltaTable(path).file_uris())
        delete_by_vector(Path(path), {file: list(range(found.num_rows, 2 * found.num_rows))})
        assert vectors(Path(path)) == 1


@pytest.mark.timeout(0 if WHOLE else 300)
@pytest.mark.parametrize("created", CREATED)
def test_a_table_has_the_sources_rows(created: str, tmp_path: Path) -> None:
    target, own = TARGETS["delta"], chance(f"delta {created}")
    for number in range(-(-(HISTORIES if WHOLE else examples(8)) // TABLES)):
        folder = tmp_path / str(number)
        types = own.sample(VALUES, TABLES)
        histories = [
            History.drawn(own, f"T{at}", own.choice(FORMS), target, key, many=at == 0)
            for at, key in enumerate(types)
        ]
        paths = [folder / "lake" / "hr" / f"t{at}" for at in range(TABLES)]
        for path, history in zip(paths, histories, strict=True):
            path.mkdir(parents=True)
            CREATED[created](path, target_table(history.table).schema)

        def between(_: str, paths: list[Path] = paths) -> None:
            if created == "deletion vectors":
                for path in paths:
                    mark_copies(str(path))

        run_histories(folder, histories, target, _applied, own, between=between)


def _applied(trail: Path, to: str, batch_bytes: int) -> None:
    apply_trail(trail, to, batch_bytes=batch_bytes)
    assert verify_tables(trail, to).is_equal
