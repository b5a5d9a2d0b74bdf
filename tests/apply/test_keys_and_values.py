"""Whatever the types of its keys and values, a table has the rows of its source after each of several runs, in every target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from apply.naive_batches import block_of_images
from apply.postgresql_server import running
from apply.sources import tries
from apply.value_histories import FORMS, SHOWN, History, run_histories
from apply.value_table import TARGETS, VALUES
from laws import LONG, chance, histories
from trailgate import ApplyError, TrailAppender, apply_trail, verify_tables
from trailgate.apply.targets.target import TARGETS as TARGET_TYPES
from trailgate.model.changes import INSERT, KEY_UPDATE, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import INTERVAL_TYPES, TYPES, TypeFamily

TABLES = 6  # of a trail
HISTORIES = 12
EMBEDDED = ("delta", "duckdb", "iceberg")
MODES = [
    (name, mode)
    for name in EMBEDDED
    for mode in ("current", "soft-delete", "history")
    if mode in (TARGET_TYPES[name].modes or (mode,))
]
FLOATS = Table("HR.N", (Column("K", 143, 8, key=True), Column("A", 134, 8)))  # with a float key
Run = Callable[[str, str], None]
Image = dict[str, Any] | None


def test_every_type_has_values() -> None:
    readable = {code for code, row in TYPES.items() if row.family is not TypeFamily.UNSUPPORTED}
    known = {one.column.data_type for one in VALUES}
    assert readable - known < INTERVAL_TYPES


@LONG
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_table_has_the_sources_rows(name: str, form: str, tmp_path: Path) -> None:
    """Each history has a key of one type, of a pair of types, or none; some have more than a hundred keys."""
    _run(name, form, tmp_path)


@pytest.mark.servers
@LONG
@pytest.mark.parametrize("form", FORMS)
def test_so_has_one_of_a_server(server: str, form: str, tmp_path: Path) -> None:
    _run("postgresql", form, tmp_path, server)


@LONG
@pytest.mark.parametrize("name", ["delta", "duckdb", "iceberg", "parquet"])
def test_a_table_of_operations_has_each_with_its_values(name: str, tmp_path: Path) -> None:
    _run(name, "pair", tmp_path, mode="append")


@LONG
@pytest.mark.parametrize(("name", "mode"), [one for one in MODES if one[1] != "current"])
def test_rows_that_are_current_in_other_modes_are_the_sources(
    name: str, mode: str, tmp_path: Path
) -> None:
    _run(name, "pair", tmp_path, mode=mode)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


def _run(name: str, form: str, tmp_path: Path, server: str = "", mode: str = "current") -> None:
    target, own = TARGETS[name], chance(f"values {name} {form} {mode}")
    count = histories(tries(name, HISTORIES))
    for number in range(-(-count // TABLES)):
        folder = tmp_path / str(number)
        folder.mkdir()
        types = own.sample(VALUES, TABLES)
        drawn = [
            History.drawn(own, f"T{at}", form, target, key, many=at == 0)
            for at, key in enumerate(types)
        ]
        address = _database(server, form) if server else ""
        run_histories(folder, drawn, target, _applied(mode), own, address=address, mode=mode)


def _applied(mode: str) -> Callable[[Path, str, int], object]:
    return lambda trail, to, size: apply_trail(trail, to, batch_bytes=size, mode=mode)  # type: ignore[arg-type]


def _database(server: str, name: str) -> str:
    """Return the address of an empty database, in place of the one of that name."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server.rpartition('/')[0]}/{name}"


def _write_changes(prefix: Path, changes: Sequence[tuple[int, Image, Image]]) -> None:
    block = block_of_images(FLOATS, changes)
    with TrailAppender(str(prefix), Definitions((FLOATS,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("all")


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_nan_is_one_key(name: str, mode: str, tmp_path: Path) -> None:
    """The row moves away from NaN and back, so that it is followed row by row."""
    target, nan = TARGETS[name], {"K": math.nan}
    for changes in (
        [(INSERT, None, {**nan, "A": 1})],
        [(KEY_UPDATE, nan, {"K": 1.0, "A": 2}), (KEY_UPDATE, {"K": 1.0}, {**nan, "A": 3})],
        [(UPDATE, nan, {**nan, "A": 4})],
    ):
        _write_changes(tmp_path / "ot", changes)
        _applied(mode)(tmp_path / "ot", target.address.format(tmp_path), 1 << 20)

    found = filter(SHOWN[mode], target.rows(target.address.format(tmp_path), "hr.n"))
    assert [(str(row["k"]), row["a"]) for row in found] == [("nan", 4)]


def test_an_update_that_keeps_nan_as_its_key_is_not_followed_row_by_row(tmp_path: Path) -> None:
    nan, to = {"K": math.nan}, f"duckdb:{tmp_path}/hr.duckdb"
    _write_changes(
        tmp_path / "ot", [(INSERT, None, {**nan, "A": 1}), (UPDATE, nan, {**nan, "A": 4})]
    )
    report = apply_trail(tmp_path / "ot", to)
    assert report.tables["hr.n"].replayed == 0


def test_a_difference_in_a_row_whose_key_is_nan_has_its_operations(tmp_path: Path) -> None:
    nan, to = {"K": math.nan}, f"duckdb:{tmp_path}/hr.duckdb"
    _write_changes(
        tmp_path / "ot", [(INSERT, None, {**nan, "A": 1}), (UPDATE, nan, {**nan, "A": 4})]
    )
    apply_trail(tmp_path / "ot", to)
    with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
        connection.execute("UPDATE hr.hr.n SET a = 5")

    (found,) = verify_tables(tmp_path / "ot", to).tables["hr.n"].rows
    assert found.columns == {"a": (4, 5)}
    assert len(found.positions) == 2


@pytest.mark.parametrize("name", ["delta", "duckdb"])
def test_a_row_that_others_wrote_with_negative_zero_is_found_by_zero(
    name: str, tmp_path: Path
) -> None:
    target, zero = TARGETS[name], {"K": 0.0}
    to = target.address.format(tmp_path)
    stored = pa.table({"k": [-0.0, 5.0], "a": [1, 1]})
    if name == "delta":
        write_deltalake(f"{to.removeprefix('delta:')}/hr/n", stored)
    else:
        with duckdb.connect(to.removeprefix("duckdb:")) as connection:
            connection.execute("CREATE SCHEMA hr; CREATE TABLE hr.n AS FROM stored")
    for changes in (
        [(UPDATE, zero, {**zero, "A": 2})],
        [(KEY_UPDATE, zero, {"K": 1.0}), (KEY_UPDATE, {"K": 1.0}, {"K": -0.0, "A": 3})],
        [(UPDATE, zero, {**zero, "A": 4})],
    ):
        _write_changes(tmp_path / "ot", changes)
        apply_trail(tmp_path / "ot", to)

    _write_changes(tmp_path / "ot", [(INSERT, None, {**zero, "A": 5})])
    with pytest.raises(ApplyError, match=r"insert of k=0\.0: the row already exists"):
        apply_trail(tmp_path / "ot", to)
    assert sorted((row["k"], row["a"]) for row in target.rows(to, "hr.n")) == [(0.0, 4), (5.0, 1)]
