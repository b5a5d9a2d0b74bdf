"""Create the sender for an address, by its protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from trailgate.errors import OptionError, Where
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
    place, where = SENDERS.get(address.family), Where(source=str(address))
    if place is None:
        known = ", ".join(f"{one.value}://" for one in SENDERS)
        problem = f"messages cannot be sent to {address.protocol}://"
        raise OptionError(problem, hint=f"Supported protocols: {known}")
    # Without a name only the state is read.
    if name and name not in WITH_TOMBSTONES and "tombstones" in address.options:
        problem = f"the format {name} has no tombstones"
        raise OptionError(problem, where=where, hint="Omit the option tombstones of the address")
    if address.family is not ProtocolFamily.KAFKA and "${" in address.destination:
        problem = f"the destination {address.destination} has a field, but a queue has all tables"
        hint = "Only topics of Kafka may have ${schema} and ${table}. Publish tables one by one, with --tables and --group"
        raise OptionError(problem, where=where, hint=hint)
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
