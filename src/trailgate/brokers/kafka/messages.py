"""Messages of Kafka as received messages: the headers in the JMS meaning, offsets as ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.brokers.header_maps import HeaderLines, header_maps, last_of_each, repeated
from trailgate.brokers.header_texts import BAD_HEADER
from trailgate.brokers.jms_headers import MESSAGE_ID, PERSISTENT
from trailgate.messages.received import RECEIVED

NO_VALUE: Final = "the message has no value (a tombstone)"
KEY: Final = "kafka.key"
OFFSET_WIDTH: Final = 20  # digits of an offset in an id, so that ids have one width


def received_messages(messages: Sequence[Any], offsets: Longs, now: int) -> pa.RecordBatch:
    """Return confluent_kafka's messages of one partition as rows of ``RECEIVED``."""
    values = pa.array([message.value() for message in messages], pa.binary())
    ids = pa.array(offsets).cast(pa.string())
    lines = _own_lines(messages, ids)
    more, not_text = _header_lines(messages)
    if len(more.messages):
        lines = [last_of_each([*lines, more])]  # as Kafka's own clients have it
    faults = pc.if_else(values.is_null(), pa.scalar(NO_VALUE), pa.scalar(None, pa.string()))
    if not_text:
        wrong = np.isin(np.arange(len(messages)), not_text)
        faults = pc.coalesce(faults, pc.if_else(pa.array(wrong), BAD_HEADER, None))
    columns = [
        ids,
        pa.repeat(now, len(messages)),
        header_maps(lines, len(messages)),
        pc.fill_null(values, b""),
        faults,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


def _own_lines(messages: Sequence[Any], ids: pa.Array) -> list[HeaderLines]:
    """Return what every message has: its place, and its time where it has one."""
    every = np.arange(len(messages))
    topic, partition = messages[0].topic(), messages[0].partition()
    digits = pc.utf8_lpad(ids, OFFSET_WIDTH, "0")
    times = np.array([message.timestamp() for message in messages], np.int64).reshape(-1, 2)
    timed = np.flatnonzero(times[:, 0])
    return [
        repeated(
            MESSAGE_ID, every, pc.binary_join_element_wise(f"ID:{topic}:{partition}:", digits, "")
        ),
        repeated("JMSDestination", every, topic),
        repeated("JMSRedelivered", every, "false"),
        repeated("JMSDeliveryMode", every, PERSISTENT),
        repeated("JMSTimestamp", timed, pa.array(times[timed, 1]).cast(pa.string())),
    ]


def _header_lines(messages: Sequence[Any]) -> tuple[HeaderLines, list[int]]:
    """Return keys and headers that have values, and the messages of which one is not UTF-8: those values are shown with escapes."""
    keys = [message.key() for message in messages]
    every = [message.headers() for message in messages]
    found = [
        (at, *pair)
        for at, (key, headers) in enumerate(zip(keys, every, strict=True))
        if key is not None or headers
        for pair in chain(((KEY, key),), headers or ())
        if pair[1] is not None
    ]
    numbers, names, raws = zip(*found, strict=True) if found else ((), (), ())
    texts, wrong = [], []
    for at, raw in zip(numbers, raws, strict=True):
        try:
            texts.append(raw.decode() if isinstance(raw, bytes) else str(raw))
        except UnicodeDecodeError:
            texts.append(raw.decode("utf-8", "backslashreplace"))
            wrong.append(at)
    rows = np.array(numbers, np.int64)
    return HeaderLines(rows, pa.array(names, pa.string()), pa.array(texts, pa.string())), wrong
