"""JMS headers by what each protocol calls them: one table, which every receiver obeys (docs/brokers.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

PERSISTENT: Final = "2"  # javax.jms.DeliveryMode
NON_PERSISTENT: Final = "1"


class JmsHeader(NamedTuple):
    """One JMS header: its field in STOMP, that in AMQP 1.0, and its value where a message has no such field."""

    name: str
    stomp: tuple[str, ...] = ()
    amqp: str = ""
    absent: str | None = None
    kind: str = "text"


def _flag(text: str) -> str:
    return "true" if text.casefold() == "true" else "false"


def _mode(text: str) -> str:
    return PERSISTENT if text.casefold() == "true" else NON_PERSISTENT


# What a field's text is in JMS, by the kind of the header.
CONVERSIONS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"text": str, "flag": _flag, "mode": _mode}
)

JMS_HEADERS: Final = (
    JmsHeader("JMSDestination", ("destination",), "to"),
    JmsHeader("JMSTimestamp", ("timestamp",), "creation-time"),
    JmsHeader("JMSCorrelationID", ("correlation-id",), "correlation-id"),
    JmsHeader("JMSType", ("type",), "subject"),
    JmsHeader("JMSReplyTo", ("reply-to",), "reply-to"),
    JmsHeader("JMSExpiration", ("expires",), "absolute-expiry-time", "0"),
    JmsHeader("JMSPriority", ("priority",), "priority", "4"),
    JmsHeader("JMSDeliveryMode", ("persistent",), "durable", NON_PERSISTENT, "mode"),
    JmsHeader("JMSRedelivered", ("redelivered",), "delivery-count", "false", "flag"),
    JmsHeader("JMSXGroupID", ("_AMQ_GROUP_ID",), "group-id"),
    JmsHeader("JMSXGroupSeq", ("_AMQ_GROUP_SEQUENCE",), "group-sequence"),
)
MESSAGE_ID: Final = "JMSMessageID"  # which field it is differs by broker: see each receiver
DELIVERY_COUNT: Final = "JMSXDeliveryCount"

# Fields of protocols and brokers that a JMS client does not see.
HIDDEN: Final = frozenset(
    {
        "ack",
        "content-length",
        "content-type",
        "destination-type",
        "message-id",
        "receipt",  # of the sender's SEND
        "subscription",
    }
)
HIDDEN_PREFIXES: Final = ("__AMQ_CID", "__HDR_", "JMS_AMQP_", "_AMQ_")
