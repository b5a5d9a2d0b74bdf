"""Every operation as a row: what the log has, in each target, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from apply.naive_batches import BIN64, Row, block_of_images
from apply.sources import write_log
from apply.test_net_effects import history
from apply.test_redefinition import Part, table, write
from laws import chance, examples
from oracles.apply_naive import COLUMNS, Operation
from trailgate import (
    DefinitionError,
    OptionError,
    StorageError,
    TrailAppender,
    apply_trail,
    verify_tables,
)
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.targets.parquet import open_tables
from trailgate.apply.targets.target import table_rows
from trailgate.errors import TargetLockedError
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

TABLES = {
    "delta": ("delta:{}/lake", "delta:{}/lake/hr/t"),
    "duckdb": ("duckdb:{}/x.duckdb", "duckdb:{}/x.duckdb/hr/t"),
    "parquet": ("parquet:{}/history", "parquet:{}/history/hr/t"),
}


def expected(log: list[Operation]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return what the rows of a log are."""
    found = []
    for one in log:
        own = one.earlier if one.kind == "D" else one.logged
        logged = {} if one.kind == "T" else {"id": one.key, **own}
        found.append((one.kind, tuple(logged.get(name) for name in ("id", *COLUMNS))))
    return found


def rows(address: str) -> list[tuple[Any, ...]]:
    """Return the rows of a target's table in the order of their positions."""
    found = table_rows(address).read_all().sort_by("_position").to_pylist()
    assert len({row["_position"] for row in found}) == len(found)
    return [(row["_op_type"], tuple(row[name] for name in ("id", *COLUMNS))) for row in found]


@pytest.mark.parametrize("name", TABLES)
def test_every_operation_is_a_row_once(name: str, tmp_path: Path) -> None:
    to, table = TABLES[name]
    for number in range(examples(5)):
        own = chance(f"append {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 6)
        write_log(folder / "ot", source.log)
        for _ in range(2):
            apply_trail(folder / "ot", to.format(folder), mode="append", batch_bytes=300)
        assert rows(table.format(folder)) == expected(source.log)


def test_columns_that_are_not_logged_are_named(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": None}, 1), Operation("T", 0, 0, {}, 2)])
    apply_trail(tmp_path / "ot", f"parquet:{tmp_path}/h", mode="append")
    found = table_rows(f"parquet:{tmp_path}/h/hr/t").read_all().to_pylist()
    assert [row["_missing"] for row in found] == ['["b", "c"]', None]


KEYED = Table("HR.T", tuple(Column(name, BIN64, 8, key=name in "KL") for name in "KLAB"))
KINDS = {INSERT: "I", UPDATE: "U", KEY_UPDATE: "K", DELETE: "D"}
Change = tuple[int, Row | None, Row | None]


def some_changes(own: Random, count: int) -> list[Change]:
    """Return operations whose images log each column or do not; an insert logs all, a delete its key."""
    found: list[Change] = []
    for number in range(count):
        kind = own.choice(list(KINDS))
        before, after = ({name: own.choice((None, 1, 2)) for name in "AB"} for _ in range(2))
        before = {name: one for name, one in before.items() if own.random() < 0.5}
        before |= {"K": number, "L": 7}
        if kind != INSERT:
            after = {name: one for name, one in after.items() if own.random() < 0.5}
        moved = {"K": number, "L": 8 if kind == KEY_UPDATE else 7}
        after |= {name: one for name, one in moved.items() if kind == INSERT or own.random() < 0.5}
        images = (None if kind == INSERT else before, None if kind == DELETE else after)
        found.append((kind, *images))
    return found


def row_of(kind: int, before: Row | None, after: Row | None) -> Row:
    """Return the values of an operation's row: its image, and the columns of the key from the one before where it lacks them."""
    own = before if kind == DELETE else after
    return {name: one for name, one in (before or {}).items() if name in "KL"} | (own or {})


def test_a_key_that_is_only_logged_before_is_in_the_row(tmp_path: Path) -> None:
    changes = some_changes(chance("append keys"), 60)
    block, to = block_of_images(KEYED, changes), f"duckdb:{tmp_path}/x.duckdb"
    with TrailAppender(str(tmp_path / "ot"), Definitions((KEYED,))) as trail:
        trail.append(ChangeBatch([block], len(block)))
        trail.commit("end")
    apply_trail(tmp_path / "ot", to, mode="append")

    found = table_rows(f"{to}/hr/t").read_all().sort_by("_position").to_pylist()
    for change, row in zip(changes, found, strict=True):
        wanted = row_of(*change)
        assert row["_op_type"] == KINDS[change[0]]
        assert {name: row[name.lower()] for name in wanted} == wanted, change
        assert json.loads(row["_missing"]) == [
            name.lower() for name in "KLAB" if name not in wanted
        ]
    assert verify_tables(tmp_path / "ot", to, mode="append").is_equal


@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_only_columns_of_the_own_definition_are_named(batch_bytes: int, tmp_path: Path) -> None:
    """So the list does not depend on where a batch ends."""
    a, b = Column("A", 134, 8), Column("B", 134, 8)
    parts: list[Part] = [
        (table(a), [("U", {"id": 1})]),
        (table(a, b), [("U", {"id": 1})]),
        (table(b), [("U", {"id": 1})]),
    ]
    trail, to = write(tmp_path / "ot", *parts), f"duckdb:{tmp_path}/x.duckdb"
    apply_trail(trail, to, mode="append", batch_bytes=batch_bytes)

    found = table_rows(f"{to}/hr/t").read_all().sort_by("_position")
    assert found["_missing"].to_pylist() == ['["a"]', '["a", "b"]', '["b"]']
    assert verify_tables(trail, to, mode="append").is_equal


@pytest.mark.parametrize("name", ["delta", "duckdb"])
def test_a_table_has_one_mode(name: str, tmp_path: Path) -> None:
    to = TABLES[name][0].format(tmp_path)
    write_log(tmp_path / "ot", [Operation("I", 1, 1, dict.fromkeys(COLUMNS, 1), 1)])
    apply_trail(tmp_path / "ot", to)
    with pytest.raises(StorageError, match=r"mode=append"):
        apply_trail(tmp_path / "ot", to, mode="append")
    with pytest.raises(
        DefinitionError, match="the target's table was not created with --mode append"
    ):
        apply_trail(tmp_path / "ot", to, mode="append", group="other")


def test_parquet_holds_appended_rows_only(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, dict.fromkeys(COLUMNS, 1), 1)])
    with pytest.raises(OptionError, match=r"does not support --mode current.*--mode append"):
        apply_trail(tmp_path / "ot", f"parquet:{tmp_path}/h")


def test_a_killed_run_leaves_nothing_twice(tmp_path: Path) -> None:
    own = chance("append killed")
    source = history(own, 40)
    write_log(tmp_path / "ot", source.log)
    command = [sys.executable, "-m", "trailgate", "apply", str(tmp_path / "ot")]
    command += ["--to", f"parquet:{tmp_path}/h", "--mode", "append", "--batch-bytes", "200"]
    for _ in range(3):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
            try:
                run.wait(own.uniform(0.4, 1.2))
            except subprocess.TimeoutExpired:
                os.kill(run.pid, signal.SIGKILL)
    apply_trail(tmp_path / "ot", f"parquet:{tmp_path}/h", mode="append")

    assert rows(f"parquet:{tmp_path}/h/hr/t") == expected(source.log)
    assert not list((tmp_path / "h").rglob(".*.parquet"))


def test_two_runs_of_a_group_take_turns(tmp_path: Path) -> None:
    """Otherwise the second one removes or repeats what the first one is writing."""
    to = f"parquet:{tmp_path}/h"
    log = [Operation("I", key, key, dict.fromkeys(COLUMNS, key), key) for key in range(1, 4)]
    options = ApplyOptions(mode="append", group="g")
    write_log(tmp_path / "ot", log[:1])
    with ApplyRun(tmp_path / "ot", to, options) as first:
        first.to_end()
        with pytest.raises(
            TargetLockedError, match=r"another run is writing this group: .*process"
        ):
            open_tables(f"{tmp_path}/h", "g")
        first.release()
        write_log(tmp_path / "ot", log[1:2])
        apply_trail(tmp_path / "ot", to, mode="append", group="g")
        write_log(tmp_path / "ot", log[2:])
        first.to_end()

    assert rows(f"{to}/hr/t") == expected(log)


def test_a_group_removes_no_files_of_another_one(tmp_path: Path) -> None:
    to, log = f"parquet:{tmp_path}/h", [Operation("I", 1, 1, dict.fromkeys(COLUMNS, 1), 1)]
    write_log(tmp_path / "ot", log)
    for group in ("a", "a-1"):
        apply_trail(tmp_path / "ot", to, mode="append", group=group)
    own, others = (
        tmp_path / f"h/hr/t/.{group}-00000000000000000001.parquet" for group in ("a", "a-1")
    )
    own.touch()
    others.touch()
    open_tables(f"{tmp_path}/h", "a").close()

    assert (own.exists(), others.exists()) == (False, True)
