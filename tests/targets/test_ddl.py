"""CREATE TABLE for databases: what an apply creates there, and what the databases take."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.targets.ddl import DATABASES, DUCKDB, HELD, ORACLE, DdlDialect
from trailgate.apply.targets.duckdb import DuckDBTarget
from trailgate.apply.targets.target import AppliedPosition
from trailgate.errors import OptionError

COLUMNS = (
    TargetColumn("id", pa.int64()),
    *(TargetColumn(f"c{at}", kind) for at, kind in enumerate(HELD)),
    TargetColumn("price", pa.decimal128(19, 4)),
    TargetColumn("amount", pa.string(), number=True),
    TargetColumn("name", pa.string(), length=60),
    TargetColumn("story", pa.string(), length=100_000_000),
    TargetColumn('odd "`name', pa.string()),
)
TABLE = TargetTable(("my", "orders"), COLUMNS, (0,))


@pytest.mark.parametrize("database", DATABASES.values(), ids=DATABASES)
def test_a_database_has_a_type_for_all_that_is_held(database: DdlDialect) -> None:
    text = database.create_statement(TABLE, TABLE.name)

    assert len(database.types) == len(HELD)
    assert text.count("\n  ") == len(COLUMNS) + database.keys


def test_duckdb_creates_what_an_apply_creates_there(tmp_path: Path) -> None:
    path = str(tmp_path / "a.duckdb")
    target = DuckDBTarget(path, "g")
    target.create(TABLE)
    target.commit(AppliedPosition("aa", "0" * 20))
    target.close()
    columns = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'orders'"
    keys = "SELECT constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
    with duckdb.connect(path) as file, duckdb.connect() as memory:
        memory.execute("CREATE SCHEMA my").execute(DUCKDB.create_statement(TABLE, TABLE.name))

        assert memory.execute(columns).fetchall() == file.execute(columns).fetchall()
        assert memory.execute(keys).fetchall() == [(["id"],)]


def test_oracle_has_names_as_it_prints_them_and_no_key_of_large_objects() -> None:
    columns = (TargetColumn("id", pa.string()), TargetColumn("Name", pa.string(), length=4001))

    text = ORACLE.create_statement(TargetTable(("my", "orders"), columns, (0,)), ("my", "orders"))

    assert text == 'CREATE TABLE "MY"."ORDERS" (\n  "ID" CLOB,\n  "Name" CLOB\n)'


def test_a_name_that_is_too_long_is_refused() -> None:
    table = TargetTable(("t",), (TargetColumn("é" * 65, pa.string()),), (0,), keyless=True)

    with pytest.raises(OptionError, match=r"Oracle has names of at most 128 bytes.*table t"):
        ORACLE.create_statement(table, table.name)
