"""A Kafka topic that is deleted, created again or given more partitions ends the receiving; what is not known does not."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from trailgate.errors import BrokerRefusedError
from trailgate.live.brokers import kafka_topic
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.kafka_topic import NO_ID, TopicWatch

kafka = pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")

UNKNOWN = kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
TIMED_OUT = kafka.KafkaError(kafka.KafkaError._TIMED_OUT)


class Admin:
    """Answers requests for a topic, one after the other; None is a request that is not answered yet."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = [*answers], 0

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Any]:
        del topics
        request: Future[Any] = Future()
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, kafka.KafkaError):
            request.set_exception(kafka.KafkaException(answer))
        elif answer is not None:
            request.set_result(answer)
        return {"t": request}


def topic(id_: str, partitions: int = 1) -> Any:
    return SimpleNamespace(topic_id=id_, partitions=[None] * partitions)


def watch(monkeypatch: pytest.MonkeyPatch, *answers: Any, query: str = "") -> TopicWatch:
    """Return a watch that has asked at the beginning, and been asked to check after each further answer."""
    monkeypatch.setattr(kafka_topic, "INTERVAL", 0.0)
    watch = TopicWatch(parse_address(f"kafka://h/t{query}"), Admin(*answers, None), kafka)
    watch.begin(1)
    for _ in range(len(answers)):
        watch.check()
    return watch


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([topic("a"), topic("b")], "the topic was deleted and created again"),
        ([topic("a"), TIMED_OUT, UNKNOWN, topic("b")], "the topic was deleted and created again"),
        ([topic("a"), UNKNOWN, UNKNOWN], "the topic was deleted"),
        ([topic("a"), topic("a", 2)], "the topic has 2 partitions"),
    ],
)
def test_a_topic_that_changes_is_an_error(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], problem: str
) -> None:
    with pytest.raises(BrokerRefusedError, match=rf"{problem}.* \(kafka://h:9092/t\)"):
        watch(monkeypatch, *answers)


@pytest.mark.parametrize(
    ("answers", "query", "expected"),
    [
        ([topic("a"), UNKNOWN, TIMED_OUT, UNKNOWN, topic("a")], "", "a"),
        ([topic("a"), topic("a", 2)], "?partition=0", "a"),
        ([topic(NO_ID), topic(NO_ID)], "", None),
        ([TIMED_OUT, topic("a")], "", "a"),
    ],
)
def test_a_topic_that_stays_is_none(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], query: str, expected: str | None
) -> None:
    assert watch(monkeypatch, *answers, query=query).id == expected


def test_a_check_does_not_wait_and_asks_again_only_after_a_time() -> None:
    admin = Admin(topic("a"), None)
    watch = TopicWatch(parse_address("kafka://h/t"), admin, kafka)
    watch.begin(1)
    for _ in range(5):
        watch.check()

    assert admin.asked == 2


def test_what_the_broker_does_not_tell_is_stated() -> None:
    address = parse_address("kafka://h/t")

    assert TopicWatch(address, Admin(topic("a")), kafka).begin(1) == ""
    assert "gives no ids" in TopicWatch(address, Admin(topic(NO_ID)), kafka).begin(1)
    assert "timed out" in TopicWatch(address, Admin(TIMED_OUT), kafka).begin(1).lower()
