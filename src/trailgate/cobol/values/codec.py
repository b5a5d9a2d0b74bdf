"""How bytes are read as values: every choice in one frozen object.

What each kind of value has: a decoder and an encoder of whole columns, and reasons for bad values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import Dialect, Endian, Field, Signs
from trailgate.columnar.code_pages import CodePage, code_page
from trailgate.errors import EncodeError, Where


class Blank(Enum):
    """How a number of blanks alone, or of low-values alone, is read."""

    ERROR = "error"
    NULL = "null"
    ZERO = "zero"


class Padding(Enum):
    """How blanks and low-values beside the digits of a DISPLAY number are read (decision 0101)."""

    ERROR = "error"
    LEFT = "left"  # blanks before the first digit are zeros
    ZEROS = "zeros"  # each blank and low-value is the digit 0
    TRIM = "trim"  # those before and after the digits are not part of the number


class Trim(Enum):
    """At which sides of text blanks are removed, whatever side its field is padded on."""

    LEFT = "left"
    RIGHT = "right"
    BOTH = "both"


class Numbers(Enum):
    """What numbers of decimal digits and binary ones become."""

    VALUE = "value"
    TEXT = "text"  # with a minus sign, all digits of the picture, and a point


class Integers(Enum):
    """The Arrow type of whole numbers of up to 18 digits."""

    INT64 = "int64"
    DECIMAL = "decimal"
    TEXT = "text"  # those without a sign, with their leading zeros; others as INT64


class RawForm(Enum):
    """How bytes without a public meaning are shown."""

    BINARY = "binary"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The dialect, and what a user may choose beside it.

    ``trim`` removes the padding of text, or blanks at the sides that it names. A field's own code page goes before the dialect's. With
    strict signs a binary number has at most the digits of its picture.
    """

    dialect: Dialect = field(default_factory=Dialect)
    trim: bool | Trim = True
    blank: Blank = Blank.ERROR
    low_values: Blank = Blank.ERROR
    padding: Padding = Padding.ERROR
    integers: Integers = Integers.INT64
    numbers: Numbers = Numbers.VALUE
    raw: RawForm = RawForm.BINARY
    national: Endian = Endian.BIG

    @property
    def strict(self) -> bool:
        """Return whether only what the picture allows is taken."""
        return self.dialect.signs is Signs.STRICT


class Note(NamedTuple):
    """Rows whose bytes are a value only by a policy, which is named as its option: ``blank=null``."""

    policy: str
    rows: Mask


class Decoded(NamedTuple):
    """A column; the rows of ``bad`` are null because their bytes are not a value of the kind."""

    values: pa.Array
    bad: Mask | None = None
    notes: tuple[Note, ...] = ()


class Reason(NamedTuple):
    """Why bytes are not a value, and what to try."""

    problem: str
    hint: str = ""


class Why(Enum):
    """What is wrong with the bytes of a field, or with a record: one of a few reasons, by which findings are counted."""

    SIGN = "sign"
    DIGIT = "digit"
    BLANK = "blank"  # alone; PADDING where digits are beside them
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


Decoder = Callable[[Octets], Decoded]
Encoder = Callable[[pa.Array], Octets]
Explain = Callable[[bytes], Reason]
Classify = Callable[[Octets], Octets]


class ValueCodec(NamedTuple):
    """One kind of value: each function binds a field and the options once.

    ``explainer`` is called for bad values only, so that decoders need not distinguish reasons.
    """

    decoder: Callable[[Field, ValueOptions], Decoder]
    encoder: Callable[[Field, ValueOptions], Encoder]
    explainer: Callable[[Field, ValueOptions], Explain]


def page_of(field: Field, options: ValueOptions) -> CodePage:
    """Return the code page of a field."""
    return code_page(field.code_page or options.dialect.code_page)


def encode_error(problem: str, row: int, value: object = None) -> EncodeError:
    """Return the error of the value in a row that has no bytes."""
    problem = problem if value is None else f"{problem}: {value}"
    return EncodeError(problem, where=Where(record=row))


def no_nulls(values: pa.Array) -> None:
    """Raise EncodeError for the first NULL: its kind of value has no bytes for it."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise encode_error("NULL has no bytes in such a field", row)
