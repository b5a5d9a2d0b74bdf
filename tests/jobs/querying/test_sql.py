"""SELECT statements over trails: DuckDB answers them from what readers give."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trailgate
from capture_place import DEFINITIONS, Place, row
from trailgate.cli.main import run
from trailgate.errors import DefinitionError, OptionError, TrailgateError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Give a working folder with a trail of three rows."""
    place = Place(tmp_path)
    place.write(row(1) + row(2), row(3))
    place.run("ot")
    monkeypatch.chdir(tmp_path)
    return place


def answer(sql: str) -> list[tuple[object, ...]]:
    table = trailgate.query(sql).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.usefixtures("place")
def test_operations_and_tables_are_relations() -> None:
    assert answer("SELECT op_type, count(*) FROM 'ot' GROUP BY 1") == [("I", 3)]
    assert answer("SELECT ID, NAME FROM 'ot:MY.ORDERS' WHERE ID >= '2' ORDER BY 1 DESC") == [
        ("3", "name 3"),
        ("2", "name 2"),
    ]
    assert answer("FROM './ot' SELECT count(*)") == [(3,)]


@pytest.mark.usefixtures("place")
def test_a_trail_is_read_again_each_time_a_statement_names_it() -> None:
    joined = """
        WITH firsts AS (SELECT tx_id AS first FROM 'ot' WHERE tx_ind IN ('B', 'W'))
        SELECT count(*) FROM 'ot' AS a JOIN 'ot' AS b USING (position) JOIN firsts ON first = a.tx_id
        WHERE a.position IN (SELECT position FROM 'ot')
    """

    assert answer(joined) == [(3,)]


@pytest.mark.usefixtures("place")
def test_files_are_joined_with_trails(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": ["1", "3"], "mark": ["a", "b"]}), tmp_path / "marks.parquet")

    found = answer(
        "SELECT NAME, mark FROM 'ot:MY.ORDERS' JOIN 'marks.parquet' USING (ID) ORDER BY 1"
    )

    assert found == [("name 1", "a"), ("name 3", "b")]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DROP TABLE x", "the statement is not a SELECT"),
        ("SELEC 1", "the statement cannot be understood: syntax error"),
        ("SELECT nope FROM 'ot'", 'DuckDB refuses the statement: Binder Error: .*"nope"'),
        ("SELECT * FROM read_csv('no+s3://KEY:SECRET@b/x')", r"s3://\*\*\*@b/x"),
        ("SELECT 1; SELECT 2", "only one statement is run at a time, not 2"),
        (";", "there is no statement"),
        ("-- nothing", "there is no statement"),
    ],
)
def test_a_statement_that_cannot_be_answered_is_one_error(sql: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        trailgate.query(sql)


@pytest.mark.usefixtures("place")
def test_a_table_that_nothing_defines_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"MY\.NONE"):
        trailgate.query("FROM 'ot:MY.NONE'")


def test_a_damaged_trail_is_its_own_error(place: Place) -> None:
    (path,) = place.files("ot")
    data = path.read_bytes()
    path.write_bytes(data[:-40] + bytes(40))

    with pytest.raises(TrailgateError, match="ot000000000"):
        trailgate.query("SELECT count(*) FROM 'ot'").read_all()


def test_definitions_are_those_that_are_given(place: Place) -> None:
    (place.folder / "ot.def").unlink()
    (place.folder / "own.def").write_text(DEFINITIONS.replace("NAME", "CALL"))

    table = trailgate.query("SELECT CALL FROM 'ot:MY.ORDERS'", definitions="own.def").read_all()

    assert table["CALL"].to_pylist() == ["name 1", "name 2", "name 3"]


@pytest.mark.usefixtures("place")
def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT ID, NAME FROM 'ot:MY.ORDERS' ORDER BY 1"

    assert run(["sql", sql, "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert run(["sql", sql, "--format", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert run(["sql", sql, "--to", "rows.parquet"]) == 0
    assert run(["sql", "DELETE FROM x"]) == 2

    assert run(["sql", "SELECT 1 AS a, 2 AS a", "--format", "json"]) == 2
    assert "2 columns are named a. Rename them with AS" in capsys.readouterr().err
    assert printed.splitlines()[:2] == ["ID  NAME", "1   name 1"]
    assert json.loads(lines[2]) == {"ID": "3", "NAME": "name 3"}
    assert pq.read_table(tmp_path / "rows.parquet")["NAME"].to_pylist()[0] == "name 1"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no:MY.ORDERS", r"no trail files here \(no\)"),
        ("dirdat/zz", r"no trail files here \(dirdat/zz\)"),
        ("missing.parquet", r"no such file \(missing.parquet\)"),
        ("many-*.csv", r"no file matches the pattern \(many-"),
        ("b.duckdb", r"no such file \(b.duckdb\)"),
        ("duckdb:b.duckdb/hr/jobs", r"b\.duckdb"),
        ("delta:lake/hr/jobs", r"there is no Delta table here \(lake/hr/jobs\)"),
        ("delta:empty", r"there is no Delta table here \(empty\)"),
        ("shop.properties", r"neither a trail nor a file of a kind .* \(shop.properties\)"),
    ],
)
def test_a_missing_name_is_in_the_error(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "shop.properties").write_text("parser.type=xml")

    with pytest.raises(TrailgateError, match=problem) as caught:
        trailgate.query(f"SELECT * FROM '{name}'").read_all()

    assert "Catalog Error" not in str(caught.value)
    assert "registered as" not in str(caught.value)
