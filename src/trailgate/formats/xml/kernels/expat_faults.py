"""Find the first fault of XML messages that are not well-formed, as expat does.

The scanner only states that it refuses a message. These functions find the reason: the error number
and the offset that expat would report. The offset is the start of the token at fault, or the byte
in it that is not allowed. Rare messages have the result `UNKNOWN` and are left to expat: other
declarations, document types, names that are not ASCII, prefixes that may be unbound, sections that
are not closed. A message without a fault has the result `UNKNOWN` too.

Functions that read a token return an offset and a result: `FINE` with the offset after the token,
`INVALID` with the offset of the byte that is not allowed, `UNCLOSED` if the message ends first, or
`UNKNOWN`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.formats.xml.kernels.characters import (
    digit_of,
    is_blank,
    is_control,
    is_in_name,
    is_name_start,
)
from trailgate.formats.xml.kernels.text import AMPERSAND, BRACKET

# Expat's numbers of faults.
FINE: Final = 0
SYNTAX: Final = 2
NO_ELEMENT: Final = 3
INVALID: Final = 4
UNCLOSED: Final = 5
MISMATCH: Final = 7
DUPLICATE: Final = 8
JUNK: Final = 9
UNDEFINED: Final = 11
BAD_REFERENCE: Final = 14
UNKNOWN: Final = -1

# A row of `faults`: the number, the offset in the message, line and column from 1, the bounds in the text
# of what is shown around it, and whether that is printable ASCII.
FAULT: Final = 7
OFFSET: Final = 1
FAULT_LINE: Final = 2
FAULT_COLUMN: Final = 3
SHOWN_START: Final = 4
SHOWN_END: Final = 5
PRINTABLE: Final = 6

# An attribute of a tag: the bounds of its name and of its value, and the colon in the name, or -1.
ATTRIBUTE: Final = 5
NAME_END: Final = 1
COLON_AT: Final = 2
VALUE: Final = 3
VALUE_END: Final = 4

# A declared prefix: its bounds, and the depth of its element.
PREFIX: Final = 3

COLON: Final = 0x3A
LESS: Final = 0x3C
EQUALS: Final = 0x3D
GREATER: Final = 0x3E
SLASH: Final = 0x2F
EXCLAMATION: Final = 0x21
QUESTION: Final = 0x3F
MINUS: Final = 0x2D
SEMICOLON: Final = 0x3B
NUMBER_SIGN: Final = 0x23
HIGH: Final = 0x80
NO_CHARACTER: Final = 0xEF  # begins U+FFFE and U+FFFF


class FaultLimits(NamedTuple):
    """The maximum numbers of open elements, of attributes of a tag, and of bytes shown beside a fault."""

    depth: int
    attributes: int
    shown: int


class FaultRoom(NamedTuple):
    """Working arrays: the names of open elements (start and end), the attributes of a tag, and declared prefixes."""

    opened: Longs
    attributes: Longs
    prefixes: Longs


@kernel(writes=("room", "faults"))
def find_faults(
    text: Octets,
    starts: Longs,
    ends: Longs,
    declaration: Octets,
    limits: FaultLimits,
    room: FaultRoom,
    faults: Longs,
) -> None:
    """Write the first fault of each malformed XML message, or `UNKNOWN`.

    `declaration` is an XML declaration that is known to be valid. The fault of a message with
    another declaration is `UNKNOWN`.

    Example: `<t><o></t>` has the fault `MISMATCH` at offset 8, the name in the end tag.
    """
    for message in range(len(starts)):
        start, end = starts[message], ends[message]
        row = message * FAULT
        faults[row] = UNKNOWN
        if start < 0 or end > len(text) or end - start < 2:
            continue
        code, at = first_fault(text, start, end, declaration, limits, room)
        if code <= FINE:
            continue
        faults[row] = code
        faults[row + OFFSET] = at - start
        place_fault(text, start, end, at, limits.shown, faults, row)


@inner
def place_fault(
    text: Octets, start: int, end: int, at: int, shown: int, faults: Longs, row: int
) -> None:
    """Write line and column of an XML fault at an offset, and the bounds of the text shown around it."""
    line, column, begin, place = 1, 1, start, start
    while place < at:
        byte = text[place]
        place += 1
        if byte == 0x0D or byte == 0x0A:
            # CR and LF together end one line.
            if byte == 0x0D and place < at and text[place] == 0x0A:
                place += 1
            line, column, begin = line + 1, 1, place
        elif byte & 0xC0 != HIGH:  # not a further byte of a character
            column += 1
    faults[row + FAULT_LINE], faults[row + FAULT_COLUMN] = line, column
    # The text begins after the last line end of either kind.
    low, high = max(begin, at - shown), at
    while high < min(end, at + shown) and text[high] != 0x0A:
        high += 1
    printable = True
    for each in range(low, high):
        printable &= text[each] >= 0x20 and text[each] < 0x7F
        # Quotes and backslashes are escaped in a text that is shown.
        printable &= text[each] != 0x27 and text[each] != 0x5C
    while low < high and text[low] == 0x20:
        low += 1
    while high > low and text[high - 1] == 0x20:
        high -= 1
    faults[row + SHOWN_START], faults[row + SHOWN_END] = low, high
    faults[row + PRINTABLE] = printable


@inner
def first_fault(
    text: Octets,
    start: int,
    end: int,
    declaration: Octets,
    limits: FaultLimits,
    room: FaultRoom,
) -> tuple[int, int]:
    """Return expat's number of an XML message's first fault, or `UNKNOWN`, and its offset in the text."""
    at = after_known_declaration(text, start, end, declaration)
    if at < 0:
        return UNKNOWN, 0
    depth, begun, prefixes = 0, False, 0
    opened = room.opened
    while True:
        # The text up to the next tag or reference.
        if depth == 0:
            while at < end and is_blank(text[at]):
                at += 1
            if at >= end:
                return UNKNOWN, 0
            if text[at] != LESS:
                return stray_text(text, at, end, begun)
        else:
            at, code = after_text(text, at, end)
            if code != FINE:
                return code, at
            if text[at] == AMPERSAND:
                token = at
                at, code = after_reference(text, at + 1, end)
                if code == FINE:
                    code = reference_fault(text, token, at)
                    at = token if code != FINE else at
                if code != FINE:
                    return code, token if code == UNCLOSED else at
                continue
        token = at
        if at + 1 >= end:
            return UNCLOSED, token
        byte = text[at + 1]
        if byte == EXCLAMATION or byte == QUESTION:
            at, code = after_special(text, at, end, depth)
            if code != FINE:
                return code, token if code == UNCLOSED else at
        elif byte == SLASH and depth:
            at, code = after_end_tag(text, at + 2, end)
            if code != FINE:
                return code, token if code == UNCLOSED else at
            name, size = opened[2 * depth - 2], opened[2 * depth - 1] - opened[2 * depth - 2]
            if not same_bytes(text, name, name + size, token + 2, name_end(text, token + 2, end)):
                return MISMATCH, token + 2
            depth -= 1
            while prefixes and room.prefixes[(prefixes - 1) * PREFIX + 2] > depth:
                prefixes -= 1
        elif byte >= HIGH:
            return UNKNOWN, 0
        elif not is_name_start(byte):
            return INVALID, token + 1
        elif depth == 0 and begun:
            return JUNK, token
        else:
            begun = True
            at, code, name, count, closed = after_start_tag(text, token, end, room.attributes)
            if code != FINE:
                return code, token if code == UNCLOSED else at
            if (
                (depth + 1) * 2 > len(opened)
                or depth + 1 > limits.depth
                or count > limits.attributes
            ):
                return UNKNOWN, 0
            code, at_fault, prefixes = attributes_fault(
                text, token, name, count, depth + 1, room, prefixes
            )
            if code != FINE:
                return code, at_fault
            if closed:
                while prefixes and room.prefixes[(prefixes - 1) * PREFIX + 2] > depth:
                    prefixes -= 1
            else:
                opened[2 * depth], opened[2 * depth + 1] = token + 1, name
                depth += 1


@inner
def after_known_declaration(text: Octets, start: int, end: int, declaration: Octets) -> int:
    """Return the offset after a malformed message's XML declaration, if it is the known one or there is none; otherwise -1."""
    if text[start] >= HIGH or text[start] == 0 or text[start + 1] == 0:
        return -1
    # `<?`: an instruction before the document is left to expat, too.
    if text[start] != LESS or text[start + 1] != QUESTION:
        return start
    if not len(declaration) or start + len(declaration) > end:
        return -1
    for at in range(len(declaration)):
        if text[start + at] != declaration[at]:
            return -1
    return start + len(declaration)


@inner
def same_bytes(text: Octets, start: int, end: int, other: int, other_end: int) -> bool:
    """Return whether two spans of a malformed XML message have the same bytes."""
    if end - start != other_end - other:
        return False
    for at in range(end - start):
        if text[start + at] != text[other + at]:
            return False
    return True


@inner
def stray_text(text: Octets, at: int, end: int, begun: bool) -> tuple[int, int]:
    """Return the fault of text before or after an XML root element, and its offset.

    The text does not begin with a blank or a tag. `begun` is set after the root element has begun.
    """
    first = text[at]
    number = first >= 0x30 and first <= 0x39
    if first == 0x7B or first == 0x7D:  # `{` and `}`
        return INVALID, at
    if not number and not is_name_start(first):
        return UNKNOWN, 0
    # Expat reads a word as it would be in a document type, and then refuses it.
    place = at
    while place < end and is_in_name(text[place]):
        place += 1
    if place < end:
        byte = text[place]
        ends = is_blank(byte) or byte == GREATER or byte == 0x29 or byte == 0x2C
        ends = ends or byte == 0x7C or byte == 0x5B or byte == 0x25
        if byte == COLON or byte >= HIGH or byte == 0x2B or byte == 0x2A or byte == QUESTION:
            return UNKNOWN, 0
        if not ends:
            return INVALID, place
    return JUNK if begun else SYNTAX, at


@inner
def after_text(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML element's text for faults, up to the next tag or reference.

    Return its offset and `FINE`, or a fault.
    """
    while at < end:
        byte = text[at]
        if byte == LESS or byte == AMPERSAND:
            return at, FINE
        if byte == BRACKET:
            # `]]>`
            if at + 2 < end and text[at + 1] == BRACKET and text[at + 2] == GREATER:
                return at + 2, INVALID
        elif byte == 0 or byte == NO_CHARACTER:
            return at, UNKNOWN
        elif is_control(byte):
            return at, INVALID
        at += 1
    # A last `]` or CR might be the beginning of something else.
    last = text[end - 1]
    return end, UNKNOWN if last == BRACKET or last == 0x0D else NO_ELEMENT


@inner
def after_reference(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML reference for faults, such as `&amp;` or `&#65;`, from the byte after its `&`.

    Return an offset and a result (see the module docstring).
    """
    if at >= end:
        return at, UNCLOSED
    if text[at] == NUMBER_SIGN:
        return after_character(text, at + 1, end)
    if text[at] >= HIGH:
        return at, UNKNOWN
    if not is_name_start(text[at]):
        return at, INVALID
    while at < end and is_in_name(text[at]):
        at += 1
    if at >= end:
        return at, UNCLOSED
    if text[at] >= HIGH:
        return at, UNKNOWN
    return (at + 1, FINE) if text[at] == SEMICOLON else (at, INVALID)


@inner
def after_character(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML character reference for faults, from the byte after `&#`."""
    base = 10
    if at < end and text[at] == 0x78:
        base, at = 16, at + 1
    first = at
    while at < end and digit_of(text[at]) < base:
        at += 1
    if at >= end:
        return at, UNCLOSED
    if at == first or text[at] != SEMICOLON:
        return at, INVALID
    return at + 1, FINE


@inner
def reference_fault(text: Octets, at: int, end: int) -> int:
    """Return the fault of the XML reference in [at, end), from its `&` to after its `;`, or `FINE`."""
    if text[at + 1] == NUMBER_SIGN:
        base, place = 10, at + 2
        if text[place] == 0x78:
            base, place = 16, place + 1
        number = 0
        while place < end - 1:
            number = min(number * base + digit_of(text[place]), 0x110000)
            place += 1
        control = number < 0x20 and number != 0x09 and number != 0x0A and number != 0x0D
        surrogate = number >= 0xD800 and number <= 0xDFFF
        if control or surrogate or number >= 0x110000 or number == 0xFFFE or number == 0xFFFF:
            return BAD_REFERENCE
        return FINE
    size = end - at - 2
    first, second = text[at + 1], text[at + 2]
    if size == 2 and second == 0x74 and (first == 0x6C or first == 0x67):  # lt, gt
        return FINE
    third = text[at + 3]
    if size == 3 and first == 0x61 and second == 0x6D and third == 0x70:  # amp
        return FINE
    if size == 4:
        fourth = text[at + 4]
        if first == 0x71 and second == 0x75 and third == 0x6F and fourth == 0x74:  # quot
            return FINE
        if first == 0x61 and second == 0x70 and third == 0x6F and fourth == 0x73:  # apos
            return FINE
    return UNDEFINED


@inner
def after_special(text: Octets, at: int, end: int, depth: int) -> tuple[int, int]:
    """Check an XML comment, CDATA section or processing instruction for faults, from its `<`."""
    if text[at + 1] == QUESTION:
        return after_instruction(text, at + 2, end)
    # `<!--`
    if at + 3 < end and text[at + 2] == MINUS and text[at + 3] == MINUS:
        return after_comment(text, at + 4, end)
    # `<![CDATA[`
    if depth and at + 8 < end and text[at + 2] == 0x5B and text[at + 3] == 0x43:
        word = text[at + 4] == 0x44 and text[at + 5] == 0x41 and text[at + 6] == 0x54
        if word and text[at + 7] == 0x41 and text[at + 8] == 0x5B:
            return after_section(text, at + 9, end)
    return at, UNKNOWN


@inner
def after_comment(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML comment for faults, from the byte after `<!--`."""
    while at < end:
        byte = text[at]
        if byte == MINUS:
            if at + 1 >= end:
                return at, UNCLOSED
            if text[at + 1] == MINUS:
                if at + 2 >= end:
                    return at, UNCLOSED
                return (at + 3, FINE) if text[at + 2] == GREATER else (at + 2, INVALID)
        elif byte == 0 or byte == NO_CHARACTER:
            return at, UNKNOWN
        elif is_control(byte):
            return at, INVALID
        at += 1
    return at, UNCLOSED


@inner
def after_section(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML CDATA section for faults, from the byte after `<![CDATA[`.

    Returns `UNKNOWN` if anything in it is wrong, so that expat decides.
    """
    while at + 2 < end:
        byte = text[at]
        if byte == BRACKET and text[at + 1] == BRACKET and text[at + 2] == GREATER:
            return at + 3, FINE
        if byte == NO_CHARACTER or is_control(byte):
            return at, UNKNOWN
        at += 1
    return at, UNKNOWN


@inner
def after_instruction(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Check an XML processing instruction for faults, from the byte after `<?`.

    Returns `UNKNOWN` if anything in it is wrong, so that expat decides.
    """
    first = at
    if at >= end or not is_name_start(text[at]):
        return at, UNKNOWN
    while at < end and is_in_name(text[at]):
        at += 1
    is_xml = at - first == 3 and text[first] | 0x20 == 0x78 and text[first + 1] | 0x20 == 0x6D
    if is_xml and text[first + 2] | 0x20 == 0x6C:
        return at, UNKNOWN
    # A blank or `?>` follows the name.
    if at >= end or not (is_blank(text[at]) or text[at] == QUESTION):
        return at, UNKNOWN
    if text[at] == QUESTION and (at + 1 >= end or text[at + 1] != GREATER):
        return at, UNKNOWN
    while at + 1 < end:
        byte = text[at]
        if byte == QUESTION and text[at + 1] == GREATER:
            return at + 2, FINE
        if byte == NO_CHARACTER or is_control(byte):
            return at, UNKNOWN
        at += 1
    return at, UNKNOWN


@inner
def name_end(text: Octets, at: int, end: int) -> int:
    """Return the end of an XML name in a malformed message, with or without a prefix."""
    while at < end and (is_in_name(text[at]) or text[at] == COLON):
        at += 1
    return at


@inner
def after_end_tag(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Find expat's fault in an XML end tag, from the byte after `</`."""
    if at >= end:
        return at, UNCLOSED
    if text[at] >= HIGH:
        return at, UNKNOWN
    if not is_name_start(text[at]):
        return at, INVALID
    at = name_end(text, at, end)
    while at < end and is_blank(text[at]):
        at += 1
    if at >= end:
        return at, UNCLOSED
    if text[at] >= HIGH:
        return at, UNKNOWN
    return (at + 1, FINE) if text[at] == GREATER else (at, INVALID)


@inner
def after_name(text: Octets, at: int, end: int) -> tuple[int, int, int]:
    """Check a name in an XML start tag for faults.

    Return the offset after it, `FINE` or a fault, and the offset of the name's colon or -1.
    """
    colon = -1
    while at < end:
        byte = text[at]
        if byte == COLON:
            if colon >= 0:
                return at, INVALID, colon
            colon = at
            if at + 1 >= end:
                return at, UNCLOSED, colon
            if text[at + 1] >= HIGH:
                return at, UNKNOWN, colon
            if not is_name_start(text[at + 1]):
                return at + 1, INVALID, colon
        elif byte >= HIGH:
            return at, UNKNOWN, colon
        elif not is_in_name(byte):
            return at, FINE, colon
        at += 1
    return at, UNCLOSED, colon


@inner
def after_start_tag(
    text: Octets, tag: int, end: int, attributes: Longs
) -> tuple[int, int, int, int, int]:
    """Find expat's fault in an XML start tag, from its `<`, which a letter follows.

    Return the offset after it, `FINE` or a fault, the end of its name, the number of attributes, and whether the
    element is empty.
    """
    at, code, _ = after_name(text, tag + 1, end)
    name, count = at, 0
    if code != FINE:
        return at, code, name, 0, 0
    while True:
        # After the name or an attribute: blanks, and then another attribute or the end of the tag.
        blank = at
        while at < end and is_blank(text[at]):
            at += 1
        if at >= end:
            return at, UNCLOSED, name, 0, 0
        byte = text[at]
        if byte == GREATER:
            return at + 1, FINE, name, count, 0
        if byte == SLASH:
            if at + 1 >= end:
                return at, UNCLOSED, name, 0, 0
            if text[at + 1] != GREATER:
                return at + 1, INVALID, name, 0, 0
            return at + 2, FINE, name, count, 1
        if at == blank:
            return at, INVALID, name, 0, 0
        if byte >= HIGH or (count + 1) * ATTRIBUTE > len(attributes):
            return at, UNKNOWN, name, 0, 0
        if not is_name_start(byte):
            return at, INVALID, name, 0, 0
        row = count * ATTRIBUTE
        attributes[row] = at
        at, code, colon = after_name(text, at, end)
        if code != FINE:
            return at, code, name, 0, 0
        attributes[row + NAME_END], attributes[row + COLON_AT] = at, colon
        at, code = after_value(text, at, end, attributes, row)
        if code != FINE:
            return at, code, name, 0, 0
        count += 1


@inner
def after_value(text: Octets, at: int, end: int, attributes: Longs, row: int) -> tuple[int, int]:
    """Check the equals sign and the value of an XML attribute for faults, from the byte after its name."""
    while at < end and is_blank(text[at]):
        at += 1
    if at >= end:
        return at, UNCLOSED
    if text[at] != EQUALS:
        return at, INVALID
    at += 1
    while at < end and is_blank(text[at]):
        at += 1
    if at >= end:
        return at, UNCLOSED
    quote = text[at]
    if quote != 0x22 and quote != 0x27:
        return at, INVALID
    at += 1
    attributes[row + VALUE] = at
    # Expat reads references only as tokens here; `attributes_fault` checks what they stand for.
    while at < end and text[at] != quote:
        byte = text[at]
        if byte == AMPERSAND:
            at, code = after_reference(text, at + 1, end)
            if code != FINE:
                return at, code
            continue
        if byte == 0 or byte == NO_CHARACTER:
            return at, UNKNOWN
        if byte == LESS or is_control(byte):
            return at, INVALID
        at += 1
    # A byte after the quote is needed too, since expat reads a tag to its end.
    if at + 1 >= end:
        return at, UNCLOSED
    attributes[row + VALUE_END] = at
    return at + 1, FINE


@inner
def attributes_fault(
    text: Octets, tag: int, name: int, count: int, depth: int, room: FaultRoom, prefixes: int
) -> tuple[int, int, int]:
    """Check the attributes of an XML tag for faults, and the prefixes in it.

    Return a fault or `FINE`, its offset, and the number of prefixes declared in the tag and in the
    elements around it. `prefixes` is this number before the tag, `name` the end of the tag's name.
    """
    attributes = room.attributes
    prefixed = 0
    for each in range(count):
        row = each * ATTRIBUTE
        start, end, colon = attributes[row], attributes[row + NAME_END], attributes[row + COLON_AT]
        for other in range(each):
            before = other * ATTRIBUTE
            if same_bytes(text, start, end, attributes[before], attributes[before + NAME_END]):
                return DUPLICATE, start, prefixes
        at, stop = attributes[row + VALUE], attributes[row + VALUE_END]
        while at < stop:
            if text[at] == AMPERSAND:
                after, _ = after_reference(text, at + 1, stop)
                code = reference_fault(text, at, after)
                if code != FINE:
                    return code, at if code == BAD_REFERENCE else tag, prefixes
            at += 1
        size = (end if colon < 0 else colon) - start
        if size == 5 and is_xmlns(text, start):
            prefixes = declare_prefix(text, row, depth, room, prefixes)
            if prefixes < 0:
                return UNKNOWN, 0, 0
        elif colon >= 0:
            prefixed += 1
    # Two attributes with prefixes might have the same name in the same namespace.
    if prefixed > 1:
        return UNKNOWN, 0, prefixes
    for each in range(-1, count):
        start, colon = tag + 1, -1
        if each < 0:
            for at in range(tag + 1, name):
                colon = at if text[at] == COLON else colon
        else:
            start, colon = attributes[each * ATTRIBUTE], attributes[each * ATTRIBUTE + COLON_AT]
        if colon < 0 or (each >= 0 and colon - start == 5 and is_xmlns(text, start)):
            continue
        if not is_declared(text, start, colon, room.prefixes, prefixes):
            return UNKNOWN, 0, prefixes
    return FINE, 0, prefixes


@inner
def is_xmlns(text: Octets, at: int) -> bool:
    """Return whether a name or prefix of five bytes in a malformed XML message is `xmlns`."""
    first = text[at] == 0x78 and text[at + 1] == 0x6D and text[at + 2] == 0x6C
    return first and text[at + 3] == 0x6E and text[at + 4] == 0x73


@inner
def is_declared(text: Octets, start: int, end: int, prefixes: Longs, count: int) -> bool:
    """Return whether a prefix in a malformed XML message is `xml` or one of the `count` declared ones in `prefixes`."""
    if end - start == 3 and text[start] == 0x78 and text[start + 1] == 0x6D:
        return text[start + 2] == 0x6C
    for each in range(count):
        row = each * PREFIX
        if same_bytes(text, start, end, prefixes[row], prefixes[row + 1]):
            return True
    return False


@inner
def declare_prefix(text: Octets, row: int, depth: int, room: FaultRoom, prefixes: int) -> int:
    """Add the prefix that an xmlns attribute of a malformed XML message declares, if it has one.

    Return the number of prefixes, or `UNKNOWN`.
    """
    attributes = room.attributes
    colon, end = attributes[row + COLON_AT], attributes[row + NAME_END]
    at, stop = attributes[row + VALUE], attributes[row + VALUE_END]
    # Namespaces of XML itself begin with http://www.w3.org/; their rules are expat's matter.
    if stop - at > 11 and text[at + 7] == 0x77 and text[at + 10] == 0x2E and text[at + 11] == 0x77:
        return UNKNOWN
    for place in range(at, stop):
        if text[place] <= 0x20 or text[place] == AMPERSAND:
            return UNKNOWN
    if colon < 0:
        return prefixes
    if at == stop or (prefixes + 1) * PREFIX > len(room.prefixes) or text[colon + 1] | 0x20 == 0x78:
        return UNKNOWN
    own = prefixes * PREFIX
    room.prefixes[own], room.prefixes[own + 1] = colon + 1, end
    room.prefixes[own + 2] = depth
    return prefixes + 1
