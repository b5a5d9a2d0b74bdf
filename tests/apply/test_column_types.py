"""Types that a user chooses for columns of tables that are created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from apply.sources import TARGETS, write_log
from apply.test_soft_delete import READ
from oracles.apply_naive import Operation
from trailgate import DecodeError, OptionError, apply_trail
from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.jobs.options import split_column_types

LOG = [Operation("I", 1, 1, {"a": 7, "b": 2, "c": 3}, 1), Operation("U", 1, 1, {"a": 812}, 2)]


@pytest.mark.parametrize("name", TARGETS)
def test_a_created_table_has_the_type(name: str, tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    to = TARGETS[name][0].format(tmp_path)
    chosen = ["HR.T.A=decimal(9,2)", "hr.*.b=text", "X.T.C=text"]
    apply_trail(tmp_path / "ot", to, column=chosen, batch_bytes=1)
    (row,) = READ[name](tmp_path)
    assert {name: str(value) for name, value in row.items()} == {
        "id": "1",
        "a": "812.00",
        "b": "2",
        "c": "3",
    }
    assert (type(row["b"]), type(row["c"])) == (str, int)


def test_a_value_that_it_does_not_hold_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    with pytest.raises(DecodeError, match=r"decimal128\(2, 0\), which cannot hold this value.*812"):
        apply_trail(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", column=["HR.T.A=decimal(2,0)"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("PRICE=text", "is not a column and its type.*For example, GG"),
        ("T.C", "is not a column and its type"),
        ("T.C=number", "'number' of 'T.C=number' is not a type.*decimal"),
        ("T.C=decimal(39,2)", r"decimal\(39,2\) is not possible"),
        ("T.C=decimal(2,3)", r"decimal\(2,3\) is not possible"),
    ],
)
def test_what_is_no_type_is_refused(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        ChosenColumnTypes.read([text])


def test_lists_of_types_have_commas_in_parentheses() -> None:
    assert split_column_types("A.B=decimal(18,2), A.C=text") == ("A.B=decimal(18,2)", "A.C=text")
    table = TargetTable(("a",), (TargetColumn("b", pa.string(), number=True),), (0,))
    assert ChosenColumnTypes.read(split_column_types("A.B=decimal(18, 2)")).apply_to(
        table
    ).columns == (TargetColumn("b", pa.decimal128(18, 2)),)


@pytest.mark.parametrize(
    ("columns", "notices"),
    [
        (["HR.T.A=text", "T.B=text", "*.*.c=text"], []),
        (
            ["HR.NOPE.A=text"],
            ["--column HR.NOPE: no table of the group fits; there is hr.t."],
        ),
        (["HR.T.AA=text"], ["--column HR.T.AA: hr.t has no such column. Did you mean a?"]),
        (["hr.*.zzz=text"], ["--column hr.*.zzz: hr.t has no such column."]),
    ],
)
def test_a_type_for_no_column_is_a_note(
    columns: list[str], notices: list[str], tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", LOG)
    to = f"duckdb:{tmp_path}/x.duckdb"
    assert list(apply_trail(tmp_path / "ot", to, column=columns, dry_run=True).notices) == notices
    assert list(apply_trail(tmp_path / "ot", to, column=columns).notices) == notices
    # A later run without new operations looks at no table.
    assert apply_trail(tmp_path / "ot", to, column=columns).notices == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sizes": True}, "--sizes applies only to PostgreSQL, but the target is duckdb"),
        ({"discards": "d.jsonl"}, "--discards has no effect with --on-error stop"),
        (
            {"discards": "d.jsonl", "on_error": "ignore"},
            "--discards has no effect with --on-error ignore",
        ),
    ],
)
def test_an_option_without_effect_is_refused(
    options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", LOG)
    with pytest.raises(OptionError, match=problem):
        apply_trail(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", **options)
    assert not (tmp_path / "x.duckdb").exists()
