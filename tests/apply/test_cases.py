"""The worked examples of cases.toml, each with the policies that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from trailgate import ApplyError, TrailAppender, apply_trail
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operations import TargetOperations, convert_blocks
from trailgate.apply.effects.table_changes import TableChanges, compute_table_changes
from trailgate.apply.effects.tables import make_target_table
from trailgate.arrays import Longs
from trailgate.model.changes import (
    ABSENT,
    BEGIN,
    END,
    MIDDLE,
    WHOLE,
    ChangeBatch,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.positions import format_positions
from trailgate.model.tables import Column, Definitions, Table

FILE = tomllib.loads((Path(__file__).parent / "cases.toml").read_text())
CASES, MODES = FILE["case"], FILE["mode"]
TABLE = Table("T", (Column("id", 134, 8, key=True), Column("a", 64, 9), Column("b", 134, 8)))
TARGET = make_target_table(TABLE)
OPERATION = re.compile(r"([IUDKT])(?: (\d+)(?:>(\d+))?)?((?: [ab]=\S+)*)")
Rows = dict[int, list[Any]]


def value(column: str, text: str) -> Any:
    return None if text == "-" else text if column == "a" else int(text)


def rows_of(text: str) -> Rows:
    rows = [row.split() for row in text.split(",") if row.strip()]
    return {int(key): [value("a", a), value("b", b)] for key, a, b in rows}


def operations_of(text: str) -> TargetOperations:
    block, transactions = block_of(text)
    return convert_blocks(TARGET, [block], [transactions])


def block_of(text: str) -> tuple[ChangeBlock, Longs]:
    """Return operations and the transaction of each, which is committed in the second of its number."""
    found, transactions = [], []
    for number, transaction in enumerate(text.split("|")):
        for one in transaction.split(";"):
            match = OPERATION.fullmatch(one.strip())
            assert match is not None, one
            found.append(match)
            transactions.append(number)
    count = len(found)

    def column(values: list[Any], kind: pa.DataType, logged: list[bool]) -> StateColumn:
        return StateColumn(pa.array(values, kind), ~np.array(logged)) if any(logged) else ABSENT

    keys = [(int(one[2] or 0), int(one[3] or one[2] or 0)) for one in found]
    kinds = [one[1] for one in found]
    before = column([old for old, _ in keys], pa.int64(), [kind in "UKD" for kind in kinds])
    after = [column([new for _, new in keys], pa.int64(), [kind in "IUK" for kind in kinds])]
    for name, kind in (("a", pa.string()), ("b", pa.int64())):
        logged = [dict(part.split("=") for part in one[4].split()) for one in found]
        values = [value(name, one[name]) if name in one else None for one in logged]
        after.append(column(values, kind, [name in one for one in logged]))
    texts = pa.array(["1"] * count)
    block = ChangeBlock(
        table=TABLE,
        order=np.arange(count),
        op_type=np.array([ord(kind) for kind in kinds], np.uint8),
        op_ts=np.array(transactions) * 1_000_000,
        tx_ind=np.zeros(count, np.uint8),
        tx_id=texts,
        csn=texts,
        seq_id=None,
        position=format_positions(0, np.arange(count)),
        before=(before, ABSENT, ABSENT),
        after=tuple(after),
    )
    return block, np.array(transactions)


def run(case: dict[str, Any], policy: str) -> tuple[Rows, TableChanges]:
    rows = rows_of(case.get("before", ""))

    def fetch(keys: pa.Table, keys_alone: bool) -> pa.Table:
        found = [key for key in keys["id"].to_pylist() if key in rows]
        columns = {
            "id": pa.array(found, pa.int64()),
            "a": pa.array([rows[key][0] for key in found], pa.string()),
            "b": pa.array([rows[key][1] for key in found], pa.int64()),
        }
        return pa.table(columns).select(["id"] if keys_alone else ["id", "a", "b"])

    effects = compute_table_changes(
        operations_of(case["operations"]), fetch, CollisionPolicy(policy)
    )
    after = {} if effects.emptied else rows
    nets = effects.nets
    for at, effect in enumerate(nets.effect.tolist()):
        key = nets.key[0][at].as_py()
        own = [
            after.get(key, [None, None])[place]
            if effect == RowEffect.PATCH and one.is_missing(len(nets))[at]
            else None
            if one.values is None
            else one.values[at].as_py()
            for place, one in enumerate(nets.values[1:])
        ]
        if effect == RowEffect.DELETE:
            del after[key]
        else:
            after[key] = own
    return after, effects


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_case_gives_its_rows_or_stops(case: dict[str, Any]) -> None:
    for policy, expected, stops in (
        ("stop", case.get("after"), case.get("stops")),
        ("overlay", case.get("overlay", case.get("after")), case.get("overlay-stops")),
        ("insert-missing", case.get("insert-missing", case.get("after")), None),
    ):
        if stops is not None:
            with pytest.raises(ApplyError, match=re.escape(stops)):
                run(case, policy)
        elif expected is not None:
            rows, effects = run(case, policy)
            assert rows == rows_of(expected), policy
            if policy == "overlay":
                assert effects.ignored == case.get("ignored", 0)


@pytest.mark.parametrize("case", MODES, ids=lambda case: case["name"])
def test_a_mode_gives_its_rows(case: dict[str, Any], tmp_path: Path) -> None:
    to = f"duckdb:{tmp_path / 'hr.duckdb'}"
    for number, step in enumerate(case["steps"]):
        if step["operations"]:
            block, transactions = block_of(step["operations"])
            begins, ends = (
                np.diff(transactions, **{side: -1}) != 0 for side in ("prepend", "append")
            )
            block.tx_ind[:] = np.select([begins & ends, begins, ends], [WHOLE, BEGIN, END], MIDDLE)
            with TrailAppender(str(tmp_path / "ot"), Definitions((TABLE,))) as trail:
                trail.append(ChangeBatch([block], len(block)))
                trail.commit(str(number))

        done = apply_trail(tmp_path / "ot", to, mode=case["mode"])

        assert done.operations == step["applied"]
        with duckdb.connect(str(tmp_path / "hr.duckdb")) as connection:
            found = connection.execute(f"SELECT {case['columns']} FROM t ORDER BY ALL").fetchall()
        expected = [[None if one == "-" else one for one in row] for row in step["after"]]
        assert [list(row) for row in found] == expected
