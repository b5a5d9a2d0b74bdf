"""Rules of Delta tables that a session evaluates before its MERGE."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trailgate.apply.spark.delta import find_rule_breaks
from trailgate.apply.targets.delta_checks import RowRule
from trailgate.apply.targets.target import RowRefusedError

pytestmark = pytest.mark.spark


def test_a_session_finds_the_rows_that_break_a_rule(spark: SparkSession) -> None:
    """Also by functions that delta-rs lacks, and names in another case. What it cannot evaluate is left to the MERGE."""
    rows = pa.table({"v": ["a", "x", None], "n": [1, 2, 3]})
    conditions = ["V RLIKE 'a' -- or so", "`g g` < 30", "unknown > 1", "CAST(v AS INT) > 1"]
    rules = [RowRule(one, RowRefusedError(one)) for one in conditions]
    found = find_rule_breaks(spark, rows, {"g g": "n * 10"}, rules)

    broken = {error.problem: numbers.tolist() for numbers, error in found}
    assert broken == {conditions[0]: [1, 2], conditions[1]: [2]}
