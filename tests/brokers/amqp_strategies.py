"""Encoded AMQP messages to be tried: whole ones by the library, and what is left of them when bytes are changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import proton
from hypothesis import strategies as st

from trailgate.live.brokers.amqp.messages import EncodedMessages, index_messages

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SYMBOLS: Final = st.text(st.characters(codec="ascii"), max_size=8).map(proton.symbol)
IDS: Final = (
    TEXT
    | st.integers(0, 2**64 - 1).map(proton.ulong)
    | st.uuids()
    | st.binary(min_size=1, max_size=6)
)
VALUES: Final = st.one_of(
    st.none(),
    st.booleans(),
    TEXT,
    SYMBOLS,
    st.binary(max_size=300),
    st.integers(-(2**7), 2**7 - 1).map(proton.byte),
    st.integers(0, 2**8 - 1).map(proton.ubyte),
    st.integers(-(2**15), 2**15 - 1).map(proton.short),
    st.integers(0, 2**16 - 1).map(proton.ushort),
    st.integers(-(2**31), 2**31 - 1).map(proton.int32),
    st.integers(0, 2**32 - 1).map(proton.uint),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(proton.ulong),
    st.integers(-(2**63), 2**63 - 1).map(proton.timestamp),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(proton.float32),
    st.uuids(),
    st.characters(exclude_categories=["Cs"]).map(proton.char),
)
NAMES: Final = TEXT | st.sampled_from(
    ["JMSType", "JMSXDeliveryCount", "JMSMessageID", "_AMQ_A", "__HDR_MESSAGE_ID", "TxInd"]
)
BODIES: Final = st.one_of(
    st.none(),
    TEXT,
    st.binary(max_size=300),
    st.integers(0, 100),
    st.lists(st.integers(0, 5), max_size=3),
    st.dictionaries(TEXT, VALUES, max_size=3),
)
MILLISECONDS: Final = st.integers(0, 2**40)


@st.composite
def messages(draw: st.DrawFn) -> proton.Message:
    """Return a message as senders make them."""
    fields: dict[str, Any] = {
        "inferred": draw(st.booleans()),
        "durable": draw(st.booleans()),
        "priority": draw(st.integers(0, 255)),
        "delivery_count": draw(st.integers(0, 2**31)),
        "first_acquirer": draw(st.booleans()),
        "creation_time": draw(MILLISECONDS) / 1000,
        "expiry_time": draw(MILLISECONDS) / 1000,
    }
    rest: dict[str, st.SearchStrategy[Any]] = {
        "id": IDS,
        "correlation_id": IDS,
        "address": TEXT,
        "subject": TEXT,
        "reply_to": TEXT,
        "group_id": TEXT,
        "group_sequence": st.integers(0, 2**31 - 1),
        "user_id": st.binary(max_size=5),
        "properties": st.dictionaries(NAMES, VALUES, max_size=5),
        "annotations": st.dictionaries(SYMBOLS, VALUES, max_size=2),
        "instructions": st.dictionaries(SYMBOLS, VALUES, max_size=2),
    }
    for name, values in rest.items():
        if draw(st.booleans()):
            fields[name] = draw(values)
    return proton.Message(draw(BODIES), **fields)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """Return an encoded message of which some bytes are replaced, left out or added."""
    raw = bytearray(draw(messages()).encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)))
        new = draw(
            st.binary(max_size=2) | st.sampled_from([b"\x40", b"\x45", b"\xc0", b"\0", b"\xff"])
        )
        raw[at : at + draw(st.integers(0, 2))] = new
    return bytes(raw)


def found_in(raws: Sequence[bytes]) -> EncodedMessages:
    """Return what encoded messages have."""
    return index_messages(b"".join(raws), np.cumsum([0, *map(len, raws)]).astype(np.int64))
