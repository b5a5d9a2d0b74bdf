"""Expressions of a MAP statement see the record as the trail has it, whatever operation a statement makes of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

from apply.sources import write_log
from oracles.apply_naive import Operation
from trailgate import apply_trail

FULL = {"a": 1, "b": 2, "c": 3}
LOG = [
    Operation("I", 1, 1, FULL, 1),
    Operation("U", 1, 1, FULL | {"a": 7}, 2),
    Operation("K", 1, 2, FULL | {"a": 8}, 3),
    Operation("D", 2, 2, {}, 4),
]
# The header of each record, as @GETENV names it.
HEADERS = {
    "I": ("INSERT", "AFTER"),
    "U": ("SQL COMPUPDATE", "AFTER"),
    "K": ("PK UPDATE", "AFTER"),
    "D": ("DELETE", "BEFORE"),
}
CONVERSIONS = ("INSERTUPDATES", "INSERTDELETES", "UPDATEDELETES")
OP = "@GETENV ('GGHEADER', 'OPTYPE')"
SIDE = "@GETENV ('GGHEADER', 'BEFOREAFTERINDICATOR')"
COLUMNS = f"seen = @GETENV ('RECORD', 'FILERBA'), id = id, op = {OP}, ba = {SIDE}, short = GGS_OP_TYPE, n = @CASE ({OP}, 'DELETE', 'gone', 'there')"


def audit(folder: Path, conversion: str, condition: str) -> list[tuple[Any, ...]]:
    """Return the rows of an audit table, which has a row for each record that is not left out."""
    write_log(folder / "ot", LOG)
    ignored = {"INSERTDELETES": "IGNOREINSERTS\nIGNOREUPDATES", "INSERTUPDATES": "IGNOREDELETES"}
    lines = [ignored.get(conversion, ""), conversion] if conversion else ["INSERTALLRECORDS"]
    parameters = "\n".join(lines)
    text = f"{parameters}\nMAP hr.t, TARGET h.audit, KEYCOLS (seen){condition}, COLMAP ({COLUMNS});"
    (folder / "rep.prm").write_text(text)
    options: dict[str, Any] = {"params": str(folder / "rep.prm")}
    if conversion == "UPDATEDELETES":
        options["on_collision"] = "insert-missing"
    apply_trail(folder / "ot", f"duckdb:{folder}/x.duckdb", **options)
    with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
        return connection.sql(
            "SELECT id, op, ba, short, n FROM x.h.audit ORDER BY seen::bigint"
        ).fetchall()


@pytest.mark.parametrize(
    ("conversion", "condition"),
    [
        pair
        for pair in product(
            ("", *CONVERSIONS),
            ("", f", FILTER ({OP} <> 'INSERT')", f", FILTER ({SIDE} = 'BEFORE')"),
        )
        if pair != ("INSERTUPDATES", f", FILTER ({SIDE} = 'BEFORE')")  # deletes are left out
    ],
)
def test_an_expression_sees_the_header_of_the_record(
    tmp_path: Path, conversion: str, condition: str
) -> None:
    taken = {"INSERTDELETES": "D", "INSERTUPDATES": "IUK"}.get(conversion, "IUKD")
    if "INSERT'" in condition:
        taken = taken.replace("I", "")
    if "BEFORE'" in condition:
        taken = "D" if "D" in taken else ""

    found = audit(tmp_path, conversion, condition)

    expected = []
    for one in LOG:
        if one.kind in taken:
            operation, side = HEADERS[one.kind]
            note = "gone" if one.kind == "D" else "there"
            expected.append((one.key, operation, side, operation, note))
    assert found == expected


def test_the_usual_audit_of_deletes(tmp_path: Path) -> None:
    """INSERTDELETES with the record's header in FILTER and COLMAP, and the columns as they were."""
    write_log(tmp_path / "ot", [*LOG[:2], Operation("D", 1, 1, {}, 3)])
    (tmp_path / "rep.prm").write_text(
        "INSERTDELETES\n"
        f"MAP hr.t, TARGET h.gone, FILTER ({OP} = 'DELETE'),\n"
        f"  COLMAP (USEDEFAULTS, op = {OP}, ba = {SIDE}, was = BEFORE.id);\n"
    )
    apply_trail(tmp_path / "ot", f"duckdb:{tmp_path}/x.duckdb", params=str(tmp_path / "rep.prm"))
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as connection:
        found = connection.sql("SELECT id, op, ba, was FROM x.h.gone").fetchall()
    assert found == [(1, "DELETE", "BEFORE", "1")]
