"""CREATE TABLE of Delta tables is a statement of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from targets.test_ddl import TABLE
from trailgate.apply.targets.ddl import DELTA


@pytest.mark.spark
def test_spark_reads_the_statement_of_a_delta_table(spark: Any) -> None:
    text = DELTA.create_statement(TABLE, TABLE.name)

    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)

    assert plan.nodeName() == "CreateTable"
    assert plan.tableSpec().provider().get() == "DELTA"
