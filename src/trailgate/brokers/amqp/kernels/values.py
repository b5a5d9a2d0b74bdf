"""Values of AMQP 1.0: where each ends, and what its number is (part 1, section 1.2).

A value is a constructor and what it holds. The high half of the constructor's code states how long that is: nothing, so many bytes, or a
size of one or four bytes that precedes it. Lists, maps and arrays have sizes too, so nothing is nested here: a value is passed over
without a look inside.
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Octets
from trailgate.columnar.kernels.compiled import inner

# What a value is. Those from BOOLEAN to CHAR have numbers.
UNKNOWN: Final = 0  # a code that AMQP 1.0 does not have
NULL: Final = 1
BOOLEAN: Final = 2
UNSIGNED: Final = 3
SIGNED: Final = 4
TIMESTAMP: Final = 5
FLOAT: Final = 6
DOUBLE: Final = 7
CHAR: Final = 8
DECIMAL: Final = 9
UUID: Final = 10
BINARY: Final = 11
STRING: Final = 12
SYMBOL: Final = 13
LIST: Final = 14
MAP: Final = 15
ARRAY: Final = 16
DESCRIBED: Final = 17

# Constructors that are looked for by themselves.
CODE_DESCRIBED: Final = 0x00
CODE_TRUE: Final = 0x41
CODE_LIST0: Final = 0x45

# Problems, in place of a place.
CUT: Final = -1  # a value ends after what it is in
NO_TYPE: Final = -2  # a code that AMQP 1.0 does not have


@inner
def size_at(data: Octets, at: int, width: int) -> int:
    """Return the unsigned number in one byte or four."""
    size = 0
    for place in range(at, at + width):
        size = 256 * size + int(data[place])
    return size


@inner
def value_end(data: Octets, at: int, end: int, kinds: Octets) -> int:
    """Return the place after the value at a place, whether described or not, or a problem. ``kinds`` has the kind of each code."""
    waiting = 1
    while waiting > 0:
        if at >= end:
            return CUT
        code = int(data[at])
        at += 1
        if code == CODE_DESCRIBED:
            waiting += 1  # a descriptor, and the value that it describes
            continue
        if kinds[code] == UNKNOWN:
            return NO_TYPE
        high = code >> 4
        if high >= 10:
            width = 4 if high & 1 else 1
            if at + width > end:
                return CUT
            at += width + size_at(data, at, width)
        elif high > 4:
            at += 1 << (high - 5)
        if at > end:
            return CUT
        waiting -= 1
    return at


@inner
def kind_at(data: Octets, at: int, kinds: Octets) -> int:
    """Return what the value at a place is."""
    code = int(data[at])
    return DESCRIBED if code == CODE_DESCRIBED else int(kinds[code])


@inner
def content_at(data: Octets, at: int) -> int:
    """Return where the bytes begin that a value holds, after its code and its size."""
    high = int(data[at]) >> 4
    if high < 10:
        return at + 1
    return at + 5 if high & 1 else at + 2


@inner
def number_at(data: Octets, at: int, stop: int, kind: int) -> int:
    """Return the number of a value from a place to another: an unsigned one, a float or a double of eight bytes as the signed one of its bits."""
    code = int(data[at])
    begin = at + 1
    if begin >= stop:
        return 1 if code == CODE_TRUE else 0
    number = int(data[begin])
    if number >= 128 and (kind == SIGNED or stop - begin == 8):
        number -= 256
    for place in range(begin + 1, stop):
        number = 256 * number + int(data[place])
    return number
