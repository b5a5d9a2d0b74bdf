"""The interface of value codecs, and the options that control how bytes are read as values.

A codec has three functions for a field and its options: one makes a decoder of complete columns,
one an encoder, and one an explainer that states in words why bytes are not a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookField, Endian, SignRules
from trailgate.errors import EncodeError, Where


class BlankPolicy(Enum):
    """How to read a number that consists only of blanks, or only of low-values."""

    ERROR = "error"
    NULL = "null"
    ZERO = "zero"


class PaddingPolicy(Enum):
    """How to read blanks and low-values beside the digits of a DISPLAY number (decision 0101)."""

    ERROR = "error"
    LEFT = "left"  # blanks before the first digit are zeros
    ZEROS = "zeros"  # each blank and low-value is the digit 0
    TRIM = "trim"  # padding before and after the digits is ignored


class TrimSide(Enum):
    """On which side text is trimmed, whatever side its field is padded on."""

    LEFT = "left"
    RIGHT = "right"
    BOTH = "both"


class NumberRepresentation(Enum):
    """The column type of decimal and binary numbers."""

    VALUE = "value"
    TEXT = "text"  # for example "-00123.45": all digits of the picture


class IntegerRepresentation(Enum):
    """The Arrow type of integers with up to 18 digits."""

    INT64 = "int64"
    DECIMAL = "decimal"
    TEXT = "text"  # unsigned ones with their leading zeros; others as INT64


class RawRepresentation(Enum):
    """The column type of raw bytes such as POINTER."""

    BINARY = "binary"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The options by which item values are read: the dialect, and policies for unusual bytes.

    ``trim`` removes the padding of text, or blanks on the sides that it names. A field's own code
    page takes precedence over the dialect's.
    """

    dialect: CobolDialect = field(default_factory=CobolDialect)
    trim: bool | TrimSide = True
    blank: BlankPolicy = BlankPolicy.ERROR
    low_values: BlankPolicy = BlankPolicy.ERROR
    padding: PaddingPolicy = PaddingPolicy.ERROR
    integers: IntegerRepresentation = IntegerRepresentation.INT64
    numbers: NumberRepresentation = NumberRepresentation.VALUE
    raw: RawRepresentation = RawRepresentation.BINARY
    national: Endian = Endian.BIG

    @property
    def strict(self) -> bool:
        """True if only values that the picture allows are accepted.

        For example, a strict binary number has at most the digits of its picture.
        """
        return self.dialect.signs is SignRules.STRICT


class AppliedPolicy(NamedTuple):
    """The rows of an item that could only be read by a policy.

    ``policy`` is its name, for example ``blank=null``.
    """

    policy: str
    rows: Mask


class DecodedColumn(NamedTuple):
    """A decoded column of an item. The rows in ``bad`` are NULL because their bytes are not a value.

    ``notes`` are the rows that could only be read by a policy.
    """

    values: pa.Array
    bad: Mask | None = None
    notes: tuple[AppliedPolicy, ...] = ()


class FaultExplanation(NamedTuple):
    """The explanation of why an item's bytes are not a valid value, and a hint for the user."""

    problem: str
    hint: str = ""


class FaultReason(Enum):
    """The reason why a field or a record is bad. The summary counts bad values by reason."""

    SIGN = "sign"
    DIGIT = "digit"
    BLANK = "blank"  # only blanks; see PADDING for blanks beside digits
    LOW_VALUES = "low-values"
    PADDING = "padding"
    RANGE = "too many digits"
    PICTURE = "picture"
    CHARACTER = "character"
    SHORT = "record too short"
    SURPLUS = "record too long"
    COUNT = "count"
    UNCOUNTED = "count unknown"
    INDICATOR = "indicator"
    KIND = "kind of record"
    ORPHAN = "no parent"


Decoder = Callable[[Octets], DecodedColumn]
Encoder = Callable[[pa.Array], Octets]
Explain = Callable[[bytes], FaultExplanation]
Classify = Callable[[Octets], Octets]


class CobolValueCodec(NamedTuple):
    """The codec of a USAGE. Each function takes a field and the options, and is called once per field.

    ``explainer`` is only used for bad values, so decoders need not distinguish reasons.
    """

    decoder: Callable[[CopybookField, ValueOptions], Decoder]
    encoder: Callable[[CopybookField, ValueOptions], Encoder]
    explainer: Callable[[CopybookField, ValueOptions], Explain]


def encode_error(problem: str, row: int, value: object = None) -> EncodeError:
    """Build an error for a value that cannot be encoded as a COBOL item, with its row."""
    problem = problem if value is None else f"{problem}: {value}"
    return EncodeError(problem, where=Where(record=row))


def refuse_nulls(values: pa.Array) -> None:
    """Raise EncodeError for the first NULL, because COBOL fields of this usage have none."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        error = encode_error("NULL cannot be written in such a field", row)
        error.hint = "The option nulls states what is written for NULL, by the type of the field"
        raise error
