"""Values of every type that a query can return are printed exactly, and as valid JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from trailgate.cli.main import run

pytest.importorskip("duckdb")

# A value in DuckDB's notation, as JSON, and as a cell of CSV if that is not the same text.
VALUES = [
    ("TIMESTAMP_S '2020-01-02 10:00:00'", "2020-01-02T10:00:00"),
    ("TIMESTAMP_MS '2020-01-02 10:00:00.123'", "2020-01-02T10:00:00.123"),
    ("TIMESTAMP '2020-01-02 10:00:00.123456'", "2020-01-02T10:00:00.123456"),
    ("TIMESTAMP_NS '2020-01-02 10:00:00.123456789'", "2020-01-02T10:00:00.123456789"),
    ("TIMESTAMPTZ '2020-01-02 10:00:00+02'", "2020-01-02T08:00:00.000000Z"),
    ("TIMESTAMP 'infinity'", "infinity"),
    ("TIMESTAMPTZ '-infinity'", "-infinity"),
    ("TIMESTAMP '12020-01-02'", "12020-01-02T00:00:00.000000"),
    ("DATE '2020-01-02'", "2020-01-02"),
    ("DATE '12020-01-02'", "12020-01-02"),
    ("DATE '0044-03-15 (BC)'", "-0043-03-15"),
    ("DATE 'infinity'", "infinity"),
    ("TIME '10:00:00.5'", "10:00:00.500000"),
    ("TIMETZ '10:00:00+02'", "10:00:00+02"),
    ("INTERVAL '14 months 3 days 4.5 seconds'", "P14M3DT4.5S"),
    ("INTERVAL '-4.5 seconds'", "PT-4.5S"),
    ("INTERVAL 0 DAYS", "PT0S"),
    ("'NaN'::DOUBLE", "NaN"),
    ("'-inf'::FLOAT", "-Infinity"),
    ("0.00::DECIMAL(20, 10)", "0.0000000000"),
    ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
    ("BIT '0101'", "0101"),
    ("'\\x0a\\xff'::BLOB", "0aff"),
    ("'happy'::ENUM ('happy', 'sad')", "happy"),
    ("true", True),
    ("NULL::DATE", None),
    ("['NaN'::DOUBLE, 1]", ["NaN", 1.0]),
    ("[DATE 'infinity', NULL]", ["infinity", None]),
    ("[TIMESTAMP_NS '2020-01-02 10:00:00.123456789']", ["2020-01-02T10:00:00.123456789"]),
    ("[INTERVAL 1 DAY]", ["P1D"]),
    ("[TIMETZ '10:00:00+02']", ["10:00:00+02"]),
    ("[1, 2]::INTEGER[2]", [1, 2]),
    ("[]::INTEGER[]", []),
    ("{'a b': 1.50, 'c': [{'d': '\\xff'::BLOB}], 'e': NULL}", {"a b": "1.50", "c": [{"d": "ff"}], "e": None}),
    ("MAP {DATE '2020-01-02': 1, DATE 'infinity': 2}", {"2020-01-02": 1, "infinity": 2}),
    ("MAP {{'a': 1}: NULL}", {'{"a": 1}': None}),
    ("MAP {true: 1}", {"true": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "printed"), VALUES)
def test_a_value_is_printed_in_the_same_way_in_every_form(
    value: str, printed: object, capsys: pytest.CaptureFixture[str]
) -> None:
    # A second row with NULL and a third one with the value show that rows are not mixed up.
    sql = f"SELECT CASE n WHEN 1 THEN NULL ELSE {value} END AS v FROM range(3) AS t(n)"
    shown = {}
    for form in ("json", "csv", "table"):
        assert run(["sql", sql, "--format", form]) == 0, capsys.readouterr().err
        shown[form] = capsys.readouterr().out.splitlines()

    rows = [printed, None, printed]
    cells = [one if isinstance(one, str) else json.dumps(one) for one in rows]
    objects = [json.loads(line, parse_constant=pytest.fail) for line in shown["json"]]
    assert objects == [{"v": one} for one in rows]
    # An empty line is NULL, which csv skips.
    read = [next(csv.reader([line])) or [""] for line in shown["csv"]]
    assert read == [["v"], *(["" if cell == "null" else cell] for cell in cells)]
    assert shown["table"] == ["v", *("NULL" if cell == "null" else cell for cell in cells)]


def test_parquet_names_the_column_whose_type_it_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.parquet"

    assert run(["sql", "SELECT 1 AS n, INTERVAL 1 DAY AS late", "--to", str(file)]) == 2

    assert "Parquet has no type for month_day_nano_interval (field late)" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_two_columns_of_one_name_are_an_error_even_if_one_is_exported_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sql", "SELECT 1 AS a, TIMETZ '10:00:00+02' AS a"]) == 2

    assert "2 columns are named a" in capsys.readouterr().err
