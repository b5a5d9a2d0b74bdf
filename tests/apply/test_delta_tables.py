"""Delta tables that others created: each is applied to as it is, or the error says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from apply.deletion_vectors import delete_by_vector, vectors
from apply.naive_batches import block_of_images
from apply.test_keys_and_values import HISTORIES, TABLES
from apply.value_histories import mixed_histories, run_histories
from apply.value_table import TARGETS, VALUES, Values
from laws import WHOLE, chance, one_of
from store_servers.bucket import Bucket
from trailgate import ApplyError, OptionError, TrailAppender, apply_trail, verify_tables
from trailgate.apply.effects.tables import created_type, make_target_table
from trailgate.apply.jobs.options import ModeName
from trailgate.apply.targets.delta_properties import (
    has_rounded_statistics,
    plan_statistics_properties,
)
from trailgate.apply.targets.target import table_rows
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
)
from trailgate.model.tables import Column, Definitions, Table

T: Final = Table("HR.T", (Column("ID", 134, 8, key=True), Column("V", 64, 20)))
NUMBERS: Final = Table("HR.N", (Column("K", 135, 8, key=True), Column("A", 134, 8, scale=2)))
Change = tuple[int, dict[str, Any] | None, dict[str, Any] | None]


def write(prefix: Path, *changes: Change, table: Table = T) -> None:
    """Append operations to a trail, each a transaction."""
    block = block_of_images(table, changes)
    with TrailAppender(str(prefix), Definitions((table,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("all")


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(DeltaTable(path).scan()).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


# How others create a table of a schema.
CREATED: Final[Mapping[str, Callable[[Path, pa.Schema], object]]] = {
    "statistics of all columns": DeltaTable.create,
    "columns in another order": lambda path, schema: DeltaTable.create(
        path, pa.schema(reversed(list(schema)))
    ),
    "partitions": lambda path, schema: DeltaTable.create(
        path, schema, partition_by=[name for name in schema.names if _parts(schema.field(name))][:1]
    ),
    "mapped columns": lambda path, schema: DeltaTable.create(
        path,
        schema,
        configuration={
            "delta.columnMapping.mode": "name",
            "delta.minReaderVersion": "2",
            "delta.minWriterVersion": "5",
        },
    ),
    "deletion vectors": DeltaTable.create,
}


def _parts(field: pa.Field) -> bool:
    """Return whether a column can part a table of any values: delta-rs writes those of others wrongly."""
    kinds = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp)
    return any(fits(field.type) for fits in kinds)


def mark_copies(path: str) -> None:
    """Write a table anew with each row twice, and delete the copies by a deletion vector."""
    table = DeltaTable(path)
    found = pa.table(table.scan()).cast(pa.schema(table.schema()))
    if found.num_rows:
        write_deltalake(table, pa.concat_tables([found, found]), mode="overwrite")
        (file,) = (Path(uri).name for uri in DeltaTable(path).file_uris())
        texts = [str(row) for row in pq.read_table(Path(path, file)).to_pylist()]
        copies = [at for at, text in enumerate(texts) if text in texts[:at]]
        delete_by_vector(Path(path), {file: copies})
        assert vectors(Path(path)) == 1


def write_statistics(path: str, together: int = 1) -> None:
    """Write a table anew, one file for each row or few, with statistics of all columns, as delta-rs does for others."""
    table = DeltaTable(path)
    schema = pa.schema(table.schema())
    found = pa.table(table.scan()).cast(schema)
    listed = {"delta.dataSkippingStatsColumns": ",".join(schema.names)}
    table.alter.set_table_properties(listed)
    write_deltalake(table, found[:0], mode="overwrite")
    own = min(found.num_rows, 20)
    starts = range(0, own, together)
    for part in (*(found[at : min(at + together, own)] for at in starts), found[own:]):
        if part.num_rows:
            write_deltalake(table, part, mode="append")


# What others do to such a table between two runs.
BETWEEN: Final[Mapping[str, Callable[[str], object]]] = {
    "statistics of all columns": write_statistics,
    "deletion vectors": mark_copies,
}


@pytest.mark.timeout(0 if WHOLE else 300)
@pytest.mark.parametrize("created", CREATED)
def test_a_table_has_the_sources_rows(created: str, tmp_path: Path) -> None:
    target, own = TARGETS["delta"], chance(f"delta {created}")
    tables = TABLES if WHOLE else 3
    for number in range(-(-HISTORIES // tables) if WHOLE else 1):
        folder = tmp_path / str(number)
        histories = mixed_histories(own, target, tables)
        paths = [folder / "lake" / "hr" / f"t{at}" for at in range(tables)]
        for path, history in zip(paths, histories, strict=True):
            path.mkdir(parents=True)
            CREATED[created](path, make_target_table(history.table).schema)

        def between(_: str, paths: list[Path] = paths) -> None:
            for path in paths:
                BETWEEN.get(created, str)(str(path))

        run_histories(folder, histories, target, _applied, own, between=between)


# Types whose statistics leave out files that have a value.
UNSAFE: Final = [
    one
    for one in VALUES
    if has_rounded_statistics(created_type(one.column))
    or pa.types.is_floating(created_type(one.column))
]


@pytest.mark.parametrize("one", one_of(UNSAFE, "unsafe keys"), ids=lambda one: one.name)
def test_keys_are_found_though_statistics_leave_them_out(one: Values, tmp_path: Path) -> None:
    """Each value is in a file of its own or, if it is a float, with others, and each operation is a MERGE of its own."""
    table = Table("HR.T", (one.as_column("ID", key=True), Column("V", 134, 8)))
    path = tmp_path / "lake/hr/t"
    path.mkdir(parents=True)
    DeltaTable.create(path, make_target_table(table).schema)
    keys = list(
        {TARGETS["delta"].stored(one.column, value): value for value in one.values}.values()
    )
    write(tmp_path / "ot", *((INSERT, None, {"ID": key, "V": 1}) for key in keys), table=table)
    to = f"delta:{tmp_path}/lake"
    apply_trail(tmp_path / "ot", to)
    is_float = pa.types.is_floating(created_type(one.column))
    write_statistics(
        str(path), 3 if is_float else 1
    )  # the bounds of NaN and others are those of the others
    updates = [(UPDATE, {"ID": key}, {"ID": key, "V": 2}) for key in keys[::2]]
    deletes = [(DELETE, {"ID": key}, None) for key in keys[1::2]]
    write(tmp_path / "ot", *updates, *deletes, table=table)

    apply_trail(tmp_path / "ot", to, batch_bytes=1)
    assert [row["v"] for row in rows(path)] == [2] * len(updates)
    assert verify_tables(tmp_path / "ot", to).is_equal


def _applied(trail: Path, to: str, batch_bytes: int) -> None:
    apply_trail(trail, to, batch_bytes=batch_bytes)
    assert verify_tables(trail, to).is_equal


def test_a_table_of_others_gets_no_rounded_statistics(tmp_path: Path) -> None:
    """A reader that looks for 90071992547409.93 skips a file whose greatest value is stated as ...92."""
    amount = Decimal("90071992547409.93")
    for path in ("others", "ours"):
        if path == "others":
            schema = make_target_table(NUMBERS).schema
            DeltaTable.create(tmp_path / path / "hr/n", schema)
        write(tmp_path / path / "ot", (INSERT, None, {"K": 2**64 - 1, "A": amount}), table=NUMBERS)
        apply_trail(tmp_path / path / "ot", f"delta:{tmp_path / path}")

        table = tmp_path / path / "hr/n"
        assert stated(table) == [set()]
        found = DeltaTable(table).to_pyarrow_dataset().to_table(filter=pc.field("a") == amount)
        assert found.num_rows == 1


def stated(table: Path) -> list[set[str]]:
    """Return the columns that each added file has bounds of."""
    lines = [
        json.loads(line)
        for commit in sorted((table / "_delta_log").glob("*.json"))
        for line in commit.read_text().splitlines()
    ]
    added = [json.loads(one["add"]["stats"]) for one in lines if "add" in one]
    return [set(one["minValues"]) | set(one["maxValues"]) for one in added]


def test_a_store_of_the_protocol_of_s3_may_have_an_http_address(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in s3_bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    to = f"delta:{s3_bucket.url}/lake"

    def run(*options: str, trail: tuple[str, ...] = (str(tmp_path / "ot"),)) -> str:
        # In a process of its own: some requests of delta-rs keep Python's lock, which this process's server needs to answer.
        command = [sys.executable, "-m", "trailgate", "apply", *trail, "--to", to, *options]
        done = subprocess.run(command, check=True, timeout=100, stdout=subprocess.PIPE, text=True)
        return done.stdout

    write(tmp_path / "ot", ROW)
    run()
    write(tmp_path / "ot", (UPDATE, {"ID": 1}, {"ID": 1, "V": "z"}))
    run()
    run("--verify")
    assert "hr.t" in run("--status", trail=())
    assert table_rows(f"{to}/hr/t").read_all().to_pylist() == [{"id": 1, "v": "z"}]


@pytest.mark.parametrize("created", CREATED)
def test_such_a_table_gets_columns(created: str, tmp_path: Path) -> None:
    path = tmp_path / "lake/hr/t"
    path.mkdir(parents=True)
    CREATED[created](path, make_target_table(T).schema)
    write(tmp_path / "ot", ROW)
    apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    if created == "deletion vectors":
        mark_copies(str(path))
    more = replace(T, columns=(*T.columns, Column("Ö", 64, 9)))
    write(tmp_path / "more", (INSERT, None, {"ID": 2, "V": "b", "Ö": "x"}), table=more)
    if created == "mapped columns":
        with pytest.raises(ApplyError, match=r"mapped column names.*ALTER TABLE t ADD COLUMNS"):
            apply_trail(tmp_path / "more", f"delta:{tmp_path}/lake", group="more")
        return
    apply_trail(tmp_path / "more", f"delta:{tmp_path}/lake", group="more")

    assert [row["ö"] for row in rows(path)] == [None, "x"]


def test_delta_rs_still_rounds(tmp_path: Path) -> None:
    """Once this fails, nothing of trailgate.apply.targets.delta_properties is needed."""
    rows = pa.table({"a": pa.array([Decimal("90071992547409.93")], pa.decimal128(19, 2))})
    write_deltalake(tmp_path, rows)

    read = DeltaTable(tmp_path).to_pyarrow_dataset()
    assert read.to_table(filter=pc.field("a") == rows["a"][0]).num_rows == 0
    assert read.to_table().num_rows == 1


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, "`v`,`w`"),
        ({"delta.dataSkippingNumIndexedCols": "1"}, None),
        ({"delta.dataSkippingNumIndexedCols": "2"}, "`v`"),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, "`v`,`w`"),
        ({"delta.dataSkippingStatsColumns": "v"}, None),
        ({"delta.dataSkippingStatsColumns": "v, `amount`"}, "`v`"),
        ({"delta.dataSkippingStatsColumns": ""}, None),
    ],
)
def test_statistics_stay_as_they_are_but_for_those_that_are_rounded(
    known: dict[str, str | None], expected: str | None
) -> None:
    schema = pa.schema(
        [
            ("v", pa.int64()),
            ("amount", pa.decimal128(19, 2)),
            ("a,b", pa.int64()),
            ("raw", pa.binary()),
            ("w", pa.decimal128(18, 0)),
        ]
    )
    found = plan_statistics_properties(schema, known)
    assert found == ({} if expected is None else {"delta.dataSkippingStatsColumns": expected})


def test_a_column_that_comes_later_has_none_either(tmp_path: Path) -> None:
    write(tmp_path / "ot", (INSERT, None, {"ID": 1, "V": "a"}))
    apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    more = replace(T, columns=(*T.columns, Column("A", 134, 8, scale=2)))
    write(tmp_path / "more", (INSERT, None, {"ID": 2, "V": "b", "A": Decimal("1.25")}), table=more)
    apply_trail(tmp_path / "more", f"delta:{tmp_path}/lake", group="more")

    assert stated(tmp_path / "lake/hr/t") == [{"id", "v"}, {"id", "v"}]


def test_generated_columns_are_generated(tmp_path: Path) -> None:
    path = tmp_path / "lake/hr/t"
    path.mkdir(parents=True)
    field = {"name": "g", "type": "string", "nullable": True}
    generated = {**field, "metadata": {"delta.generationExpression": "upper(v)"}}
    create(path, [generated])
    for changes in (
        [(INSERT, None, {"ID": number, "V": "a"}) for number in (1, 2)],
        [(UPDATE, {"ID": 1}, {"ID": 1, "V": "b"}), (INSERT, None, {"ID": 3, "V": "c"})],
        [(TRUNCATE, None, None), (INSERT, None, {"ID": 4, "V": "d"})],
    ):
        write(tmp_path / "ot", *changes)
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
        assert verify_tables(tmp_path / "ot", f"delta:{tmp_path}/lake").is_equal
        assert all(row["g"] == row["v"].upper() for row in rows(path))
    assert rows(path) == [{"id": 4, "v": "d", "g": "D"}]


def create(
    path: Path, more: Sequence[dict[str, Any]] = (), properties: dict[str, str | None] | None = None
) -> None:
    """Create the table T with more columns."""
    own = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("v", "string"))
    ]
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": [*own, *more]}))
    DeltaTable.create(path, schema, configuration=properties)


def with_feature(path: Path, name: str) -> None:
    """Create the table T with a feature of writers."""
    create(path)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": [name],
    }
    (path / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))


def constrained(path: Path) -> None:
    create(path)
    DeltaTable(path).alter.add_constraint({"short": "v < 'abc'"})


def not_null(path: Path) -> None:
    fields = [("id", pa.int64()), ("v", pa.string())]
    DeltaTable.create(path, pa.schema([pa.field(*one, nullable=False) for one in fields]))


def parted(kind: pa.DataType) -> Callable[[Path], None]:
    def create(path: Path) -> None:
        DeltaTable.create(path, pa.schema([("id", pa.int64()), ("v", kind)]), partition_by=["v"])

    return create


ROW: Final = (INSERT, None, {"ID": 1, "V": "a"})
GONE: Final = (DELETE, {"ID": 1}, None)
REFUSED: Final[Sequence[tuple[Callable[[Path], None], Sequence[Change], str]]] = [
    (
        lambda path: create(path, properties={"delta.appendOnly": "true"}),
        [ROW, GONE],
        r"does not allow updates and deletes: .*delta\.appendOnly is true .*--mode append",
    ),
    (
        lambda path: create(path, properties={"delta.appendOnly": "true"}),
        [ROW, (TRUNCATE, None, None)],
        r"does not allow updates and deletes: .*delta\.appendOnly is true .*--mode append",
    ),
    (
        constrained,
        [(INSERT, None, {"ID": 1, "V": "abc"})],
        r"insert of id=1: .* CHECK constraint short refuses the row",
    ),
    (
        not_null,
        [(INSERT, None, {"ID": 1, "V": None})],
        "insert of id=1: .* column v does not allow NULL",
    ),
    *(
        (lambda path, name=name: with_feature(path, name), [ROW], f"{shown}.*merge='session'")
        for name, shown in (
            ("identityColumns", "IdentityColumns"),
            ("allowColumnDefaults", "AllowColumnDefaults"),
            ("rowTracking", "RowTracking"),
            ("clustering", "ClusteredTable"),
        )
    ),
    (
        parted(pa.string()),
        [(INSERT, None, {"ID": 1, "V": ""})],
        "an empty string would become NULL",
    ),
    (
        parted(pa.string()),
        [(INSERT, None, {"ID": 1, "V": "__HIVE_DEFAULT_PARTITION__"})],
        "the text __HIVE_DEFAULT_PARTITION__ would become NULL",
    ),
    (
        parted(pa.binary()),
        [ROW],
        r"cannot write partitions of binary.*Partition the table by another",
    ),
]


@pytest.mark.parametrize(("created", "changes", "words"), REFUSED)
def test_a_table_that_takes_no_such_rows_is_an_error_that_helps(
    created: Callable[[Path], None], changes: Sequence[Change], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "lake/hr/t"
    path.mkdir(parents=True)
    created(path)
    write(tmp_path / "ot", changes[0])
    if len(changes) > 1:
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
        write(tmp_path / "ot", *changes[1:])
    version, before = DeltaTable(path).version(), rows(path)

    with pytest.raises(ApplyError, match=words) as caught:
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")

    assert "apply again" not in str(caught.value)
    assert (DeltaTable(path).version(), rows(path)) == (version, before)


def test_an_append_only_table_takes_inserts(tmp_path: Path) -> None:
    path = tmp_path / "lake/hr/t"
    path.mkdir(parents=True)
    create(path, properties={"delta.appendOnly": "true"})
    for number in (1, 2):
        write(tmp_path / "ot", (INSERT, None, {"ID": number, "V": "a"}))
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    assert [row["id"] for row in rows(path)] == [1, 2]


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_one_key_are_an_error_and_stay(keyed: bool, tmp_path: Path) -> None:
    table = T if keyed else replace(T, columns=tuple(replace(one, key=False) for one in T.columns))
    path = tmp_path / "lake/hr/t"
    write_deltalake(path, pa.table({"id": [1, 1, 2], "v": ["a", "a", "b"]}))
    write(tmp_path / "ot", (DELETE, {"ID": 2, "V": "b"}, None), table=table)
    apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    write(tmp_path / "ot", (DELETE, {"ID": 1, "V": "a"}, None), table=table)

    words = r"delete of id=1: .* has 2 rows with this key .*KEYCOLS"
    if not keyed:
        words = "id=1, v='a': .* has 2 rows with all these values .*--mode append"
    with pytest.raises(ApplyError, match=words):
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    assert [row["id"] for row in rows(path)] == [1, 1]


@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
@pytest.mark.parametrize("mode", ["current", "soft-delete"])
def test_a_row_inserted_again_has_no_value_in_a_column_of_the_target(
    mode: ModeName, batch_bytes: int, tmp_path: Path
) -> None:
    """Whether its delete is in the same batch or not. A row that is updated keeps the value."""
    trail, to, path = tmp_path / "ot", f"delta:{tmp_path}/lake", tmp_path / "lake/hr/t"
    one, two = {"ID": 1, "V": "a"}, {"ID": 2, "V": "a"}
    write(trail, (INSERT, None, one), (INSERT, None, two))
    apply_trail(trail, to, mode=mode)
    DeltaTable(path).alter.add_columns([Field("note", PrimitiveType("string"))])
    DeltaTable(path).update({"note": "'mine'"})
    write(trail, (DELETE, one, None), (INSERT, None, one), (UPDATE, two, {"ID": 2, "V": "b"}))
    apply_trail(trail, to, mode=mode, batch_bytes=batch_bytes)

    assert {row["id"]: row["note"] for row in rows(path)} == {1: None, 2: "mine"}
    assert verify_tables(trail, to, mode=mode).is_equal


@pytest.mark.parametrize("group", [".", "..", "a/b", "../../x", "a%20b", "[x]", "_delta_log"])
def test_a_group_is_the_name_of_a_folder(group: str, tmp_path: Path) -> None:
    write(tmp_path / "ot", (INSERT, None, {"ID": 1, "V": "a"}))
    with pytest.raises(OptionError, match="--group NAME"):
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake", group=group)

    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("part", ["_DELTA_LOG", "..", "a%20b", "[x]"])
def test_a_table_that_cannot_be_a_folder_is_mapped(part: str, tmp_path: Path) -> None:
    table = Table(f'HR."{part}"', T.columns)
    write(tmp_path / "ot", (INSERT, None, {"ID": 1, "V": "a"}), table=table)
    with pytest.raises(OptionError, match=r"\(table hr.*MAP the table to another name"):
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")


def test_a_table_may_have_dates_that_python_lacks(tmp_path: Path) -> None:
    """Also in the least and greatest values that the log states for each file."""
    path, late = tmp_path / "lake/hr/t", pa.array([4_000_000], pa.date32())  # in the year 12921
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int64()), "v": ["a"], "late": late}))
    moved = (KEY_UPDATE, {"ID": 1}, {"ID": 2})
    write(tmp_path / "ot", moved)
    apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")

    found = pa.table(DeltaTable(path).scan())
    assert found["id"].to_pylist() == [2]
    assert found["late"].cast(pa.int32()).to_pylist() == [4_000_000]
