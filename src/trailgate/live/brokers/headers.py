"""JMS headers, and their names in each protocol: one table for all receivers.

The headers of a window's messages are built as columns (``HeaderLines``: message number, name,
value) and become one Arrow array of maps, with one map per message. If header text is not UTF-8,
the wrong bytes are stored as backslash escapes, and the message gets a fault. docs/brokers.md
describes the headers.
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

BAD_HEADER: Final = "a header of the message is not UTF-8"
PERSISTENT: Final = "2"  # javax.jms.DeliveryMode
NON_PERSISTENT: Final = "1"
MESSAGE_ID: Final = "JMSMessageID"  # its field depends on the broker: see each receiver
DELIVERY_COUNT: Final = "JMSXDeliveryCount"

# Fields of protocols and brokers that a JMS client does not expose.
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


class HeaderLines(NamedTuple):
    """JMS headers as three parallel columns: the number of the message, the name and the value.

    Names and values are Arrow strings, dictionary-encoded or not.
    """

    messages: Longs
    names: Any
    values: Any


def repeat_header(name: str, messages: Longs, values: Any) -> HeaderLines:
    """Build the lines of one JMS header for several messages.

    ``values`` is an array, or a text for all messages.
    """
    if isinstance(values, str):
        values = pa.repeat(values, len(messages))
    return HeaderLines(messages, pa.repeat(name, len(messages)), values)


def header_maps(lines: Sequence[HeaderLines], count: int) -> pa.MapArray:
    """Group JMS headers by message into one map for each of ``count`` messages.

    Within a map, headers are in the order of ``lines``.
    """
    # map arrays need at least one part even if no message has a header
    lines = [part for part in lines if len(part.messages)] or lines[:1]
    messages = np.concatenate([part.messages for part in lines])
    order = np.argsort(messages, kind="stable")
    names = take_text(pa.concat_arrays([part.names.cast(pa.string()) for part in lines]), order)
    values = take_text(pa.concat_arrays([part.values.cast(pa.string()) for part in lines]), order)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(messages, minlength=count), out=bounds[1:])
    return pa.MapArray.from_arrays(pa.array(bounds), names, values)


def spread_values(messages: Longs, values: pa.Array, count: int) -> pa.Array:
    """Spread values over ``count`` messages: message ``messages[i]`` gets ``values[i]``, all other messages null."""
    rows = np.full(count, -1)
    rows[messages] = np.arange(len(messages))
    return values.take(pa.array(rows, mask=rows < 0))


def message_ids(ids: pa.Array) -> HeaderLines:
    """Build the JMSMessageID headers of received messages. A message whose id is null gets none."""
    rows = np.flatnonzero(np.asarray(ids.is_valid()))
    return repeat_header(MESSAGE_ID, rows, ids.take(pa.array(rows)))


def keep_last_headers(lines: Sequence[HeaderLines]) -> HeaderLines:
    """Merge JMS headers: if a message has the same header several times, only the last one is kept."""
    messages = np.concatenate([part.messages for part in lines])
    names = pa.concat_arrays([part.names.cast(pa.string()) for part in lines])
    values = pa.concat_arrays([part.values.cast(pa.string()) for part in lines])
    coded = names.dictionary_encode()
    # One number per message and name. np.unique returns the first position of each number, so the
    # numbers are reversed to get the last, and the position is counted back from the end.
    pairs = messages * len(coded.dictionary) + np.asarray(coded.indices)
    _, last = np.unique(pairs[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - last)
    return HeaderLines(messages[kept], take_text(names, kept), take_text(values, kept))


def header_strings(data: Octets, starts: Longs, ends: Longs) -> tuple[pa.Array, Mask]:
    """Decode the bytes of JMS headers: value i is ``data[starts[i]:ends[i]]``.

    Also returns a mask of the values that are not UTF-8, which are decoded with escapes.
    """
    try:
        return gather(data, starts, ends, text=True), np.zeros(len(starts), bool)
    except DecodeError:
        raw = gather(data, starts, ends).to_pylist()
    known = [join_surrogates(value) for value in raw]
    shown = [
        value.decode("utf-8", "backslashreplace") if text is None else text.decode()
        for value, text in zip(raw, known, strict=True)
    ]
    return pa.array(shown, pa.string()), np.asarray([text is None for text in known])


def join_surrogates(raw: bytes) -> bytes | None:
    """Convert the text of a JMS header in UTF-8 or CESU-8 to UTF-8, or return None for other bytes.

    In CESU-8, which some brokers write, a character above U+FFFF is a surrogate pair of three bytes
    each, instead of one sequence of four bytes.
    """
    try:
        return (
            raw.decode("utf-8", "surrogatepass")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16")
            .encode()
        )
    except UnicodeError:
        return None


class JmsHeader(NamedTuple):
    """A JMS header: its name in JMS, in STOMP and in AMQP 1.0, and its default value.

    ``default`` is the value for messages that lack the header, or None if they get none. ``kind``
    selects a conversion of the value ("flag" or "mode"); "text" means no conversion.
    """

    name: str
    stomp: str
    amqp: str
    default: str | None = None
    kind: str = "text"

    def default_lines(self, messages: Longs, count: int) -> HeaderLines:
        """Build the header's default for each of ``count`` messages that is not in ``messages``.

        Returns no headers if the header has no default.
        """
        is_there = np.full(count, self.default is None)
        is_there[messages] = True
        return repeat_header(self.name, np.flatnonzero(~is_there), self.default or "")


def _flag(text: str) -> str:
    return "true" if text.casefold() == "true" else "false"


def _mode(text: str) -> str:
    return PERSISTENT if text.casefold() == "true" else NON_PERSISTENT


# How a STOMP header's text becomes JMS's text, by the kind of the header.
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
