"""Messages of AMQP 1.0: one pass that finds where their sections, fields, properties and bodies lie (part 3, section 3.2).

A value is a constructor and what it holds (part 1, section 1.2). The high half of the constructor's code states how long that is: nothing, so many bytes,
or a size of one or four bytes that precedes it. Lists, maps and arrays have sizes too, so nothing is nested here: a value is passed over
without a look inside.
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import inner, kernel

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


# Sections, by the numbers of their descriptors less that of the first one (3.2, 0x70).
FIRST_SECTION: Final = 0x70
HEADER: Final = 0
PROPERTIES: Final = 3
APPLICATION: Final = 4
DATA: Final = 5
SEQUENCE: Final = 6
VALUE: Final = 7
SECTIONS: Final = 9

# Fields of the header are numbered from 0, those of properties after them; a cell with this number is an application property.
HEADER_FIELDS: Final = 5
PROPERTY_FIELDS: Final = 13
PROPERTY: Final = HEADER_FIELDS + PROPERTY_FIELDS

# What is written of a message, in ``rows``; ``BODY`` is what its body is, 0 where there is none.
PROBLEM: Final = 0
PLACE: Final = 1
BODY: Final = 2
FIRST_PIECE: Final = 3
FIRST_CELL: Final = 4
ROW: Final = 5

# Of a piece of a body, in ``pieces``.
BEGIN: Final = 0
END: Final = 1
PIECE: Final = 2

# Of a value of a field or a property, in ``cells``. Only properties have names.
MESSAGE: Final = 0
FIELD: Final = 1
KIND: Final = 2
NAME: Final = 3
NAME_END: Final = 4
START: Final = 5
STOP: Final = 6
NUMBER: Final = 7
CELL: Final = 8

# How many pieces and cells there are, in ``counts``, and where a problem is.
PIECES: Final = 0
CELLS: Final = 1
WHERE: Final = 2
COUNTS: Final = 3

# Problems, beside those of values.
FULL: Final = -3  # an array of what is found has no room: never of a message
NO_SECTION: Final = -4
ORDER: Final = -5  # a section that must not follow the one before it
NOT_LIST: Final = -6
NOT_MAP: Final = -7
COUNT: Final = -8  # a list or map whose number of values does not fit its size
NO_NAME: Final = -9  # a property whose name is not text
NOT_BINARY: Final = -10


@inner
def section_at(data: Octets, at: int, stop: int, names: Octets, bounds: Longs) -> int:
    """Return which section a descriptor is of, by its number or its symbol; SECTIONS or more, or less than 0, where it is of none."""
    code = int(data[at])
    begin = content_at(data, at)
    if code == 0x53 or code == 0x80:
        return number_at(data, at, stop, NULL) - FIRST_SECTION
    if code != 0xA3 and code != 0xB3:
        return -1
    for section in range(SECTIONS):
        first = bounds[section]
        size = bounds[section + 1] - first
        if size != stop - begin:
            continue
        same = 0
        while same < size and data[begin + same] == names[first + same]:
            same += 1
        if same == size:
            return section
    return -1


@inner
def add_piece(begin: int, end: int, pieces: Longs, counts: Longs) -> int:
    """Add a piece of a body; return 0 or FULL."""
    piece = counts[PIECES] * PIECE
    if piece + PIECE > len(pieces):
        return FULL
    pieces[piece + BEGIN] = begin
    pieces[piece + END] = end
    counts[PIECES] += 1
    return 0


@inner
def add_cells(
    data: Octets,
    at: int,
    end: int,
    message: int,
    first: int,
    most: int,
    kinds: Octets,
    cells: Longs,
    counts: Longs,
) -> int:
    """Add the values of a section; return 0 or a problem.

    They are ``most`` fields of a list, numbered from the first one; fields that are null are left out. With ``PROPERTY`` as the first one
    they are the properties of a map, in which names and values take turns.
    """
    is_map = first == PROPERTY
    kind = kind_at(data, at, kinds)
    if kind == NULL or (data[at] == CODE_LIST0 and not is_map):
        return 0
    if is_map and kind != MAP:
        return NOT_MAP
    if not is_map and kind != LIST:
        return NOT_LIST
    width = 4 if (int(data[at]) >> 4) & 1 else 1
    at = content_at(data, at)
    if at + width > end:
        return COUNT
    count = size_at(data, at, width)
    if is_map and count & 1:
        return COUNT
    at += width
    name = 0
    name_end = 0
    for item in range(count):
        counts[WHERE] = at
        stop = value_end(data, at, end, kinds)
        if stop < 0:
            return stop
        kind = kind_at(data, at, kinds)
        if is_map and item & 1 == 0:
            if kind != STRING and kind != SYMBOL:
                return NO_NAME
            name = content_at(data, at)
            name_end = stop
        elif is_map or kind != NULL:
            if not is_map and item >= most:
                return COUNT
            cell = counts[CELLS] * CELL
            if cell + CELL > len(cells):
                return FULL
            cells[cell + MESSAGE] = message
            cells[cell + FIELD] = PROPERTY if is_map else first + item
            cells[cell + KIND] = kind
            cells[cell + NAME] = name
            cells[cell + NAME_END] = name_end
            cells[cell + START] = content_at(data, at)
            cells[cell + STOP] = stop
            cells[cell + NUMBER] = number_at(data, at, stop, kind) if BOOLEAN <= kind <= CHAR else 0
            counts[CELLS] += 1
        at = stop
    return 0 if at == end else COUNT


@inner
def find_sections(
    data: Octets,
    at: int,
    end: int,
    message: int,
    kinds: Octets,
    names: Octets,
    bounds: Longs,
    rows: Longs,
    pieces: Longs,
    cells: Longs,
    counts: Longs,
) -> int:
    """Write what a message between two places has; return 0 or a problem."""
    last = -1
    while at < end:
        counts[WHERE] = at
        if data[at] != CODE_DESCRIBED:
            return NO_SECTION
        value = value_end(data, at + 1, end, kinds)
        if value < 0:
            return value
        section = section_at(data, at + 1, value, names, bounds)
        if section < 0 or section >= SECTIONS:
            return NO_SECTION
        # Data and sequences alone may be repeated; a body is of one kind.
        repeats = section == last and (section == DATA or section == SEQUENCE)
        if (section <= last and not repeats) or (DATA <= last < section <= VALUE):
            return ORDER
        last = section
        counts[WHERE] = value
        stop = value_end(data, value, end, kinds)
        if stop < 0:
            return stop
        problem = 0
        if section == HEADER or section == PROPERTIES or section == APPLICATION:
            first = 0 if section == HEADER else HEADER_FIELDS
            most = HEADER_FIELDS if section == HEADER else PROPERTY_FIELDS
            if section == APPLICATION:
                first = PROPERTY
            problem = add_cells(data, value, stop, message, first, most, kinds, cells, counts)
        elif DATA <= section <= VALUE:
            kind = kind_at(data, value, kinds)
            if section == DATA and kind != BINARY:
                return NOT_BINARY
            if section == SEQUENCE and kind != LIST:
                return NOT_LIST
            rows[message * ROW + BODY] = kind
            # Of a value that is neither text nor bytes, all of it.
            if kind == STRING or kind == SYMBOL or kind == BINARY:
                value = content_at(data, value)
            if kind != NULL:
                problem = add_piece(value, stop, pieces, counts)
        if problem < 0:
            return problem
        at = stop
    return 0


@kernel(writes=("rows", "pieces", "cells", "counts"))
def find_messages(
    data: Octets,
    places: Longs,
    kinds: Octets,
    names: Octets,
    bounds: Longs,
    rows: Longs,
    pieces: Longs,
    cells: Longs,
    counts: Longs,
) -> int:
    """Write what each message has; return 0, or FULL where there is no room for all.

    Message i is between ``places[i]`` and the next. ``kinds`` has the kind of each constructor; ``names`` and their ``bounds`` are the symbols of the sections. A message that has a problem has one
    piece, which is all of it, and the cells that were found before the problem.
    """
    counts[PIECES] = 0
    counts[CELLS] = 0
    for message in range(len(places) - 1):
        row = message * ROW
        begin = places[message]
        end = places[message + 1]
        first = counts[PIECES]
        rows[row + PROBLEM] = 0
        rows[row + PLACE] = 0
        rows[row + BODY] = 0
        rows[row + FIRST_PIECE] = first
        rows[row + FIRST_CELL] = counts[CELLS]
        problem = find_sections(
            data, begin, end, message, kinds, names, bounds, rows, pieces, cells, counts
        )
        if problem < 0 and problem != FULL:
            rows[row + PROBLEM] = problem
            rows[row + PLACE] = counts[WHERE] - begin
            counts[PIECES] = first
            problem = add_piece(begin, end, pieces, counts)
        if problem == FULL:
            return FULL
    return 0
