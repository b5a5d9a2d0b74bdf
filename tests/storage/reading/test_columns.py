"""Only the columns asked for are returned and decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sample_trail import NOTES, ORDERS, Op, write_trail
from trailgate.errors import DecodeError, OptionError
from trailgate.model.shapes import Projection
from trailgate.storage.reading.trails import read_trail

FILES = [
    [[Op("I", 1)], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "x")], [Op("I", 10, "ü")], [Op("U", 10, ...)]],
]
SHAPES = [
    (None, ["table", "op_type"]),
    (None, ["position", "after", "csn"]),
    (None, ["tokens"]),
    ("MY.ORDERS", ["NAME"]),
    ("MY.ORDERS", ["_op_type", "ID"]),
    ("MY.ORDERS", ["_position", "_csn"]),
    ("MY.ORDERS", ["NAME", "_missing"]),
    ("MY.NOTES", ["TEXT"]),
]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_trail(tmp_path / "ot", FILES)


@pytest.mark.parametrize(("table", "columns"), SHAPES)
def test_columns_have_the_values_that_they_have_among_all(
    prefix: Path, table: str | None, columns: list[str]
) -> None:
    whole = pa.Table.from_batches(read_trail(prefix, table=table))

    part = read_trail(prefix, table=table, columns=columns)

    assert part.schema.names == columns
    assert part.read_all().to_pylist() == whole.select(columns).to_pylist()


@pytest.mark.parametrize("bounds", [{"from_position": "0" * 20}, {"to_csn": "999999"}])
def test_rows_are_chosen_by_columns_that_are_not_returned(
    prefix: Path, bounds: dict[str, str]
) -> None:
    whole = read_trail(prefix, table="MY.ORDERS", **bounds).read_all()  # type: ignore[arg-type]
    part = read_trail(prefix, table="MY.ORDERS", columns="NAME", **bounds)  # type: ignore[arg-type]
    assert part.read_all().to_pylist() == whole.select(["NAME"]).to_pylist()


def test_names_are_compared_without_case_and_an_unknown_one_is_named(prefix: Path) -> None:
    rows = read_trail(prefix, table="MY.ORDERS", columns="name,_OP_TYPE")
    assert rows.schema.names == ["NAME", "_op_type"]
    with pytest.raises(OptionError, match=r"no column NAMME.*Did you mean NAME\?"):
        read_trail(prefix, table="MY.ORDERS", columns="NAMME")
    with pytest.raises(OptionError, match=r"no column op_typ.*op_type\?"):
        read_trail(prefix, columns=["op_typ"])
    with pytest.raises(OptionError, match="no column ioo_type"):
        read_trail(prefix, records="all", columns="ioo_type")


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, "after,AFTER"),
        ({"table": "MY.ORDERS"}, "NAME,ID,name"),
        ({"records": "all"}, "position,io_type,position"),
    ],
)
def test_a_column_that_is_named_twice_is_an_error(
    prefix: Path, options: dict[str, Any], columns: str
) -> None:
    with pytest.raises(OptionError, match="is named twice"):
        read_trail(prefix, columns=columns, **options).read_all()


@pytest.mark.parametrize("options", [{}, {"table": "MY.ORDERS"}, {"records": "all"}])
@pytest.mark.parametrize("columns", [[], "", " , ", [""]])
def test_a_choice_of_no_column_is_an_error(
    prefix: Path, options: dict[str, Any], columns: str | list[str]
) -> None:
    with pytest.raises(OptionError, match=r"(value of columns|list|name in the list) is empty"):
        read_trail(prefix, columns=columns, **options)


def test_records_have_columns_too(prefix: Path) -> None:
    whole = read_trail(prefix, records="all").read_all()
    part = read_trail(prefix, records="all", columns="type_name,position").read_all()
    assert part.to_pylist() == whole.select(["type_name", "position"]).to_pylist()


def test_values_of_other_columns_are_not_decoded(prefix: Path) -> None:
    path = Path(f"{prefix}000000001")
    data = path.read_bytes()
    path.write_bytes(data.replace("ü".encode(), b"\xff\xff"))

    with pytest.raises(DecodeError, match="field NAME"):
        read_trail(prefix, table="MY.ORDERS").read_all()

    rows = read_trail(prefix, table="MY.ORDERS", columns="ID").read_all()
    assert rows["ID"].to_pylist() == [1, 1, 1, 9, 10, 10]


def test_a_projection_knows_what_it_needs() -> None:
    assert Projection.of(None).needed is None
    assert Projection.of(None, ["table", "tokens"]).needed == frozenset[str]()
    assert Projection.of(ORDERS, ["NAME", "_op_ts"]).needed == frozenset({"name"})
    assert Projection.of(ORDERS, ["_missing"]).needed is None
