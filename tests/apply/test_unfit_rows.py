"""Rows that a Delta or Iceberg table cannot hold are found before any table is written, by the operation that made them so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType

from apply.histories import positions
from apply.naive_batches import block_of_images
from apply.sources import TARGETS, write_log
from apply.test_net_effects import FULL, history
from laws import chance, histories
from oracles.apply_naive import COLUMNS, Operation
from oracles.modes_naive import CurrentRows, kept
from trailgate import ApplyError, TrailAppender, apply_trail, verify_tables
from trailgate.apply.jobs.options import ApplyKeywords, ModeName, OnError
from trailgate.apply.targets.delta_checks import ROW
from trailgate.apply.targets.target import table_rows
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

Change = tuple[int, dict[str, Any] | None, dict[str, Any] | None]
OTHER: Final = Table("HR.A", (Column("K", 134, 8, key=True),))
TEXT, DECIMAL = Column("V", 64, 400), Column("V", 134, 8, scale=2)
W: Final = Column("W", 64, 20)


def table_of(value: Column) -> Table:
    return Table("HR.T", (Column("K", 134, 8, key=True), value, W))


def insert(key: int, value: Any, **more: Any) -> Change:
    return (INSERT, None, {"K": key, "V": value, **more})


def update(key: int, **changed: Any) -> Change:
    return (UPDATE, {"K": key}, {"K": key, **changed})


def delta_field(name: str, kind: str = "string", **metadata: str) -> Field:
    stored = {one.replace("_", "."): text for one, text in metadata.items()}
    return Field(name, PrimitiveType(kind), nullable=True, metadata=stored)


def required(name: str, kind: str = "string", **metadata: str) -> Field:
    one = delta_field(name, kind, **metadata)
    return Field(name, PrimitiveType(kind), nullable=False, metadata=one.metadata)


def delta(
    *columns: Field, parted: Sequence[str] = (), check: str = "", **properties: str
) -> Callable[[Path], None]:
    """Return a function that creates a Delta table with the columns K, V and W, of which the given ones replace some."""
    own = {one.name: one for one in (delta_field("k", "long"), delta_field("v"), delta_field("w"))}
    fields = list((own | {one.name: one for one in columns}).values())
    settings = {name.replace("_", "."): text for name, text in properties.items()}

    def create(folder: Path) -> None:
        path = folder / "lake/hr/t"
        path.mkdir(parents=True)
        DeltaTable.create(path, Schema(fields), partition_by=list(parted), configuration=settings)
        if check:
            # As Spark writes it: delta-rs refuses to add some constraints that it can evaluate.
            log = path / "_delta_log" / f"{0:020}.json"
            actions = [json.loads(line) for line in log.read_text().splitlines()]
            for one in actions:
                one.get("metaData", {}).get("configuration", {})["delta.constraints.c1"] = check
                if "protocol" in one:
                    one["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
            log.write_text("\n".join(map(json.dumps, actions)))

    return create


def iceberg(
    *columns: NestedField, parted: Mapping[int, Transform[Any, Any]] | None = None
) -> Callable[[Path], None]:
    """Return a function that creates an Iceberg table with the columns K, V and W, of which the given ones replace some."""
    own = {
        1: NestedField(1, "k", LongType()),
        2: NestedField(2, "v", StringType()),
        3: NestedField(3, "w", StringType()),
    }
    fields = (own | {one.field_id: one for one in columns}).values()
    parts = [
        PartitionField(number, 1000 + number, transform, f"p{number}")
        for number, transform in (parted or {}).items()
    ]

    def create(folder: Path) -> None:
        path = folder / "warehouse"
        path.mkdir()
        own = SqlCatalog("lake", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
        own.create_namespace("hr")
        own.create_table("hr.t", IcebergSchema(*fields), partition_spec=PartitionSpec(*parts))

    return create


class Refusal(NamedTuple):
    """A table of others, the changes before, and those of a batch, of which the table refuses one, which ``words`` explain."""

    create: Callable[[Path], None]
    before: Sequence[Change]
    changes: Sequence[Change]
    refused: int
    words: str
    value: Column = TEXT
    mode: ModeName = "current"


NO_NULL: Final = "the target's column v does not allow NULL"
NO_EMPTY: Final = "column v is a partition column, in which an empty string would become NULL"
UPPER: Final = {"delta_generationExpression": "upper(v)"}
NONE_OF_X: Final = {"delta_generationExpression": "CASE WHEN v = 'x' THEN NULL ELSE v END"}
ABOVE: Final = '{"expression": {"expression": "v > \'b\'"}}'
LONG: Final = "é" * 60  # six bytes each in the name of a folder
TWO: Final = (insert(1, "c", W="w"), insert(2, "c", W="w"))
REFUSALS: Final[Mapping[str, Refusal]] = {
    "delta, update to NULL": Refusal(
        delta(required("v")), TWO, [update(2, V="d"), update(1, V=None)], 1, NO_NULL
    ),
    "delta, update to NULL in between": Refusal(
        delta(required("v")),
        TWO,
        [update(2, V=None), update(2, V="d"), update(1, V="e"), update(1, V=None)],
        3,
        NO_NULL,
    ),
    "delta, insert of NULL": Refusal(
        delta(required("v")), TWO, [insert(3, "d"), insert(4, None)], 1, NO_NULL
    ),
    "delta, insert without a value": Refusal(
        delta(required("w")),
        TWO,
        [insert(3, "d", W="w"), insert(4, "d")],
        1,
        "the target's column w does not allow NULL",
    ),
    "delta, insert after a truncate": Refusal(
        delta(required("v")),
        TWO,
        [(TRUNCATE, None, None), insert(1, None), insert(2, "d")],
        1,
        NO_NULL,
    ),
    "delta, an operation of append": Refusal(
        delta(
            required("v"),
            delta_field("_op_type"),
            delta_field("_op_ts", "timestamp_ntz"),
            *map(delta_field, ("_tx_id", "_csn", "_position", "_missing")),
        ),
        (),
        [insert(3, "d"), (DELETE, {"K": 7}, None), insert(3, "e")],
        1,
        NO_NULL,
        mode="append",
    ),
    "delta, NULL in a partition": Refusal(
        delta(required("v"), parted=["v"]), TWO, [insert(3, "d"), update(1, V=None)], 1, NO_NULL
    ),
    "delta, empty partition": Refusal(
        delta(parted=["v"]), TWO, [insert(3, ""), insert(4, "d")], 0, NO_EMPTY
    ),
    "delta, long partition": Refusal(
        delta(parted=["v"]), TWO, [insert(3, LONG), insert(4, "d")], 0, "would have 362 bytes"
    ),
    "delta, empty generated partition": Refusal(
        delta(delta_field("g", **UPPER), parted=["g"]),
        TWO,
        [insert(3, ""), insert(4, "d")],
        0,
        NO_EMPTY.replace(" v ", " g "),
    ),
    "delta, CHECK of the kept value": Refusal(
        delta(check="v <> 'bad' OR w = 'good'"),
        (insert(1, "c", W="w"), insert(2, "c", W="good")),
        [update(1, V="bad"), update(2, V="bad")],
        0,
        "the table's CHECK constraint c1 refuses the row: v <> 'bad'",
    ),
    "delta, CHECK of NULL": Refusal(
        delta(check="v <> 'bad' -- or so"), TWO, [insert(3, None), insert(4, "d")], 0, "CHECK"
    ),
    "delta, CHECK of a moved row": Refusal(
        delta(check="k < 10 OR w IS NULL"),
        TWO,
        [(KEY_UPDATE, {"K": 1}, {"K": 11}), (KEY_UPDATE, {"K": 2}, {"K": 3})],
        0,
        "CHECK",
    ),
    "delta, CHECK of a table with a column of the name for the numbers of rows": Refusal(
        delta(delta_field(ROW.upper()), check="v <> 'bad'"),
        TWO,
        [update(1, V="d"), update(2, V="bad")],
        1,
        "CHECK",
    ),
    "delta, CHECK that fails for a value": Refusal(
        delta(check="CAST(v AS INT) > 1"),
        (insert(1, "5"),),
        [insert(3, "6"), insert(4, "x"), insert(5, "7")],
        1,
        "Cannot cast string 'x'",
    ),
    "delta, CHECK of a generated column": Refusal(
        delta(delta_field("g", **UPPER), delta_field("v"), check="g <> 'BAD'"),
        TWO,
        [insert(3, "d"), update(1, V="bad")],
        1,
        "CHECK",
    ),
    "delta, NULL in a generated column": Refusal(
        delta(required("g", **NONE_OF_X)),
        TWO,
        [insert(3, "d"), update(1, V="x")],
        1,
        "the target's column g does not allow NULL",
    ),
    "delta, invariant": Refusal(
        delta(delta_field("v", delta_invariants=ABOVE)), TWO, [update(1, V="a")], 0, "invariant"
    ),
    "iceberg, update to NULL": Refusal(
        iceberg(NestedField(2, "v", StringType(), required=True)),
        TWO,
        [update(2, V="d"), update(1, V=None)],
        1,
        NO_NULL,
    ),
    "iceberg, insert without a value": Refusal(
        iceberg(NestedField(3, "w", StringType(), required=True)),
        TWO,
        [insert(3, "d", W="w"), insert(4, "d")],
        1,
        "the target's column w does not allow NULL",
    ),
    "iceberg, insert after a truncate": Refusal(
        iceberg(NestedField(2, "v", StringType(), required=True)),
        TWO,
        [(TRUNCATE, None, None), insert(1, None), insert(2, "d")],
        1,
        NO_NULL,
    ),
    "iceberg, long partition": Refusal(
        iceberg(parted={2: IdentityTransform()}), TWO, [insert(3, LONG)], 0, "would have 363 bytes"
    ),
    "iceberg, long truncated partition": Refusal(
        iceberg(parted={2: TruncateTransform(50)}),
        TWO,
        [insert(3, "a" * 300), insert(4, LONG)],
        1,
        "would have 303 bytes",
    ),
    "iceberg, decimal that is too low": Refusal(
        iceberg(NestedField(2, "v", DecimalType(9, 2)), parted={2: TruncateTransform(10)}),
        (insert(1, Decimal("1.00")), insert(2, Decimal("-9999999.90"))),
        [insert(3, Decimal("9999999.99")), update(1, V=Decimal("-9999999.91"))],
        1,
        "too low for the partitions by truncate",
        value=DECIMAL,
    ),
}


def write(folder: Path, table: Table, changes: Sequence[Change]) -> None:
    """Append transactions of one operation each to a trail: first an insert into another table."""
    key = len(list(folder.glob("written*")))
    (folder / f"written{key}").touch()
    blocks = [block_of_images(OTHER, [(INSERT, None, {"K": key})])]
    blocks.append(block_of_images(table, changes))
    with TrailAppender(str(folder / "ot"), Definitions((OTHER, table))) as trail:
        for block in blocks:
            trail.append(ChangeBatch([block], len(block)))
            trail.commit(str(key))


def address(name: str, folder: Path) -> str:
    return TARGETS[name.partition(",")[0]][0].format(folder)


def stored(to: str, table: str) -> list[dict[str, Any]]:
    found = table_rows(f"{to}/hr/{table}").read_all()
    return sorted(found.to_pylist(), key=lambda row: [str(one) for one in row.values()])


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_row_is_named_and_no_table_is_written(name: str, tmp_path: Path) -> None:
    one, to = REFUSALS[name], address(name, tmp_path)
    table = table_of(one.value)
    one.create(tmp_path)
    write(tmp_path, table, one.before)
    apply_trail(tmp_path / "ot", to, mode=one.mode)
    write(tmp_path, table, one.changes)
    before = stored(to, "a"), stored(to, "t")

    with pytest.raises(ApplyError) as caught:
        apply_trail(tmp_path / "ot", to, mode=one.mode)
    error = caught.value
    assert one.words in error.problem
    kind, old, new = one.changes[one.refused]
    if one.mode == "current":
        assert f" of k={(new or old or {})['K']}: " in error.problem
    numbers = positions(tmp_path / "ot")
    wanted = len(one.before) + 2 + one.refused
    found = [at for at in numbers if at and f"{int(at[:10])}:{int(at[10:])}" in str(error)]
    assert [numbers[at] for at in found] == [wanted]
    assert (stored(to, "a"), stored(to, "t")) == before, kind


@pytest.mark.parametrize("on_error", ["discard", "ignore"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_row_is_discarded_alone(name: str, on_error: OnError, tmp_path: Path) -> None:
    one, to = REFUSALS[name], address(name, tmp_path)
    table = table_of(one.value)
    one.create(tmp_path)
    write(tmp_path, table, one.before)
    apply_trail(tmp_path / "ot", to, mode=one.mode)
    write(tmp_path, table, one.changes)
    discards: ApplyKeywords = {"discards": str(tmp_path / "d.jsonl")}
    given: ApplyKeywords = {"mode": one.mode, "on_error": on_error}
    given |= discards if on_error == "discard" else {}
    report = apply_trail(tmp_path / "ot", to, **given)

    assert sum(report.reasons.values()) == 1
    assert len(stored(to, "a")) == 2
    if on_error == "discard":
        (line,) = map(json.loads, (tmp_path / "d.jsonl").read_text().splitlines())
        numbers = positions(tmp_path / "ot")
        assert numbers[line["position"]] == len(one.before) + 2 + one.refused
        assert one.words in line["reason"]
        if name.startswith("delta"):
            assert verify_tables(tmp_path / "ot", to, **given).is_equal


UNWRITABLE: Final[Mapping[str, Refusal]] = {
    "delta, CHECK that delta-rs cannot evaluate": Refusal(
        delta(check="v RLIKE 'a'"), (), TWO, 0, "not implemented"
    ),
    "delta, append-only": Refusal(
        delta(delta_appendOnly="true"), TWO, [update(1, V="d")], 0, "updates and deletes"
    ),
    "delta, partitions by decimals": Refusal(
        delta(delta_field("v", "decimal(19,2)"), parted=["v"]),
        (),
        [insert(1, Decimal("1.25"))],
        0,
        "cannot write partitions of decimal128(19, 2)",
        value=DECIMAL,
    ),
    "iceberg, partitions by floats": Refusal(
        iceberg(NestedField(2, "v", DoubleType()), parted={2: IdentityTransform()}),
        (),
        [insert(1, Decimal("1.25"))],
        0,
        "cannot write partitions of double",
        value=DECIMAL,
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_no_table_is_written_if_one_cannot_be(name: str, tmp_path: Path) -> None:
    one, to = UNWRITABLE[name], address(name, tmp_path)
    table = table_of(one.value)
    one.create(tmp_path)
    if one.before:
        write(tmp_path, table, one.before)
        apply_trail(tmp_path / "ot", to)
    write(tmp_path, table, one.changes)
    rows = len(stored(to, "a")) if one.before else 0
    answers: Sequence[OnError] = ("stop", "discard")
    for on_error in answers:
        with pytest.raises(ApplyError) as caught:
            apply_trail(tmp_path / "ot", to, on_error=on_error)
        assert one.words in str(caught.value)
        assert len(stored(to, "a")) == rows


BAD: Final = 3  # a value of column a that the tables below refuse
NEW_KEY: Final = 100  # no operation that is drawn has it
LONGS: Final = [delta_field(name, "long") for name in ("id", "a", "b", "c")]


def _delta(check: str = "", *more: Field) -> Callable[[Path], None]:
    def create(folder: Path) -> None:
        path = folder / "lake/hr/t"
        path.mkdir(parents=True)
        DeltaTable.create(path, Schema([*LONGS, *more]))
        if check:
            DeltaTable(path).alter.add_constraint({"c1": check})

    return create


def _iceberg(folder: Path) -> None:
    path = folder / "warehouse"
    path.mkdir()
    own = SqlCatalog("lake", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
    own.create_namespace("hr")
    fields = [NestedField(at, one.name, LongType()) for at, one in enumerate(LONGS, 1)]
    fields[1] = NestedField(2, "a", LongType(), required=True)
    own.create_table("hr.t", IcebergSchema(*fields))


GENERATED: Final = {"delta_generationExpression": "CASE WHEN a = 3 THEN NULL ELSE 1 END"}
TABLES: Final[Mapping[str, tuple[Callable[[Path], None], int | None]]] = {
    "delta, check": (_delta("a IS NULL OR a <> 3"), BAD),
    "delta, generated": (_delta("", required("g", "long", **GENERATED)), BAD),
    "iceberg, required": (_iceberg, None),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_discarded_operations_explain_the_table(name: str, tmp_path: Path) -> None:
    """Without the discarded operations the log fits, and makes the table's rows; what the table refused has a bad value."""
    create, bad = TABLES[name]
    for number in range(histories(6, tests=len(TABLES), full=300)):
        own, folder = chance(f"unfit {name} {number}"), tmp_path / str(number)
        folder.mkdir()
        create(folder)
        to, read = TARGETS[name.partition(",")[0]]
        log = history(own, own.choice((4, 12))).log
        # Few operations may be drawn that the table refuses, so the last one always is.
        values = {**FULL, "a": bad}
        log.append(Operation("I", NEW_KEY, NEW_KEY, values, log[-1].transaction + 1, log[-1].table))
        write_log(folder / "ot", log)
        on_error: OnError = own.choice(("discard", "discard", "discard-transaction"))
        discards = folder / "d.jsonl"
        apply_trail(
            folder / "ot",
            to.format(folder),
            on_error=on_error,
            discards=str(discards),
            batch_bytes=own.choice((300, 1 << 20)),
        )

        numbers = positions(folder / "ot")
        lines = [json.loads(line) for line in discards.read_text().splitlines()]
        dropped = {numbers[line["position"]]: line["reason"] for line in lines}
        assert _is_of_table(dropped[len(log) - 1])
        for at, reason in dropped.items():
            assert at is not None
            if _is_of_table(reason):
                assert log[at].logged.get("a") == bad, (log, dropped)
            if on_error == "discard-transaction":
                same = [n for n, one in enumerate(log) if one.transaction == log[at].transaction]
                assert dropped.keys() >= set(same)
        rest = [one for at, one in enumerate(log) if at not in dropped]
        tables, _ = kept(rest, {log[0].table: lambda: CurrentRows("stop", COLUMNS)})
        assert read(folder) == tables[log[0].table].state(), (log, dropped)


def _is_of_table(reason: str) -> bool:
    return "CHECK constraint c1" in reason or "does not allow NULL" in reason


def test_an_error_that_stops_names_its_operation_though_others_are_discarded(
    tmp_path: Path,
) -> None:
    """The CHECK is found after the NULL, whose operation comes later and is discarded."""
    path, to = tmp_path / "lake/hr/t", f"delta:{tmp_path}/lake"
    delta(required("v"), check="w <> 'bad'")(tmp_path)
    changes = [insert(1, "a", W="w"), insert(2, "a", W="bad"), insert(3, None, W="w")]
    write(tmp_path, table_of(TEXT), changes)
    (tmp_path / "r.prm").write_text(
        "REPLICAT r\nREPERROR (1400, DISCARD)\nREPERROR (1407, DISCARD)\nMAP HR.*, TARGET HR.*;\n"
    )
    discards = str(tmp_path / "d.jsonl")
    with pytest.raises(ApplyError, match="insert of k=2: the table's CHECK constraint c1"):
        apply_trail(tmp_path / "ot", to, params=str(tmp_path / "r.prm"), discards=discards)

    assert pa.table(DeltaTable(path).scan()).num_rows == 0
