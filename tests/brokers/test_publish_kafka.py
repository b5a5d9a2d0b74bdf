"""Publishing a trail to a real Kafka: each message once, with its position in the same transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokers.kafka import Kafka
from brokers.published import check_missing_files, consumed
from brokers.test_publish_jms import check_groups
from sample_trail import NOTES, Op, write_trail
from trailgate.errors import BrokerRefusedError, EncodeError, OptionError, StorageError
from trailgate.live.brokers.address import Direction, parse_address
from trailgate.publish.job import Publication, PublicationSettings, publish_trail, read_status
from trailgate.publish.senders.broker_sink import BrokerSink
from trailgate.publish.senders.kafka import KafkaSender
from trailgate.storage.files.trail_files import find_trail

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
TRANSACTIONS = [
    [Op("I", 1, "one"), Op("I", 2, "two", table=NOTES)],
    [Op("U", 1, "uno", "one"), Op("D", 2, ..., "two", table=NOTES)],
    [Op("I", 3, "three")],
]


def test_events_come_once_to_the_topics_of_their_tables(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "events", [TRANSACTIONS[:1]])
    to = kafka.address("shop.${schema}.${table}", "?create")
    first = publish_trail(trail, to, "debezium")
    again = publish_trail(trail, to, "debezium")
    write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
    rest = publish_trail(trail, to, "debezium")

    orders, notes = consumed(kafka, "shop.MY.ORDERS"), consumed(kafka, "shop.MY.NOTES")
    assert (first.messages, again.messages, rest.messages) == (4, 0, 7)
    assert [(one.key, one.value["op"]) for one in orders] == [
        ('{"ID":1}', "c"),
        ('{"ID":1}', "u"),
        ('{"ID":3}', "c"),
    ]
    # A tombstone follows the delete.
    assert [(one.key, one.value and one.value["op"]) for one in notes] == [
        ('{"ID":2}', "c"),
        ('{"ID":2}', "d"),
        ('{"ID":2}', None),
    ]
    statuses = [one.value["status"] for one in consumed(kafka, "shop.transaction")]
    assert statuses == ["BEGIN", "END"] * 3
    positions = [one.headers["trailgate.position"] for one in orders + notes]
    assert positions[2] > positions[1] > positions[0]
    assert positions[4] == positions[5]
    assert {one.headers["trailgate.group"] for one in orders} == {"events"}


def test_a_position_to_start_after_is_kept_if_nothing_is_sent(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "after", [TRANSACTIONS[:1]])
    to = kafka.address("after", "?create")
    last = publish_trail(trail, tmp_path / "folder", "json").position
    nothing = publish_trail(trail, to, "json", after=last)
    write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
    rest = publish_trail(trail, to, "json")

    assert (nothing.messages, rest.messages) == (0, 3)


@pytest.mark.parametrize("group", ["a/b é*>#", "a_b", "x" * 300])
def test_groups_of_any_name_have_positions_of_their_own(
    kafka: Kafka, tmp_path: Path, group: str
) -> None:
    check_groups(tmp_path, kafka.address("groups", "?create"), group)


def test_files_that_are_missing_are_named(kafka: Kafka, tmp_path: Path) -> None:
    check_missing_files(tmp_path / "missing-files", kafka.address("missing-files", "?create"))


def test_what_does_not_fit_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "refused", [TRANSACTIONS])
    with pytest.raises(BrokerRefusedError, match="the topic missing does not exist"):
        publish_trail(trail, kafka.address("missing"), "json", group="missing")
    # A group is bound to nothing before its first message.
    done = publish_trail(trail, kafka.address("found", "?create"), "debezium", group="missing")
    assert done.operations == len([one for transaction in TRANSACTIONS for one in transaction])
    with pytest.raises(OptionError, match="reserved for the positions of publications"):
        publish_trail(trail, kafka.address("trailgate-positions"), "json", group="own")
    with pytest.raises(OptionError, match="depends on the table"):
        publish_trail(trail, kafka.address("a.${table}"), "delimited", group="whole")
    publish_trail(trail, kafka.address("one", "?create"), "json")
    with pytest.raises(StorageError, match="published to one, not to two"):
        publish_trail(trail, kafka.address("two", "?create"), "json")


def test_a_too_large_message_names_its_operation(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(
        tmp_path / "large", [[[Op("I", 1, "x")], [Op("I", 2, "y" * 60), Op("I", 3)]]]
    )
    kafka.create("large", settings={"max.message.bytes": "420"})
    with pytest.raises(EncodeError, match=r"accepts at most 420 .operation at \d+.*MY.ORDERS"):
        publish_trail(trail, kafka.address("large"), "json")

    assert consumed(kafka, "large") == []


def test_a_topic_that_was_deleted_is_noticed(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "deleted", [TRANSACTIONS[:1]])
    with Publication(
        trail, kafka.address("deleted", "?create"), PublicationSettings(format="json")
    ) as publication:
        publication.run()
        kafka.delete("deleted")
        sink = publication._sink
        assert isinstance(sink, BrokerSink)
        sink._sender.open()  # as after a fault
        write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
        publication.run()

    assert len(consumed(kafka, "deleted")) == 3


def test_a_topic_of_positions_that_forgets_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "policy", [TRANSACTIONS])
    publish_trail(trail, kafka.address("policy", "?create"), "json")
    kafka.configure("trailgate-positions", {"cleanup.policy": "delete"})
    try:
        with pytest.raises(BrokerRefusedError, match=r"cleanup\.policy=delete"):
            publish_trail(trail, kafka.address("policy"), "json")
    finally:
        kafka.configure("trailgate-positions", {"cleanup.policy": "compact"})


def test_a_position_that_others_have_replaced_is_an_error_or_forgotten(
    kafka: Kafka, tmp_path: Path
) -> None:
    trail, to = (
        write_trail(tmp_path / "replaced", [TRANSACTIONS]),
        kafka.address("replaced", "?create"),
    )
    publish_trail(trail, to, "json")
    for wrong in (b"\xff", "[]", '{"version": 2}'):
        kafka.send("trailgate-positions", [wrong], key="replaced")
        for call in (
            lambda: publish_trail(trail, to, "json"),
            lambda: read_status(find_trail(trail), to),
        ):
            with pytest.raises(StorageError, match="the stored state cannot be understood"):
                call()
    kafka.send("trailgate-positions", [None], key="replaced")
    assert read_status(find_trail(trail), to) is None
    assert publish_trail(trail, to, "json").messages == 5


def test_an_older_run_of_a_group_ends_with_the_reason(
    kafka: Kafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trail = write_trail(tmp_path / "older", [TRANSACTIONS[:1]])
    to = kafka.address("older", "?create")
    older = Publication(trail, to, PublicationSettings(format="json"))
    older.run()
    write_trail(trail, [TRANSACTIONS[:1], TRANSACTIONS[1:]])
    newer = publish_trail(trail, to, "json")
    with pytest.raises(BrokerRefusedError, match="another run publishes there"), older:
        older.run()

    assert newer.messages == 3
    assert len(consumed(kafka, "older")) == 5
    assert "FATAL" not in capfd.readouterr().err  # a raw line of the library


class Shown(NamedTuple):
    """What a consumer of Kafka's library returns: a message, or the end of what a broker shows."""

    place: int
    at_end: bool = False

    def offset(self) -> int:
        return self.place

    def error(self) -> Any:
        from confluent_kafka import KafkaError  # noqa: PLC0415  an extra

        return KafkaError(KafkaError._PARTITION_EOF) if self.at_end else None


class ShowingConsumer:
    """Gives messages in portions."""

    def __init__(self, *portions: list[Shown]) -> None:
        self._portions = list(portions)

    def consume(self, _: int, timeout: float) -> list[Shown]:
        del timeout
        return self._portions.pop(0) if self._portions else []


def test_an_end_before_the_last_position_is_not_taken_for_the_end() -> None:
    """A broker shows what a transaction wrote some time after its end."""
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    sender = KafkaSender(
        parse_address("kafka://127.0.0.1:1/topic", direction=Direction.SENT),
        "group",
        is_whole=True,
        has_tombstones=False,
    )
    ends = Shown(0, at_end=True), Shown(2, at_end=True), Shown(3, at_end=True)
    consumer = ShowingConsumer([ends[0]], [], [Shown(0), Shown(1), ends[1]], [Shown(2), ends[2]])

    assert [one.place for one in sender._messages(consumer, 3)] == [0, 1, 2]
    later = ShowingConsumer([Shown(0), Shown(5), Shown(6)])
    assert [one.place for one in sender._messages(later, 3)] == [0]
