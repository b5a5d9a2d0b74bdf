"""The layout of a fixed-width record: a tree of fields with their offsets, and the compiler's dialect.

Copybooks, definitions files and user-defined layouts all become this one model, so the code that
decodes a record does not know which notation it came from. The differences between COBOL compilers
are all stated in ``CobolDialect``. Callers pass it, and it is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

MAX_COLUMNS: Final = 32_767  # more elements than a record of a trail can name


# The maximum of an OCCURS UNBOUNDED until its counter is known.
UNBOUNDED: Final = -1


# A counter's name and its groups, outermost first. The groups are None if the name is unique.
CounterKey = tuple[str, tuple[str, ...] | None]


class SourceFormat(Enum):
    """The source format of a copybook: the columns of a line that contain text."""

    AUTO = "auto"  # fixed if every line can be read as fixed, else free
    FIXED = "fixed"  # columns 8 to 72, indicator in column 7
    FREE = "free"  # the whole line


class TextWordUnits(Enum):
    """The units of copybook text that COPY REPLACING and REPLACE compare."""

    SEPARATED = "separated"  # the text between blanks, parentheses and colons
    CHARACTERS = "characters"  # names, numbers, and single other characters (GnuCOBOL)


class BinarySizes(Enum):
    """A compiler's rule for the size of a binary number: how many bytes it may have."""

    IBM = "ibm"  # 2, 4 or 8
    POWERS = "powers"  # 1, 2, 4 or 8 (GnuCOBOL)
    # As few bytes as the digits need; SYNC has no effect (Micro Focus without IBMCOMP).
    SMALLEST = "smallest"


class SignRules(Enum):
    """The sign nibbles and overpunches that a compiler accepts in numbers."""

    STRICT = "strict"  # only C, D and F
    LENIENT = "lenient"  # also A and E as plus and B as minus


class FloatFormat(Enum):
    """The floating-point format of COMP-1 and COMP-2: IBM's or IEEE's."""

    IBM = "ibm"  # hexadecimal floating point of z/OS
    IEEE = "ieee"


class Endian(Enum):
    """The byte order of a compiler's binary numbers."""

    BIG = "big"
    LITTLE = "little"


@dataclass(frozen=True, slots=True)
class CobolDialect:
    """The dialect of a compiler and platform. The defaults are IBM Enterprise COBOL on z/OS.

    - ``constants`` are the constants of conditional text by their names in capitals; OFF means not defined.
    - ``group_sync``: a group's SYNC applies to its items, and the slack bytes that its first item needs are inserted before the group.
    - ``decimal_comma`` is DECIMAL-POINT IS COMMA.
    - ``code_page`` applies to text and DISPLAY numbers.
    - ``binary`` is the byte order of COMP and COMP-4, ``native`` the byte order of COMP-5.
    - A binary number has at most ``binary_digits`` digits, and SYNC aligns it to at most ``boundary`` bytes.
    """

    source_format: SourceFormat = SourceFormat.AUTO
    code_page: str = "cp037"
    binary: Endian = Endian.BIG
    native: Endian = Endian.BIG
    binary_sizes: BinarySizes = BinarySizes.IBM
    floats: FloatFormat = FloatFormat.IBM
    signs: SignRules = SignRules.LENIENT
    pointer_bytes: int = 4
    decimal_comma: bool = False
    binary_digits: int = 18
    boundary: int = 4
    group_sync: bool = True
    text_words: TextWordUnits = TextWordUnits.SEPARATED
    constants: tuple[tuple[str, str], ...] = ()


# The defaults of each compiler. The code page is the machine's.
_PC: Final = {"native": Endian.LITTLE, "floats": FloatFormat.IEEE}
COMPILERS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "ibm": {},
        "micro-focus": {"binary_sizes": BinarySizes.SMALLEST, "binary_digits": 38, **_PC},
        "gnucobol": {
            "binary_sizes": BinarySizes.POWERS,
            "boundary": 8,
            "group_sync": False,
            "text_words": TextWordUnits.CHARACTERS,
            **_PC,
        },
        "fujitsu": _PC,  # assumed: fujitsu-binary-sizes
    }
)


class Usage(Enum):
    """The USAGE of a field: how its value is stored in its bytes."""

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
    SHORT = "short binary"  # COMP-X: as few bytes as the digits need
    NATIVE_SHORT = "native short binary"  # COMP-N: the same in the machine's order
    LITTLE = "little-endian binary"  # COMP-9
    FLOAT = "float"  # COMP-1
    DOUBLE = "double"  # COMP-2
    RAW = "raw"  # POINTER, INDEX: bytes without a public meaning


class SignPosition(Enum):
    """Where a zoned number stores its sign: leading or trailing, and overpunched or separate."""

    NONE = "none"
    TRAILING = "trailing"  # overpunched on the last digit
    LEADING = "leading"
    TRAILING_SEPARATE = "trailing separate"  # in a separate byte
    LEADING_SEPARATE = "leading separate"

    @property
    def separate(self) -> bool:
        """True if the sign of a zoned number takes a separate byte."""
        return self in (SignPosition.TRAILING_SEPARATE, SignPosition.LEADING_SEPARATE)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The format of a number item: how many digits are stored, and where the decimal point is.

    The value is the digits as an integer times 10 to the power of ``-scale``. The scale is negative
    for trailing Ps.
    """

    digits: int
    scale: int = 0
    signed: bool = False
    sign: SignPosition = SignPosition.NONE


@dataclass(frozen=True, slots=True)
class Occurs:
    """The OCCURS of a field, which is repeated ``least`` to ``most`` times.

    The field ``counter`` states how often; it is None if the count is fixed. If several fields have
    the counter's name, ``groups`` are the groups around the counter, outermost first, without the
    record; otherwise None. ``names`` are suffixes for the elements in flat columns, instead of
    numbers from 1.
    """

    least: int
    most: int
    counter: str | None = None
    groups: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()

    @property
    def fewest(self) -> int:
        """The smallest count that is accepted: the declared minimum, or 0 if the minimum is 1.

        COBOL programs store 0 even if the minimum is 1.
        """
        return self.least if self.least > 1 else 0

    @property
    def described(self) -> str:
        """The number of occurrences in words: ``3``, or ``0 to 3 by N``."""
        return f"{self.least} to {self.most} by {self.counter}" if self.counter else str(self.most)


@dataclass(frozen=True, slots=True)
class CopybookField:
    """One field of a copybook layout: a group or an elementary item.

    ``offset`` is the position of the first occurrence, assuming that every OCCURS before it has its
    maximum number of elements. ``size`` is the number of bytes of one occurrence, and ``stride`` the
    distance between two occurrences (larger than ``size`` if SYNC leaves a gap; 0 means ``size``).
    ``redefines`` names the earlier field that shares these bytes.
    """

    name: str
    usage: Usage
    offset: int
    size: int
    level: int = 5
    picture: str = ""
    number: NumberFormat | None = None
    occurs: Occurs | None = None
    redefines: str | None = None
    children: tuple[CopybookField, ...] = ()
    stride: int = 0
    filler: bool = False
    key: bool = False
    date_format: str | None = None
    justified: bool = False
    blank_when_zero: bool = False
    code_page: str | None = None  # overrides the record's
    comma: bool = False  # commas and points are swapped in ``picture``
    conditions: tuple[ConditionName, ...] = ()

    @property
    def repeats(self) -> int:
        """The maximum number of occurrences of the field."""
        return self.occurs.most if self.occurs else 1

    @property
    def extent(self) -> int:
        """The number of bytes of all occurrences of the field together."""
        return (self.stride or self.size) * self.repeats

    def walk(self) -> Iterator[CopybookField]:
        """Yield this field and all fields below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class ConditionName:
    """A level-88 name: the values, or ranges of values, for which it is true.

    A value is ``(low, None)``, a range ``(low, high)``, as written in the copybook.
    """

    name: str
    values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class CopybookLayout:
    """The layout of a record: its root field, which has the record's name."""

    root: CopybookField

    @property
    def name(self) -> str:
        """The record's name."""
        return self.root.name

    @property
    def size(self) -> int:
        """The maximum size of a record in bytes."""
        return self.root.extent

    @property
    def varies(self) -> bool:
        """True if the layout has an OCCURS DEPENDING ON, so that offsets can differ by record."""
        return any(f.occurs is not None and f.occurs.counter for f in self.root.walk())


def counter_key(occurs: Occurs) -> CounterKey:
    """Return the key by which a layout looks up the counter of an OCCURS DEPENDING ON.

    It is the counter's name and the names of its groups (None if the name is unique), in capitals.
    """
    groups = occurs.groups
    names = None if groups is None else tuple(group.upper() for group in groups)
    return str(occurs.counter).upper(), names


def counter_keys(layout: CopybookLayout) -> frozenset[CounterKey]:
    """Return the keys of all counters that the OCCURS DEPENDING ON clauses of a copybook layout name."""
    occurs = (field.occurs for field in layout.root.walk())
    return frozenset(counter_key(one) for one in occurs if one is not None and one.counter)


def find_counter_key(
    keys: frozenset[CounterKey], field: CopybookField, groups: tuple[CopybookField, ...]
) -> CounterKey | None:
    """Return the key of a copybook field if OCCURS DEPENDING ON names it as a counter, or else None.

    ``groups`` are the groups that contain the field, outermost first. The key contains the groups
    only if several counters have the same name.
    """
    name = field.name.upper()
    if (name, None) in keys:
        return name, None
    if name not in _names_with_groups(keys):
        return None
    key = name, tuple(group.name.upper() for group in groups[1:])
    return key if key in keys else None


@lru_cache(64)
def _names_with_groups(keys: frozenset[CounterKey]) -> frozenset[str]:
    """Return the names of counters that are distinguished by their groups."""
    return frozenset(name for name, groups in keys if groups is not None)
