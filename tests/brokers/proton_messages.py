"""The naive reading of messages of AMQP 1.0: the library decodes each, and its fields become headers one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import proton

from trailgate.live.brokers.headers import (
    DELIVERY_COUNT,
    HIDDEN_PREFIXES,
    JMS_HEADERS,
    MESSAGE_ID,
    NON_PERSISTENT,
    PERSISTENT,
)

NAMES: Final[Mapping[str, str]] = {  # the library's, of fields that it names otherwise
    "to": "address",
    "absolute-expiry-time": "expiry_time",
}

NO_BODY: Final = "the body is neither text nor bytes: it is a {}"
EMPTY: Final = "the message has no body"
NATIVE_ID: Final = "__HDR_MESSAGE_ID"  # Artemis: the JMS id of a message that came by OpenWire
MILLISECONDS: Final = 1000
SHORT_FLOAT: Final = "float32"  # proton's type, a float in Python, with fewer digits


class Row(NamedTuple):
    """A message as it is received, without the time of that."""

    id: str | None
    headers: Mapping[str, str]
    body: bytes
    fault: str | None


def received(message: proton.Message) -> Row:
    """Return what a message has."""
    body, fault = _body(message.body)
    own = None if message.id is None else _text(message.id)
    return Row(own, _headers(message), body, fault)


def _body(body: Any) -> tuple[bytes, str | None]:
    """Return the bytes of a body, or why there are none."""
    if isinstance(body, str):
        raw = body.encode("utf-8", "surrogatepass")
    elif isinstance(body, (bytes, bytearray, memoryview)):
        raw = bytes(body)
    else:
        return b"", EMPTY if body is None else NO_BODY.format(type(body).__name__)
    return raw, None if raw else EMPTY


def _headers(message: Any) -> dict[str, str]:
    """Return the headers of a message; properties that are null are not there."""
    properties: Mapping[str, Any] = message.properties or {}
    found = {
        str(name): _text(value)
        for name, value in properties.items()
        if value is not None and not str(name).startswith(HIDDEN_PREFIXES)
    }
    for row in JMS_HEADERS:
        field = NAMES.get(row.amqp, row.amqp.replace("-", "_"))
        text = _FIELDS.get(field, _known)(getattr(message, field))
        if text is None:
            text = row.default
        if text is not None:
            found[row.name] = text
    native = properties.get(NATIVE_ID)
    native = message.id if native is None else native
    if native is not None:
        found[MESSAGE_ID] = _text(native)
    found[DELIVERY_COUNT] = str(int(message.delivery_count or 0) + 1)
    return found


def _text(value: Any) -> str:
    """Return a value as JMS has it as a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex().upper()
    # Numbers of proton's own types print with the types' names.
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return str(np.float32(value) if type(value).__name__ == SHORT_FLOAT else float(value))
    return str(value)


def _known(value: Any) -> str | None:
    """Return a field that a message may not have."""
    return None if value is None or value == "" else _text(value)


def _milliseconds(seconds: Any) -> str | None:
    """Return a time, which proton gives in seconds, as JMS has it; 0 is none."""
    return str(round(float(seconds) * MILLISECONDS)) if seconds else None


# How fields are written that are not strings, by their names in proton.
_FIELDS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "creation_time": _milliseconds,
    "expiry_time": _milliseconds,
    "durable": lambda durable: PERSISTENT if durable else NON_PERSISTENT,
    "delivery_count": lambda count: "true" if count else "false",
    "priority": lambda priority: None if priority is None else str(priority),
    "group_sequence": lambda number: str(number) if number else None,
}
