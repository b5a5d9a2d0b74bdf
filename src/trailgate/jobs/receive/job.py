"""A live capture prepared: its source's address, its feed, and the trail that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trailgate.brokers.address import BrokerAddress, Family
from trailgate.errors import TrailgateError
from trailgate.jobs.receive.ahead import ReceivingAhead
from trailgate.jobs.receive.feeds import Feed
from trailgate.jobs.receive.journal_feed import JournalFeed
from trailgate.jobs.receive.kafka_feed import KafkaFeed
from trailgate.jobs.receive.options import ReceiveOptions
from trailgate.jobs.receive.run import LiveCapture
from trailgate.messages.capture import Capture
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender


def journal_folder(prefix: str) -> Path:
    """Return where the journal of a trail is."""
    return Path(f"{prefix}.journal")


def _stomp(address: BrokerAddress, prefix: str, options: ReceiveOptions) -> Feed:
    from trailgate.brokers.stomp.receiver import StompReceiver  # noqa: PLC0415  one protocol a run

    return JournalFeed(address, StompReceiver(address), journal_folder(prefix), options.journal)


def _amqp(address: BrokerAddress, prefix: str, options: ReceiveOptions) -> Feed:
    from trailgate.brokers.amqp.receiver import AmqpReceiver  # noqa: PLC0415  an extra

    receiver = AmqpReceiver(address)
    return JournalFeed(address, receiver, journal_folder(prefix), options.journal)


def _kafka(address: BrokerAddress, _prefix: str, _options: ReceiveOptions) -> Feed:
    from trailgate.brokers.kafka.receiver import KafkaReceiver  # noqa: PLC0415  an extra

    receiver = KafkaReceiver(address)
    receiver.connect()
    return KafkaFeed(address, receiver)


FEEDS: Final[Mapping[Family, Callable[[BrokerAddress, str, ReceiveOptions], Feed]]] = (
    MappingProxyType({Family.STOMP: _stomp, Family.AMQP: _amqp, Family.KAFKA: _kafka})
)


@contextmanager
def opened(
    capture: Capture, address: BrokerAddress, prefix: str, options: ReceiveOptions
) -> Iterator[LiveCapture]:
    """Yield a live capture; the broker is asked for messages when it runs.

    Raises StorageError where another run holds the trail, or the trail is not one that was received from this kind of source.
    """
    wanted = [table for table in capture.definitions if capture.rules.wants(table.name)]
    definitions = Definitions(tuple(wanted), capture.definitions.database)
    with TrailAppender(prefix, definitions, options.append) as appender:
        feed = ReceivingAhead(FEEDS[address.family](address, prefix, options))
        try:
            yield LiveCapture(capture, feed, appender, prefix, options)
        except BaseException:
            with suppress(TrailgateError):  # what ended the run is reported
                feed.close()
            raise
        feed.close()
