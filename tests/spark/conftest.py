"""One real Spark for all tests that need one; its own warnings are none of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.interpreted import INTERPRETED
from trailgate.spark.sessions import session

ROOT = Path(__file__).parents[2]
# Tests work on little data: more threads, and code compiled for speed, cost more than they bring.
SMALL = {
    **INTERPRETED,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and pass over warnings from inside Spark.

    Where tests run in several processes, one of them runs all tests of the session that they share, and one all that need a broker,
    of which one runs at a time. Tests that start a Spark of their own run in any.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore:unclosed:pytest.PytestUnraisableExceptionWarning"
                )
            )
        used = getattr(item, "fixturenames", ())
        if "spark" in used and "one_broker" not in used and item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a session of two cores whose workers import the sources of this tree."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    os.environ["PYTHONPATH"] = path
    made = session("local[2]", "trailgate-tests", **SMALL)
    yield made
    made.stop()
