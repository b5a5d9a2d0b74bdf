"""Messages of Kafka as received messages: the headers in the JMS meaning, offsets as ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from trailgate.messages.received import RECEIVED

NO_VALUE: Final = "the message has no value (a tombstone)"
BAD_HEADER: Final = "a header of the message is not UTF-8"
KEY: Final = "kafka.key"


def received_messages(messages: Sequence[Any], now: int) -> pa.RecordBatch:
    """Return confluent_kafka's messages as rows of ``RECEIVED``."""
    ids, headers, bodies, faults = [], [], [], []
    for message in messages:
        found, is_text = _headers(message)
        value = message.value()
        ids.append(str(message.offset()))
        headers.append(list(found.items()))
        bodies.append(value or b"")
        faults.append(NO_VALUE if value is None else None if is_text else BAD_HEADER)
    columns = [ids, [now] * len(ids), headers, bodies, faults]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RECEIVED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RECEIVED)


def _headers(message: Any) -> tuple[dict[str, str], bool]:
    """Return the headers of a message, and whether all of them are text; of repeated ones the last counts, as in Kafka's own clients."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    found = {
        "JMSMessageID": f"ID:{topic}:{partition}:{offset:020}",
        "JMSDestination": topic,
        "JMSRedelivered": "false",
        "JMSDeliveryMode": "2",
    }
    kind, time = message.timestamp()
    if kind:
        found["JMSTimestamp"] = str(time)
    is_text = True
    for name, raw in ((KEY, message.key()), *(message.headers() or ())):
        if raw is None:
            continue
        try:
            found[name] = raw.decode() if isinstance(raw, bytes) else str(raw)
        except UnicodeDecodeError:
            found[name], is_text = raw.decode("utf-8", "backslashreplace"), False
    return found, is_text
