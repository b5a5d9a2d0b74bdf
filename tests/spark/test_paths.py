"""Promises about paths on Spark: lists, patterns, and tables of a catalog, in every format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from capture_place import Place, row
from trailgate.spark import read_messages, read_records, read_trail, register

COPYBOOK = "01 R.\n   05 ID PIC 9(4).\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a folder of trails oa and ob, messages, and files of records."""
    place = Place(tmp_path)
    place.write(row(1), row(2))
    place.run("oa")
    place.run("ob")
    (tmp_path / "r.cpy").write_text(COPYBOOK)
    (tmp_path / "one.dat").write_bytes("00010002".encode("cp037"))
    (tmp_path / "two.dat").write_bytes("0003".encode("cp037"))
    return place


@pytest.fixture(autouse=True)
def _catalog(spark: SparkSession) -> Iterator[None]:
    register(spark)
    yield
    spark.sql("DROP TABLE IF EXISTS held")
    shutil.rmtree("spark-warehouse", ignore_errors=True)


def test_lists_and_patterns_of_paths_are_read_whole(spark: SparkSession, place: Place) -> None:
    folder, properties = place.folder, str(place.folder / "p.properties")
    trails = [f"{folder}/oa", f"{folder}/ob"]
    trail = spark.read.format("trail")
    assert trail.load(trails).count() == 4
    assert trail.load(f"{folder}/o?").count() == 4
    assert read_trail(spark, trails).count() == 4
    typed = trail.option("table", "MY.ORDERS").load(f"{folder}/o*")
    assert sorted(found.NAME for found in typed.collect()) == [
        "name 1",
        "name 1",
        "name 2",
        "name 2",
    ]

    messages = spark.read.format("message_capture").option("properties", properties)
    assert messages.load([f"{place.messages}/m0001", f"{place.messages}/m0000"]).count() == 2
    assert messages.load(f"{place.messages}/m*1").count() == 1
    assert read_messages(spark, [place.messages], properties).count() == 2

    records = spark.read.format("copybook").option("copybook", f"{folder}/r.cpy")
    assert records.load([f"{folder}/two.dat", f"{folder}/one.dat"]).count() == 3
    assert records.load(f"{folder}/*.dat").count() == 3
    assert read_records(spark, [folder / "one.dat"], folder / "r.cpy").count() == 2


@pytest.mark.parametrize(
    ("using", "rows"),
    [
        ("trail OPTIONS (tables 'MY.*') TBLPROPERTIES ('note'='x') LOCATION '{0}/oa'", 2),
        ("message_capture OPTIONS (properties '{0}/p.properties') LOCATION '{0}/messages'", 2),
        ("copybook OPTIONS (copybook '{0}/r.cpy') COMMENT 'c' LOCATION '{0}/one.dat'", 2),
        ("trail OPTIONS (path '{0}/ob', table 'MY.ORDERS')", 2),
    ],
)
def test_a_table_of_a_catalog_is_read_from_its_location(
    spark: SparkSession, place: Place, using: str, rows: int
) -> None:
    spark.sql(f"CREATE TABLE held USING {using.format(place.folder)}")
    assert spark.sql("SELECT * FROM held").count() == rows
    assert spark.table("held").count() == rows


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE TABLE held USING trail OPTIONS (tabel 'X') LOCATION '{0}/oa'", "no option tabel"),
        ("CREATE TABLE held USING trail", "needs a path"),
        ("CREATE TABLE held USING copybook LOCATION '{0}/one.dat'", "copybook"),
        (
            "CREATE TABLE held USING trail LOCATION 'dirdat/oa'",
            "LOCATION of a table is the relative path",
        ),
        (
            "CREATE TABLE held USING trail OPTIONS (path 'oa')",
            "is the relative path oa.*option base",
        ),
        (
            "CREATE TABLE held USING message_capture OPTIONS (properties 'p') LOCATION '{0}/messages'",
            "properties of a table is the relative path p",
        ),
    ],
)
def test_a_table_with_wrong_options_is_refused_when_it_is_created(
    spark: SparkSession, place: Place, statement: str, problem: str
) -> None:
    with pytest.raises(PySparkException, match=problem):
        spark.sql(statement.format(place.folder))


def test_a_table_with_a_base_has_relative_paths(spark: SparkSession, place: Place) -> None:
    spark.sql(f"CREATE TABLE held USING trail OPTIONS (base '{place.folder}') LOCATION 'oa'")
    assert spark.table("held").count() == 2


def test_a_table_with_columns_is_refused_when_it_is_read(spark: SparkSession, place: Place) -> None:
    """Spark asks the format nothing when such a table is created."""
    spark.sql(f"CREATE TABLE held (position string) USING trail LOCATION '{place.folder}/oa'")

    with pytest.raises(PySparkException, match="without a list of columns"):
        spark.table("held").count()


def test_a_stream_and_a_sink_take_one_path(spark: SparkSession, place: Place) -> None:
    paths = f'["{place.folder}/oa", "{place.folder}/ob"]'
    with pytest.raises(PySparkException, match="takes one path, not 2"):
        spark.readStream.format("trail").option("paths", paths).load().writeStream.format(
            "noop"
        ).start().processAllAvailable()
