"""The option ``messages`` of the format ``trail``: the messages are those that ``publish`` writes into a folder."""

from __future__ import annotations

import json
import pickle
import re
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

import trailgate
from full_operations import DEFINITIONS, TABLE
from full_trails import operations, write_operations
from laws import chance, one_of
from trailgate.capture.formats import PUBLICATIONS, PublicationFormat
from trailgate.errors import OptionError
from trailgate.publish.senders.folder import KEY
from trailgate.publish.spark.source import (
    MESSAGES,
    PublishingTrailSource,
    TrailOrMessages,
    message_options,
)
from trailgate.spark.trail import READING

COLUMNS = ["key", "value", "headers", "topic", "table", "position", "number"]
EVENTS = {"key_updates": "update"}
ONE_EACH: list[tuple[str, dict[str, str]]] = [
    ("debezium", EVENTS),
    ("json", {"binary": "hex"}),
    ("delimited", {}),
    ("xml", {}),
]
CASES = [
    *ONE_EACH,
    ("debezium", EVENTS | {"schemas": "true"}),
    ("debezium", EVENTS | {"transactions": "false"}),
    ("delimited", {"content": "row"}),
    ("delimited", {"maxMessageBytes": "900"}),
    ("xml", {"content": "row"}),
    ("xml", {"maxMessageBytes": "2800"}),
]


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = tmp_path_factory.mktemp("messages") / "ot"
    return write_operations(prefix, operations(chance("messages"), 100))


class Message(NamedTuple):
    """A message."""

    body: bytes
    headers: dict[str, str]
    key: str | None  # None if it is the table's name, or if there is none


def of_folder(trail: str, folder: Path, name: str, options: dict[str, str]) -> list[Message]:
    trailgate.publish_trail(trail, folder, name, options=options)
    found = []
    for path in sorted(folder.glob("messages-*")):
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            headers = fields.get("headers", {})
            key = headers.pop(KEY, None)
            # The key of GoldenGate's JSON is the table's name.
            found.append(Message(fields["body"].encode(), headers, None if name == "json" else key))
    return found


def key(row: Any) -> str:
    return bytes(row["key"]).decode()


def of_rows(rows: list[Any]) -> list[Message]:
    return [
        Message(
            bytes(row["value"]),
            {one["key"]: bytes(one["value"]).decode() for one in row["headers"] or ()},
            None if row["key"] is None or key(row) == row["table"] else key(row),
        )
        for row in rows
    ]


def comparable(messages: list[Message], options: dict[str, str]) -> list[Any]:
    """Return the messages, or the row elements of XML messages that are cut.

    Where an XML message is cut depends on the names in the batch that its reader has.
    """
    if options != {"maxMessageBytes": "2800"}:
        return list(messages)
    return re.findall(
        rb"<(?:in|up|de)\w+Row .*?</\w+Row>", b"".join(m.body for m in messages), re.DOTALL
    )


def source(trail: str, name: str, options: dict[str, str]) -> PublishingTrailSource:
    return PublishingTrailSource({"path": trail, "messages": name, **options})


def rows_of(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    """Return the rows that tasks make of partitions."""
    return [
        row
        for partition in pickle.loads(pickle.dumps(partitions))  # as they are sent to tasks
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def batch(trail: str, name: str, **options: str) -> list[dict[str, Any]]:
    """Return the rows of a batch of several splits, read as Spark reads them."""
    own = source(trail, name, {"splitBytes": "12000", **options})
    reader = own.reader(own.schema())
    partitions = reader.partitions()
    assert len(partitions) > 2
    return rows_of(pickle.loads(pickle.dumps(reader)), partitions)


def stream(trail: str, name: str, **options: str) -> list[dict[str, Any]]:
    """Return the rows of a stream of several batches, read as Spark reads them."""
    own = source(trail, name, {"maxBytesPerTrigger": "16000", "splitBytes": "12000", **options})
    reader: Any = own.streamReader(own.schema())
    reader.prepareForTriggerAvailableNow()
    offset, rows, batches = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        rows += rows_of(reader, reader.partitions(offset, end))
        offset, batches = end, batches + 1
    assert batches > 2
    return rows


def frame(spark: SparkSession, trail: str, name: str, **options: str) -> DataFrame:
    return spark.read.format("trail").options(messages=name, **options).load(trail)


def streamed(spark: SparkSession, trail: str, folder: Path, name: str, **options: str) -> list[Row]:
    """Return what a stream on Spark has written into Parquet files."""
    limited = {"maxBytesPerTrigger": "40000"} | options
    reading = spark.readStream.format("trail").options(messages=name, **limited).load(trail)
    query = (
        reading.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "state"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    query.awaitTermination()
    found: list[Row] = (
        spark.read.parquet(str(folder / "rows")).orderBy("position", "number").collect()
    )
    return found


def places(trail: str, name: str, options: dict[str, str]) -> list[tuple[str | None, str, int]]:
    """Return the table, position and number of each message of which none is cut, from the trail's operations."""
    found: list[tuple[str | None, str, int]] = []
    read = trailgate.read_trail(trail, columns="table,position,tx_ind").read_all().to_pylist()
    for row in read:
        begins, ends = row["tx_ind"] in "BW", row["tx_ind"] in "EW"
        own: list[str | None] = [row["table"]]
        if name == "debezium" and options.get("transactions") != "false":
            own = [None] * begins + own + [None] * ends
        elif name in ("delimited", "xml") and options.get("content") != "row":
            own = [None] * begins
        found += [(table, row["position"], number) for number, table in enumerate(own)]
    return found


def check(rows: list[Any], trail: str, folder: Path, name: str, options: dict[str, str]) -> None:
    written = of_folder(trail, folder, name, options)
    assert comparable(of_rows(rows), options) == comparable(written, options)
    found = [(row["table"], row["position"], row["number"]) for row in rows]
    wanted = places(trail, name, options)
    if "maxMessageBytes" in options:  # some transactions are cut into several messages
        assert len(found) > len(wanted)
        by_position = [list(own) for _, own in groupby(found, lambda place: place[1])]
        numbers = [[number for _, _, number in own] for own in by_position]
        assert numbers == [list(range(len(own))) for own in by_position]
        found = [own[0] for own in by_position]
    assert found == wanted


@pytest.mark.parametrize("read", [batch, stream])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_messages_are_those_of_a_folder(
    trail: str, tmp_path: Path, read: Any, name: str, options: dict[str, str]
) -> None:
    check(read(trail, name, **options), trail, tmp_path / "to", name, options)


@pytest.mark.parametrize(("name", "options"), one_of(CASES, "frames"))
def test_spark_returns_the_messages_of_a_folder(
    spark: SparkSession, trail: str, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    found = frame(spark, trail, name, splitBytes="40000", **options)

    assert found.columns == COLUMNS
    assert found.rdd.getNumPartitions() > 1
    check(found.collect(), trail, tmp_path / "to", name, options)


@pytest.mark.parametrize(("name", "options"), one_of(CASES, "streams"))
def test_a_stream_on_spark_has_the_messages_of_a_folder(
    spark: SparkSession, trail: str, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    check(streamed(spark, trail, tmp_path, name, **options), trail, tmp_path / "to", name, options)


@pytest.mark.parametrize(("name", "options"), one_of(ONE_EACH, "published"))
def test_published_frames_have_the_same_rows(
    spark: SparkSession, trail: str, name: str, options: dict[str, str]
) -> None:
    wanted = frame(spark, trail, name, topic="a", **options).collect()
    operations = spark.read.format("trail").option("splitBytes", "40000").load(trail)

    published = trailgate.spark.publish(trail, name, topic="a", options=options)
    of_operations = trailgate.spark.publish(
        operations, name, topic="a", options=options, definitions=DEFINITIONS
    )

    assert published.collect() == wanted
    assert of_operations.collect() == wanted


def test_rows_of_a_key_stay_in_order_with_the_two_documented_lines(
    spark: SparkSession, trail: str
) -> None:
    messages = frame(spark, trail, "debezium", splitBytes="40000", topic="t.${table}", **EVENTS)
    wanted: dict[tuple[str, bytes], list[bytes]] = {}
    for row in messages.collect():
        wanted.setdefault((row.topic, bytes(row.key)), []).append(bytes(row.value))

    ordered = messages.repartition(3, "topic", "key").sortWithinPartitions(
        "topic", "key", "position", "number"
    )

    found: dict[tuple[str, bytes], list[bytes]] = {}
    tasks: dict[tuple[str, bytes], set[int]] = {}
    for row in ordered.selectExpr("*", "spark_partition_id() AS task").collect():
        key = row.topic, bytes(row.key)
        found.setdefault(key, []).append(bytes(row.value))
        tasks.setdefault(key, set()).add(row.task)
    assert found == wanted
    assert {len(of_key) for of_key in tasks.values()} == {1}


def test_a_catalogs_table_has_the_messages(spark: SparkSession, trail: str) -> None:
    spark.sql(
        "CREATE TABLE events USING trail "
        f"OPTIONS (messages 'json', binary 'hex') LOCATION '{trail}'"
    )
    try:
        found = [row.asDict(recursive=True) for row in spark.table("events").collect()]
    finally:
        spark.sql("DROP TABLE events")
    assert found == batch(trail, "json", binary="hex")


def test_topics_follow_the_template(trail: str) -> None:
    rows = batch(trail, "debezium", topic="shop.${schema}.${table}", **EVENTS)

    assert {(row["table"], row["topic"]) for row in rows} == {
        (TABLE.name, "shop.S.T"),
        ("OTHER.A B", "shop.OTHER.A_B"),
        (None, "shop.transaction"),
    }
    assert {row["topic"] for row in batch(trail, "xml")} == {"trailgate"}
    assert {row["topic"] for row in batch(trail, "xml", content="row")} == {
        "trailgate.S.T",
        "trailgate.OTHER.A_B",
    }


def test_messages_of_formats_without_keys_have_their_tables_name(trail: str) -> None:
    assert {row["key"] for row in batch(trail, "delimited", content="row")} == {
        b"S.T",
        b"OTHER.A B",
    }
    assert {row["key"] for row in batch(trail, "delimited")} == {None}


def test_tables_and_positions_select_messages(trail: str) -> None:
    everything = batch(trail, "json", binary="hex")
    middle = everything[len(everything) // 3]["position"]

    some = batch(trail, "json", binary="hex", tables="S.*", after=middle)

    wanted = [row["position"] for row in everything if row["table"] == TABLE.name]
    assert [row["position"] for row in some] == [at for at in wanted if at > middle]


def test_a_transaction_that_is_open_at_the_end_is_left_out(tmp_path: Path) -> None:
    rows = operations(chance("open"), 40)
    rows += [row | {"tx_ind": "B", "tx_id": "open"} for row in rows[-1:]]
    trail = write_operations(tmp_path / "ot", rows)

    found = batch(trail, "debezium", **EVENTS)

    assert {json.loads(row["key"]).get("id") for row in found if row["table"] is None} == {
        f"t{number}" for number in range(40)
    }


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"messages": "avro"}, "no messages are published in the format 'avro'"),
        ({"messages": "xml", "topic": "a.${table}"}, "the topic a.${table} depends on the table"),
        ({"messages": "json", "topic": "${owner}"}, "${owner} has a field that is not known"),
        ({"messages": "json", "records": "all"}, "trail with messages=json has no option records"),
        ({"messages": "json", "model": "flat"}, "model must be"),
        ({"messages": "json", "startingPosition": "latest"}, "applies only to streams"),
        ({"topic": "shop"}, "the format trail has no option topic"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    trail: str, options: dict[str, str], problem: str
) -> None:
    own = PublishingTrailSource({"path": trail, **options})

    with pytest.raises(OptionError, match=re.escape(problem)):
        own.reader(own.schema())


@pytest.mark.parametrize("row", PUBLICATIONS, ids=lambda row: row.name)
def test_an_option_of_messages_without_them_is_refused_with_a_hint(row: PublicationFormat) -> None:
    of_messages = [one.spelling for one in message_options(row.name) if not READING.knows(one.name)]
    assert "topic" in of_messages
    for name in of_messages:
        if name == MESSAGES.name:
            continue
        problem = rf"trail has no option {name}\. .*option messages.*{row.name}"
        with pytest.raises(OptionError, match=problem):
            TrailOrMessages.of({"path": "dirdat/ot", name: "true"})


def test_other_unknown_options_have_the_hint_of_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"has no option tabels.*Did you mean tables\?"):
        TrailOrMessages.of({"path": "dirdat/ot", "tabels": "A.*"})


def test_messages_have_no_other_columns(trail: str) -> None:
    own = source(trail, "json", {})

    with pytest.raises(OptionError, match="messages have the columns key, value"):
        own.reader(StructType([own.schema()["value"]]))
