"""The source of a link: the queue or topic of an address, as brokers of JMS take it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from trailgate.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.brokers.amqp.library import proton
from trailgate.errors import BrokerRefusedError, Where

# How brokers that announce no prefixes name what is there already; without this, RabbitMQ declares a queue that is not durable.
PREFIXES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"RabbitMQ": MappingProxyType({QUEUE: "/amq/queue/", TOPIC: "/topic/"})}
)
SELECTOR: Final = "apache.org:selector-filter:string"


def name_source(source: Any, address: BrokerAddress, broker: Mapping[str, str]) -> None:
    """Name the queue or topic, a selector, and a subscription that lasts; ``broker`` are the properties of the broker's connection.

    Raises BrokerRefusedError for a durable subscription that is not to a topic, or has no client id.
    """
    library, options = proton(), address.options
    # The prefix that the broker asks for, as Qpid's JMS client does.
    prefix = broker.get(f"{address.kind}-prefix") or ""
    if not address.destination.startswith("/"):
        prefix = prefix or PREFIXES.get(broker.get("product", ""), {}).get(address.kind, "")
    source.address = f"{prefix}{address.destination}"
    source.capabilities.put_object(library.symbol(address.kind))
    if "selector" in options:
        described = library.Described(library.symbol(SELECTOR), options["selector"])
        source.filter.put_dict({library.symbol("selector"): described})
    if "durable" not in options:
        return
    if address.kind != TOPIC or "client-id" not in options:
        problem = "a durable subscription is one to a topic, by a client id"
        hint = "amqp://host/topic/NAME?durable=NAME&client-id=ID"
        raise BrokerRefusedError(problem, where=Where(source=str(address)), hint=hint)
    source.durability = library.Terminus.DELIVERIES
    source.expiry_policy = library.Terminus.EXPIRE_NEVER
