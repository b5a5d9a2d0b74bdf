"""Rows that are deleted stay, marked, whatever batches a log is cut into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from apply.sources import TARGETS, write_log
from apply.test_net_effects import history
from laws import chance, examples
from oracles.apply_naive import COLUMNS, Operation
from trailgate import ApplyError, apply_trail
from trailgate.apply.targets.target import table_rows

Marked = dict[int, tuple[dict[str, Any], bool]]
FULL = {"a": 1, "b": 2, "c": 3}
READ_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("id", *COLUMNS)),
        ("_deleted", pa.bool_()),
        ("_deleted_at", pa.timestamp("us")),
    ]
)


def soft_deleted(log: Sequence[Operation]) -> Marked:
    """Return the rows after a log that fits them, each with whether it is deleted."""
    live: dict[int, list[dict[str, Any]]] = {}
    gone: dict[int, dict[str, Any]] = {}
    for one in log:
        if one.kind == "T":
            gone |= {key: rows[0] for key, rows in live.items() if rows}
            live = {}
        elif one.kind == "D":
            gone[one.key] = live[one.key].pop(0)
        elif one.kind == "U":
            live[one.key][0] |= one.logged
        else:
            row = dict.fromkeys(COLUMNS) if one.kind == "I" else live[one.old].pop(0)
            live.setdefault(one.key, []).append(row | one.logged)
            gone.pop(one.key, None)
    return {key: (row, True) for key, row in gone.items()} | {
        key: (rows[0], False) for key, rows in live.items() if rows
    }


def duckdb_rows(folder: Path) -> list[dict[str, Any]]:
    with duckdb.connect(str(folder / "hr.duckdb")) as connection:
        found: list[dict[str, Any]] = (
            connection.sql("SELECT * FROM hr.hr.t").to_arrow_reader().read_all().to_pylist()
        )
        return found


def delta_rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(folder / "lake/hr/t").to_pyarrow_table().to_pylist()
    return found


def iceberg_rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        table_rows(f"iceberg:{folder}/warehouse/hr/t").read_all().to_pylist()
    )
    return found


READ: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "delta": delta_rows,
    "duckdb": duckdb_rows,
    "iceberg": iceberg_rows,
}


def marked(rows: list[dict[str, Any]]) -> Marked:
    """Return rows by their keys; the time of a delete is there where the row is deleted."""
    for row in rows:
        assert (row["_deleted_at"] is not None) == row["_deleted"]
    found = {row["id"]: ({name: row[name] for name in COLUMNS}, row["_deleted"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"iceberg"}))
def test_rows_are_marked_as_a_row_by_row_replay_marks_them(name: str, tmp_path: Path) -> None:
    for number in range(examples(5)):
        own = chance(f"soft {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 8)
        write_log(folder / "ot", source.log)
        to = TARGETS[name][0].format(folder)
        apply_trail(
            folder / "ot", to, mode="soft-delete", batch_bytes=own.choice((1, 400, 1 << 20))
        )
        assert marked(READ[name](folder)) == soft_deleted(source.log), source.log
        assert apply_trail(folder / "ot", to, mode="soft-delete").operations == 0


def test_a_row_that_comes_again_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    to = TARGETS["duckdb"][0].format(tmp_path)
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1), Operation("D", 1, 1, {}, 2)])
    apply_trail(tmp_path / "ot", to, mode="soft-delete")
    assert marked(duckdb_rows(tmp_path)) == {1: (FULL, True)}
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 9}, 3)])
    apply_trail(tmp_path / "ot", to, mode="soft-delete")
    assert marked(duckdb_rows(tmp_path)) == {1: ({"a": 9, "b": None, "c": None}, False)}


def test_a_marked_row_is_one_that_is_not_there(tmp_path: Path) -> None:
    to = TARGETS["duckdb"][0].format(tmp_path)
    log = [
        Operation("I", 1, 1, FULL, 1),
        Operation("D", 1, 1, {}, 2),
        Operation("U", 1, 1, {"a": 4}, 3),
    ]
    write_log(tmp_path / "ot", log)
    with pytest.raises(ApplyError, match="the row does not exist"):
        apply_trail(tmp_path / "ot", to, mode="soft-delete", batch_bytes=1)
    assert marked(duckdb_rows(tmp_path)) == {1: (FULL, True)}


REPEATED: dict[str, tuple[Operation, ...]] = {
    "update": (Operation("U", 1, 1, {"a": 9}, 4),),
    "delete": (Operation("D", 1, 1, {}, 4),),
    "insert": (Operation("I", 2, 2, FULL, 4),),
    "move": (Operation("K", 1, 5, {}, 4),),
    "move to": (Operation("K", 3, 2, {}, 4),),
    "insert after a truncate": (Operation("T", 0, 0, {}, 4), Operation("I", 2, 2, FULL, 5)),
}


@pytest.mark.parametrize("kind", REPEATED)
@pytest.mark.parametrize("name", ["delta", "duckdb"])
def test_operations_on_a_key_that_marked_rows_share_are_refused(
    name: str, kind: str, tmp_path: Path
) -> None:
    """Key 1 has a row that is marked and one that is not, and key 2 has two marked rows. All of them stay."""
    to = TARGETS[name][0].format(tmp_path)
    log = [Operation("I", key, key, FULL, key) for key in (1, 3)]
    write_log(tmp_path / "ot", log)
    apply_trail(tmp_path / "ot", to, mode="soft-delete")
    copies = [{"id": key, **FULL, "_deleted": True, "_deleted_at": None} for key in (1, 2, 2)]
    added = pa.Table.from_pylist(copies, READ_SCHEMA)
    if name == "delta":
        write_deltalake(tmp_path / "lake/hr/t", added, mode="append")
    else:
        with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
            connection.register("added", added)
            connection.execute("INSERT INTO hr.hr.t SELECT * FROM added")
    before = sorted(READ[name](tmp_path), key=str)

    write_log(tmp_path / "ot", REPEATED[kind])
    with pytest.raises(ApplyError, match="the target's table has 2 rows with this key"):
        apply_trail(tmp_path / "ot", to, mode="soft-delete")
    assert sorted(READ[name](tmp_path), key=str) == before

    report = apply_trail(
        tmp_path / "ot",
        to,
        mode="soft-delete",
        on_error="discard",
        discards=str(tmp_path / "d.jsonl"),
    )
    assert report.reasons == {"the target's table has 2 rows with this key": 1}
    if not kind.endswith("truncate"):
        assert sorted(READ[name](tmp_path), key=str) == before
