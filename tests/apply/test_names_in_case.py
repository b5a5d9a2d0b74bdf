"""Two tables of a trail whose names differ only in case are two tables of the target, or an error; never one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apply.postgresql_server import running
from raw_trail import BIG, write_files
from trail.building import records_of, table_record
from trailgate import ApplyError, DefinitionError, apply_trail, verify_tables
from trailgate.apply.targets.target import table_rows
from trailgate.model.tables import Column, Table

ADDRESSES = {"delta": "delta:{}/lake", "duckdb": "duckdb:{}/x.duckdb"}


def write(prefix: Path, names: Sequence[str], column: str = "ID") -> Path:
    """Write a trail with a row of each table; row n is the one of table n."""
    records: list[bytes] = []
    for number, name in enumerate(names, 1):
        table = Table(name, (Column(column, 134, 8, key=True),))
        records.append(table_record(table, number, BIG))
        operation = {
            "op_type": "I",
            "op_ts": number,
            "tx_ind": "W",
            "csn": str(number),
            "tx_id": str(number),
            "before": {},
            "after": {column: number},
        }
        form = {"names": {"table_index": number}, "io_type": None, "width": 2, "cut": 9999}
        records += records_of(operation, table, {**form, "large": None}, BIG)
    return write_files(prefix, [records], level=5, definitions=False)


def rows(to: str, *names: str) -> list[Any]:
    found: list[Any] = table_rows("/".join((to, *names))).read_all()["id"].to_pylist()
    return found


CONFUSED = [
    ("duckdb", ["HR.ORDERS", "HR.Orders"]),
    ("duckdb", ["HR.Orders", "HR.ORDERS"]),
    ("duckdb", ["HR.ORDERS", "HR.orders"]),
    ("delta", ["HR.ORDERS", "HR.orders"]),
]


@pytest.mark.parametrize(("name", "tables"), CONFUSED)
@pytest.mark.parametrize("runs", [1, 2])
def test_one_target_table_for_both_is_an_error(
    name: str, tables: list[str], runs: int, tmp_path: Path
) -> None:
    """Also if an earlier run has applied the first of them."""
    to = ADDRESSES[name].format(tmp_path)
    if runs == 2:
        apply_trail(write(tmp_path / "ot", tables[:1]), to)
    trail = write(tmp_path / "ot", tables)

    with pytest.raises(DefinitionError, match=r"differ only in case.*FILTER"):
        apply_trail(trail, to)


@pytest.mark.parametrize("tables", [["HR.ORDERS", "HR.Orders"], ["HR.Orders", "HR.ORDERS"]])
def test_a_lake_has_both(tables: list[str], tmp_path: Path) -> None:
    to = ADDRESSES["delta"].format(tmp_path)
    apply_trail(write(tmp_path / "ot", tables[:1]), to)
    trail = write(tmp_path / "ot", tables)
    apply_trail(trail, to)

    numbers = {name: number for number, name in enumerate(tables, 1)}
    assert rows(to, "hr", "orders") == [numbers["HR.ORDERS"]]
    assert rows(to, "hr", "Orders") == [numbers["HR.Orders"]]
    report = verify_tables(trail, to)
    assert report.is_equal
    assert set(report.tables) == {"hr.orders", "hr.Orders"}


MAPS = {
    "MAP HR.*, TARGET X.*;": None,
    "MAP HR.ORDERS, TARGET X.ORDERS;": {"orders": [1, 2]},
    "MAP HR.ORDERS, TARGET X.A, FILTER (@STREQ (@GETENV ('GGHEADER', 'TABLENAME'), 'HR.ORDERS') = 1);\n"
    "MAP HR.ORDERS, TARGET X.B, FILTER (@STREQ (@GETENV ('GGHEADER', 'TABLENAME'), 'HR.orders') = 1);": {
        "a": [1],
        "b": [2],
    },
}


@pytest.mark.parametrize("maps", MAPS)
def test_map_statements_state_which_tables_they_are(maps: str, tmp_path: Path) -> None:
    to, params = ADDRESSES["duckdb"].format(tmp_path), tmp_path / "r.prm"
    params.write_text(f"REPLICAT r\n{maps}\n")
    trail = write(tmp_path / "ot", ["HR.ORDERS", "HR.orders"])
    expected = MAPS[maps]

    if expected is None:
        with pytest.raises(DefinitionError, match=r"both would be written to x\.orders"):
            apply_trail(trail, to, params=str(params))
    else:
        apply_trail(trail, to, params=str(params))
        assert {name: sorted(rows(to, "x", name)) for name in expected} == expected


@pytest.mark.servers
def test_a_system_column_of_postgresql_gets_another_name(tmp_path: Path) -> None:
    trail = write(tmp_path / "ot", ["HR.T"], column="CTID")
    with running() as server, pytest.raises(ApplyError, match=r"table hr\.t\)\. .*COLMAP"):
        apply_trail(trail, server)


@pytest.mark.parametrize("schema", ["TEMP", "INFORMATION_SCHEMA", "PG_CATALOG"])
def test_a_schema_of_duckdb_itself_is_mapped_to_another_one(schema: str, tmp_path: Path) -> None:
    trail = write(tmp_path / "ot", [f"{schema}.T"])
    with pytest.raises(ApplyError, match=rf"table {schema.lower()}.t.*MAP the table"):
        apply_trail(trail, ADDRESSES["duckdb"].format(tmp_path))
