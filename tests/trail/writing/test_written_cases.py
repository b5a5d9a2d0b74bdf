"""Worked examples of each format: every case file is written, and read again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from trail.written_formats import expected, read_again, written
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat

CASES = Path(__file__).parents[1] / "cases/formats"
COMPARED = ("op_type", "op_ts", "tx_ind", "tx_id", "csn", "before", "after", "tokens")


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.toml")):
        case = tomllib.loads(path.read_text())
        marks = [pytest.mark.assumed] if case.get("assumed") else []
        found.append(pytest.param(case, id=path.stem, marks=marks))
    return found


@pytest.mark.parametrize("case", cases())
def test_an_operation_is_written_as_its_case_and_read_again(case: dict[str, Any]) -> None:
    columns = tuple(Column(**column) for column in case["columns"])
    tables = Definitions((Table(case["table"], columns),))
    options = case["format"]
    order = ByteOrder.LITTLE if options.get("order") == "little" else ByteOrder.BIG
    form = TrailFormat(options["level"], order, UpdateFormat(options.get("updates", "separate")))
    operation = {
        "table": case["table"],
        "before": {},
        "after": {},
        "tokens": {},
        **case["operation"],
    }

    data, encoded = written([operation], form, tables)

    assert encoded.body.to_pybytes().hex(" ") == bytes.fromhex(case["bytes"]).hex(" ")
    (again,) = read_again(data, form, tables)
    (wanted,) = expected([operation], form, tables)
    wanted |= case.get("read", {})
    assert {name: again[name] for name in COMPARED} == {name: wanted[name] for name in COMPARED}
