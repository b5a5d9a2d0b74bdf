"""Real brokers for the tests that need one: a process of tests has one at a time, for as long as they need it."""

from __future__ import annotations

import pytest

from brokers import artemis as artemis_broker
from brokers import classic as classic_broker
from brokers import kafka as kafka_broker
from brokers import qpid as qpid_broker
from brokers import rabbitmq as rabbitmq_broker
from brokers.artemis import Artemis
from brokers.classic import Classic
from brokers.kafka import Kafka
from brokers.qpid import Qpid
from brokers.rabbitmq import RabbitMQ
from brokers.real_brokers import OneBroker

BROKERS = (
    "rabbitmq",
    "classic",
    "qpid",
    "kafka",
    "artemis",
)  # in the order in which they are started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a broker; where tests run in several processes, one runs those of Artemis and one all others, broker by broker."""
    places: dict[int, pytest.Item] = {}
    for place, item in enumerate(items):
        if "one_broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            used = getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("artemis" if "artemis" in used else "brokers"))
            places[place] = item
    for place, item in zip(places, sorted(places.values(), key=_order), strict=True):
        items[place] = item


def _order(item: pytest.Item) -> int:
    """Return when a test is run: those with a broker of their own come first."""
    used = getattr(item, "fixturenames", ())
    return next((number for number, name in enumerate(BROKERS, 1) if name in used), 0)


@pytest.fixture
def artemis(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Artemis:
    return one_broker.of(artemis_broker.running, tmp_path_factory)


@pytest.fixture
def kafka(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    return one_broker.of(kafka_broker.running, tmp_path_factory)


@pytest.fixture
def classic(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Classic:
    return one_broker.of(classic_broker.running, tmp_path_factory)


@pytest.fixture
def rabbitmq(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> RabbitMQ:
    return one_broker.of(rabbitmq_broker.running, tmp_path_factory)


@pytest.fixture
def qpid(one_broker: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Qpid:
    return one_broker.of(qpid_broker.running, tmp_path_factory)
