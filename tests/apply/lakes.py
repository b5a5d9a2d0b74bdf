"""What others do to tables of a lake: the same acts on tables of Delta and of Iceberg, one row each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

from trailgate.apply.targets.target import table_rows

CHECKPOINT: Final = "_trailgate/trailgate"


class Lake(NamedTuple):
    """A lake in a folder: its address for apply, and what others do to a table, whose path is such as ``hr/t``."""

    address: str
    create: Callable[[str, pa.Schema], object]
    drop: Callable[[str], object]
    add_column: Callable[[str, str], object]
    drop_column: Callable[[str, str], object]
    append: Callable[[str, pa.Table], object]
    version: Callable[[str], int]
    restore: Callable[[str, int], object]
    back_up: Callable[[str], Callable[[], object]]
    """Save a table, and return what puts the saved one in its place."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, sorted."""
        found = table_rows(f"{self.address}/{table}").read_all().to_pylist()
        return sorted(found, key=repr)


def delta_lake(folder: Path) -> Lake:
    """Return a folder of Delta tables."""
    root = folder / "lake"

    def drop_column(table: str, name: str) -> None:
        rows = pa.table(DeltaTable(root / table).scan()).drop_columns([name])
        write_deltalake(root / table, rows, mode="overwrite", schema_mode="overwrite")

    def add_column(table: str, name: str) -> None:
        field = Field(name, PrimitiveType("string"))
        DeltaTable(root / table).alter.add_columns([field])

    def back_up(table: str) -> Callable[[], object]:
        saved = folder / "saved"
        shutil.copytree(root / table, saved)

        def put_back() -> None:
            shutil.rmtree(root / table)
            shutil.move(saved, root / table)

        return put_back

    return Lake(
        f"delta:{root}",
        lambda table, schema: DeltaTable.create(root / table, schema),
        lambda table: shutil.rmtree(root / table),
        add_column,
        drop_column,
        lambda table, rows: write_deltalake(root / table, rows, mode="append"),
        lambda table: DeltaTable(root / table).version(),
        lambda table, version: DeltaTable(root / table).restore(version),
        back_up,
    )


def open_catalog(root: Path) -> closing[SqlCatalog]:
    """Open the Iceberg catalog of a folder, as others do."""
    root.mkdir(exist_ok=True)
    uri = f"sqlite:///{root}/catalog.db"
    return closing(SqlCatalog("lake", uri=uri, warehouse=f"file://{root}"))


def iceberg_lake(folder: Path) -> Lake:
    """Return a folder with an Iceberg catalog."""
    root = folder / "lake"

    def create(table: str, schema: pa.Schema) -> None:
        with open_catalog(root) as own:
            own.create_namespace_if_not_exists(tuple(table.split("/"))[:-1])
            own.create_table(tuple(table.split("/")), schema)

    def drop(table: str) -> None:
        with open_catalog(root) as own:
            own.drop_table(tuple(table.split("/")))

    def add_column(table: str, name: str) -> None:
        with (
            open_catalog(root) as own,
            own.load_table(tuple(table.split("/"))).update_schema() as update,
        ):
            update.add_column(name, StringType())

    def drop_column(table: str, name: str) -> None:
        with (
            open_catalog(root) as own,
            own.load_table(tuple(table.split("/"))).update_schema() as update,
        ):
            update.delete_column(name)

    def append(table: str, rows: pa.Table) -> None:
        with open_catalog(root) as own:
            own.load_table(tuple(table.split("/"))).append(rows)

    def version(table: str) -> int:
        with open_catalog(root) as own:
            found = own.load_table(tuple(table.split("/"))).metadata.current_snapshot_id
            assert found is not None
            return found

    def restore(table: str, version: int) -> None:
        with open_catalog(root) as own:
            snapshots = own.load_table(tuple(table.split("/"))).manage_snapshots()
            snapshots.set_current_snapshot(snapshot_id=version).commit()

    def back_up(table: str) -> Callable[[], object]:
        name = tuple(table.split("/"))
        with open_catalog(root) as own:
            saved = own.load_table(name).metadata_location

        def put_back() -> None:
            with open_catalog(root) as own:
                own.drop_table(name)
                own.register_table(name, saved)

        return put_back

    return Lake(
        f"iceberg:{root}",
        create,
        drop,
        add_column,
        drop_column,
        append,
        version,
        restore,
        back_up,
    )


LAKES: Final[Mapping[str, Callable[[Path], Lake]]] = {
    "delta": delta_lake,
    "iceberg": iceberg_lake,
}
