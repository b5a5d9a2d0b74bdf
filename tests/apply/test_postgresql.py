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

from apply.naive_batches import BIN64, block_of_images
from apply.postgresql_server import running
from apply.sources import rows_by_id, write_log
from apply.test_history import stored, versions
from apply.test_killed import TRANSACTIONS, killed
from apply.test_net_effects import FULL, history
from apply.test_soft_delete import marked, soft_deleted
from laws import chance, examples, kills
from oracles.apply_naive import COLUMNS, Operation, Source
from trailgate import (
    ApplyError,
    OptionError,
    TrailAppender,
    TrailgateError,
    apply_trail,
    verify_tables,
)
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.targets.postgresql import PostgreSQLTarget
from trailgate.apply.targets.target import AppliedPosition, open_target
from trailgate.model.changes import INSERT, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
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
        target.commit(AppliedPosition("t", "0" * 20))
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
    killed(own, tmp_path, database, kills(8))

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


def test_a_refusal_of_the_database_is_our_error_and_writes_nothing(
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
    "a number that we see": ("a smallint", 70000, "1438", "cannot hold this value"),
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
    with pytest.raises(OptionError, match="has names of at most 63 bytes"):
        PostgreSQLTarget.create(
            object.__new__(PostgreSQLTarget), TargetTable(("s", "t" * 64), (), ())
        )


CASTS = {
    "enum": ("hr.color", "red", "invalid input value for enum"),
    "inet": ("inet", "10.0.0.1", "invalid input syntax for type inet"),
    "time": ("time", "12:00:00", "invalid input syntax for type time"),
    "interval": ("interval", "01:00:00", "invalid input syntax for type interval"),
    "int4range": ("int4range", "[1,5)", "malformed range literal"),
    "xml": ("xml", "<a/>", "invalid XML"),
    "point": ("point", "(1,2)", "invalid input syntax for type point"),
    "array": ("bigint[]", "{1,2}", "malformed array literal"),
    "domain": ("hr.address", "10.0.0.1", "invalid input syntax for type inet"),
    "tsvector": ("tsvector", "'a' 'b'", "syntax error in tsvector"),
}
WRONG = ("'", "<", "12:99", 'r"ed\\', "", "é")


KEYS = ("enum", "inet", "time", "domain")  # whose values can be a key


@pytest.mark.parametrize(
    ("name", "as_key"), [(one, False) for one in CASTS] + [(one, True) for one in KEYS]
)
def test_all_values_that_a_type_refuses_are_found_at_once(
    database: str, tmp_path: Path, name: str, as_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value is refused with PostgreSQL's own reason, and the batch is written twice and not once for each."""
    kind, good, problem = CASTS[name]
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute("CREATE TYPE hr.color AS ENUM ('red', 'green')")
        connection.execute("CREATE DOMAIN hr.address AS inet")
        connection.execute(f"CREATE TABLE hr.t (id bigint, a {kind}, b bigint)".encode())
    table = Table(
        "HR.T",
        (
            Column("ID", BIN64, 8, key=not as_key),
            Column("A", 64, 30, key=as_key),
            Column("B", BIN64, 8),
        ),
    )
    texts = [good, *(f"{one}{number}" for number in range(20) for one in WRONG)]
    changes = [(INSERT, None, {"ID": at, "A": text, "B": 0}) for at, text in enumerate(texts)]
    with TrailAppender(str(tmp_path / "ot"), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block_of_images(table, changes)], len(changes)))
        trail.commit("1")
    written: list[int] = []
    write = PostgreSQLTarget.write

    def counted(self: PostgreSQLTarget, effects: TableChanges, at: AppliedPosition) -> None:
        written.append(len(effects.nets))
        write(self, effects, at)

    monkeypatch.setattr(PostgreSQLTarget, "write", counted)
    discards = tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(discards))

    lines = [json.loads(line) for line in discards.read_text().splitlines()]
    with psycopg.connect(database) as connection:
        found = [row for (row,) in connection.execute("SELECT id FROM hr.t ORDER BY 1")]
    assert len(found) + len(lines) == len(texts)
    assert 0 in found
    assert sorted({*found, *(int(line["after"]["ID"]) for line in lines)}) == list(
        range(len(texts))
    )
    assert any(problem in line["reason"] for line in lines)
    assert len(written) <= 3


TRIGGERS = {
    "changes a value": ("BEFORE INSERT OR UPDATE", "NEW.b := 7; RETURN NEW;", "field b"),
    "changes an update": ("BEFORE UPDATE", "NEW.b := 7; RETURN NEW;", "field b"),
    "changes a key": ("BEFORE INSERT", "NEW.id := NEW.id + 100; RETURN NEW;", "not exist after"),
    "leaves a row out": ("BEFORE INSERT", "RETURN NULL;", "rows were changed instead of"),
    "changes it later": ("AFTER INSERT", "UPDATE hr.t SET b = 7; RETURN NEW;", "field b"),
}
HARMLESS = {
    "sets its own column": ("BEFORE INSERT OR UPDATE", "NEW.more := 7; RETURN NEW;"),
    "writes elsewhere": ("AFTER INSERT", "INSERT INTO hr.log VALUES (NEW.id); RETURN NEW;"),
    "is of other writers": (
        "BEFORE INSERT OR UPDATE",
        "IF current_setting('application_name') NOT LIKE 'trailgate%' THEN NEW.b := 7; END IF; RETURN NEW;",
    ),
}


def with_trigger(database: str, when: str, body: str) -> None:
    with psycopg.connect(database) as connection:
        for text in (
            "CREATE SCHEMA hr",
            "CREATE TABLE hr.log (id bigint)",
            "CREATE TABLE hr.t (id bigint PRIMARY KEY, a varchar(9), b bigint, c json, more bigint)",
            f"CREATE FUNCTION hr.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
            f"CREATE TRIGGER own {when} ON hr.t FOR EACH ROW EXECUTE FUNCTION hr.f()",
        ):
            connection.execute(text.encode())


WRITTEN = [
    Operation("I", 1, 1, FULL, 1),
    Operation("I", 2, 2, FULL, 2),
    Operation("U", 1, 1, {"a": 9}, 3),
    Operation("U", 2, 2, {"b": 8}, 4),
]


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_that_changes_what_is_written_is_an_error(
    database: str, tmp_path: Path, name: str
) -> None:
    when, body, says = TRIGGERS[name]
    with_trigger(database, when, body)
    write_log(tmp_path / "ot", WRITTEN[:2])
    if name == "changes an update":
        apply_trail(tmp_path / "ot", database)
    write_log(tmp_path / "ot", WRITTEN[2:])
    with pytest.raises(ApplyError, match=says):
        apply_trail(tmp_path / "ot", database)


@pytest.mark.parametrize("name", HARMLESS)
def test_other_triggers_are_none(database: str, tmp_path: Path, name: str) -> None:
    with_trigger(database, *HARMLESS[name])
    write_log(tmp_path / "ot", WRITTEN[:2])
    apply_trail(tmp_path / "ot", database)
    write_log(tmp_path / "ot", WRITTEN[2:])
    apply_trail(tmp_path / "ot", database)
    assert verify_tables(tmp_path / "ot", database).is_equal


def test_a_table_may_have_many_columns_of_numbers(database: str, tmp_path: Path) -> None:
    """A staged row has a flag beside each value, and a row of PostgreSQL at most 8160 bytes."""
    others = [f"C{number}" for number in range(700)]
    columns = (Column("ID", BIN64, 8, key=True), *(Column(name, BIN64, 8) for name in others))
    table = Table("HR.T", columns)
    changes = [
        (INSERT, None, {"ID": 1, **dict.fromkeys(others, 5)}),
        (UPDATE, {"ID": 1}, {"ID": 1, "C699": 6}),
    ]
    with TrailAppender(str(tmp_path / "ot"), Definitions((table,))) as trail:
        for number, change in enumerate(changes):
            trail.append(ChangeBatch([block_of_images(table, [change])], 1))
            trail.commit(str(number))
    apply_trail(tmp_path / "ot", database, batch_bytes=1)

    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT id, c0, c698, c699 FROM hr.t").fetchall()
    assert found == [(1, 5, 5, 6)]


def test_a_table_with_too_many_columns_is_named_and_the_limit_explained(
    database: str, tmp_path: Path
) -> None:
    others = (Column(f"C{number}", BIN64, 8) for number in range(799))
    table = Table("HR.T", (Column("ID", BIN64, 8, key=True), *others))
    with TrailAppender(str(tmp_path / "ot"), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block_of_images(table, [(INSERT, None, {"ID": 1})])], 1))
        trail.commit("1")

    with pytest.raises(ApplyError, match="tables can have at most 1600 columns") as caught:
        apply_trail(tmp_path / "ot", database)

    assert caught.value.where.table == "hr.t"
    assert "two columns for each column" in (caught.value.hint or "")
