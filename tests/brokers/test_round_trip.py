"""A trail published to a real broker and captured again has the same operations, in each format."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import trailgate
from brokers.artemis import Artemis
from brokers.kafka import Kafka
from brokers.live_place import LivePlace
from brokers.test_publish_jms import BOTH
from full_trails import operations, write_operations
from laws import chance
from trailgate.capture.formats import PUBLICATIONS, find_publication_format
from trailgate.cli.main import run

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


class Trip:
    """A trail of random operations in one format, and its way to a broker and back."""

    def __init__(self, place: LivePlace, name: str, drawn: random.Random, count: int) -> None:
        self.place, self.name, self.options = place, name, FORMATS[name].options
        self.source = write_operations(place.folder / name, operations(drawn, count))
        parser = find_publication_format(name).parser
        place.properties.write_text(
            f"parser.type={parser}\n{parser}.sourcedefs={self.source}.def\n{FORMATS[name].properties}"
        )

    def check(self) -> None:
        """Check that the captured operations are those of the source."""
        wanted, found = read(self.source), read(self.place.prefix)
        assert len(found) >= self.least(wanted)
        assert found == wanted[: len(found)]

    def least(self, wanted: Sequence[Mapping[str, Any]]) -> int:
        """Return how many operations must come back: a transaction that is known by its id alone ends when the next one begins."""
        return max(number for number, row in enumerate(wanted) if row["tx_ind"] in "BW")


def check_round_trip(place: LivePlace, scheme: str, name: str, to: str, back: str) -> None:
    """Publish a trail, capture it again, and compare."""
    trip = Trip(place, name, chance(f"round trip {name} {scheme}"), 40)
    group = f"{name}-{scheme}"  # each has a trail of its own
    sent = trailgate.publish_trail(trip.source, to, name, options=trip.options, group=group)
    to_trail = ["--properties", str(place.properties), "--to", str(place.prefix)]
    # In this process: starting one takes longer than what it does.
    assert run(["capture", *to_trail, "--from", back, *ALL_COLUMNS]) == 0

    assert sent.operations == len(read(trip.source))
    trip.check()


@pytest.mark.parametrize("name", FORMATS)
def test_operations_come_back_from_kafka(kafka: Kafka, place: LivePlace, name: str) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    topic = f"round-trip-{name}"
    check_round_trip(place, "kafka", name, kafka.address(topic, "?create"), kafka.address(topic))


@BOTH
@pytest.mark.parametrize("name", FORMATS)
def test_operations_come_back_from_a_queue(
    artemis: Artemis, place: LivePlace, name: str, scheme: str
) -> None:
    address = artemis.address(f"round-trip-{name}-{scheme}", scheme)
    check_round_trip(place, scheme, name, address, address)
