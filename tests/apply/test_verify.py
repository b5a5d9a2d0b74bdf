"""Tables compared with what the trail makes of empty ones: each kind of difference is found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from apply.sources import TARGETS, tries, write_log
from apply.test_net_effects import history
from laws import chance
from oracles.apply_naive import Operation
from trailgate import (
    ApplyError,
    DecodeError,
    OptionError,
    StorageError,
    apply_repaired,
    apply_trail,
    verify_tables,
)
from trailgate.apply.jobs.options import ApplyKeywords, OnCollision, OnError
from trailgate.apply.targets.target import group_positions
from trailgate.cli.main import run

FULL = {"a": 1, "b": 2, "c": 3}
LOG = [
    *(Operation("I", key, key, FULL, key) for key in range(1, 6)),
    Operation("U", 2, 2, {"a": 9}, 6),
    Operation("K", 5, 6, {"b": None}, 7),
]


AFTER_PURGE = [
    Operation("U", 1, 1, {"a": 5}, 1),
    Operation("D", 3, 3, {}, 2),
    Operation("I", 30, 30, FULL, 3),
]


def changed(folder: Path, *statements: str) -> None:
    """Change the table of DuckDB's file by others."""
    with duckdb.connect(str(folder / "hr.duckdb")) as connection:
        for text in statements:
            connection.execute(text)


@pytest.mark.parametrize("name", TARGETS)
def test_loaded_tables_are_equal_where_the_trail_has_their_rows(name: str, tmp_path: Path) -> None:
    """The first transactions are a load; of the others each row is compared, and a change by others is found."""
    address, rows = TARGETS[name]
    for number in range(tries(name, 3)):
        own = chance(f"verify loaded {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        to = address.format(folder)
        source = history(own, 12)
        loaded = [
            Operation("I", key, key, dict(row), 0) for key, row in sorted(source.rows.items())
        ]
        loaded.append(Operation("I", 50, 50, FULL, 0))  # no other operation is on this row
        write_log(folder / "load", loaded)
        apply_trail(folder / "load", to, group="load")
        done = len(source.log)
        while len(source.log) == done:
            source.transaction()
        for _ in range(8):
            source.transaction()
        write_log(folder / "ot", source.log[done:])
        apply_trail(folder / "ot", to, on_collision="overlay", batch_bytes=400)
        gone = any(one.kind == "T" for one in source.log[done:])
        assert rows(folder) == ({} if gone else {50: FULL}) | source.rows
        (found,) = verify_tables(folder / "ot", to, on_collision="overlay").tables.values()
        assert found.is_equal, found.rows
        assert (found.untouched >= 1) != gone
        assert found.equal + found.untouched == len(rows(folder))


@pytest.mark.parametrize("name", TARGETS)
def test_tables_that_nobody_else_changed_are_equal(name: str, tmp_path: Path) -> None:
    address, rows = TARGETS[name]
    for number in range(tries(name, 3)):
        own = chance(f"verify {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 6)
        write_log(folder / "ot", source.log)
        to = address.format(folder)
        apply_trail(folder / "ot", to, batch_bytes=400)
        done, count = len(source.log), len(source.rows)
        for _ in range(3):  # the target does not have these yet
            source.transaction()
        write_log(folder / "ot", source.log[done:])
        found = verify_tables(folder / "ot", to)
        assert found.is_equal
        assert [one.equal for one in found.tables.values()] == [count] == [len(rows(folder))]


def test_each_difference_has_its_row_and_its_operations(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    to = TARGETS["duckdb"][0].format(tmp_path)
    apply_trail(tmp_path / "ot", to)
    changed(
        tmp_path,
        "DELETE FROM hr.hr.t WHERE id = 1",
        "UPDATE hr.hr.t SET c = 7, b = NULL WHERE id = 2",
        "INSERT INTO hr.hr.t (id, a) VALUES (99, 5)",
        "UPDATE hr.hr.t SET b = 0 WHERE id = 6",
    )
    found = verify_tables(tmp_path / "ot", to).tables["hr.t"]

    assert (found.equal, found.missing, found.extra, found.different) == (2, 1, 1, 2)
    kinds: dict[Any, Any] = {row.key["id"]: (row.kind, dict(row.columns)) for row in found.rows}
    assert kinds[1][0] == "missing"
    assert kinds[99] == (
        "extra",
        {"id": (None, 99), "a": (None, 5), "b": (None, None), "c": (None, None)},
    )
    assert kinds[2] == ("different", {"c": (3, 7), "b": (2, None)})
    assert kinds[6] == ("different", {"b": (None, 0)})
    assert [len(row.positions) for row in found.rows] == [1, 2, 1, 0]


def test_of_loaded_tables_the_logged_columns_are_compared(tmp_path: Path) -> None:
    write_log(tmp_path / "load", [Operation("I", key, key, FULL, 0) for key in range(1, 8)])
    log = [
        Operation("U", 1, 1, {"a": 5}, 1),
        Operation("U", 2, 2, {"a": 5}, 2),
        Operation("D", 3, 3, {}, 3),
        Operation("U", 4, 4, {"b": None}, 4),
        Operation("K", 5, 9, {"a": 7}, 5),
    ]
    write_log(tmp_path / "ot", log)
    to = TARGETS["duckdb"][0].format(tmp_path)
    apply_trail(tmp_path / "load", to, group="load")
    apply_trail(tmp_path / "ot", to, on_collision="overlay")
    changed(
        tmp_path,
        "UPDATE hr.hr.t SET a = 0 WHERE id = 1",
        "UPDATE hr.hr.t SET c = 0 WHERE id = 2",
        "INSERT INTO hr.hr.t (id, a) VALUES (3, 5)",
        "DELETE FROM hr.hr.t WHERE id IN (4, 6)",
        "UPDATE hr.hr.t SET a = 1 WHERE id = 9",
    )
    found = verify_tables(tmp_path / "ot", to, on_collision="overlay").tables["hr.t"]

    kinds = {row.key["id"]: (row.kind, set(row.columns)) for row in found.rows}
    assert kinds[1] == ("different", {"a"}) == kinds[9]
    assert {key: kind for key, (kind, _) in kinds.items()} == {
        1: "different",
        3: "extra",
        4: "missing",
        9: "different",
    }
    assert (found.equal, found.untouched) == (1, 1)  # rows 2 and 7; that row 6 is gone is not known


def test_a_changed_delta_table_is_reported(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    to = TARGETS["delta"][0].format(tmp_path)
    apply_trail(tmp_path / "ot", to)
    DeltaTable(tmp_path / "lake/hr/t").delete("id = 3")
    found = verify_tables(tmp_path / "ot", to).tables["hr.t"]
    assert (found.equal, found.missing) == (4, 1)


def trail_of(folder: Path, *logs: list[Operation]) -> Path:
    """Write a trail with one file for each log; return its prefix."""
    prefix = folder / "ot"
    for number, log in enumerate(logs):
        write_log(prefix, log, new_file=number > 0)
    return prefix


def purge(prefix: Path, *numbers: int) -> None:
    """Delete files of a trail."""
    for number in numbers:
        Path(f"{prefix}{number:09}").unlink()


@pytest.mark.parametrize("name", TARGETS)
def test_tables_are_compared_after_files_of_the_trail_were_purged(
    name: str, tmp_path: Path
) -> None:
    address, rows = TARGETS[name]
    to = address.format(tmp_path)
    prefix = trail_of(tmp_path, LOG, [Operation("I", 20, 20, FULL, 1)], AFTER_PURGE)
    apply_trail(prefix, to)
    purge(prefix, 0, 1)

    report = verify_tables(prefix, to)
    found = report.tables["hr.t"]
    assert report.is_equal, found.rows
    # Rows 1 and 30 are of the last file, row 3 is deleted by it; the others are of files that are gone.
    assert (found.equal, found.untouched) == (2, len(rows(tmp_path)) - 2)
    assert (
        "the trail begins at file number 2: operations of earlier files are missing"
        in report.notices
    )
    assert any("other rows count as untouched" in notice for notice in report.notices)


def test_a_change_by_others_is_found_after_files_of_the_trail_were_purged(tmp_path: Path) -> None:
    to = TARGETS["duckdb"][0].format(tmp_path)
    prefix = trail_of(tmp_path, LOG, [Operation("I", 20, 20, FULL, 1)], AFTER_PURGE)
    apply_trail(prefix, to)
    purge(prefix, 0, 1)
    changed(tmp_path, "UPDATE hr.hr.t SET a = 0 WHERE id = 1", "DELETE FROM hr.hr.t WHERE id = 30")
    found = verify_tables(prefix, to).tables["hr.t"]
    assert {row.key["id"]: row.kind for row in found.rows} == {1: "different", 30: "missing"}


def test_versions_of_rows_are_not_compared_without_the_first_files(tmp_path: Path) -> None:
    to = TARGETS["duckdb"][0].format(tmp_path)
    prefix = trail_of(tmp_path, LOG, AFTER_PURGE)
    apply_trail(prefix, to, mode="soft-delete")
    purge(prefix, 0)
    with pytest.raises(
        StorageError, match=r"begins at file number 1, and without the ear.*table hr\.t\)"
    ):
        verify_tables(prefix, to, mode="soft-delete")


def test_an_error_names_the_table_of_the_target(tmp_path: Path) -> None:
    """It does so too where the comparison stops at its own copy of the table."""
    to = TARGETS["duckdb"][0].format(tmp_path)
    write_log(tmp_path / "load", LOG)
    write_log(tmp_path / "ot", AFTER_PURGE)
    apply_trail(tmp_path / "load", to, group="load")
    apply_trail(tmp_path / "ot", to)
    with pytest.raises(ApplyError, match=r"update of id=1: the row does not exist .*table hr\.t\)"):
        verify_tables(tmp_path / "ot", to)


WAITING = {
    "an update without the column": [Operation("U", 1, 1, {"b": 7}, 6)],
    "an update without it, and others": [
        Operation("I", 7, 7, FULL, 6),
        Operation("U", 7, 7, {"c": 7}, 7),
    ],
    "a row that is there": [Operation("I", 1, 1, FULL, 6)],
    "a row that is not there": [Operation("U", 99, 99, {"a": 1}, 6)],
}


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_operations_that_are_not_applied_yet_are_not_looked_at(
    waiting: list[Operation], tmp_path: Path
) -> None:
    """Some of them cannot be applied: the next run stops at them, and the comparison does not."""
    to, prefix = TARGETS["duckdb"][0].format(tmp_path), tmp_path / "ot"
    params = str(tmp_path / "r.prm")
    Path(params).write_text("REPLICAT r\nMAP hr.t, TARGET y.t, WHERE (a = 1);\n")
    write_log(prefix, LOG[:5])
    apply_trail(prefix, to, params=params)
    write_log(prefix, waiting)

    report = verify_tables(prefix, to, params=params)
    assert report.is_equal
    assert report.tables["y.t"].equal == 5
    with pytest.raises(ApplyError):
        apply_trail(prefix, to, params=params)


def test_values_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    to = TARGETS["duckdb"][0].format(tmp_path)
    with pytest.raises(StorageError, match="has applied nothing"):
        verify_tables(tmp_path / "ot", to)
    apply_trail(tmp_path / "ot", to, tables=["HR.*"])
    with pytest.raises(OptionError, match="loaded tables of --mode history are not compared"):
        verify_tables(tmp_path / "ot", to, after_csn="1", mode="history")
    with pytest.raises(StorageError, match="Use the same options as for apply"):
        verify_tables(tmp_path / "ot", to)
    assert verify_tables(tmp_path / "ot", to, tables=["HR.*"]).is_equal


def test_the_command_shows_what_differs_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path / "ot", LOG)
    to = TARGETS["duckdb"][0].format(tmp_path)
    command = ["apply", str(tmp_path / "ot"), "--to", to]
    assert run(command) == 0
    assert run([*command, "--verify"]) == 0
    changed(tmp_path, "UPDATE hr.hr.t SET a = 0 WHERE id = 2")
    capsys.readouterr()
    assert run([*command, "--verify"]) == 1
    shown = capsys.readouterr()
    assert "hr.t id=2 is different: operations 0:" in shown.out
    assert "  a: 9 in the trail, 0 in the table" in shown.out
    assert "the rows differ from the trail" in shown.out
    assert run([*command, "--verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["tables"]["hr.t"]
    assert (found["different"], found["rows"][0]["columns"]) == (1, {"a": [9, 0]})
    assert run([*command, "--verify", "--follow"]) == 2


REFUSED = [
    Operation("I", 1, 1, FULL, 1),
    Operation("I", 2, 2, {**FULL, "a": -1}, 2),
    Operation("U", 2, 2, {"b": 7}, 3),
    Operation("I", 3, 3, FULL, 4),
    Operation("U", 1, 1, {"a": -5}, 5),
    Operation("U", 3, 3, {"c": 9}, 6),
    Operation("U", 1, 1, {"b": 8}, 7),
]
CONSTRAINTS = {
    "check": "id BIGINT, a BIGINT CHECK (a >= 0), b BIGINT, c BIGINT",
    "not null": "id BIGINT, a BIGINT, b BIGINT, c BIGINT NOT NULL",
    "foreign key": "id BIGINT, a BIGINT REFERENCES known (a), b BIGINT, c BIGINT",
}


@pytest.mark.parametrize(
    ("constraint", "on_error", "on_collision"),
    [
        ("check", "discard", "stop"),
        ("not null", "discard-transaction", "overlay"),
        ("foreign key", "discard", "overlay"),
    ],
)
def test_operations_that_were_discarded_make_no_difference(
    constraint: str, on_error: OnError, on_collision: OnCollision, tmp_path: Path
) -> None:
    """The comparison cannot know what a constraint refused; the discard file states it."""
    to, prefix = TARGETS["duckdb"][0].format(tmp_path), tmp_path / "ot"
    with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
        connection.execute("CREATE SCHEMA hr.hr")
        connection.execute("USE hr.hr")
        connection.execute("CREATE TABLE known (a BIGINT PRIMARY KEY)")
        connection.execute("INSERT INTO known VALUES (1), (9)")
        connection.execute(f"CREATE TABLE t ({CONSTRAINTS[constraint]})")
    bad = {"not null": ("c", None)}.get(constraint, ("a", -1))
    log = [
        one._replace(logged={**one.logged, bad[0]: bad[1]})
        if one.logged.get("a", 0) and one.logged["a"] < 0
        else one
        for one in REFUSED
    ]
    if constraint == "not null":
        log = [
            one._replace(logged={**one.logged, "a": 1}) if "a" in one.logged else one for one in log
        ]
    write_log(prefix, log)
    discards = str(tmp_path / "d.jsonl")
    given: dict[str, Any] = {"on_error": on_error, "on_collision": on_collision}
    report = apply_trail(prefix, to, discards=discards, **given)
    lines = len(Path(discards).read_text().splitlines())
    assert report.tables["hr.t"].discarded == lines > 0

    found = verify_tables(prefix, to, discards=discards, **given)
    assert found.is_equal, found.tables["hr.t"].rows
    assert (
        f"operations that are in the discard file {discards} were skipped: {lines}" in found.notices
    )
    # Nothing is known of row 1 of a loaded table after its update was discarded.
    own = found.tables["hr.t"]
    assert (own.equal, own.untouched) == ((2, 0) if on_collision == "stop" else (1, 1))

    lost = verify_tables(prefix, to, discards=str(tmp_path / "other.jsonl"), **given)
    assert not lost.is_equal
    assert any("so discarded operations count as differences" in notice for notice in lost.notices)
    changed(tmp_path, "UPDATE hr.hr.t SET b = 0 WHERE id = 3")
    (row,) = verify_tables(prefix, to, discards=discards, **given).tables["hr.t"].rows
    assert (row.kind, row.key) == ("different", {"id": 3})


def test_discarded_operations_that_were_applied_later_are_compared(tmp_path: Path) -> None:
    to, prefix = TARGETS["duckdb"][0].format(tmp_path), tmp_path / "ot"
    discards = str(tmp_path / "d.jsonl")
    write_log(prefix, [*LOG, Operation("U", 40, 40, {"a": 1}, 8)])
    apply_trail(prefix, to, on_error="discard", discards=discards)
    changed(tmp_path, "INSERT INTO hr.hr.t VALUES (40, 0, 0, 0)")
    apply_repaired(prefix, to, discards, force=True)
    found = verify_tables(prefix, to, on_error="discard", on_collision="overlay", discards=discards)
    assert found.is_equal
    assert found.tables["hr.t"].equal == 6
    assert not found.notices


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("on_error", ["discard", "discard-transaction"])
def test_every_target_is_compared_after_discards_and_applies_them_when_repaired(
    name: str, on_error: OnError, tmp_path: Path
) -> None:
    (address, rows), prefix = TARGETS[name], tmp_path / "ot"
    to, discards = address.format(tmp_path), str(tmp_path / "d.jsonl")
    write_log(prefix, [*LOG, Operation("I", 1, 1, FULL, 8), Operation("I", 7, 7, FULL, 9)])
    apply_trail(prefix, to, on_error=on_error, discards=discards)

    # The file shows that operations were discarded, so it is enough.
    found = verify_tables(prefix, to, discards=discards)
    assert found.is_equal
    assert found.tables["hr.t"].equal == 6
    assert verify_tables(prefix, to, discards=discards, on_error=on_error).is_equal
    line = json.loads(Path(discards).read_text())
    line["after"]["ID"] = "8"
    (tmp_path / "repaired.jsonl").write_text(json.dumps(line))
    assert apply_repaired(prefix, to, tmp_path / "repaired.jsonl", force=True).operations == 1
    assert set(rows(tmp_path)) == {1, 2, 3, 4, 6, 7, 8}
    assert {one.group for one in group_positions(to)} == {"trailgate", "trailgate.discards"}
    with pytest.raises(OptionError, match="this file was already applied"):
        apply_repaired(prefix, to, tmp_path / "repaired.jsonl", force=True)


@pytest.mark.parametrize("name", ["delta", "iceberg"])
@pytest.mark.parametrize("loaded", [False, True])
def test_columns_of_types_that_no_trail_has_are_not_compared(
    name: str, loaded: bool, tmp_path: Path
) -> None:
    """Others created the table, with a struct and a list beside the columns of the trail."""
    nested = {"pair": pa.struct([("x", pa.int64())]), "many": pa.list_(pa.int64())}
    if name == "iceberg":
        nested["at"] = pa.time64("us")
    numbers = dict.fromkeys(("id", "a", "b", "c"), pa.int64())
    schema = pa.schema(list((numbers | nested).items()))
    if name == "delta":
        write_deltalake(tmp_path / "lake/hr/t", schema.empty_table())
    else:
        warehouse = tmp_path / "warehouse"
        warehouse.mkdir()
        uri = f"sqlite:///{warehouse}/catalog.db"
        catalog = SqlCatalog("lake", uri=uri, warehouse=f"file://{warehouse}")
        catalog.create_namespace("hr")
        catalog.create_table("hr.t", schema)
    to = TARGETS[name][0].format(tmp_path)
    how: OnCollision = "overlay" if loaded else "stop"
    write_log(tmp_path / "ot", LOG)
    apply_trail(tmp_path / "ot", to, on_collision=how)

    report = verify_tables(tmp_path / "ot", to, on_collision=how)
    assert (report.is_equal, report.tables["hr.t"].equal) == (True, 5)


GROWING: Final = [Operation("I", 1, 1, FULL, 1), Operation("U", 9, 9, {"a": 1}, 2)]
GROWN: Final = [Operation("U", 9, 9, {"a": 2}, 3), Operation("U", 77, 77, {"a": 3}, 4)]


@pytest.mark.parametrize("ended", [True, False], ids=["with", "without"])
@pytest.mark.parametrize("name", ["delta", "duckdb"])
def test_lines_that_were_applied_are_skipped_and_compared_when_the_file_has_grown(
    name: str, ended: bool, tmp_path: Path
) -> None:
    """An editor may have left no newline at the end of the applied file."""
    (address, rows), prefix = TARGETS[name], tmp_path / "ot"
    to, file = address.format(tmp_path), tmp_path / "d.jsonl"
    given: ApplyKeywords = {"discards": str(file), "on_collision": "insert-missing"}
    write_log(prefix, GROWING)
    apply_trail(prefix, to, on_error="discard", discards=str(file))
    if not ended:
        file.write_bytes(file.read_bytes().rstrip())
    again: dict[str, Any] = {"force": True, "on_collision": "insert-missing"}
    assert apply_repaired(prefix, to, file, **again).notices == ()
    write_log(prefix, GROWN)
    apply_trail(prefix, to, on_error="discard", discards=str(file))

    def values() -> dict[int, int]:
        return {key: row["a"] for key, row in rows(tmp_path).items()}

    found = verify_tables(prefix, to, **given)
    assert found.is_equal
    assert found.notices[-1].endswith("d.jsonl were skipped: 1")
    assert values() == {1: FULL["a"], 9: 2}

    report = apply_repaired(prefix, to, file, **again)
    assert report.operations == 1
    assert report.notices == (f"lines of {file} that were applied before were skipped: 1",)
    assert values() == {1: FULL["a"], 9: 2, 77: 3}
    assert verify_tables(prefix, to, **given).is_equal
    with file.open("a") as opened:
        opened.write("\n")
    with pytest.raises(OptionError, match="this file was already applied"):
        apply_repaired(prefix, to, file, **again)
    # A damaged line is named by its number in the complete file.
    with file.open("a") as opened:
        opened.write("[1]\n")
    with pytest.raises(DecodeError, match="line 4"):
        apply_repaired(prefix, to, file, **again)


@pytest.mark.parametrize("on_collision", ["stop", "overlay"])
def test_a_notice_states_that_the_discard_file_was_applied(
    on_collision: OnCollision, tmp_path: Path
) -> None:
    to, prefix = TARGETS["duckdb"][0].format(tmp_path), tmp_path / "ot"
    file = tmp_path / "d.jsonl"
    write_log(prefix, GROWING)
    apply_trail(prefix, to, on_error="discard", discards=str(file))
    apply_repaired(prefix, to, file, force=True, on_collision="insert-missing")
    if on_collision != "stop":
        changed(tmp_path, "DELETE FROM hr.hr.t WHERE id = 1")

    found = verify_tables(prefix, to, discards=str(file), on_collision=on_collision)
    assert not found.is_equal
    (notice,) = (one for one in found.notices if "discard file" in one)
    assert "that were applied with --from are compared: 1" in notice
    assert ("unless it is stated here too" in notice) == (on_collision == "stop")
