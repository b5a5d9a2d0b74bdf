"""The primitive types of AMQP 1.0 and their codes, and the symbols of a message's sections."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.brokers.amqp.kernels import values as kernels

# AMQP 1.0, part 1, section 1.6: each kind's name, and the codes of its constructors.
TYPES: Final[Mapping[int, tuple[str, tuple[int, ...]]]] = MappingProxyType(
    {
        kernels.NULL: ("null", (0x40,)),
        kernels.BOOLEAN: ("boolean", (0x41, 0x42, 0x56)),
        # ubyte, ushort, uint and ulong
        kernels.UNSIGNED: ("number", (0x50, 0x60, 0x70, 0x52, 0x43, 0x80, 0x53, 0x44)),
        # byte, short, int and long
        kernels.SIGNED: ("number", (0x51, 0x61, 0x71, 0x54, 0x81, 0x55)),
        kernels.TIMESTAMP: ("timestamp", (0x83,)),
        kernels.FLOAT: ("float", (0x72,)),
        kernels.DOUBLE: ("double", (0x82,)),
        kernels.CHAR: ("char", (0x73,)),
        kernels.DECIMAL: ("decimal", (0x74, 0x84, 0x94)),
        kernels.UUID: ("uuid", (0x98,)),
        kernels.BINARY: ("binary", (0xA0, 0xB0)),
        kernels.STRING: ("string", (0xA1, 0xB1)),
        kernels.SYMBOL: ("symbol", (0xA3, 0xB3)),
        kernels.LIST: ("list", (0x45, 0xC0, 0xD0)),
        kernels.MAP: ("map", (0xC1, 0xD1)),
        kernels.ARRAY: ("array", (0xE0, 0xF0)),
        kernels.DESCRIBED: ("described value", ()),
    }
)

# Part 3, section 3.2, in the order of their numbers.
SECTION_NAMES: Final = (
    "amqp:header:list",
    "amqp:delivery-annotations:map",
    "amqp:message-annotations:map",
    "amqp:properties:list",
    "amqp:application-properties:map",
    "amqp:data:binary",
    "amqp:amqp-sequence:list",
    "amqp:amqp-value:*",
    "amqp:footer:map",
)

# Part 3, sections 3.2.1 and 3.2.4: the fields of the header, then those of properties, and what each may be.
_ID: Final = (kernels.STRING, kernels.UNSIGNED, kernels.UUID, kernels.BINARY)
_TEXT: Final = (kernels.STRING,)
FIELDS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "durable": (kernels.BOOLEAN,),
        "priority": (kernels.UNSIGNED,),
        "ttl": (kernels.UNSIGNED,),
        "first-acquirer": (kernels.BOOLEAN,),
        "delivery-count": (kernels.UNSIGNED,),
        "message-id": _ID,
        "user-id": (kernels.BINARY,),
        "to": _TEXT,
        "subject": _TEXT,
        "reply-to": _TEXT,
        "correlation-id": _ID,
        "content-type": (kernels.SYMBOL,),
        "content-encoding": (kernels.SYMBOL,),
        "absolute-expiry-time": (kernels.TIMESTAMP,),
        "creation-time": (kernels.TIMESTAMP,),
        "group-id": _TEXT,
        "group-sequence": (kernels.UNSIGNED,),
        "reply-to-group-id": _TEXT,
    }
)


def _kinds() -> Octets:
    kinds = np.zeros(256, np.uint8)
    for kind, (_, codes) in TYPES.items():
        kinds[list(codes)] = kind
    kinds.setflags(write=False)
    return kinds


KINDS: Final = _kinds()
