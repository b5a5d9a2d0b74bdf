"""Every version of every row, whatever batches a log is cut into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from apply.naive_batches import block_of_images
from apply.sources import TARGETS, tries, write_log
from apply.test_net_effects import history
from apply.test_soft_delete import READ
from laws import chance
from oracles.apply_naive import COLUMNS, NaiveTable, Operation
from trailgate import (
    DefinitionError,
    OptionError,
    TrailAppender,
    apply_trail,
    read_trail,
    verify_tables,
)
from trailgate.model.changes import INSERT, KEY_UPDATE, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

Version = tuple[int, tuple[Any, ...], int, int | None]  # key, values, from and to, in transactions
FULL = {"a": 1, "b": 2, "c": 3}


def versions(log: Sequence[Operation]) -> list[Version]:
    """Return the versions that a log makes, row by row."""
    table = NaiveTable({}, "stop")
    shown: dict[int, tuple[tuple[Any, ...], int]] = {}
    found: list[Version] = []
    for number, own in groupby(log, key=lambda one: one.transaction):
        for one in own:
            table.do(one)
        rows = {
            key: tuple(held[0].values[name] for name in COLUMNS)
            for key, held in table.held.items()
            if held
        }
        for key in {*rows, *shown}:
            old = shown.get(key)
            if old is not None and old[0] != rows.get(key):
                found.append((key, *shown.pop(key), number))
            if key in rows and key not in shown:
                shown[key] = (rows[key], number)
    return sorted_versions([*found, *((key, *one, None) for key, one in shown.items())])


def sorted_versions(found: list[Version]) -> list[Version]:
    return sorted(found, key=lambda one: (one[0], one[2]))


def stored(rows: list[dict[str, Any]], trail: Path) -> list[Version]:
    """Return the versions of a table by the transactions of their operations."""
    numbers: dict[str | None, int | None] = {None: None}
    for batch in read_trail(trail):
        ids = zip(batch["position"].to_pylist(), batch["csn"].to_pylist(), strict=True)
        numbers |= {position: int(csn) for position, csn in ids}
    found: list[Version] = []
    for row in rows:
        assert row["_is_current"] == (row["_valid_to"] is None) == (row["_to_position"] is None)
        begin = numbers[row["_from_position"]]
        assert begin is not None
        values = tuple(row[name] for name in COLUMNS)
        found.append((row["id"], values, begin, numbers[row["_to_position"]]))
    return sorted_versions(found)


@pytest.mark.parametrize("name", TARGETS)
def test_versions_are_those_of_a_row_by_row_replay(name: str, tmp_path: Path) -> None:
    for number in range(tries(name, 5)):
        own = chance(f"history {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 8)
        write_log(folder / "ot", source.log)
        to = TARGETS[name][0].format(folder)
        apply_trail(folder / "ot", to, mode="history", batch_bytes=own.choice((1, 400, 1 << 20)))
        assert stored(READ[name](folder), folder / "ot") == versions(source.log), source.log
        assert apply_trail(folder / "ot", to, mode="history").operations == 0
        assert verify_tables(folder / "ot", to, mode="history").is_equal


def test_what_commits_together_makes_one_version(tmp_path: Path) -> None:
    log = [
        Operation("I", 1, 1, FULL, 1),
        Operation("U", 1, 1, {"a": 8}, 2),
        Operation("U", 1, 1, {"a": 9}, 2),
        Operation("U", 1, 1, {"a": 9}, 3),
        Operation("D", 1, 1, {}, 4),
    ]
    write_log(tmp_path / "ot", log)
    apply_trail(tmp_path / "ot", TARGETS["duckdb"][0].format(tmp_path), mode="history")
    found = stored(READ["duckdb"](tmp_path), tmp_path / "ot")
    assert found == [(1, (1, 2, 3), 1, 2), (1, (9, 2, 3), 2, 4)]


@pytest.mark.parametrize("replayed", [False, True])
def test_nan_that_is_logged_again_makes_no_version(replayed: bool, tmp_path: Path) -> None:
    """Neither if it is compared in whole columns, nor if the row moves and is followed by itself."""
    double = Table("HR.T", (Column("ID", 134, 8, key=True), Column("A", 143, 8)))
    changes: list[tuple[int, dict[str, Any] | None, dict[str, Any]]] = [
        (INSERT, None, {"ID": 1, "A": math.nan}),
        (KEY_UPDATE, {"ID": 1}, {"ID": 2}) if replayed else (UPDATE, {"ID": 1}, {"ID": 1}),
        (UPDATE, {"ID": 1 + replayed}, {"ID": 1 + replayed, "A": math.nan}),
        (UPDATE, {"ID": 1 + replayed}, {"ID": 1 + replayed, "A": 2.0}),
    ]
    for part in (changes[:1], changes[1:]):
        block = block_of_images(double, part)
        with TrailAppender(str(tmp_path / "ot"), Definitions((double,))) as trail:
            trail.append(ChangeBatch([block], len(block)))
            trail.commit("all")
        apply_trail(tmp_path / "ot", TARGETS["duckdb"][0].format(tmp_path), mode="history")

    found = sorted((row["id"], str(row["a"])) for row in READ["duckdb"](tmp_path))
    moved = [(2, "2.0"), (2, "nan")] if replayed else [(1, "2.0")]
    assert found == sorted([(1, "nan"), *moved])


def test_a_history_takes_no_operations_that_do_not_fit(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    with pytest.raises(OptionError, match="--mode history works only with --on-collision stop"):
        apply_trail(
            tmp_path / "ot",
            TARGETS["duckdb"][0].format(tmp_path),
            mode="history",
            on_collision="overlay",
        )


@pytest.mark.parametrize("name", ["duckdb", "iceberg"])
def test_scd2_has_the_same_versions_under_the_names_of_auto_cdc(name: str, tmp_path: Path) -> None:
    source = history(chance(f"scd2 {name}"), 5)
    write_log(tmp_path / "ot", source.log)
    found = {}
    for mode in ("history", "scd2"):
        folder = tmp_path / mode
        folder.mkdir()
        to = TARGETS[name][0].format(folder)
        apply_trail(tmp_path / "ot", to, mode=mode, batch_bytes=2_000)
        assert verify_tables(tmp_path / "ot", to, mode=mode).is_equal
        found[mode] = READ[name](folder)

    names = {"_valid_from": "__START_AT", "_valid_to": "__END_AT"}
    wanted = [
        {names.get(one, one): value for one, value in row.items()} for row in found["history"]
    ]
    assert sorted(map(str, found["scd2"])) == sorted(map(str, wanted))
    with pytest.raises(DefinitionError, match="was not created with --mode history"):
        apply_trail(tmp_path / "ot", to, mode="history", group="other")
