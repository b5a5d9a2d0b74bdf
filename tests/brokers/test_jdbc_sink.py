"""Debezium's own JDBC sink, in Kafka's Connect, makes the tables that a publication describes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from apply import postgresql_server
from brokers.kafka import Kafka
from brokers.real_brokers import Process, fetched_jars, free_ports
from brokers.receivers import PATIENCE
from laws import chance
from sample_trail import NOTES, ORDERS, Op, write_trail
from trailgate.publish.job import publish_trail

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs the extra postgresql")
COORDINATES: Final = (
    "io.debezium:debezium-connector-jdbc:3.2.0.Final",
    "org.apache.kafka:connect-runtime:4.0.0",
    "org.apache.kafka:connect-json:4.0.0",
    "org.slf4j:slf4j-simple:1.7.36",
)
WORKER: Final = """\
bootstrap.servers=127.0.0.1:{kafka}
listeners=http://127.0.0.1:{rest}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
consumer.isolation.level=read_committed
consumer.auto.offset.reset=earliest
"""
SINK: Final = """\
name=sink
connector.class=io.debezium.connector.jdbc.JdbcSinkConnector
topics=jdbc.MY.ORDERS,jdbc.MY.NOTES
connection.url=jdbc:postgresql://127.0.0.1:{port}/postgres
connection.username=me
connection.password=none
insert.mode=upsert
delete.enabled=true
primary.key.mode=record_key
schema.evolution=basic
quote.identifiers=true
collection.name.format=${{source.table}}
"""
ROWS: Final = 60
TEXTS: Final = ("plain", "", 'with\ttab and "quotes"', "Grüße, 世界 🎉", "line\nbreak", None)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql_server.running() as address:
        yield address


def operations(drawn: random.Random) -> tuple[list[list[Op]], dict[str, dict[int, str | None]]]:
    """Return transactions of inserts, updates and deletes, and the rows that they leave."""
    rows: dict[str, dict[int, str | None]] = {"ORDERS": {}, "NOTES": {}}
    transactions = []
    for _ in range(ROWS):
        transaction = []
        for _ in range(drawn.randint(1, 5)):
            table = drawn.choice((ORDERS, NOTES))
            known = rows[table.name.partition(".")[2]]
            key, text = drawn.randint(1, 15), drawn.choice(TEXTS)
            if key not in known:
                transaction.append(Op("I", key, text, table=table))
                known[key] = text
            elif drawn.random() < 0.6:
                transaction.append(Op("U", key, text, known[key], table=table))
                known[key] = text
            else:
                transaction.append(Op("D", key, ..., known.pop(key), table=table))
        transactions.append(transaction)
    return transactions, rows


def stored(database: str, table: str, column: str) -> dict[int, str | None] | None:
    """Return the rows of a table, or None if there is no table yet."""
    with psycopg.connect(database) as connection:
        try:
            return dict(connection.execute(f'SELECT "ID", "{column}" FROM "{table}"').fetchall())
        except psycopg.errors.UndefinedTable:
            return None


def test_debeziums_jdbc_sink_has_the_rows(kafka: Kafka, database: str, tmp_path: Path) -> None:
    jars = fetched_jars(*COORDINATES)
    transactions, rows = operations(chance("a jdbc sink"))
    trail = write_trail(tmp_path / "jdbc", [transactions])
    to = kafka.address("jdbc.${schema}.${table}", "?create")
    publish_trail(trail, to, "debezium", options={"schemas": "true"})

    (rest,) = free_ports(1)
    worker, sink = tmp_path / "worker.properties", tmp_path / "sink.properties"
    worker.write_text(WORKER.format(kafka=kafka.port, rest=rest, folder=tmp_path))
    sink.write_text(SINK.format(port=urlsplit(database).port))
    java = ["java", "-Xmx384m", "-cp", f"{jars}/*"]
    program = [*java, "org.apache.kafka.connect.cli.ConnectStandalone", worker, sink]
    process = Process(program, tmp_path / "connect.log", lambda: True)
    with ExitStack() as stack:
        stack.callback(process.stop)
        process.start()
        until = time.monotonic() + PATIENCE
        found = None
        while found != rows and time.monotonic() < until and process.runs:
            time.sleep(0.5)
            found = {
                "ORDERS": stored(database, "ORDERS", "NAME"),
                "NOTES": stored(database, "NOTES", "TEXT"),
            }
    assert found == rows, (tmp_path / "connect.log").read_text()[-3000:]
