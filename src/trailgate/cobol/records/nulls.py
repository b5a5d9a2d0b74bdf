"""Policies for writing NULL, one per type of field: for example as blanks or as zero.

By default NULL is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.code_pages import page_for_errors
from trailgate.cobol.values.codec import Encoder, ValueOptions
from trailgate.errors import OptionError, did_you_mean


class NullAs(Enum):
    """The value that a policy writes for NULL, such as blanks or zero."""

    ERROR = "error"
    BLANK = "blank"
    ZERO = "zero"
    LOW = "low"  # bytes of 0, LOW-VALUES
    HIGH = "high"  # bytes of 255, HIGH-VALUES


_OF_BYTES: Final = (NullAs.ERROR, NullAs.LOW, NullAs.HIGH)
# The usages of each type, and the policies allowed for it. Blanks are not allowed for binary numbers,
# for example, since they would be read as a different number.
TYPES: Final[Mapping[str, tuple[tuple[Usage, ...], tuple[NullAs, ...]]]] = MappingProxyType(
    {
        "text": (
            (Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS),
            (*_OF_BYTES, NullAs.BLANK),
        ),
        "display": (
            (Usage.ZONED, Usage.EDITED, Usage.NATIONAL_DIGITS, Usage.NATIONAL_EDITED),
            tuple(NullAs),
        ),
        "packed": ((Usage.PACKED, Usage.UNSIGNED_PACKED), tuple(NullAs)),
        "binary": (
            (Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE),
            (*_OF_BYTES, NullAs.ZERO),
        ),
        "float": ((Usage.FLOAT, Usage.DOUBLE), (*_OF_BYTES, NullAs.ZERO)),
        "raw": ((Usage.RAW,), _OF_BYTES),
    }
)
_VALUES: Final = {one.value: one for one in NullAs}
NullPolicies = Mapping[Usage, NullAs]


def null_policies(pairs: Mapping[str, Any]) -> dict[Usage, NullAs]:
    """Parse the policies for writing NULL, such as ``{"packed": "zero"}``.

    The type ``*`` means all types that allow the policy. Raises OptionError for an unknown type or
    value.
    """
    policies: dict[Usage, NullAs] = {}
    for name in sorted(pairs, key=lambda name: name != "*"):
        policy = _VALUES.get(str(pairs[name]).casefold())
        if policy is None:
            raise OptionError(f"NULL can be written as {', '.join(_VALUES)}, not {pairs[name]!r}")
        for kind in TYPES if name == "*" else (name.casefold(),):
            if kind not in TYPES:
                hint = did_you_mean(kind, TYPES) or f"Known: {', '.join(TYPES)}"
                raise OptionError(f"{name} is not a type of fields", hint=hint)
            usages, allowed = TYPES[kind]
            if policy in allowed:
                policies |= dict.fromkeys(usages, policy)
            elif name != "*":
                known = ", ".join(one.value for one in allowed)
                problem = f"NULL cannot be {policy.value} in {kind} fields"
                raise OptionError(problem, hint=f"It can be {known}")
    return policies


def with_nulls(
    field: CopybookField, encode: Encoder, policy: NullAs, options: ValueOptions
) -> Encoder:
    """Wrap an encoder of items so that it writes the policy's bytes for NULL."""

    def encode_all(values: pa.Array) -> Octets:
        if not values.null_count:
            return encode(values)
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        encoded = _encode_others(field, encode, values, nulls)
        if policy is not NullAs.ZERO:
            encoded[nulls] = _bytes_of(field, policy, options)
        return encoded

    return encode_all


def _encode_others(field: CopybookField, encode: Encoder, values: pa.Array, nulls: Mask) -> Octets:
    """Encode values as a COBOL field, with zero (or empty text) in place of NULL."""
    if nulls.all():
        values = pa.nulls(len(values), _plain_type(field))
    zero: Any = 0
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        zero = "" if field.number is None else "0"
    elif field.usage is Usage.RAW:
        zero = bytes(field.size)
    return np.array(encode(values.fill_null(pa.scalar(zero, values.type))))


def _plain_type(field: CopybookField) -> pa.DataType:
    if field.usage in (Usage.FLOAT, Usage.DOUBLE):
        return pa.float64()
    if field.usage is Usage.RAW:
        return pa.binary()
    return pa.string() if field.number is None else pa.int64()


def _bytes_of(field: CopybookField, policy: NullAs, options: ValueOptions) -> Octets:
    if policy is NullAs.BLANK:
        return np.resize(np.frombuffer(page_for_errors(field, options).blank, np.uint8), field.size)
    return np.full(field.size, 0 if policy is NullAs.LOW else 0xFF, np.uint8)
