"""Current rows know which operation wrote them last."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.sources import TARGETS, tries, write_log
from apply.test_net_effects import history
from apply.test_soft_delete import READ
from laws import chance
from oracles.apply_naive import COLUMNS
from trailgate import OptionError, apply_trail, read_trail


@pytest.mark.parametrize("name", TARGETS)
def test_rows_have_the_last_operation_on_them(name: str, tmp_path: Path) -> None:
    for number in range(tries(name, 4)):
        own = chance(f"meta {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 8)
        write_log(folder / "ot", source.log)
        to = TARGETS[name][0].format(folder)
        apply_trail(folder / "ot", to, meta=True, batch_bytes=own.choice((1, 400, 1 << 20)))
        last: dict[int, str] = {}
        (table,) = [read_trail(folder / "ot").read_all()]
        for one, position in zip(source.log, table["position"].to_pylist(), strict=True):
            last[one.key] = position
        rows = READ[name](folder)
        assert {row["id"]: {name: row[name] for name in COLUMNS} for row in rows} == source.rows
        assert {row["id"]: row["_position"] for row in rows} == {
            key: last[key] for key in source.rows
        }
        assert all(row["_op_ts"] is not None for row in rows)


def test_it_is_about_current_rows(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", history(chance("meta"), 2).log)
    with pytest.raises(OptionError, match="--meta needs --mode current"):
        apply_trail(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", meta=True, mode="history")
