"""Rows that constraints of PostgreSQL refuse are discarded: they alone, by the operation that made them so, and in few statements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from apply.histories import BIN64, History, Shape, positions, write
from apply.postgresql_server import running
from apply.sources import rows_by_id, write_log
from apply.test_killed_discards import apply_growing
from apply.test_net_effects import FULL, history
from laws import LONG, chance, histories
from oracles.apply_naive import COLUMNS, Operation
from oracles.modes_naive import CurrentRows, kept
from trailgate import apply_trail
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.jobs.options import ApplyKeywords, OnError
from trailgate.apply.targets.postgresql import PostgreSQLTarget
from trailgate.apply.targets.target import AppliedPosition
from trailgate.model.tables import Column

pytestmark = pytest.mark.servers
BAD: Final = 3  # a value of column a that every constraint here refuses
NEW_KEY: Final = 100  # no operation that is drawn has it
TABLES: Final = {
    "check": "id bigint PRIMARY KEY, a bigint CHECK (a <> 3), b bigint, c bigint",
    "check without a key": "id bigint, a bigint CHECK (a <> 3), b bigint, c bigint",
    "not null": "id bigint PRIMARY KEY, a bigint, b bigint, c bigint, d bigint GENERATED ALWAYS AS (nullif(a, 3)) STORED, CHECK (a IS NULL OR d IS NOT NULL)",
    "foreign key": "id bigint PRIMARY KEY, a bigint REFERENCES hr.known, b bigint, c bigint",
    "deferred foreign key": "id bigint PRIMARY KEY, a bigint REFERENCES hr.known DEFERRABLE, b bigint, c bigint",
    "partition": "id bigint, a bigint, b bigint, c bigint) PARTITION BY LIST (a",
    "trigger": "id bigint PRIMARY KEY, a bigint, b bigint, c bigint",
}
TRIGGER: Final = """
CREATE FUNCTION hr.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.a = 3 THEN RAISE check_violation USING MESSAGE = 'no 3'; END IF; RETURN NEW; END $$
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


def create(server: str, kind: str) -> str:
    """Return the address of a new database with a table of a kind."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS refused WITH (FORCE)")
        connection.execute("CREATE DATABASE refused")
    database = f"{server.rpartition('/')[0]}/refused"
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA hr")
        connection.execute("CREATE TABLE hr.known (a bigint PRIMARY KEY)")
        connection.execute(
            "INSERT INTO hr.known SELECT generate_series(0, 9) EXCEPT SELECT %s", [BAD]
        )
        connection.execute(f"CREATE TABLE hr.t ({TABLES[kind]})".encode())
        if kind == "partition":
            connection.execute("CREATE TABLE hr.t1 PARTITION OF hr.t FOR VALUES IN (0, 1, 2, NULL)")
            connection.execute("CREATE TABLE hr.t2 PARTITION OF hr.t FOR VALUES IN (4)")
        if kind == "trigger":
            connection.execute(TRIGGER)
            connection.execute(
                "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON hr.t FOR EACH ROW EXECUTE FUNCTION hr.refuse()"
            )
    return database


def stored(database: str) -> dict[int, dict[str, Any]]:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT id, a, b, c FROM hr.t").fetchall()
    return rows_by_id([dict(zip(("id", *COLUMNS), row, strict=True)) for row in found])


@LONG
@pytest.mark.parametrize("kind", TABLES)
def test_the_discarded_operations_explain_the_table(kind: str, server: str, tmp_path: Path) -> None:
    """Without the discarded operations the log fits, and makes the table's rows; what a constraint refused has a bad value. Some runs are killed at the discard file."""
    for number in range(histories(6, tests=len(TABLES), full=1000)):
        own = chance(f"refused {kind} {number}")
        database, folder = create(server, kind), tmp_path / str(number)
        folder.mkdir()
        log = history(own, own.choice((4, 12))).log
        # Few operations may be drawn that a constraint refuses, so the last one always is.
        bad = {**FULL, "a": BAD}
        log.append(Operation("I", NEW_KEY, NEW_KEY, bad, log[-1].transaction + 1, log[-1].table))
        on_error: OnError = own.choice(("discard", "discard", "discard-transaction"))
        discards = folder / "d.jsonl"
        given: ApplyKeywords = {"on_error": on_error, "discards": str(discards)}
        if own.random() < 0.5:
            apply_growing(own, folder, database, log, **given)
        else:
            write_log(folder / "ot", log)
            given["batch_bytes"] = own.choice((300, 1 << 20))
            apply_trail(folder / "ot", database, **given)

        numbers = positions(folder / "ot")
        text = discards.read_text() if discards.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        dropped = {numbers[line["position"]]: line["reason"] for line in lines}
        assert len(dropped) == len(lines)
        assert "PostgreSQL refuses" in dropped[len(log) - 1]
        for at, reason in dropped.items():
            assert at is not None
            if "PostgreSQL refuses" in reason:
                assert log[at].logged.get("a") == BAD, (log, dropped)
            if on_error == "discard-transaction":
                same = [n for n, one in enumerate(log) if one.transaction == log[at].transaction]
                assert dropped.keys() >= set(same)
        rest = [one for at, one in enumerate(log) if at not in dropped]
        tables, _ = kept(rest, {log[0].table: lambda: CurrentRows("stop", COLUMNS)})
        assert stored(database) == tables[log[0].table].state(), (log, dropped)


@pytest.mark.parametrize("kind", TABLES)
def test_a_truncate_is_applied_if_a_row_after_it_is_refused(
    kind: str, server: str, tmp_path: Path
) -> None:
    database = create(server, kind)
    log = [Operation("I", key, key, {**FULL, "a": 1}, 0) for key in (1, 2)]
    log += [Operation("T", 0, 0, {}, 1), Operation("I", 1, 1, {**FULL, "a": BAD}, 1)]
    log += [Operation("I", 3, 3, {**FULL, "a": 2}, 1)]
    write_log(tmp_path / "ot", log)
    discards = tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(discards))

    assert list(stored(database)) == [3]
    assert [json.loads(line)["op_type"] for line in discards.read_text().splitlines()] == ["I"]


@pytest.mark.parametrize("kind", ["check", "foreign key"])
@pytest.mark.parametrize("together", [True, False], ids=["one transaction", "three transactions"])
@pytest.mark.parametrize(
    ("before", "after"),
    [([BAD], [0]), ([0, BAD], [1]), ([BAD], [0, 1]), ([BAD], [])],
    ids=["insert", "an update before", "an update after", "another key after"],
)
def test_a_row_that_is_refused_before_a_truncate_is_not_one_after_it(
    kind: str,
    together: bool,
    before: list[int],
    after: list[int],
    server: str,
    tmp_path: Path,
) -> None:
    """Mode soft-delete writes the rows from before a truncate too."""
    database = create(server, kind)
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE hr.t ADD _deleted boolean, ADD _deleted_at timestamp")

    def changes(values: list[int], transaction: int) -> list[Operation]:
        first, rest = values[:1], values[1:]
        return [
            *(Operation("I", 1, 1, {**FULL, "a": one}, transaction) for one in first),
            *(Operation("U", 1, 1, {"a": one}, transaction) for one in rest),
        ]

    one, two, three = (0, 0, 0) if together else (0, 1, 2)
    log = [*changes(before, one), Operation("T", 0, 0, {}, two), *changes(after, three)]
    log += [Operation("I", 2, 2, {**FULL, "a": 1}, three)]
    write_log(tmp_path / "ot", log)
    discards = tmp_path / "d.jsonl"
    apply_trail(
        tmp_path / "ot", database, mode="soft-delete", on_error="discard", discards=str(discards)
    )

    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT id, a FROM hr.t WHERE _deleted IS NOT TRUE ORDER BY id")
        assert rows.fetchall() == [*((1, value) for value in after[-1:]), (2, 1)]
    numbers = positions(tmp_path / "ot")
    lines = [json.loads(line) for line in discards.read_text().splitlines()]
    assert [numbers[line["position"]] for line in lines] == [len(before) - 1]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows of each write."""
    written: list[int] = []
    write = PostgreSQLTarget.write

    def counted(self: PostgreSQLTarget, effects: TableChanges, at: AppliedPosition) -> None:
        written.append(len(effects.nets))
        write(self, effects, at)

    monkeypatch.setattr(PostgreSQLTarget, "write", counted)
    return written


@pytest.mark.parametrize("kind", ["check", "deferred foreign key", "foreign key"])
def test_refused_rows_are_found_in_few_writes(
    kind: str, server: str, tmp_path: Path, written: list[int]
) -> None:
    """One row in five is refused, some by the second of three operations: a batch is not written once for each of them."""
    database = create(server, kind)
    keys = range(600)
    log = [Operation("I", key, key, {**FULL, "a": BAD if key % 5 == 0 else 1}, key) for key in keys]
    log += [Operation("U", key, key, {"a": BAD, "b": 7}, 600) for key in keys if key % 5 == 1]
    log += [Operation("U", key, key, {"c": 8}, 601) for key in keys if key % 5 == 1]
    write_log(tmp_path / "ot", log)
    discards = tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(discards))

    reasons = [json.loads(line)["reason"] for line in discards.read_text().splitlines()]
    assert sum("PostgreSQL refuses" in one for one in reasons) == len(reasons) == 240
    wanted = {key: {**FULL, "a": 1} for key in keys if key % 5}
    wanted |= {key: {**FULL, "a": 1, "c": 8} for key in keys if key % 5 == 1}
    assert stored(database) == wanted
    assert len(written) <= 6


def test_unique_values_of_an_initial_load_are_found_in_few_writes(
    server: str, tmp_path: Path, written: list[int]
) -> None:
    database = create(server, "check")
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE hr.t ADD UNIQUE (b)")
    keys = range(300)
    log = [Operation("I", key, key, {**FULL, "a": 1, "b": key % 200}, key // 3) for key in keys]
    write_log(tmp_path / "ot", log)
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(tmp_path / "d.jsonl"))
    assert set(stored(database)) == set(range(200))
    assert len(written) <= 3


def test_rows_of_one_table_may_name_each_other(server: str, tmp_path: Path) -> None:
    """A row that is tried before the one that it names is not refused; one that names a missing row is."""
    database = create(server, "check")
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE hr.t ADD FOREIGN KEY (b) REFERENCES hr.t (id)")
    names = {1: 2, 2: 3, 3: None, 4: 99, 5: 4, 6: 1}
    log = [Operation("I", key, key, {**FULL, "a": 1, "b": name}, 1) for key, name in names.items()]
    log.append(Operation("I", 7, 7, {**FULL, "a": BAD, "b": None}, 2))
    write_log(tmp_path / "ot", log)
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(tmp_path / "d.jsonl"))
    assert set(stored(database)) == {1, 2, 3, 6}


def test_a_row_is_not_refused_for_a_row_of_a_table_that_is_written_later(
    server: str, tmp_path: Path
) -> None:
    """The batch is halved then, so that the row that is named comes first."""
    database = create(server, "check")
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE hr.p (id bigint PRIMARY KEY, a bigint, b bigint, c bigint)"
        )
        connection.execute("ALTER TABLE hr.t ADD FOREIGN KEY (b) REFERENCES hr.p")
    made = [
        Operation("I", 1, 1, {**FULL, "a": 1, "b": None}, 1, "HR.T"),
        Operation("I", 5, 5, FULL, 2, "HR.P"),
        Operation("I", 2, 2, {**FULL, "a": 1, "b": 5}, 3, "HR.T"),
        Operation("I", 3, 3, {**FULL, "a": 1, "b": 6}, 4, "HR.T"),
    ]
    columns = tuple((Column(name, BIN64, 8), tuple(range(10))) for name in "ABC")
    shape = Shape(
        (Column("ID", BIN64, 8, key=True),), tuple((key,) for key in range(10)), columns, {}
    )
    write(tmp_path / "ot", History(made, {"HR.T": shape, "HR.P": shape}))
    discards = tmp_path / "d.jsonl"
    apply_trail(tmp_path / "ot", database, on_error="discard", discards=str(discards))
    assert set(stored(database)) == {1, 2}
    (line,) = [json.loads(line) for line in discards.read_text().splitlines()]
    assert line["after"]["ID"] == "3"
