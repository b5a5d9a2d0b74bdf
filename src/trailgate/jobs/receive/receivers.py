"""The receivers whose messages need a journal, by protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.brokers.address import BrokerAddress, Family
from trailgate.brokers.receiver import Receiver
from trailgate.errors import OptionError


def _stomp(address: BrokerAddress, lasting: bool) -> Receiver:
    from trailgate.brokers.stomp.receiver import StompReceiver  # noqa: PLC0415  one protocol a run

    return StompReceiver(address, lasting=lasting)


def _amqp(address: BrokerAddress, lasting: bool) -> Receiver:
    from trailgate.brokers.amqp.receiver import AmqpReceiver  # noqa: PLC0415  an extra

    return AmqpReceiver(address, lasting=lasting)


RECEIVERS: Final[Mapping[Family, Callable[[BrokerAddress, bool], Receiver]]] = MappingProxyType(
    {Family.STOMP: _stomp, Family.AMQP: _amqp}
)


def check_journalled(address: BrokerAddress) -> None:
    """Raise OptionError for a broker that keeps messages which were read: it needs no journal."""
    if address.family not in RECEIVERS:
        problem = f"{address} keeps its messages, and is not received into a journal"
        hint = 'Stream it by Spark\'s own format "kafka" through trailgate.spark.capture, or capture it by trailgate capture'
        raise OptionError(problem, hint=hint)


def receiver_of(address: BrokerAddress, *, lasting: bool = True) -> Receiver:
    """Return a receiver, which connects when it is first used; raises MissingDependencyError where its protocol is an extra.

    One that is ``lasting`` connects again for as long as it is used.
    """
    return RECEIVERS[address.family](address, lasting)
