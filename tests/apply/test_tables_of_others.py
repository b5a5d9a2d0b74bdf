"""What others do to tables and how they name them: each case is applied rightly, or refused by an error that says what and where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from apply.foreign_databases import DATABASES, NAMES
from apply.naive_batches import block_of_images
from apply.postgresql_server import running
from apply.value_table import TARGETS
from trailgate import DefinitionError, TrailAppender, TrailgateError, apply_trail, verify_tables
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

INSERT, UPDATE, DELETE, MOVE = (ord(one) for one in "IUDK")
NUMBER: Final = 134
POSTGRESQL: Final = [pytest.param("postgresql", marks=pytest.mark.servers)]

Change = tuple[int, dict[str, Any] | None, dict[str, Any] | None]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


def append(prefix: Path, table: Table, *changes: Change) -> Path:
    """Append operations, each a transaction, to a trail."""
    with TrailAppender(str(prefix), Definitions((table,))) as trail:
        for number, change in enumerate(changes):
            trail.append(ChangeBatch([block_of_images(table, [change])], 1))
            trail.commit(str(number))
    return prefix


def table_of(key: Column, *others: Column) -> Table:
    return Table("HR.T", (key, *others))


K: Final = Column("K", NUMBER, 8, key=True)
A: Final = Column("A", NUMBER, 8)
TEXT: Final = Column("V", 64, 40)
DIGITS: Final = Column("K", 64, 60, sub_type=2, key=True)
WORD: Final = Column("K", 64, 60, key=True)
PADDED: Final = Column("K", 0, 5, key=True)
DOUBLE: Final = Column("K", 143, 8, key=True)
TIME: Final = Column("K", 192, 29, key=True)
# A type of the key in the trail, the type in the target, three spellings of a value, and another value.
KEYS: Final = {
    "numbers": (DIGITS, ("numeric", "DECIMAL(38,10)"), ("00012", "+12", "1.2E1"), "13"),
    "fractions": (DIGITS, ("numeric(9,3)", "DECIMAL(9,3)"), (".5", "0.50", "+5E-1"), "-.5"),
    "zeros": (DIGITS, ("numeric", "DECIMAL(9,3)"), ("-0", "0", "0.00E7"), "1E2"),
    "long numbers": (DIGITS, ("numeric(60,20)", "HUGEINT"), ("1" * 38, "0" + "1" * 38, "1" * 38 + ".0"), "1E2"),
    "small numbers": (DIGITS, ("numeric", "DECIMAL(38,10)"), ("0.0000001", "1E-7", "+.0000001"), "1"),
    "whole numbers": (DIGITS, ("integer", "INTEGER"), ("7", "07", "7.0"), "70E-0"),
    "floats": (DIGITS, ("double precision", "DOUBLE"), ("0.1", "1E-1", "00.10"), "0.2"),
    "text": (WORD, ("uuid", "UUID"), ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"), "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "padded text": (PADDED, ("char(5)", None), ("ab", "ab ", "ab   "), "abc"),
    "signs of zero": (DOUBLE, ("double precision", "DOUBLE"), (0.0, -0.0, 0.0), 1.0),
    "not a number": (DOUBLE, ("double precision", "DOUBLE"), (float("nan"), float("nan"), float("nan")), 1.0),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("name", NAMES)
def test_spellings_that_are_equal_in_the_target_are_one_key(
    name: str, case: str, size: int, tmp_path: Path, request: Any
) -> None:
    column, kinds, (one, two, three), other = KEYS[case]
    kind = kinds[name == "duckdb"]
    if kind is None:
        return
    database = DATABASES[name](request, tmp_path)
    database.run(f"CREATE TABLE hr.t (k {kind} PRIMARY KEY, a bigint)")
    ot = append(
        tmp_path / "ot",
        table_of(column, A),
        (INSERT, None, {"K": one, "A": 1}),
        (UPDATE, {"K": two}, {"K": two, "A": 2}),
        (UPDATE, {"K": two}, {"K": three, "A": 3}),
        (DELETE, {"K": three}, None),
        (INSERT, None, {"K": two, "A": 4}),
        (MOVE, {"K": one}, {"K": other, "A": 5}),
        (INSERT, None, {"K": three, "A": 6}),
        (DELETE, {"K": other}, None),
        (UPDATE, {"K": one}, {"K": two, "A": 7}),
    )
    apply_trail(ot, database.address, batch_bytes=size)

    assert database.rows("SELECT a FROM hr.t") == [(7,)]
    assert verify_tables(ot, database.address).is_equal


@pytest.mark.parametrize("name", NAMES)
def test_text_keys_that_differ_are_different_keys(name: str, tmp_path: Path, request: Any) -> None:
    database = DATABASES[name](request, tmp_path)
    database.run("CREATE TABLE hr.t (k varchar PRIMARY KEY, a bigint)")
    keys = ("00012", "12", "12.0", "a", "A", "a ", "", "ä", "a\u0308")
    changes = [(INSERT, None, {"K": key, "A": at}) for at, key in enumerate(keys)]
    ot = append(tmp_path / "ot", table_of(WORD, A), *changes)
    apply_trail(ot, database.address)
    assert dict(database.rows("SELECT k, a FROM hr.t")) == {key: at for at, key in enumerate(keys)}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("duckdb", "VARCHAR COLLATE NOCASE"),
        ("duckdb", "INTERVAL"),
        *(pytest.param("postgresql", kind, marks=pytest.mark.servers) for kind in ("jsonb", "interval", "hr.loose")),
    ],
)  # fmt: skip
def test_a_key_whose_values_are_equal_though_their_text_is_not_is_refused(
    name: str, kind: str, tmp_path: Path, request: Any
) -> None:
    database = DATABASES[name](request, tmp_path)
    if kind == "hr.loose":
        database.run(
            "CREATE COLLATION hr.c (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "CREATE DOMAIN hr.loose AS text COLLATE hr.c",
        )
    database.run(f"CREATE TABLE hr.t (k {kind}, a bigint)")
    ot = append(tmp_path / "ot", table_of(WORD, A), (INSERT, None, {"K": "a", "A": 1}))
    with pytest.raises(DefinitionError, match=r"cannot be part of a key.*hr\.t.*KEYCOLS"):
        apply_trail(ot, database.address)


@pytest.mark.parametrize("name", [*NAMES, "delta", "parquet"])
def test_columns_of_a_trail_whose_names_differ_in_case_alone_are_refused(
    name: str, tmp_path: Path, request: Any
) -> None:
    address = TARGETS[name].address.format(tmp_path)
    if name == "postgresql":
        address = DATABASES[name](request, tmp_path).address
    table = table_of(K, Column("Abc", NUMBER, 8), Column("ABC", NUMBER, 8))
    ot = append(tmp_path / "ot", table, (INSERT, None, {"K": 1, "Abc": 2, "ABC": 3}))
    mode: Any = "append" if name == "parquet" else "current"
    with pytest.raises(
        DefinitionError, match=r"Abc and ABC, whose names differ only in case.*HR\.T"
    ):
        apply_trail(ot, address, mode=mode)


@pytest.mark.parametrize("name", POSTGRESQL)
def test_names_of_a_database_that_differ_in_case_alone(
    name: str, tmp_path: Path, request: Any
) -> None:
    database = DATABASES[name](request, tmp_path)
    ot = append(tmp_path / "ot", table_of(K, A), (INSERT, None, {"K": 1, "A": 2}))
    database.run(
        'CREATE TABLE hr."T" (k bigint PRIMARY KEY, "A" bigint)',
        "CREATE TABLE hr.t (k bigint PRIMARY KEY, a bigint)",
        'CREATE TABLE hr."Tt" (k bigint PRIMARY KEY, a bigint, "A" bigint)',
        'CREATE TABLE hr."tT" (k bigint PRIMARY KEY, a bigint)',
    )
    apply_trail(ot, database.address)  # the exact name
    assert database.rows("SELECT k, a FROM hr.t") == [(1, 2)]
    assert database.rows('SELECT * FROM hr."T"') == []
    params = tmp_path / "r.prm"
    for target, problem in (("hr.tt", "hr.Tt, hr.tT"), ('hr."Tt"', "a and A, whose names differ")):
        params.write_text(f"REPLICAT r\nMAP hr.t, TARGET {target};\n")
        with pytest.raises(DefinitionError, match=problem):
            apply_trail(ot, database.address, params=str(params))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_is_refused(name: str, tmp_path: Path, request: Any) -> None:
    database = DATABASES[name](request, tmp_path)
    database.run("CREATE VIEW hr.t AS SELECT 1 AS k, 2 AS a")
    ot = append(tmp_path / "ot", table_of(K, A), (INSERT, None, {"K": 1, "A": 2}))
    with pytest.raises(DefinitionError, match=r"a view of this name.*hr\.t.*MAP"):
        apply_trail(ot, database.address)


@pytest.mark.parametrize("name", NAMES)
def test_times_with_a_zone_never_depend_on_a_setting(
    name: str, tmp_path: Path, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "America/New_York")
    monkeypatch.setenv("PGDATESTYLE", "German")
    database = DATABASES[name](request, tmp_path)
    database.run("CREATE TABLE hr.t (k bigint PRIMARY KEY, v timestamptz)")
    naive = append(tmp_path / "a", table_of(K, Column("V", 192, 26)), (INSERT, None, {"K": 1, "V": "2026-01-05 12:00:00.000000"}))  # fmt: skip
    with pytest.raises(DefinitionError, match="times in a trail have no zone"):
        apply_trail(naive, database.address, group="a")
    zoned = append(
        tmp_path / "b",
        table_of(K, Column("V", 192, 48)),
        (INSERT, None, {"K": 1, "V": "2026-01-05 12:00:00.5 +02:00"}),
        (INSERT, None, {"K": 2, "V": "2026-07-05 12:00:00 -05:30"}),
    )
    apply_trail(zoned, database.address, group="b")
    text = "SELECT k, (v AT TIME ZONE 'UTC')::varchar FROM hr.t"
    assert dict(database.rows(text)) == {1: "2026-01-05 10:00:00.5", 2: "2026-07-05 17:30:00"}
    assert verify_tables(zoned, database.address, group="b").is_equal
    append(tmp_path / "b", table_of(K, Column("V", 192, 48)), (INSERT, None, {"K": 3, "V": "2026-01-05 12:00:00 Europe/Berlin"}))  # fmt: skip
    with pytest.raises(TrailgateError, match=r"cannot hold this value.*offset from UTC"):
        apply_trail(zoned, database.address, group="b")


@pytest.mark.parametrize("name", NAMES)
def test_dropped_tables_and_columns_are_not_created_again(
    name: str, tmp_path: Path, request: Any
) -> None:
    database = DATABASES[name](request, tmp_path)
    table = table_of(K, A, TEXT)
    ot = append(tmp_path / "ot", table, (INSERT, None, {"K": 1, "A": 2, "V": "x"}))
    apply_trail(ot, database.address)
    database.run("ALTER TABLE hr.t DROP COLUMN v")
    append(tmp_path / "ot", table, (INSERT, None, {"K": 2, "A": 2, "V": "y"}))
    with pytest.raises(DefinitionError, match=r"somebody has dropped this column.*hr\.t.*field v"):
        apply_trail(ot, database.address)
    database.run("ALTER TABLE hr.t ADD COLUMN v varchar")
    apply_trail(ot, database.address)
    assert database.rows("SELECT k, v FROM hr.t ORDER BY k") == [(1, None), (2, "y")]
    assert not verify_tables(ot, database.address).is_equal
    database.run("DROP TABLE hr.t")
    append(tmp_path / "ot", table, (INSERT, None, {"K": 3, "A": 2, "V": "z"}))
    with pytest.raises(DefinitionError, match=r"table no longer exists.*hr\.t.*--group"):
        apply_trail(ot, database.address)


# Columns of a table, the value that one of three rows has, and what the error says.
REFUSED: Final = {
    "NULL": (("duckdb", "postgresql"), "v varchar NOT NULL", None, "NULL|null"),
    "a check": (("duckdb", "postgresql"), "v varchar CHECK (v < 'x')", "x", "CHECK|check"),
    "too long": (("postgresql",), "v varchar(2)", "xxx", r"varchar|character varying\(2\)"),
    "NUL": (("postgresql",), "v text", "a\0b", r"0x00"),
    "no uuid": (("duckdb", "postgresql"), "v uuid", "x", "(?i)uuid"),
    "another spelling": (("postgresql",), "v inet", "10.0.0.1/32", "10.0.0.1"),
    "no word of an enum": (("postgresql",), "v hr.mood", "x", "mood"),
    "another interval": (("duckdb", "postgresql"), "v interval", "24 hour", "24:00:00"),
}


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, marks=pytest.mark.servers if name == "postgresql" else ())
        for case, (names, *_) in REFUSED.items()
        for name in names
    ],
)
def test_a_refused_row_is_named(name: str, case: str, tmp_path: Path, request: Any) -> None:
    _, column, value, problem = REFUSED[case]
    database = DATABASES[name](request, tmp_path)
    database.run(f"CREATE TABLE hr.t (k bigint PRIMARY KEY, {column})")
    good: Any = {"uuid": "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "inet": "10.0.0.1"}
    usual = good.get(column.split()[1], "a" if "interval" not in column else "1 day")
    values = {1: usual, 2: usual, 7: value, 9: usual}
    changes = [(INSERT, None, {"K": key, "V": one}) for key, one in values.items()]
    ot = append(tmp_path / "ot", table_of(K, TEXT), *changes)
    with pytest.raises(TrailgateError, match=problem) as caught:
        apply_trail(ot, database.address)
    shown = str(caught.value)
    assert "position 0:" in shown
    assert "hr.t" in shown.lower()
    if "HR.T" not in shown:  # what our own checks refuse has the value, not the key
        assert "k=7" in shown
    assert database.rows("SELECT k FROM hr.t") == []


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_a_key_is_reported(name: str, tmp_path: Path, request: Any) -> None:
    database = DATABASES[name](request, tmp_path)
    table = Table("HR.T", (Column("K", NUMBER, 8), A))
    ot = append(tmp_path / "a", table, (UPDATE, {"K": 1}, {"K": 1, "A": 3}))
    with pytest.raises(TrailgateError, match=r"the table has no known key.*KEYCOLS.*--definitions"):
        apply_trail(ot, database.address, group="a")
    whole = {"K": 1, "A": 1}
    twice = append(tmp_path / "b", table, (INSERT, None, whole), (UPDATE, whole, {"K": 1, "A": 2}))
    database.run("CREATE TABLE hr.t (k bigint, a bigint)", "INSERT INTO hr.t VALUES (5, 5), (5, 5)")
    apply_trail(twice, database.address, group="b")
    append(tmp_path / "b", table, (UPDATE, {"K": 5, "A": 5}, {"K": 5, "A": 6}))
    with pytest.raises(
        TrailgateError, match=r"no known key.* 2 rows with all these values.*KEYCOLS"
    ):
        apply_trail(twice, database.address, group="b")


@pytest.mark.parametrize(
    ("kind", "column", "value", "says"),
    [
        ("bigint", Column("V", 64, 4, sub_type=4), "00FF", "type for bytes"),
        ("bytea", Column("V", NUMBER, 8), 1, "type for a number"),
    ],
)
def test_a_column_of_another_type_is_refused_with_what_to_do(
    kind: str, column: Column, value: Any, says: str, tmp_path: Path, request: Any
) -> None:
    database = DATABASES["duckdb"](request, tmp_path)
    database.run(f"CREATE TABLE hr.t (k bigint, v {kind})")
    prefix = append(tmp_path / "a", table_of(K, column), (INSERT, None, {"K": 1, "V": value}))
    with pytest.raises(DefinitionError, match=f"ALTER the target's column to a {says}.*COLMAP"):
        apply_trail(prefix, database.address)


NINE: Final = {
    "2026-01-05 12:00:10.120000000": ("timestamp(3)", "TIMESTAMP_MS"),
    "2026-01-05 12:00:10.123456000": ("timestamp", "TIMESTAMP"),
    "2026-01-05 12:00:10.000000000": ("timestamp(0)", "TIMESTAMP_S"),
    "2026-01-05 00:00:00.000000000": ("date", "DATE"),
    "2026-01-05 12:00:10.120000000 +02:00": ("timestamptz", "TIMESTAMPTZ"),
}


@pytest.mark.parametrize("value", NINE)
@pytest.mark.parametrize("name", NAMES)
def test_zeros_at_the_end_of_a_fraction_need_no_digits_in_the_target(
    name: str, value: str, tmp_path: Path, request: Any
) -> None:
    """Replicat and others write times with nine digits, of which most sources have six."""
    database = DATABASES[name](request, tmp_path)
    kind = NINE[value][name == "duckdb"]
    database.run(f"CREATE TABLE hr.t (k {kind}, a bigint)")
    table = table_of(Column("K", 192, 48, key=True), A)
    key = {"K": value}
    append(tmp_path / "ot", table, (INSERT, None, {**key, "A": 1}), (UPDATE, key, {**key, "A": 2}))
    apply_trail(tmp_path / "ot", database.address)

    zoned = value[:26] + "+02" if value.endswith("+02:00") else value[:26]
    assert database.rows(f"SELECT k = CAST('{zoned}' AS {kind}), a FROM hr.t") == [(True, 2)]
    assert verify_tables(tmp_path / "ot", database.address).is_equal
    append(tmp_path / "ot", table, (INSERT, None, {"K": "2026-01-05 12:00:10.123456789", "A": 1}))
    with pytest.raises(TrailgateError):
        apply_trail(tmp_path / "ot", database.address)


FAR: Final = ("infinity", "-infinity", "20000-01-01 00:00:00")


@pytest.mark.parametrize("name", NAMES)
def test_times_that_python_lacks_move_with_their_rows_and_are_found_by_verify(
    name: str, tmp_path: Path, request: Any
) -> None:
    """Others write them to a column of the trail."""
    database = DATABASES[name](request, tmp_path)
    table = table_of(K, Column("X", 192, 26))
    usual = "2026-01-05 12:00:00.000000"
    keys = range(len(FAR))
    append(tmp_path / "ot", table, *((INSERT, None, {"K": key, "X": usual}) for key in keys))
    apply_trail(tmp_path / "ot", database.address)
    database.run(*(f"UPDATE hr.t SET x = '{value}' WHERE k = {at}" for at, value in enumerate(FAR)))
    append(tmp_path / "ot", table, *((MOVE, {"K": key}, {"K": key + 10}) for key in keys))
    apply_trail(tmp_path / "ot", database.address)

    found = database.rows("SELECT k, CAST(x AS varchar) FROM hr.t ORDER BY 1")
    assert found == [(at + 10, value) for at, value in enumerate(FAR)]
    report = verify_tables(tmp_path / "ot", database.address).tables["hr.t"]
    assert (report.equal, report.different) == (0, len(FAR))
