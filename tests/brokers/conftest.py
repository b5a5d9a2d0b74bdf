"""Real brokers for the tests that need one: one runs at a time, for as long as a module's tests need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokers import artemis as artemis_broker
from brokers import classic as classic_broker
from brokers import kafka as kafka_broker
from brokers.artemis import Artemis
from brokers.classic import Classic
from brokers.kafka import Kafka

BROKERS = frozenset({"artemis", "classic", "kafka"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a broker; where tests run in several processes, one of them runs all of these."""
    for item in items:
        if BROKERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("brokers"))


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    with artemis_broker.running(tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with kafka_broker.running(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classic]:
    with classic_broker.running(tmp_path_factory.mktemp("classic")) as broker:
        yield broker
