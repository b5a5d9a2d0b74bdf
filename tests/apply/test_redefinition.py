"""A table that is defined anew in the middle of a trail: its target follows, or the run stops there with what was and what is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from apply.postgresql_server import running
from raw_trail import BIG, write_files
from trail.building import records_of, table_record
from trailgate import (
    DefinitionError,
    TrailgateError,
    apply_repaired,
    apply_trail,
    read_trail,
    verify_tables,
)
from trailgate.apply.effects.redefinition import check_redefinition
from trailgate.apply.effects.tables import make_target_table
from trailgate.apply.jobs.frames import FrameApplier
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.model.tables import Column, Table
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail_definitions import TrailDefinitions
from trailgate.storage.writing.table_writing import to_changes

TEXT, BIN16, BIN32, BIN64, FLOAT, DOUBLE = 64, 130, 132, 134, 142, 143
NUMBER = 2  # sub data type of text whose content is a number
Row = dict[str, Any]
Part = tuple[Table, list[tuple[str, Row]]]


def table(*columns: Column, key: str = "ID") -> Table:
    named = [Column("ID", BIN64, 8), *columns]
    return Table("HR.T", tuple(_keyed(one, one.name in key.split()) for one in named))


def _keyed(column: Column, key: bool) -> Column:
    return Column(
        column.name,
        column.data_type,
        column.external_length,
        scale=column.scale,
        key=key,
        sub_type=column.sub_type,
    )


def write(prefix: Path, *parts: Part) -> Path:
    """Write a trail of one file: each definition, and then operations of it, each a transaction."""
    records: list[bytes] = []
    number = 0
    for defined, operations in parts:
        records.append(table_record(defined, 1, BIG))
        for kind, row in operations:
            number += 1
            image = {name.upper(): value for name, value in row.items()}
            operation = {
                "op_type": kind,
                "op_ts": number,
                "tx_ind": "W",
                "csn": str(number),
                "tx_id": str(number),
                "before": {} if kind == "I" else image,
                "after": {} if kind == "D" else image,
            }
            form = {"names": {"table_index": 1}, "io_type": None, "width": 2, "cut": 9999}
            records += records_of(operation, defined, {**form, "large": None}, BIG)
    return write_files(prefix, [records], level=5, definitions=False)


def rows(to: str) -> list[Row]:
    scheme, _, path = to.partition(":")
    if scheme == "delta":
        found = DeltaTable(f"{path}/hr/t").to_pyarrow_table().to_pylist()
    elif scheme == "duckdb":
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{path}' AS own").fetchall()
            found = connection.sql("SELECT * FROM own.hr.t").to_arrow_table().to_pylist()
    else:
        import psycopg  # noqa: PLC0415
        from psycopg.rows import dict_row  # noqa: PLC0415

        with psycopg.connect(to, row_factory=dict_row) as connected:
            found = connected.execute("SELECT * FROM hr.t").fetchall()
    return sorted(found, key=lambda row: int(row["id"]))


def execute(to: str, *statements: str) -> None:
    """Carry statements out on DuckDB or PostgreSQL."""
    scheme, _, path = to.partition(":")
    if scheme == "duckdb":
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{path}' AS own").fetchall()
            connection.execute("USE own").fetchall()
            for text in statements:
                connection.execute(text).fetchall()
        return
    import psycopg  # noqa: PLC0415

    with psycopg.connect(to) as connected:
        for text in statements:
            connected.execute(text.encode())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@pytest.fixture(params=["duckdb", "delta", pytest.param("postgresql", marks=pytest.mark.servers)])
def to(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of a target."""
    if request.param == "duckdb":
        return f"duckdb:{tmp_path}/x.duckdb"
    if request.param == "delta":
        return f"delta:{tmp_path}/lake"
    name = f"d{abs(hash(tmp_path))}"
    server: str = request.getfixturevalue("server")
    execute_alone(server, f"CREATE DATABASE {name}")
    return server.rpartition("/")[0] + f"/{name}"


def execute_alone(to: str, statement: str) -> None:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(to, autocommit=True) as connected:
        connected.execute(statement.encode())


A_TEXT, A_INT = Column("A", TEXT, 10), Column("A", BIN64, 8)
EVOLVED: dict[str, tuple[Part, Part, list[Row]]] = {
    "a column is added": (
        (table(A_TEXT), [("I", {"id": 1, "a": "x"})]),
        (table(A_TEXT, Column("B", BIN64, 8)), [("U", {"id": 1, "b": 7}), ("I", {"id": 2, "a": "y", "b": 8})]),
        [{"id": 1, "a": "x", "b": 7}, {"id": 2, "a": "y", "b": 8}],
    ),
    "a column is dropped": (
        (table(A_TEXT, Column("B", BIN64, 8)), [("I", {"id": 1, "a": "x", "b": 7})]),
        (table(A_TEXT), [("U", {"id": 1, "a": "z"}), ("I", {"id": 2, "a": "y"})]),
        [{"id": 1, "a": "z", "b": 7}, {"id": 2, "a": "y", "b": None}],
    ),
    "a column moves": (
        (table(A_TEXT, Column("B", BIN64, 8)), [("I", {"id": 1, "a": "x", "b": 7})]),
        (table(Column("B", BIN64, 8), A_TEXT), [("U", {"id": 1, "a": "z"})]),
        [{"id": 1, "a": "z", "b": 7}],
    ),
    "an integer has more bytes": (
        (table(Column("A", BIN16, 2)), [("I", {"id": 1, "a": 5})]),
        (table(A_INT), [("I", {"id": 2, "a": 1 << 40})]),
        [{"id": 1, "a": 5}, {"id": 2, "a": 1 << 40}],
    ),
    "text is longer": (
        (table(A_TEXT), [("I", {"id": 1, "a": "x"})]),
        (table(Column("A", TEXT, 40)), [("U", {"id": 1, "a": "y" * 30})]),
        [{"id": 1, "a": "y" * 30}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVOLVED)
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_a_target_follows(name: str, to: str, tmp_path: Path, batch_bytes: int) -> None:
    before, after, expected = EVOLVED[name]
    trail = write(tmp_path / "ot", before, after)
    apply_trail(trail, to, batch_bytes=batch_bytes)

    assert rows(to) == expected
    assert apply_trail(trail, to).operations == 0
    assert verify_tables(trail, to).is_equal


def test_strict_schema_changes_refuse_every_new_definition(tmp_path: Path) -> None:
    for number, name in enumerate(EVOLVED):
        before, after, _ = EVOLVED[name]
        trail = write(tmp_path / f"o{number}t", before, after)
        to = f"duckdb:{tmp_path}/x{number}.duckdb"
        if name == "a column moves":
            assert apply_trail(trail, to, schema_changes="strict").operations == 2
            continue
        with pytest.raises(DefinitionError, match=r"position 0:\d+.*evolve"):
            apply_trail(trail, to, schema_changes="strict")


STOPPED: dict[str, tuple[Part, Part, str]] = {
    "an integer becomes text": (
        (table(A_INT), [("I", {"id": 1, "a": 5})]),
        (table(A_TEXT), [("I", {"id": 2, "a": "007"}), ("I", {"id": 3, "a": "x"})]),
        r"was BIN64_S, but is ASCII_V\(10\) from here on, and the target's column has type int64 \(position 0:\d+, table hr.t, field A\).*--column hr.t.A=text",
    ),
    "text becomes an integer": (
        (table(A_TEXT), [("I", {"id": 1, "a": "x"})]),
        (table(A_INT), [("I", {"id": 2, "a": 7})]),
        r"was ASCII_V\(10\), but is BIN64_S from here on, and the target's column has type string",
    ),
    "a number in text becomes text": (
        (table(Column("A", TEXT, 10, sub_type=NUMBER)), [("I", {"id": 1, "a": "1.50"})]),
        (table(A_TEXT), [("I", {"id": 2, "a": "x"})]),
        r"was ASCII_V\(10\), a number, but is ASCII_V\(10\) from here on",
    ),
    "a float becomes a double": (
        (table(Column("A", FLOAT, 4)), [("I", {"id": 1, "a": 0.5})]),
        (table(Column("A", DOUBLE, 8)), [("I", {"id": 2, "a": 0.1})]),
        r"was IEEE_REAL, but is IEEE_DOUBLE from here on, and the target's column has type float",
    ),
    "digits after the point": (
        (table(Column("A", BIN64, 8, scale=2)), [("I", {"id": 1, "a": None})]),
        (table(Column("A", BIN64, 8, scale=4)), [("I", {"id": 2, "a": None})]),
        r"was BIN64_S, scale 2, but is BIN64_S, scale 4 from here on",
    ),
    "the key changes": (
        (table(A_INT), [("I", {"id": 1, "a": 5})]),
        (table(A_INT, key="A"), [("I", {"id": 2, "a": 5})]),
        r"the key was ID, but is A from here on \(position 0:\d+, table hr.t\).*KEYCOLS",
    ),
    "the key is lost": (
        (table(A_INT), [("I", {"id": 1, "a": 5})]),
        (table(A_INT, key=""), [("I", {"id": 2, "a": 5})]),
        "the key was ID, but is none from here on",
    ),
    "a table without a key gets a column": (
        (table(A_INT, key=""), [("I", {"id": 1, "a": 5})]),
        (table(A_INT, Column("B", BIN64, 8), key=""), [("I", {"id": 2, "a": 5, "b": 6})]),
        "the table has no key, and its columns change here: b|the target's table has no column b, which is part of the key",
    ),
}  # fmt: skip


# The next run finds a column of text, which holds both.
HELD_AS_TEXT = "a number in text becomes text"


@pytest.mark.parametrize("name", STOPPED)
def test_what_cannot_be_followed_stops_there_and_names_both(
    name: str, to: str, tmp_path: Path
) -> None:
    before, after, problem = STOPPED[name]
    trail = write(tmp_path / "ot", before, after)
    with pytest.raises(DefinitionError, match=problem):
        apply_trail(trail, to)
    for _ in range(1 if name == HELD_AS_TEXT else 3):  # the same command does not get past it
        with pytest.raises(DefinitionError, match=problem):
            apply_trail(trail, to, batch_bytes=1)

    assert [row["id"] for row in rows(to)] == [1]  # the batch before it has landed


def frames(trail: Path, to: str, rows_each: int, **options: Any) -> None:
    """Apply a trail as frames of so many transactions."""
    files = find_trail(trail)
    table = read_trail(trail).read_all()
    for at in range(0, len(table), rows_each):
        tasks = table.slice(at, rows_each).combine_chunks().to_batches()
        batches = list(to_changes(TrailDefinitions(files), reversed(tasks)))
        work = FrameApplier(to, ApplyOptions(**options), str(trail), files=files)
        work.apply(batches)


@pytest.mark.parametrize("rows_each", [1, 9])
@pytest.mark.parametrize("name", EVOLVED)
def test_frames_follow_as_the_trail_does(
    name: str, to: str, tmp_path: Path, rows_each: int
) -> None:
    before, after, expected = EVOLVED[name]
    trail = write(tmp_path / "ot", before, after)
    frames(trail, to, rows_each)
    assert rows(to) == expected
    assert verify_tables(trail, to).is_equal


@pytest.mark.parametrize("name", STOPPED)
def test_frames_stop_where_the_trail_does(name: str, to: str, tmp_path: Path) -> None:
    before, after, problem = STOPPED[name]
    trail = write(tmp_path / "ot", before, after)
    with pytest.raises(DefinitionError, match=problem):
        frames(trail, to, 9)
    if name == HELD_AS_TEXT:
        return
    for _ in range(3):
        with pytest.raises(DefinitionError, match=problem):
            frames(trail, to, 1)
    assert [row["id"] for row in rows(to)] == [1]


def shape_of(table: Table) -> list[tuple[Any, ...]]:
    return [(one.name, one.data_type, one.scale, one.sub_type, one.key) for one in table.columns]


@pytest.mark.parametrize("name", [*STOPPED, *EVOLVED])
def test_a_repaired_operation_has_the_definition_of_its_position(name: str, tmp_path: Path) -> None:
    before, after, _ = STOPPED[name] if name in STOPPED else EVOLVED[name]
    trail = write(tmp_path / "ot", before, after)
    lines = read_trail(trail).read_all()
    found = [
        (shape_of(block.table), len(block))
        for part in to_changes(TrailDefinitions(find_trail(trail)), lines.to_batches())
        for block in part.blocks
    ]
    assert found == [(shape_of(part[0]), len(part[1])) for part in (before, after)]
    file = tmp_path / "fixed.jsonl"
    last = lines.slice(len(lines) - 1).to_pylist()[0]
    line = {one: str(last[one]) for one in ("table", "op_ts", "tx_id", "tx_ind", "csn", "position")}
    file.write_text(json.dumps({**line, "op_type": "I", "after": dict(last["after"])}))
    to = f"duckdb:{tmp_path}/x.duckdb"
    apply_repaired(trail, to, file, force=True)
    (applied,) = rows(to)
    assert {one: applied[one] for one in after[1][-1][1]} == after[1][-1][1]


def test_a_column_whose_type_is_named_follows(to: str, tmp_path: Path) -> None:
    before, after, _ = STOPPED["an integer becomes text"]
    trail = write(tmp_path / "ot", before, after)
    apply_trail(trail, to, column=["HR.T.A=text"])
    assert rows(to) == [{"id": 1, "a": "5"}, {"id": 2, "a": "007"}, {"id": 3, "a": "x"}]


def test_a_column_that_the_user_altered_follows(to: str, tmp_path: Path) -> None:
    """What the error asks for can be done: the same command continues after it."""
    if to.startswith("delta"):
        pytest.skip("delta-rs changes no type")
    before, after, _ = STOPPED["an integer becomes text"]
    trail = write(tmp_path / "ot", before, after)
    with pytest.raises(DefinitionError, match="from here on"):
        apply_trail(trail, to, batch_bytes=1)
    execute(to, "ALTER TABLE hr.t ALTER COLUMN a TYPE varchar")
    apply_trail(trail, to)
    assert rows(to) == [{"id": 1, "a": "5"}, {"id": 2, "a": "007"}, {"id": 3, "a": "x"}]


def test_the_targets_own_narrower_integer_is_widened(to: str, tmp_path: Path) -> None:
    if to.startswith("delta"):
        pytest.skip("delta-rs changes no type")
    execute(to, "CREATE SCHEMA hr", "CREATE TABLE hr.t (id bigint, a smallint)")
    before, after, expected = EVOLVED["an integer has more bytes"]
    trail = write(tmp_path / "ot", before, after)
    apply_trail(trail, to)
    assert rows(to) == expected


def test_a_narrower_integer_that_delta_keeps_names_the_value(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415

    DeltaTable.create(f"{tmp_path}/lake/hr/t", pa.schema([("id", pa.int64()), ("a", pa.int16())]))
    before, after, _ = EVOLVED["an integer has more bytes"]
    trail = write(tmp_path / "ot", before, after)
    with pytest.raises(TrailgateError, match=r"int16.*1099511627776.*BIN64_S: give the target"):
        apply_trail(trail, f"delta:{tmp_path}/lake")


def test_a_double_that_a_float_rounds_is_an_error(tmp_path: Path) -> None:
    to = f"duckdb:{tmp_path}/x.duckdb"
    execute(to, "CREATE SCHEMA hr", "CREATE TABLE hr.t (id bigint, a real)")
    defined = table(Column("A", DOUBLE, 8))
    trail = write(
        tmp_path / "ot", (defined, [("I", {"id": 1, "a": 0.5}), ("I", {"id": 2, "a": 0.1})])
    )
    with pytest.raises(
        TrailgateError, match=r"type float, which cannot hold this value: 0\.1 .*position"
    ):
        apply_trail(trail, to)
    apply_trail(trail, to, on_error="ignore")
    assert rows(to) == [{"id": 1, "a": 0.5}]


def test_every_operation_of_a_table_with_another_key_is_kept(tmp_path: Path) -> None:
    before, after, _ = STOPPED["the key changes"]
    trail = write(tmp_path / "ot", before, after)
    to = f"duckdb:{tmp_path}/x.duckdb"
    apply_trail(trail, to, mode="append")
    assert [(row["id"], row["a"]) for row in rows(to)] == [(1, 5), (2, 5)]


def test_a_statement_that_names_the_key_and_leaves_a_column_out_follows(tmp_path: Path) -> None:
    params = tmp_path / "rep.prm"
    params.write_text("REPLICAT r\nMAP hr.t, TARGET hr.t, KEYCOLS (id), COLMAP (id = id);\n")
    for number, name in enumerate(("the key changes", "an integer becomes text")):
        before, after, _ = STOPPED[name]
        trail = write(tmp_path / f"o{number}t", before, after)
        to = f"duckdb:{tmp_path}/x{number}.duckdb"
        apply_trail(trail, to, params=str(params))
        assert [row["id"] for row in rows(to)][:2] == [1, 2]


def test_loaded_rows_are_not_compared(tmp_path: Path) -> None:
    """An earlier definition whose operations the tables have is none of this run."""
    before, after, _ = STOPPED["an integer becomes text"]
    trail = write(tmp_path / "ot", before, after)
    to = f"duckdb:{tmp_path}/x.duckdb"
    apply_trail(trail, to, after_csn="1")
    assert rows(to) == [{"id": 2, "a": "007"}, {"id": 3, "a": "x"}]


def test_equal_definitions_follow_each_other() -> None:
    for name in STOPPED | EVOLVED:
        for one in ((STOPPED | EVOLVED)[name][0][0], (STOPPED | EVOLVED)[name][1][0]):
            check_redefinition(one, one, make_target_table(one), (), strict=True)
