"""What differs between COBOL compilers: stated once, passed in, never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SourceFormat(Enum):
    """Where the text of a line is."""

    AUTO = "auto"  # fixed where every line can be read so, else free
    FIXED = "fixed"  # columns 8 to 72, indicator in column 7
    FREE = "free"  # the whole line


class BinarySizes(Enum):
    """How many bytes a binary number of so many digits has."""

    IBM = "ibm"  # 2, 4 or 8
    SMALLEST = "smallest"  # 1 to 8, as few as hold the digits (Micro Focus without IBMCOMP)


class Signs(Enum):
    """Which sign nibbles and overpunches are accepted."""

    STRICT = "strict"  # C, D and F alone
    LENIENT = "lenient"  # A and E as plus and B as minus too


class FloatFormat(Enum):
    """The form of COMP-1 and COMP-2."""

    IBM = "ibm"  # hexadecimal floating point of z/OS
    IEEE = "ieee"


class Endian(Enum):
    """A byte order of binary numbers."""

    BIG = "big"
    LITTLE = "little"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Choices of a compiler and a platform; the defaults are IBM Enterprise COBOL on z/OS.

    ``code_page`` is that of text and DISPLAY numbers. ``native`` is the order of COMP-5, of which ``binary``
    is the order of COMP and COMP-4.
    """

    source_format: SourceFormat = SourceFormat.AUTO
    code_page: str = "cp037"
    binary: Endian = Endian.BIG
    native: Endian = Endian.BIG
    binary_sizes: BinarySizes = BinarySizes.IBM
    floats: FloatFormat = FloatFormat.IBM
    signs: Signs = Signs.LENIENT
    pointer_bytes: int = 4
