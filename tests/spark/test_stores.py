"""The whole way on an object store, by addresses that hold the login: captured, shown, read, streamed and written."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import trailgate
from capture_place import DEFINITIONS, PROPERTIES, row
from laws import one_of
from store_servers.bucket import KINDS, Bucket
from stored_place import KilledError, killed_after, requests
from trailgate.cli.main import run
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.parquet import prepare_parquet
from trailgate.mainframe.spark.jobs import run_parquet
from trailgate.spark import capture_runner, register
from trailgate.storage.files.addresses import locate

LATE = "Python worker failed to connect back"
ATTEMPTS = 3
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


class Addresses:
    """Addresses in a bucket with all that is needed to reach it, as workers have no environment of ours."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def __call__(self, key: str) -> str:
        return self.bucket.whole_url(key)

    def put(self, key: str, data: bytes | str) -> str:
        self.bucket.put(key, data)
        return self(key)


@pytest.fixture
def at(bucket: Bucket) -> Addresses:
    at = Addresses(bucket)
    definitions = at.put("dirdef/orders.def", DEFINITIONS)
    at.put("dirprm/p.properties", PROPERTIES.format(sourcedefs=definitions, more=""))
    for number in range(6):
        at.put(f"in/m{number}", row(number))
    return at


def streamed(frame: DataFrame, folder: Path, target: str, form: str = "parquet") -> None:
    """Run a stream to its end. Spark waits 10 seconds for a Python process to connect; on a busy machine the stream is started again."""
    writer = frame.writeStream.format(form).option("checkpointLocation", str(folder))
    if form == "trail":
        writer = writer.option("definitions", target.replace("dirdat/os", "dirdef/orders.def"))
    for attempt in range(ATTEMPTS):
        try:
            writer.trigger(availableNow=True).start(target).awaitTermination()
        except PySparkException as error:
            if attempt + 1 == ATTEMPTS or LATE not in str(error):
                raise
        else:
            return


def count(address: str) -> int:
    return sum(batch.num_rows for batch in trailgate.read_trail(address))


@pytest.mark.parametrize("bucket", one_of(KINDS, "the whole way"), indirect=True)
def test_the_whole_way(
    spark: SparkSession, at: Addresses, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(spark)
    trail, properties = at("dirdat/ot"), at("dirprm/p.properties")
    done = trailgate.capture_files(at("in"), trail, properties, runner=capture_runner(spark))
    assert done.operations == 6
    assert done.target.endswith(f"{at.bucket.name}/dirdat/ot")

    assert run(["show", trail, "--format", "json"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("name ") == 6
    assert run(["check", trail]) == 0
    checked = capsys.readouterr().out

    frame = spark.read.format("trail").load(trail)
    assert frame.count() == 6
    streamed(spark.readStream.format("trail").load(trail), tmp_path / "c1", str(tmp_path / "rows"))
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 6

    messages = spark.readStream.format("message_capture").option("properties", properties)
    streamed(messages.load(at("in")), tmp_path / "c2", at("dirdat/os"), "trail")
    assert count(at("dirdat/os")) == 6
    at.put("in/m6", row(6))
    streamed(messages.load(at("in")), tmp_path / "c2", at("dirdat/os"), "trail")
    assert count(at("dirdat/os")) == 7

    columns = frame.drop("position", "seq_id").coalesce(1).write.format("trail").mode("append")
    columns.option("definitions", at("dirdef/orders.def")).save(at("dirdat/ow"))
    columns.save(at("dirdat/ow"))
    assert count(at("dirdat/ow")) == 12

    assert [key for key in at.bucket.keys("dirdat/.") if "/.o" in key] == []
    assert at.bucket.uploads() == []
    for key, data in at.bucket.contents("dirdat/").items():
        assert b"SECRET" not in data, key
    for text in (done, shown, checked):
        assert "SECRET" not in str(text)


@pytest.mark.parametrize("bucket", one_of(KINDS, "records become parquet"), indirect=True)
def test_records_become_parquet(spark: SparkSession, at: Addresses) -> None:
    copybook = at.put("dirprm/r.cpy", "01 R.\n   COPY PART.\n")
    at.put("dirprm/part.cpy", "   05 ID PIC 9(4).\n")
    data = at.put("data/one.dat", "".join(f"{i:04}" for i in range(500)).encode("cp037"))
    options = CopybookOptions.of({"copybook": copybook, "split_bytes": 400})
    killed = prepare_parquet(data, at("out"), options)
    with requests(bool) as sent:
        killed.folder.begin()
    with killed_after(len(sent)), pytest.raises(KilledError):  # the driver; tasks have uploaded
        run_parquet(spark, killed)
    assert bool(at.bucket.uploads()) == (at.bucket.server.kind != "azure")

    rows = run_parquet(spark, prepare_parquet(data, at("out"), options))

    assert rows == 500
    assert at.bucket.keys("out/")[:2] == ["out/.published.json", "out/_SUCCESS"]
    assert len(at.bucket.keys("out/part-")) == 5 == len(at.bucket.keys("out/")) - 2
    assert at.bucket.uploads() == []
    store, path = locate(at("out"))
    found = pq.read_table(path, filesystem=store)
    assert sorted(found["ID"].to_pylist()) == list(range(500))
    assert spark.read.format("copybook").option("copybook", copybook).load(data).count() == 500


@pytest.mark.parametrize("bucket", one_of(KINDS, "a failed write leaves nothing"), indirect=True)
def test_a_failed_write_leaves_nothing(spark: SparkSession, at: Addresses) -> None:
    register(spark)
    trailgate.capture_files(at("in"), at("dirdat/ot"), at("dirprm/p.properties"))
    before = at.bucket.contents("dirdat/ot")
    frame = spark.read.format("trail").load(at("dirdat/ot")).drop("position", "seq_id")
    wrong = frame.selectExpr("*").withColumn("op_type", frame["op_type"].substr(2, 1))

    with pytest.raises(PySparkException) as caught:
        wrong.write.format("trail").mode("append").save(at("dirdat/ot"))

    assert "SECRET" not in str(caught.value)
    assert at.bucket.contents("dirdat/ot") == before
    assert at.bucket.keys("dirdat/.") == []
