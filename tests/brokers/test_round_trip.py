"""A trail published to a real Kafka and captured again has the same operations, in each format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import trailgate
from brokers.kafka import Kafka
from brokers.live_place import LivePlace
from full_trails import operations, write_operations
from laws import chance
from trailgate.capture.formats import PUBLICATIONS, find_publication_format

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
COMPARED = ("table", "op_type", "op_ts", "tx_ind", "before", "after")  # ids take other forms
ALL_COLUMNS = ("--no-compress-updates", "--update-befores", "--no-compress-deletes")


class Format(NamedTuple):
    """The options that write all operations, and the properties that read them again."""

    options: dict[str, str]
    properties: str = ""


FORMATS = {
    "delimited": Format({}),
    "xml": Format({}),
    "json": Format(
        {"binary": "hex", "transactions": "true"},
        "json.txind=tx_ind\njson.txid=xid\njson.binary=hex\n",
    ),
    "debezium": Format(
        {"key_updates": "update"},
        "debezium.decimal.handling.mode=string\ndebezium.binary.handling.mode=bytes\n",
    ),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def read(prefix: Path | str) -> list[dict[str, Any]]:
    """Return a trail's operations; a key update is an update, as messages say it."""
    rows: list[dict[str, Any]] = (
        trailgate.read_trail(prefix).read_all().select(COMPARED).to_pylist()
    )
    for row in rows:
        row |= {"before": dict(row["before"] or ()), "after": dict(row["after"] or ())}
        row["op_type"] = row["op_type"].replace("K", "U")
    return rows


def test_every_format_is_tried() -> None:
    assert set(FORMATS) == {row.name for row in PUBLICATIONS}


@pytest.mark.parametrize("name", FORMATS)
def test_operations_come_back(kafka: Kafka, place: LivePlace, name: str) -> None:
    trip, drawn = FORMATS[name], chance(f"round trip {name}")
    source = write_operations(place.folder / name, operations(drawn, 40))
    parser = find_publication_format(name).parser
    place.properties.write_text(
        f"parser.type={parser}\n{parser}.sourcedefs={source}.def\n{trip.properties}"
    )
    address = kafka.address(f"round-trip-{name}", "?create")

    sent = trailgate.publish_trail(source, address, name, options=trip.options)
    place.run("--from", kafka.address(f"round-trip-{name}"), *ALL_COLUMNS)

    wanted, found = read(source), read(place.prefix)
    assert sent.operations == len(wanted)
    # A transaction that is known by its id alone ends when the next one begins.
    begin = max(number for number, row in enumerate(wanted) if row["tx_ind"] in "BW")
    assert len(found) >= begin
    assert found == wanted[: len(found)]
