"""Create the sender for an address, by its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError
from trailgate.jobs.retries import Retries
from trailgate.live.brokers.address import BrokerAddress, ProtocolFamily
from trailgate.messages.publishing import TRANSACTION, PublishOptions
from trailgate.publish.senders.broker import BrokerSink
from trailgate.publish.senders.sender import PublishedState, Sender

# Only the module in use is imported: its library may not be installed.
SENDERS: Final[Mapping[ProtocolFamily, str]] = MappingProxyType(
    {
        ProtocolFamily.KAFKA: "kafka:KafkaSender",
        ProtocolFamily.STOMP: "confirmed:ConfirmedStompSender",
        ProtocolFamily.AMQP: "amqp:AmqpSender",
    }
)
WITH_TOMBSTONES: Final = frozenset({"debezium"})


def sender_for(address: BrokerAddress, group: str, options: PublishOptions, name: str) -> Sender:
    """Create the sender to a broker address, for messages of the format ``name``. Raises OptionError."""
    place = SENDERS.get(address.family)
    if place is None:
        known = ", ".join(f"{one.value}://" for one in SENDERS)
        problem = f"messages cannot be sent to {address.protocol}://"
        raise OptionError(problem, hint=f"Supported protocols: {known}")
    module, _, kind = place.partition(":")
    made: Sender = getattr(import_module(f"trailgate.publish.senders.{module}"), kind)(
        address,
        group,
        is_whole=options.content == TRANSACTION,
        has_tombstones=name in WITH_TOMBSTONES,
    )
    return made


def broker_sink(
    address: BrokerAddress,
    group: str,
    options: PublishOptions,
    name: str,
    retries: Retries,
    sent: Callable[[PublishedState], None],
) -> BrokerSink:
    """Create the sink that publishes to a broker address."""
    return BrokerSink(sender_for(address, group, options, name), str(address), retries, sent=sent)
