"""Find the sections, fields, properties and bodies of AMQP 1.0 messages in one pass (part 3, section 3.2).

A value is a constructor code and its content (part 1, section 1.2). The high half of the code gives
the content's length, so a value of any type can be skipped without knowing it: ``0x40`` (null) has
no bytes, ``0x5_`` one, ``0x6_`` two, ``0x7_`` four, ``0x8_`` eight, ``0x9_`` sixteen; from ``0xA_``
on a size of one byte (even) or four (odd) precedes the content. Lists, maps and arrays have such a
size too, so no nesting has to be followed. The code ``0x00`` is followed by two values: a
descriptor, and the value that it describes.

Example: the message ``00 53 77 A1 02 68 69`` is one section. Its descriptor is the number 0x77
("amqp-value"), its value a string of two bytes, "hi". The body is ``message[5:7]``.

A function that fails returns a problem instead of an offset: a negative constant such as ``CUT``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel

# The types of values. Those from BOOLEAN to CHAR are numbers.
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

# Constructor codes with a special meaning.
CODE_DESCRIBED: Final = 0x00
CODE_TRUE: Final = 0x41
CODE_LIST0: Final = 0x45

# Problems, returned instead of an offset.
CUT: Final = -1  # a value is longer than the section that contains it
NO_TYPE: Final = -2  # a code that AMQP 1.0 does not have

# Sections, by the numbers of their descriptors minus 0x70, the first one's (3.2).
FIRST_SECTION: Final = 0x70
HEADER: Final = 0
PROPERTIES: Final = 3
APPLICATION: Final = 4
DATA: Final = 5
SEQUENCE: Final = 6
VALUE: Final = 7
SECTIONS: Final = 9

# The header's fields have the numbers 0 to 4, and the fields of the section "properties" 5 to 17. The
# number after them, PROPERTY, marks a cell with an application property.
HEADER_FIELDS: Final = 5
PROPERTY_FIELDS: Final = 13
PROPERTY: Final = HEADER_FIELDS + PROPERTY_FIELDS

# Columns of the table ``rows``, one row per message. BODY is the type of its body, 0 if it has none.
PROBLEM: Final = 0
PLACE: Final = 1
BODY: Final = 2
FIRST_PIECE: Final = 3
FIRST_CELL: Final = 4
ROW: Final = 5

# Columns of the table ``pieces``, one row per piece of a body.
BEGIN: Final = 0
END: Final = 1
PIECE: Final = 2

# Columns of the table ``cells``, one row per value of a field or property. Only properties have names.
MESSAGE: Final = 0
FIELD: Final = 1
KIND: Final = 2
NAME: Final = 3
NAME_END: Final = 4
START: Final = 5
STOP: Final = 6
NUMBER: Final = 7
CELL: Final = 8

# Elements of ``counts``: the number of pieces and of cells, and the offset of a problem.
PIECES: Final = 0
CELLS: Final = 1
WHERE: Final = 2
COUNTS: Final = 3

# Problems, beside CUT and NO_TYPE.
FULL: Final = -3  # ``pieces`` or ``cells`` is full, which is not the fault of a message
NO_SECTION: Final = -4
ORDER: Final = -5  # a section that must not follow the one before it
NOT_LIST: Final = -6
NOT_MAP: Final = -7
COUNT: Final = -8  # a list or map whose number of values does not fit its size
NO_NAME: Final = -9  # a property whose name is not text
NOT_BINARY: Final = -10


class AmqpCodes(NamedTuple):
    """The codes of AMQP: ``kinds[c]`` is the type of the constructor code c, such as ``STRING``.

    The symbol of section s, such as "amqp:data:binary", is ``names[bounds[s]:bounds[s + 1]]``.
    """

    kinds: Octets
    names: Octets
    bounds: Longs


class MessageTables(NamedTuple):
    """The tables of offsets in AMQP messages that ``find_messages`` fills, as flat arrays, row by row.

    ``rows`` has a row for each message, ``pieces`` for each piece of a body, and ``cells`` for each
    header field or property. A body in several data sections has several pieces. The columns of
    each table are constants, such as ``PROBLEM`` to ``FIRST_CELL`` for ``rows``. ``counts`` has the
    numbers of pieces and cells, and the offset of a problem.
    """

    rows: Longs
    pieces: Longs
    cells: Longs
    counts: Longs


@inner
def size_at(data: Octets, at: int, width: int) -> int:
    """Read the size or the item count of an AMQP value: ``width`` bytes (1 or 4), big-endian."""
    size = 0
    for place in range(at, at + width):
        size = 256 * size + int(data[place])
    return size


@inner
def value_end(data: Octets, at: int, end: int, kinds: Octets) -> int:
    """Skip the AMQP value at an offset, with its descriptor if it has one. Return the offset after it, or a problem.

    ``kinds`` maps each constructor code to its type.
    """
    # The values that are still to be skipped: a described value stands for two.
    waiting = 1
    while waiting > 0:
        if at >= end:
            return CUT
        code = int(data[at])
        at += 1
        if code == CODE_DESCRIBED:
            waiting += 1
            continue
        if kinds[code] == UNKNOWN:
            return NO_TYPE
        high = code >> 4
        # Of the code 0xB1 (a long string) the high half is 11: odd, so a size of four bytes
        # follows. Of 0x71 (int) it is 7: 1 << (7 - 5) = 4 bytes follow. Of 0x40 (null) it is 4:
        # none.
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
    """Return the type of the AMQP value at an offset, such as ``STRING``.

    ``kinds`` maps each constructor code to its type.
    """
    code = int(data[at])
    return DESCRIBED if code == CODE_DESCRIBED else int(kinds[code])


@inner
def content_at(data: Octets, at: int) -> int:
    """Return the offset of an AMQP value's content, which follows its code and its size."""
    # The high half of a code gives the form of its value: 4 to 9 have a fixed width, so the content
    # follows the code. A, C and E have a size of one byte before the content, B, D and F (odd) one
    # of four bytes.
    high = int(data[at]) >> 4
    if high < 10:
        return at + 1
    return at + 5 if high & 1 else at + 2


@inner
def number_at(data: Octets, at: int, stop: int, kind: int) -> int:
    """Return the number stored in the AMQP value at an offset. The value ends at ``stop``.

    The result is signed if ``kind`` is SIGNED. All eight bytes of a ulong are kept in a signed
    result, so it may be negative: the caller reads the bits as unsigned. For a float or double the
    result is the number with the same bits.
    """
    code = int(data[at])
    # true (0x41), false (0x42) and zero (0x43, 0x44) have no content
    begin = at + 1
    if begin >= stop:
        return 1 if code == CODE_TRUE else 0
    # The first byte has the sign. Example: the short 61 FF FE is -1, and -1 * 256 + 254 = -2.
    number = int(data[begin])
    if number >= 128 and (kind == SIGNED or stop - begin == 8):
        number -= 256
    for place in range(begin + 1, stop):
        number = 256 * number + int(data[place])
    return number


@inner
def section_at(data: Octets, at: int, stop: int, codes: AmqpCodes) -> int:
    """Return the section of an AMQP message that a descriptor names, such as ``DATA``.

    The descriptor is a number (``53 75`` is 0x75 - 0x70 = 5, DATA) or a symbol
    ("amqp:data:binary"). The result for an unknown descriptor is below 0, or at least SECTIONS.
    """
    names, bounds = codes.names, codes.bounds
    code = int(data[at])
    begin = content_at(data, at)
    # 0x53 and 0x80 are numbers of one and eight bytes; 0xA3 and 0xB3 are symbols such as
    # "amqp:data:binary", compared with each name in ``names``.
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
def add_piece(begin: int, end: int, into: MessageTables) -> int:
    """Append a piece of an AMQP message's body to the table ``pieces``. Returns 0, or FULL."""
    pieces, counts = into.pieces, into.counts
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
    into: MessageTables,
) -> int:
    """Append a cell (a row of the table ``cells``) for each value of an AMQP section. Returns 0, or a problem.

    The section is a list of at most ``most`` fields; its first field has the number ``first``, and
    null fields are skipped. If ``first`` is PROPERTY, the section is a map, in which names and
    values alternate.
    """
    # Example: the map C1 06 02 A1 01 61 54 05 has the size 6 and 2 items: the string "a" and the
    # small int 5. Its one cell has the name 5:6, the content 7:8 and the number 5.
    cells, counts = into.cells, into.counts
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
    data: Octets, at: int, end: int, message: int, codes: AmqpCodes, into: MessageTables
) -> int:
    """Find the sections of the AMQP message ``data[at:end]``, and fill the tables.

    ``message`` is its number. Returns 0, or a problem.
    """
    # A section is 00, its descriptor and its value. Example: 00 | 53 77 | A1 02 68 69 has the number
    # 0x77 - 0x70 = 7, VALUE, and the string "hi".
    kinds, counts = codes.kinds, into.counts
    last = -1
    while at < end:
        counts[WHERE] = at
        if data[at] != CODE_DESCRIBED:
            return NO_SECTION
        value = value_end(data, at + 1, end, kinds)
        if value < 0:
            return value
        section = section_at(data, at + 1, value, codes)
        if section < 0 or section >= SECTIONS:
            return NO_SECTION
        # Sections come in the order of their numbers (3.2). Only data and sequence sections may
        # be repeated, and a body has only one of the three types DATA, SEQUENCE and VALUE.
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
            problem = add_cells(data, value, stop, message, first, most, kinds, into)
        elif DATA <= section <= VALUE:
            kind = kind_at(data, value, kinds)
            if section == DATA and kind != BINARY:
                return NOT_BINARY
            if section == SEQUENCE and kind != LIST:
                return NOT_LIST
            into.rows[message * ROW + BODY] = kind
            # Text and bytes are kept without code and size; other values as they are encoded.
            if kind == STRING or kind == SYMBOL or kind == BINARY:
                value = content_at(data, value)
            if kind != NULL:
                problem = add_piece(value, stop, into)
        if problem < 0:
            return problem
        at = stop
    return 0


@kernel(writes=("into",))
def find_messages(data: Octets, places: Longs, codes: AmqpCodes, into: MessageTables) -> int:
    """Find the header fields, properties and bodies of AMQP messages in a compiled loop, and store their offsets in tables.

    Returns 0, or FULL if a table is too small.

    Message i is ``data[places[i]:places[i + 1]]``. A malformed message has one piece, which is the
    complete message, and the cells found before the problem.

    Example: for the message in the module's docstring, the row in ``rows`` is 0 (good), 0 (offset
    of a problem), STRING (type of the body), 0 (first piece) and 0 (first cell). The only row of
    ``pieces`` is 5, 7, and there are no cells.
    """
    rows, counts = into.rows, into.counts
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
        # FULL ends the run; any other problem replaces the message's pieces by the complete
        # message.
        problem = find_sections(data, begin, end, message, codes, into)
        if problem < 0 and problem != FULL:
            rows[row + PROBLEM] = problem
            rows[row + PLACE] = counts[WHERE] - begin
            counts[PIECES] = first
            problem = add_piece(begin, end, into)
        if problem == FULL:
            return FULL
    return 0
