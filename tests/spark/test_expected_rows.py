"""Rows as each release of PySpark expects them: 4.1 takes no time zone, and later ones take it by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType, TimestampType

from trailgate.spark import schemas
from trailgate.spark.schemas import arrow_schema

SCHEMA = StructType().add("at", TimestampType())


def test_timestamps_have_the_time_zone_of_the_session() -> None:
    assert arrow_schema(SCHEMA).field("at").type == pa.timestamp("us", "UTC")
    assert arrow_schema(SCHEMA, "Europe/Paris").field("at").type.tz == "Europe/Paris"


def test_where_spark_takes_no_zone_it_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PySpark 4.1 declares the function."""

    def of_4_1(schema: StructType, timestamp_utc: bool = True) -> Any:
        return pa.schema([("at", pa.timestamp("us", "UTC"))])

    monkeypatch.setattr(schemas, "to_arrow_schema", of_4_1)

    assert arrow_schema(SCHEMA, "Europe/Paris").field("at").type == pa.timestamp("us", "UTC")
