"""A live capture prepared: its source's address, its feed, and the trail that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trailgate.brokers.address import BrokerAddress, Family
from trailgate.capture.capture import Capture
from trailgate.errors import OptionError, TrailgateError
from trailgate.jobs.receive.feed import Feed, ReceivingAhead
from trailgate.jobs.receive.feeds import JournalFeed, KafkaFeed, receiver_of
from trailgate.jobs.receive.run import LiveCapture, ReceiveOptions
from trailgate.messages.metadata import JMS_MESSAGE_ID, message_id_kind
from trailgate.model.tables import Definitions
from trailgate.storage.live.appender import TrailAppender


def journal_folder(prefix: str) -> Path:
    """Return where the journal of a trail is."""
    return Path(f"{prefix}.journal")


def _journal_feed(address: BrokerAddress, prefix: str, options: ReceiveOptions) -> Feed:
    folder, needed = journal_folder(prefix), options.needed_header
    receiver = receiver_of(address, lasting=not options.until_empty)
    return JournalFeed(address, receiver, folder, options.journal, needed)


def _kafka(address: BrokerAddress, _prefix: str, options: ReceiveOptions) -> Feed:
    from trailgate.brokers.kafka import KafkaReceiver  # noqa: PLC0415  an extra

    receiver = KafkaReceiver(address)
    receiver.connect()
    return KafkaFeed(address, receiver, lasting=not options.until_empty)


FEEDS: Final[Mapping[Family, Callable[[BrokerAddress, str, ReceiveOptions], Feed]]] = (
    MappingProxyType(
        {Family.STOMP: _journal_feed, Family.AMQP: _journal_feed, Family.KAFKA: _kafka}
    )
)


@contextmanager
def open_live(
    capture: Capture, address: BrokerAddress, prefix: str, options: ReceiveOptions
) -> Iterator[LiveCapture]:
    """Yield a live capture; the broker is asked for messages when it runs.

    Raises StorageError where another run holds the trail, or the trail is not one that was received from this kind of source, and
    OptionError where no table is defined: messages cannot be read before they are captured.
    """
    if capture.options.infers:
        problem = "no table is defined, and messages of a broker are not read before their capture"
        hint = (
            capture.options.undefined_hint or "Name a definitions file by the property sourcedefs"
        )
        raise OptionError(problem, hint=hint)
    if capture.options.needs_message_ids:
        header = message_id_kind(capture.options.message_id).header
        options = replace(options, needed_header=header if header == JMS_MESSAGE_ID else None)
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
