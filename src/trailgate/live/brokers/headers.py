"""JMS headers by what each protocol calls them: one table, which every receiver obeys (docs/brokers.md).

The headers of a window's messages are one Arrow array of maps, put together from columns; strings are read whether or not a broker wrote them in
UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather, take_text
from trailgate.errors import DecodeError


class HeaderLines(NamedTuple):
    """Headers, each with the number of its message, its name and its value: strings, coded by a dictionary or not."""

    messages: Longs
    names: Any
    values: Any


def repeat(name: str, messages: Longs, values: Any) -> HeaderLines:
    """Return one header of some messages; ``values`` are theirs, or a text that all of them have."""
    if isinstance(values, str):
        values = pa.repeat(values, len(messages))
    return HeaderLines(messages, pa.repeat(name, len(messages)), values)


def header_maps(lines: Sequence[HeaderLines], count: int) -> pa.MapArray:
    """Return the map of each of ``count`` messages, with its headers in the order of ``lines``."""
    lines = [part for part in lines if len(part.messages)] or lines[:1]
    messages = np.concatenate([part.messages for part in lines])
    order = np.argsort(messages, kind="stable")
    names = take_text(pa.concat_arrays([part.names.cast(pa.string()) for part in lines]), order)
    values = take_text(pa.concat_arrays([part.values.cast(pa.string()) for part in lines]), order)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(messages, minlength=count), out=bounds[1:])
    return pa.MapArray.from_arrays(pa.array(bounds), names, values)


def value_of_each(messages: Longs, values: pa.Array, count: int) -> pa.Array:
    """Return the value of each of ``count`` messages, null where it has none."""
    places = np.full(count, -1)
    places[messages] = np.arange(len(messages))
    return values.take(pa.array(places, mask=places < 0))


def message_ids(ids: pa.Array) -> HeaderLines:
    """Return the JMS message ids of the messages that have one."""
    rows = np.flatnonzero(np.asarray(ids.is_valid()))
    return repeat(MESSAGE_ID, rows, ids.take(pa.array(rows)))


def last_of_each(lines: Sequence[HeaderLines]) -> HeaderLines:
    """Return all lines, of a header that a message has repeatedly the last one."""
    messages = np.concatenate([part.messages for part in lines])
    names = pa.concat_arrays([part.names.cast(pa.string()) for part in lines])
    values = pa.concat_arrays([part.values.cast(pa.string()) for part in lines])
    coded = names.dictionary_encode()
    pairs = messages * len(coded.dictionary) + np.asarray(coded.indices)
    _, last = np.unique(pairs[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - last)
    return HeaderLines(messages[kept], take_text(names, kept), take_text(values, kept))


BAD_HEADER: Final = "a header of the message is not UTF-8"


def header_strings(data: Octets, starts: Longs, ends: Longs) -> tuple[pa.Array, Mask]:
    """Return strings of headers, and which of them are not UTF-8: those are shown with escapes."""
    try:
        return gather(data, starts, ends, text=True), np.zeros(len(starts), bool)
    except DecodeError:
        raw = gather(data, starts, ends).to_pylist()
    known = [joined_surrogates(value) for value in raw]
    shown = [
        value.decode("utf-8", "backslashreplace") if text is None else text.decode()
        for value, text in zip(raw, known, strict=True)
    ]
    return pa.array(shown, pa.string()), np.asarray([text is None for text in known])


def joined_surrogates(raw: bytes) -> bytes | None:
    """Return UTF-8 of UTF-8 or of CESU-8, in which some brokers write characters beyond the 16-bit ones; None for other bytes."""
    try:
        return (
            raw.decode("utf-8", "surrogatepass")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16")
            .encode()
        )
    except UnicodeError:
        return None


PERSISTENT: Final = "2"  # javax.jms.DeliveryMode
NON_PERSISTENT: Final = "1"


class JmsHeader(NamedTuple):
    """One JMS header: its field in STOMP, that in AMQP 1.0, and its value where a message has no such field."""

    name: str
    stomp: str
    amqp: str
    absent: str | None = None
    kind: str = "text"

    def lacking(self, messages: Longs, count: int) -> HeaderLines:
        """Return what those of ``count`` messages have for it that are not among ``messages``: nothing where there is no such value."""
        is_there = np.full(count, self.absent is None)
        is_there[messages] = True
        return repeat(self.name, np.flatnonzero(~is_there), self.absent or "")


def _flag(text: str) -> str:
    return "true" if text.casefold() == "true" else "false"


def _mode(text: str) -> str:
    return PERSISTENT if text.casefold() == "true" else NON_PERSISTENT


# What a field's text is in JMS, by the kind of the header, where that is not the same text.
CONVERSIONS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"flag": _flag, "mode": _mode}
)

JMS_HEADERS: Final = (
    JmsHeader("JMSDestination", "destination", "to"),
    JmsHeader("JMSTimestamp", "timestamp", "creation-time"),
    JmsHeader("JMSCorrelationID", "correlation-id", "correlation-id"),
    JmsHeader("JMSType", "type", "subject"),
    JmsHeader("JMSReplyTo", "reply-to", "reply-to"),
    JmsHeader("JMSExpiration", "expires", "absolute-expiry-time", "0"),
    JmsHeader("JMSPriority", "priority", "priority", "4"),
    JmsHeader("JMSDeliveryMode", "persistent", "durable", NON_PERSISTENT, "mode"),
    JmsHeader("JMSRedelivered", "redelivered", "delivery-count", "false", "flag"),
    JmsHeader("JMSXGroupID", "_AMQ_GROUP_ID", "group-id"),
    JmsHeader("JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE", "group-sequence"),
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
