"""How bytes are read as values: every choice in one frozen object."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trailgate.cobol.copybook.dialect import Dialect, Signs


class Blank(Enum):
    """How a number of blanks alone is read."""

    ERROR = "error"
    NULL = "null"


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

    ``trim`` removes the padding of text. A field's own code page goes before the dialect's. With
    strict signs a binary number has at most the digits of its picture.
    """

    dialect: Dialect = field(default_factory=Dialect)
    trim: bool = True
    blank: Blank = Blank.ERROR
    integers: Integers = Integers.INT64
    raw: RawForm = RawForm.BINARY

    @property
    def strict(self) -> bool:
        """Return whether only what the picture allows is taken."""
        return self.dialect.signs is Signs.STRICT
