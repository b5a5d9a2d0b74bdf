"""Promises about errors on Spark: our line comes first, without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sample_trail import Op, write_trail


def test_an_error_in_planning_is_our_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("trail").load(str(tmp_path / "nowhere")).count()

    first = str(caught.value).splitlines()[0]
    assert first.endswith("as dirdat/ot for dirdat/ot000000000")
    assert "no trail files here" in first
    assert "Traceback" not in str(caught.value)


def test_an_error_in_reading_is_our_line(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", [[[Op("I", 1, "text")]]])
    file = Path(f"{prefix}000000000")
    file.write_bytes(file.read_bytes().replace(b"text", b"te\xffxt"[:4]))

    with pytest.raises(PySparkException) as caught:
        spark.read.format("trail").load(str(prefix)).collect()

    lines = str(caught.value).splitlines()
    assert "trailgate.errors.DecodeError: " in lines[1]
    assert "Traceback" not in "".join(lines[:2])
