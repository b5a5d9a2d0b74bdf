"""A trail applied to a real PostgreSQL is the source's table, however it is cut, killed and started again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from apply.postgresql_server import running
from apply.sources import rows_by_id, write_log
from apply.test_history import stored, versions
from apply.test_killed import TRANSACTIONS, killed
from apply.test_net_effects import FULL, history
from apply.test_soft_delete import marked, soft_deleted
from laws import chance, examples, kills
from oracles.apply_naive import COLUMNS, Operation, Source
from trailgate import ApplyError, OptionError, TrailgateError, apply_trail, verify_tables
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.targets.target import Position, open_target

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("postgresql")) as address:
        yield address


@pytest.fixture
def database(server: str, tmp_path: Path) -> str:
    """Give the address of an empty database."""
    name = f"d{abs(hash(tmp_path))}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.rpartition("/")[0] + f"/{name}"


def rows(database: str) -> dict[int, dict[str, Any]]:
    with psycopg.connect(database) as connection:
        cursor = connection.execute("SELECT id, a, b, c FROM hr.t")
        return rows_by_id([dict(zip(("id", *COLUMNS), row, strict=True)) for row in cursor])


def test_it_has_the_sources_rows(server: str, tmp_path: Path) -> None:
    for number in range(examples(20)):
        own = chance(f"postgresql {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE law{number}".encode())
        database = server.rpartition("/")[0] + f"/law{number}"
        source = history(own, 6)
        write_log(folder / "ot", source.log)
        apply_trail(folder / "ot", database, batch_bytes=own.choice((1, 300, 1 << 20)))

        assert rows(database) == source.rows, source.log
        assert apply_trail(folder / "ot", database).operations == 0


@pytest.mark.parametrize("mode", ["soft-delete", "history", "append"])
def test_it_keeps_what_the_modes_keep(
    database: str, tmp_path: Path, mode: Literal["soft-delete", "history", "append"]
) -> None:
    source = history(chance(f"postgresql {mode}"), 12)
    write_log(tmp_path / "ot", source.log)
    apply_trail(tmp_path / "ot", database, mode=mode, batch_bytes=400)

    with psycopg.connect(database, row_factory=dict_row) as connection:
        found = connection.execute("SELECT * FROM hr.t").fetchall()
    if mode == "soft-delete":
        assert marked(found) == soft_deleted(source.log)
    elif mode == "history":
        assert stored(found, tmp_path / "ot") == versions(source.log)
    else:
        kinds = [row["_op_type"] for row in sorted(found, key=lambda row: str(row["_position"]))]
        assert kinds == [one.kind for one in source.log]
    assert verify_tables(tmp_path / "ot", database, mode=mode).is_equal


def test_text_has_its_length_where_that_is_known(database: str) -> None:
    columns = (
        TargetColumn("id", pa.int64()),
        TargetColumn("a", pa.string(), length=40),
        TargetColumn("b", pa.string()),
    )
    with closing(open_target(database, "sizes")) as target:
        target.create(TargetTable(("hr", "s"), columns, (0,)))
        target.commit(Position("t", "0" * 20))
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT data_type, character_maximum_length FROM information_schema.columns "
            "WHERE table_name = 's' ORDER BY ordinal_position"
        ).fetchall()
    assert found == [("bigint", None), ("character varying", 40), ("text", None)]


def test_a_killed_run_that_is_started_again_applies_each_change_once(
    database: str, tmp_path: Path
) -> None:
    own = chance("killed postgresql")
    source = Source(own, keys=40)
    for _ in range(TRANSACTIONS):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    killed(own, tmp_path, database, kills(20))

    assert rows(database) == source.rows


def test_a_table_that_is_there_keeps_its_types(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute(
            "CREATE TABLE hr.t (id numeric PRIMARY KEY, a varchar(5), b smallint, c numeric(9, 2))"
        )
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1), Operation("U", 1, 1, {"a": 7}, 2)])
    apply_trail(tmp_path / "ot", database, batch_bytes=1)

    with psycopg.connect(database) as connection:
        assert str(connection.execute("SELECT * FROM hr.t").fetchall()) == (
            "[(Decimal('1'), '7', 2, Decimal('3.00'))]"
        )


def test_what_the_database_refuses_is_our_error_and_nothing_lands(
    database: str, tmp_path: Path
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute(
            "CREATE TABLE hr.t (id bigint, a bigint CHECK (a < 5), b bigint, c bigint)"
        )
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {**FULL, "a": 9}, 1)])
    with pytest.raises(ApplyError, match=r"PostgreSQL refuses: .*table hr\.t.*DEFERRABLE"):
        apply_trail(tmp_path / "ot", database)

    assert rows(database) == {}


REFUSED = {
    "a null": ("a bigint NOT NULL", None, "1400", "null value in column"),
    "a text too long": ("a varchar(3)", 12345, "12899", "value too long"),
    "a number that we see": ("a smallint", 70000, "1438", "does not hold this value"),
    "a number that the server sees": ("a oid", 5_000_000_000, "1438", "out of range"),
    "a check": ("a bigint CHECK (a < 5)", 7, "2290", "check constraint"),
    "a duplicate": ("a bigint UNIQUE", 0, "1", "duplicate key value"),
    "a check at the commit": (
        "a bigint REFERENCES hr.known DEFERRABLE INITIALLY DEFERRED",
        999,
        "2291",
        "foreign key",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_the_database_refuses_are_found(
    database: str, tmp_path: Path, name: str, whole: bool
) -> None:
    """Batches are halved until each operation is found; by DEFAULT and by the number of its error."""
    column, value, number, problem = REFUSED[name]
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute("CREATE TABLE hr.known (a bigint PRIMARY KEY)")
        connection.execute("INSERT INTO hr.known SELECT generate_series(0, 400)")
        connection.execute(
            f"CREATE TABLE hr.t (id bigint PRIMARY KEY, {column}, b bigint, c bigint)".encode()
        )
    unique, small = "UNIQUE" in column, "CHECK" in column
    bad = {key for key in range(100, 124) if key % 7 == 0}
    log = [
        Operation(
            "I",
            key,
            key,
            {**FULL, "a": value if key in bad else key if unique else 1 + small},
            key if "REFERENCES" in column else 10 + key // 3,
        )
        for key in range(100, 124)
    ]
    if unique:
        log.insert(0, Operation("I", 1, 1, {**FULL, "a": 0}, 1))
    write_log(tmp_path / "ot", log)
    with pytest.raises(TrailgateError, match=problem):
        apply_trail(tmp_path / "ot", database)
    numbers = {"1400": ["1400", "1407"], "2291": ["2291", "2292"]}.get(number, [number])
    response = "TRANSDISCARD" if whole else "DISCARD"
    params = tmp_path / "rep.prm"
    lines = [f"REPERROR ({one}, {response})" for one in numbers]
    params.write_text("\n".join(["REPLICAT r", *lines, "MAP hr.t, TARGET hr.t;"]))
    discards = tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", database, params=str(params), discards=str(discards))

    torn = {one.transaction for one in log if one.key in bad}
    gone = {one.key for one in log if one.key in bad or (whole and one.transaction in torn)}
    with psycopg.connect(database) as connection:
        found = {row[0] for row in connection.execute("SELECT id FROM hr.t")}
    assert found == {one.key for one in log} - gone
    reasons = [json.loads(line)["reason"] for line in discards.read_text().splitlines()]
    assert len(reasons) == len(gone)
    assert sum(problem in one for one in reasons) >= len(torn)
    assert apply_trail(tmp_path / "ot", database, params=str(params)).operations == 0


def test_a_name_that_would_be_cut_off_is_refused() -> None:
    from trailgate.apply.targets.postgresql import TableTarget  # noqa: PLC0415

    with pytest.raises(OptionError, match="has names of at most 63 bytes"):
        TableTarget.create(object.__new__(TableTarget), TargetTable(("s", "t" * 64), (), ()))
