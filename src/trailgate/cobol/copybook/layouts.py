"""What a fixed-width record looks like: a tree of fields with their offsets, and the dialect that it depends on.

Copybooks, definitions files and user-defined layouts all become this one model; whoever decodes a record does not know which notation it came
from. What differs between COBOL compilers is stated once in ``Dialect``, passed in, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final


class SourceFormat(Enum):
    """Where the text of a line is."""

    AUTO = "auto"  # fixed where every line can be read so, else free
    FIXED = "fixed"  # columns 8 to 72, indicator in column 7
    FREE = "free"  # the whole line


class TextWords(Enum):
    """What COPY REPLACING and REPLACE compare."""

    SEPARATED = "separated"  # what is between blanks, parentheses and colons
    CHARACTERS = "characters"  # names and numbers, and each other character alone (GnuCOBOL)


class BinarySizes(Enum):
    """How many bytes a binary number of so many digits has."""

    IBM = "ibm"  # 2, 4 or 8
    POWERS = "powers"  # 1, 2, 4 or 8 (GnuCOBOL)
    SMALLEST = (
        "smallest"  # as few as hold the digits; SYNC has no effect (Micro Focus without IBMCOMP)
    )


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

    ``constants`` are those of conditional text by their names in capitals, OFF for one that is not defined. ``group_sync``: SYNC of a group is that of the items in it, and slack bytes
    that the first item of a group needs are before the group.
    ``decimal_comma`` is DECIMAL-POINT IS COMMA. ``code_page`` is that of text and DISPLAY numbers. ``native`` is the order of COMP-5, of which ``binary``
    is the order of COMP and COMP-4. A binary number has at most ``binary_digits``, and SYNC moves it to a multiple of at most ``boundary`` bytes.
    """

    source_format: SourceFormat = SourceFormat.AUTO
    code_page: str = "cp037"
    binary: Endian = Endian.BIG
    native: Endian = Endian.BIG
    binary_sizes: BinarySizes = BinarySizes.IBM
    floats: FloatFormat = FloatFormat.IBM
    signs: Signs = Signs.LENIENT
    pointer_bytes: int = 4
    decimal_comma: bool = False
    binary_digits: int = 18
    boundary: int = 4
    group_sync: bool = True
    text_words: TextWords = TextWords.SEPARATED
    constants: tuple[tuple[str, str], ...] = ()


# What a compiler does where nothing else is asked for; its code page is that of the machine.
_PC: Final = {"native": Endian.LITTLE, "floats": FloatFormat.IEEE}
COMPILERS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "ibm": {},
        "micro-focus": {"binary_sizes": BinarySizes.SMALLEST, "binary_digits": 38, **_PC},
        "gnucobol": {
            "binary_sizes": BinarySizes.POWERS,
            "boundary": 8,
            "group_sync": False,
            "text_words": TextWords.CHARACTERS,
            **_PC,
        },
        "fujitsu": _PC,  # assumed: fujitsu-binary-sizes
    }
)


class Usage(Enum):
    """How a field's value is held in its bytes."""

    GROUP = "group"
    TEXT = "text"  # PIC X and A, and edited text
    NATIONAL = "national"  # PIC N: UTF-16, big-endian
    UTF8 = "utf-8"  # PIC U
    DBCS = "dbcs"  # PIC G, DISPLAY-1: a double-byte code page without shifts
    ZONED = "zoned"  # DISPLAY numbers: a digit a byte
    NATIONAL_DIGITS = "national digits"  # numbers in national characters: a digit a UTF-16 unit
    FLOAT_TEXT = "float as text"  # floating point as it is printed: +9(3).99E+99
    NATIONAL_FLOAT = "national float as text"
    EDITED = "edited"  # numbers as they are printed
    NATIONAL_EDITED = "national edited"
    PACKED = "packed"  # COMP-3
    UNSIGNED_PACKED = "unsigned packed"  # COMP-6: no sign nibble
    BINARY = "binary"  # COMP, COMP-4
    NATIVE = "native"  # COMP-5
    SHORT = "short binary"  # COMP-X: as few bytes as hold the digits
    NATIVE_SHORT = "native short binary"  # COMP-N: the same in the machine's order
    LITTLE = "little-endian binary"  # COMP-9
    FLOAT = "float"  # COMP-1
    DOUBLE = "double"  # COMP-2
    RAW = "raw"  # POINTER, INDEX: bytes without a public meaning


class Sign(Enum):
    """Where the sign of a zoned number is."""

    NONE = "none"
    TRAILING = "trailing"  # overpunched on the last digit
    LEADING = "leading"
    TRAILING_SEPARATE = "trailing separate"  # a byte of its own
    LEADING_SEPARATE = "leading separate"

    @property
    def separate(self) -> bool:
        """Return whether the sign has a byte of its own."""
        return self in (Sign.TRAILING_SEPARATE, Sign.LEADING_SEPARATE)


@dataclass(frozen=True, slots=True)
class Number:
    """A number's form: how many digits are held, and where the decimal point is.

    The value is the digits as an integer times 10 to the power of -``scale``, which is negative for trailing Ps.
    """

    digits: int
    scale: int = 0
    signed: bool = False
    sign: Sign = Sign.NONE


MAX_COLUMNS: Final = 32_767  # more elements than a record of a trail can name
# The most elements of an OCCURS before its counter's picture states how many it can count.
UNBOUNDED: Final = -1


@dataclass(frozen=True, slots=True)
class Occurs:
    """How often a field is repeated: ``least`` to ``most`` times, as the field ``counter`` holds.

    Where several fields have its name, ``groups`` are those that it is in, from the record's items down. ``names`` are those of the elements in
    flat columns, else numbers from 1.
    """

    least: int
    most: int
    counter: str | None = None
    groups: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()

    @property
    def fewest(self) -> int:
        """Return the smallest count that is accepted: 0 also where 1 is stated, as every COBOL program does."""
        return self.least if self.least > 1 else 0


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    ``offset`` counts from the record's begin to the first occurrence, with every OCCURS at its most;
    ``size`` is one occurrence's bytes, ``stride`` the distance between two (larger where
    SYNC leaves a gap). ``redefines`` names the field whose bytes these are again.
    """

    name: str
    usage: Usage
    offset: int
    size: int
    level: int = 5
    picture: str = ""
    number: Number | None = None
    occurs: Occurs | None = None
    redefines: str | None = None
    children: tuple[Field, ...] = ()
    stride: int = 0
    filler: bool = False
    key: bool = False
    date_format: str | None = None
    justified: bool = False
    blank_when_zero: bool = False
    code_page: str | None = None  # its own, instead of the record's
    comma: bool = False  # its picture's point is a comma, and the other way round
    conditions: tuple[Condition, ...] = ()

    @property
    def repeats(self) -> int:
        """Return how often the field is there at most."""
        return self.occurs.most if self.occurs else 1

    @property
    def extent(self) -> int:
        """Return the bytes of all occurrences."""
        return (self.stride or self.size) * self.repeats

    def walk(self) -> Iterator[Field]:
        """Yield this field and all below it, in their order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Condition:
    """A level 88 name: the values, or ranges of values, for which it is true."""

    name: str
    values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A record: its root field, whose name is the record's."""

    root: Field

    @property
    def name(self) -> str:
        """Return the record's name."""
        return self.root.name

    @property
    def size(self) -> int:
        """Return the record's bytes with every OCCURS at its most."""
        return self.root.extent

    @property
    def varies(self) -> bool:
        """Return whether the record's length depends on a field in it."""
        return any(f.occurs is not None and f.occurs.counter for f in self.root.walk())
