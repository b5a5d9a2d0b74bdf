"""What brokers do differently in STOMP: names of queues, flow control, and what recognises a message."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.errors import OptionError, Where

AHEAD_BYTES: Final = 8 << 20  # what Artemis sends ahead: its own default, 10 KiB, is eight messages
AHEAD: Final = 1000  # messages that Classic sends ahead, as its JMS clients have it
_KEPT: Final = (
    "Receive by AMQP (amqp://), or name a header with an id that a message keeps, as ?id-header=amqp-message-id, which RabbitMQ gives where "
    "senders set it (docs/brokers.md)"
)


class Consumers(NamedTuple):
    """How a broker reports the consumers of a queue: the headers of a SUBSCRIBE, with the queue's name in them, and the header that has their number."""

    subscribe: Mapping[str, str]
    number: str


class Dialect(NamedTuple):
    """One broker. ``server`` is how the server header of CONNECTED begins.

    ``kinds`` are the forms of a destination. ``ahead`` is the header for what is sent ahead, by the option of an address, with its default. ``id_tail``: the broker's own id of a message is what
    follows a comma in message-id, and the part before it is the consumer's. ``keeps_ids``: a message that is given again has the id that it had. ``consumers`` is None where the broker is not known to
    report them.
    """

    name: str
    server: str
    kinds: Mapping[str, str]
    kind_headers: Mapping[str, Mapping[str, str]]
    ahead: Mapping[str, tuple[str, int]]
    durable: str
    keeps_ids: bool = False
    id_tail: bool = False
    surrogates: bool = False
    consumers: Consumers | None = None


_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_SLASHES: Final = MappingProxyType({QUEUE: "/queue/{}", TOPIC: "/topic/{}"})

DIALECTS: Final = (
    Dialect(
        "Artemis",
        "ActiveMQ-Artemis/",
        MappingProxyType({QUEUE: "{}", TOPIC: "{}"}),
        MappingProxyType(
            {
                QUEUE: MappingProxyType({"subscription-type": "ANYCAST"}),
                TOPIC: MappingProxyType({"subscription-type": "MULTICAST"}),
            }
        ),
        MappingProxyType({"prefetch-bytes": ("consumer-window-size", AHEAD_BYTES)}),
        "durable-subscription-name",
        keeps_ids=True,
        id_tail=True,
        consumers=Consumers(
            MappingProxyType(
                {
                    "destination": "activemq.notifications",
                    "subscription-type": "MULTICAST",
                    "selector": "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED') AND _AMQ_RoutingName = '{}'",
                }
            ),
            "_AMQ_ConsumerCount",
        ),
    ),
    Dialect(
        "ActiveMQ Classic",
        "ActiveMQ/",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("activemq.prefetchSize", AHEAD)}),
        "activemq.subscriptionName",
        keeps_ids=True,
        surrogates=True,
        consumers=Consumers(
            MappingProxyType({"destination": "/topic/ActiveMQ.Advisory.Consumer.Queue.{}"}),
            "consumerCount",
        ),
    ),
    Dialect(
        "RabbitMQ",  # docs/stomp.html: message-id is of the session, and amqp-message-id the sender's
        "RabbitMQ/",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("prefetch-count", AHEAD)}),
        "x-queue-name",
    ),
    Dialect(
        "an unknown broker",
        "",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("prefetch-count", AHEAD)}),
        "durable-subscription-name",
    ),
)


def dialect_of(server: str) -> Dialect:
    """Return the dialect of a broker by the server header of its CONNECTED frame."""
    return next(dialect for dialect in DIALECTS if server.startswith(dialect.server))


def subscription(dialect: Dialect, address: BrokerAddress) -> dict[str, str]:
    """Return the headers of SUBSCRIBE; raises OptionError for an option that the broker does not have."""
    options = address.options
    if not dialect.keeps_ids and "id-header" not in options:
        problem = f"{dialect.name} is not known to give a message its id again: one that comes again would be captured twice"
        raise OptionError(problem, where=Where(source=str(address)), hint=_KEPT)
    headers = {
        "id": "0",
        "destination": dialect.kinds[address.kind].format(address.destination),
        "ack": "client",
        **dialect.kind_headers[address.kind],
    }
    for option in ("prefetch", "prefetch-bytes"):
        if option in options and option not in dialect.ahead:
            other = ", ".join(dialect.ahead)
            problem = f"{dialect.name} does not have the option {option}"
            raise OptionError(problem, hint=f"It has {other}")
    for option, (header, default) in dialect.ahead.items():
        headers[header] = str(address.number(option, default))
    if "selector" in options:
        headers["selector"] = options["selector"]
    if "durable" in options:
        if address.kind != TOPIC or "client-id" not in options:
            problem = "a durable subscription is one to a topic, by a client id"
            raise OptionError(problem, hint="stomp://host/topic/NAME?durable=NAME&client-id=ID")
        headers[dialect.durable] = options["durable"]
    return headers
