"""Net changes written to large tables, beside the same changes by the MERGE of the target that a user would write by hand.

Of a hundred changes 70 are updates that log 4 of 7 columns or fewer, 15 inserts and 15 deletes, on keys anywhere in the table. What is ours counts from the operations on: their net effects, the
look for the rows that are there, the write and the commit with its position. By hand the changes are given as one row a key.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
from benchmarks.report import Figure, Target
from deltalake import DeltaTable, write_deltalake

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from apply import postgresql_server
from trailgate.apply.effects.operations import TargetOperations, convert_blocks
from trailgate.apply.effects.table_changes import compute_table_changes
from trailgate.apply.effects.tables import make_target_table
from trailgate.apply.targets import target as targets
from trailgate.apply.targets.target import AppliedPosition, open_target
from trailgate.model.changes import (
    ABSENT,
    DELETE,
    INSERT,
    UPDATE,
    WHOLE,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.positions import format_positions
from trailgate.model.tables import Column, Table

TEXTS: Final = 7
LOGGED: Final = 3  # columns of an update
CHANGES: Final = 100_000
MOST: Final = Target(1 / 1.2)  # of the rows a second of the MERGE by hand
NAMES: Final = tuple(f"c{at}" for at in range(1, TEXTS + 1))
TABLE: Final = Table(
    "SHOP.ORDERS", (Column("ID", 134, 8, key=True), *(Column(n.upper(), 64, 40) for n in NAMES))
)
TARGET: Final = make_target_table(TABLE)
WORDS: Final = pa.array([f"value {number}" for number in range(100_000)])
SET: Final = ", ".join(f"{n} = CASE WHEN s.m{n} THEN t.{n} ELSE s.{n} END" for n in NAMES)
ALL: Final = ", ".join(("id", *NAMES))
BY_HAND: Final = (
    "MERGE INTO shop.orders AS t USING {} AS s ON t.id = s.id WHEN MATCHED AND s.op = 'D' THEN DELETE "
    f"WHEN MATCHED THEN UPDATE SET {SET} WHEN NOT MATCHED AND s.op = 'I' THEN INSERT ({ALL}) "
    f"VALUES ({', '.join('s.' + n for n in ('id', *NAMES))})"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a table of some rows: as operations, and as one row a key for a MERGE by hand."""

    operations: TargetOperations
    rows: pa.Table


Place = Callable[[Path], AbstractContextManager[list[str]]]


class Way(NamedTuple):
    """A kind of target: what gives the addresses of two, fills one with rows, and merges changes by hand."""

    place: Place
    fill: Callable[[str, int], None]
    merge: Callable[[str, pa.Table], None]


def run(*, quick: bool) -> list[Figure]:
    """Return a row for each target."""
    rows = 1_000_000 if quick else 10_000_000
    changes = _changes(rows)
    figures = []
    for name, way in TARGETS.items():
        try:
            ours, by_hand = _measured(way, rows, changes)
        except LookupError as error:
            print(f"{name} is left out: {error}")
            continue
        what = f"{name}: {CHANGES:,} changes of {rows / 1e6:g} M rows"
        own, beside = CHANGES / ours / 1e3, CHANGES / by_hand / 1e3
        figures.append(
            Figure(
                name=what,
                figure=own,
                unit="k changes/s",
                yardstick="a MERGE by hand",
                yardstick_figure=beside,
                target=MOST,
            )
        )
    return figures


def _measured(way: Way, rows: int, changes: Changes) -> tuple[float, float]:
    """Return the seconds that the changes take by us, and by hand."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="trailgate-bench-"))
        ours, theirs = held.enter_context(way.place(Path(folder)))
        for address in (ours, theirs):
            way.fill(address, rows)
        with closing(open_target(ours, "bench")) as target:
            began = time.perf_counter()
            _apply(target, changes.operations)
            between = time.perf_counter()
        again = time.perf_counter()
        way.merge(theirs, changes.rows)
        return between - began, time.perf_counter() - again


def draw_changes(rows: int, count: int) -> ChangeBlock:
    """Return changes of a table of some rows, on keys anywhere in it."""
    drawn = np.random.default_rng(3)
    chosen = drawn.choice(rows, count, replace=False)
    kinds = drawn.choice([UPDATE, INSERT, DELETE], count, p=[0.7, 0.15, 0.15])
    kinds = kinds.astype(np.uint8)
    keys = np.where(kinds == INSERT, rows + np.arange(count), chosen).astype(np.int64)
    missing = {
        name: (kinds == DELETE) | ((kinds == UPDATE) & (drawn.random(count) > LOGGED / TEXTS))
        for name in NAMES
    }
    values = {name: WORDS.take(pa.array(drawn.integers(0, len(WORDS), count))) for name in NAMES}
    key = StateColumn(pa.array(keys))
    after: Image = (key, *(StateColumn(values[name], missing[name]) for name in NAMES))
    text = pa.array(np.arange(count)).cast(pa.string())
    return ChangeBlock(
        table=TABLE,
        order=np.arange(count),
        op_type=kinds,
        op_ts=np.zeros(count, np.int64),
        tx_ind=np.full(count, WHOLE, np.uint8),
        tx_id=text,
        csn=text,
        seq_id=None,
        position=format_positions(0, np.arange(count)),
        before=(key, *((ABSENT,) * TEXTS)),
        after=after,
    )


def _changes(rows: int) -> Changes:
    block = draw_changes(rows, CHANGES)
    key, *texts = block.after
    plain = {"op": pa.array([chr(kind) for kind in block.op_type.tolist()]), "id": key.values}
    for name, one in zip(NAMES, texts, strict=True):
        plain |= {name: one.values, f"m{name}": pa.array(one.missing)}
    return Changes(convert_blocks(TARGET, [block], [np.arange(CHANGES)]), pa.table(plain))


def _apply(target: targets.ApplyTarget, operations: TargetOperations) -> None:
    at = AppliedPosition("bench", f"{1:020d}")
    held = target.find_table(TARGET)
    assert held is not None

    def fetch(keys: pa.Table, keys_alone: bool) -> Any:
        return target.rows(held, keys, keys_alone=keys_alone)

    target.write(compute_table_changes(operations.with_columns_of(held), fetch), at)
    target.commit(at)


def draw_rows(rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a table in parts."""
    drawn = np.random.default_rng(4)
    step = 1_000_000
    for begin in range(0, rows, step):
        count = min(step, rows - begin)
        columns = [WORDS.take(pa.array(drawn.integers(0, len(WORDS), count))) for _ in NAMES]
        yield pa.table([pa.array(np.arange(begin, begin + count)), *columns], schema=TARGET.schema)


def _in_folder(form: str) -> Place:
    """Return what gives the addresses of two targets in a folder."""

    def place(folder: Path) -> AbstractContextManager[list[str]]:
        return nullcontext([form.format(folder / name) for name in ("ours", "theirs")])

    return place


def _fill_delta(address: str, rows: int) -> None:
    path = f"{address.partition(':')[2]}/shop/orders"
    for part in draw_rows(rows):
        write_deltalake(path, part, mode="append")


def _merge_delta(address: str, changes: pa.Table) -> None:
    table = DeltaTable(f"{address.partition(':')[2]}/shop/orders")
    updates = {n: f"CASE WHEN s.m{n} THEN t.{n} ELSE s.{n} END" for n in NAMES}
    (
        table.merge(changes, "t.id = s.id", "s", "t", streamed_exec=False)
        .when_matched_delete("s.op = 'D'")
        .when_matched_update(updates)
        .when_not_matched_insert({n: f"s.{n}" for n in ("id", *NAMES)}, "s.op = 'I'")
        .execute()
    )


def _fill_duckdb(address: str, rows: int) -> None:
    with duckdb.connect(address.partition(":")[2]) as connection:
        connection.execute("CREATE SCHEMA shop")
        for number, part in enumerate(draw_rows(rows)):
            connection.register("part", part)
            how = "INSERT INTO shop.orders" if number else "CREATE TABLE shop.orders AS"
            connection.execute(f"{how} SELECT * FROM part")


def _merge_duckdb(address: str, changes: pa.Table) -> None:
    with duckdb.connect(address.partition(":")[2]) as connection:
        connection.register("changes", changes)
        connection.execute(BY_HAND.format("changes"))
        connection.execute("CHECKPOINT")


@contextmanager
def _databases(_: Path) -> Iterator[list[str]]:
    """Give the addresses of two databases of a server of PostgreSQL's."""
    if not any(postgresql_server.PROGRAMS.glob("*/bin/initdb")):
        raise LookupError("apt install postgresql")
    with postgresql_server.running() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE theirs")
        yield [address, f"{address.rpartition('/')[0]}/theirs"]


def _fill_postgresql(address: str, rows: int) -> None:
    texts = ", ".join(f"{name} text" for name in NAMES)
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute(f"CREATE TABLE shop.orders (id bigint, {texts})")
        for part in draw_rows(rows):
            _copy(connection, "shop.orders", part)
        connection.execute("ALTER TABLE shop.orders ADD PRIMARY KEY (id)")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE shop.orders")


def _copy(connection: psycopg.Connection, name: str, rows: pa.Table) -> None:
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text, pyarrow.csv.WriteOptions(include_header=False))
    with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
        copy.write(text.getvalue())


def _merge_postgresql(address: str, changes: pa.Table) -> None:
    kinds = {"id": "bigint", **{f"m{name}": "boolean" for name in NAMES}}
    columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in changes.column_names)
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE TEMPORARY TABLE changes ({columns})")
        _copy(connection, "changes", changes)
        connection.execute("ANALYZE changes")
        connection.execute(BY_HAND.format("changes"))


TARGETS: Final[dict[str, Way]] = {
    "Delta": Way(_in_folder("delta:{}"), _fill_delta, _merge_delta),
    "DuckDB": Way(_in_folder("duckdb:{}.duckdb"), _fill_duckdb, _merge_duckdb),
    "PostgreSQL": Way(_databases, _fill_postgresql, _merge_postgresql),
}
