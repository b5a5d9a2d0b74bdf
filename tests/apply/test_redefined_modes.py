"""A table whose columns come, go and change places in the middle of a trail is what its oracle makes of it, in each mode."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from apply.histories import SHAPES, positions, time_of
from apply.mode_places import SHARES, place
from apply.test_modes import Case, applied, expected_state, read_state
from laws import LONG, chance, examples, histories
from oracles.apply_naive import COLUMNS, Operation, Source
from oracles.modes_naive import KEPT, kept
from raw_trail import BIG, write_files
from trail.building import records_of, table_record
from trailgate.model.tables import Table

SHAPE: Final = SHAPES["integer"]
NAME: Final = "HR.T0"
FORM: Final = {"names": {"table_index": 1}, "io_type": None, "width": 2, "cut": 9999, "large": None}
Part = tuple[tuple[str, ...], list[Operation]]  # the columns that are defined, and the operations


def parts_of(own: random.Random) -> list[Part]:
    """Return a log in parts, each with the columns that its definition has."""
    source = Source(own, columns=COLUMNS, table=NAME)
    while len(source.log) < 12:
        source.transaction()
    grouped = [list(one) for _, one in groupby(source.log, key=lambda one: one.transaction)]
    found: list[Part] = []
    for number, log in enumerate(grouped):
        if not number or own.random() < 0.4:
            found.append((tuple(own.sample(COLUMNS, own.randint(1, len(COLUMNS)))), []))
        names = found[-1][0]
        for one in log:
            logged = {name: value for name, value in one.logged.items() if name in names}
            earlier = {name: value for name, value in one.earlier.items() if name in names}
            found[-1][1].append(one._replace(logged=logged, earlier=earlier))
    return found


def write(prefix: Path, parts: Sequence[Part]) -> None:
    """Write the parts as a trail of one file."""
    columns = dict(zip(COLUMNS, (column for column, _ in SHAPE.columns), strict=True))
    records: list[bytes] = []
    for names, log in parts:
        table = Table(NAME, (*SHAPE.key, *(columns[name] for name in names)))
        records.append(table_record(table, 1, BIG))
        for _, grouped in groupby(log, key=lambda one: one.transaction):
            own = list(grouped)
            for at, one in enumerate(own):
                ends = (at == 0, at + 1 == len(own))
                operation = {
                    "op_type": one.kind,
                    "op_ts": time_of(one.transaction),
                    "tx_ind": {(True, True): "W", (True, False): "B", (False, True): "E"}.get(
                        ends, "M"
                    ),
                    "csn": str(one.transaction),
                    "tx_id": str(one.transaction),
                    "before": SHAPE.image(one.old, one.earlier) if one.kind in "UKD" else {},
                    "after": SHAPE.image(one.key, one.logged) if one.kind in "IUK" else {},
                }
                records += records_of(operation, table, FORM, BIG)
    write_files(prefix, [records], level=5, definitions=False)


@LONG
@pytest.mark.parametrize("mode", ["current", "meta", "soft-delete", "history"])
def test_columns_come_and_go(mode: str, tmp_path: Path) -> None:
    case = Case(mode)
    for number in range(histories(examples(10))):
        own = chance(f"redefined {mode} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        parts = parts_of(own)
        log = [one for _, part in parts for one in part]
        write(folder / "ot", parts)
        where = place(own.choice(SHARES), folder, case.options(folder, 1).mode)
        tables, _ = kept(log, {NAME: partial(KEPT[mode], "stop", COLUMNS)})

        assert applied(own, folder, case, where) is None

        nulls = {column.name.lower(): None for column, _ in SHAPE.columns}
        rows = [nulls | dict(row) for row in where.rows(NAME)]
        found = read_state(mode, SHAPE, rows, positions(folder / "ot"), log)
        assert found == expected_state(mode, tables[NAME].state(), log), parts
        shutil.rmtree(folder)
