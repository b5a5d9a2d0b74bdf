"""Read XML tags with attributes and namespaces, and comments and CDATA sections between them."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner
from trailgate.columnar.kernels.words import first_mark, load8, name_end_marks
from trailgate.formats.xml.kernels.names import (
    ATTRIBUTE,
    ATTRIBUTES,
    BOUND,
    CHILDREN,
    ELEMENT,
    FRAME,
    FULL,
    INFO,
    LOCAL,
    MANY_NAMES,
    NAMESPACE,
    NO_ROOM,
    PREFIX,
    REFUSED,
    SCOPE,
    SEEN,
    SPACE,
    TEXT,
    TO_DECODE,
    UNREAD,
    VALUE_END,
    VALUE_START,
    XML,
    XML_SPACE,
    XMLNS,
    XMLNS_SPACE,
    NameArrays,
    add_name,
    find_name,
    insert_name,
)
from trailgate.formats.xml.kernels.text import (
    OF_ATTRIBUTE,
    add_text,
    decode_references,
    is_blank,
    value_end,
)

SECTION_BEGINS: Final = np.uint64(0x5B41544144435B21)  # "![CDATA["


@inner
def name_end(text: Octets, at: int, end: int) -> int:
    """Return the end of an XML name. 16 bytes are tested at a time."""
    while at < end:
        marks = name_end_marks(text, at)
        if marks:
            return min(at + first_mark(marks), end)
        at += 16
    return end


@inner
def name_at(
    text: Octets,
    at: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return the number of the XML name in [at, end), `REFUSED` or `MANY_NAMES`.

    A new name is added.
    """
    if end <= at:
        return REFUSED
    number = find_name(text, at, end - at, names)
    if number < 0:
        number = add_name(text, at, end - at, -1 - number, names)
        if number < 0:
            return MANY_NAMES if number == NO_ROOM else REFUSED
    return number


@inner
def after_blanks(text: Octets, at: int, end: int) -> int:
    """Return the offset of the first byte that is not XML white space, or `end`."""
    while at < end and is_blank(text[at]):
        at += 1
    return at


@inner
def read_attributes(
    text: Octets,
    at: int,
    end: int,
    serial: int,
    names: NameArrays,
    attributes: Longs,
) -> tuple[int, int, int, bool]:
    """Read an XML tag's attributes.

    Return the offset after the tag, the number of attributes, whether the element is empty (`/>`),
    and whether an attribute has a prefix or is `xmlns`.

    Instead of the offset, it may return `REFUSED` or `MANY_NAMES`. An attribute that occurs twice
    is detected by its SEEN field, which holds the number of the last tag that had it (`serial`).

    Example: ` id="7" xmlns:p="urn:x">` writes two rows to `attributes` with the spans of "7" and
    "urn:x". The last result is true, because of the prefix `xmlns`.
    """
    info = names.info
    count, prefixed = 0, False
    while True:
        blank = at
        at = after_blanks(text, at, end)
        if at + 1 >= end:
            # The message ends here. Only a ">" as its last byte completes the tag.
            closing = at < end and text[at] == 0x3E
            return at + 1 if closing else REFUSED, count, 0, prefixed
        # `>`
        if text[at] == 0x3E:
            return at + 1, count, 0, prefixed
        # `/>`
        if text[at] == 0x2F:
            return at + 2 if text[at + 1] == 0x3E else REFUSED, count, 1, prefixed
        # Attributes must be separated by blanks.
        if blank == at or (count + 1) * ATTRIBUTES > len(attributes):
            return REFUSED, 0, 0, False
        ends = name_end(text, at, end)
        number = name_at(text, at, ends, names)
        if number < 0:
            return number, 0, 0, False
        if info[number * INFO + SEEN] == serial:
            return REFUSED, 0, 0, False
        info[number * INFO + SEEN] = serial
        at = after_blanks(text, ends, end)
        # `=`
        if at >= end or text[at] != 0x3D:
            return REFUSED, 0, 0, False
        at = after_blanks(text, at + 1, end)
        if at >= end or (text[at] != 0x22 and text[at] != 0x27):
            return REFUSED, 0, 0, False
        start = at + 1
        at, decode = value_end(text, start, end)
        if at < 0:
            return REFUSED, 0, 0, False
        row = count * ATTRIBUTES
        attributes[row] = number
        attributes[row + VALUE_START], attributes[row + VALUE_END] = start, at
        attributes[row + TO_DECODE] = decode
        prefixed |= info[number * INFO + PREFIX] >= 0 or number == XMLNS
        count += 1
        at += 1


@inner
def bind_prefixes(
    text: Octets,
    count: int,
    depth: int,
    attributes: Longs,
    names: NameArrays,
    scopes: Longs,
    scoped: int,
    side: int,
) -> int:
    """Bind the namespace prefixes that an XML tag declares, and check the prefixes of its attributes.

    `scoped` is the number of rows of `scopes`, which has one for each prefix declared in an open
    element. Returns this number with the tag's own prefixes, or the reason to refuse the tag.

    Example: `<a xmlns:p="urn:x" p:id="1">` binds the word "p" to the word "urn:x" until the element
    ends, and `p:id` is allowed.
    """
    info = names.info
    first, last = attributes[VALUE_START], attributes[(count - 1) * ATTRIBUTES + VALUE_END]
    if (scoped + count) * SCOPE > len(scopes) or side + last - first > len(text):
        return FULL
    opened = scoped
    for each in range(count):
        row = each * ATTRIBUTES
        number = attributes[row]
        prefix = info[number * INFO + PREFIX]
        if number != XMLNS and prefix != XMLNS:
            continue
        start, end = attributes[row + VALUE_START], attributes[row + VALUE_END]
        if attributes[row + TO_DECODE]:
            end = decode_references(text, start, end, OF_ATTRIBUTE, side)
            start = side
        local = XMLNS if number == XMLNS else info[number * INFO + LOCAL]
        bound = find_namespace(text, start, end, names)
        # A prefix cannot be unbound, and "xmlns" cannot be declared.
        if number != XMLNS and (bound == 0 or local == XMLNS):
            bound = REFUSED
        # No prefix may have the namespace of xmlns, and only "xml" may (and must) have its own.
        if bound == XMLNS_SPACE + 1 or (bound == XML_SPACE + 1) != (local == XML):
            bound = min(bound, REFUSED)
        if bound < 0:
            unbind_prefixes(scopes, opened, depth, info)
            return bound
        place = SCOPE * opened
        scopes[place], scopes[place + 1] = depth, local
        scopes[place + 2] = info[local * INFO + BOUND]
        info[local * INFO + BOUND] = bound
        opened += 1
    for each in range(count):
        if not is_one_attribute(each, attributes, info):
            unbind_prefixes(scopes, opened, depth, info)
            return REFUSED
    return opened


@inner
def find_namespace(
    text: Octets,
    start: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return 1 + the word number of an XML namespace, or 0 if it is empty.

    Returns `REFUSED` if it has blanks, or `MANY_NAMES` if the table of words is full.
    """
    for place in range(start, end):
        if text[place] == 0x20:
            return REFUSED
    if start == end:
        return 0
    word = find_name(text, start, end - start, names)
    if word < 0:
        word = insert_name(text, start, end - start, -1 - word, names)
    return MANY_NAMES if word < 0 else word + 1


@inner
def is_one_attribute(each: int, attributes: Longs, info: Longs) -> bool:
    """Return whether an attribute of an XML tag has no prefix, or a declared one and a name that no attribute before it in the tag has.

    Two attributes of a tag must not have the same local name in the same namespace.
    """
    number = attributes[each * ATTRIBUTES]
    prefix = info[number * INFO + PREFIX]
    if prefix < 0 or prefix == XMLNS:
        return True
    bound, local = info[prefix * INFO + BOUND], info[number * INFO + LOCAL]
    if bound == 0:
        return False
    # Attributes without a prefix are in no namespace, so only those with one can be the same: a:id
    # and b:id are, if a and b are bound to the same namespace. Repeated names are found elsewhere.
    for other in range(each):
        before = attributes[other * ATTRIBUTES]
        its = info[before * INFO + PREFIX]
        if its < 0 or its == XMLNS or info[before * INFO + LOCAL] != local:
            continue
        if info[its * INFO + BOUND] == bound:
            return False
    return True


@inner
def unbind_prefixes(scopes: Longs, scoped: int, depth: int, info: Longs) -> int:
    """Unbind the namespace prefixes that an XML element declares.

    Return the number of prefixes left.
    """
    # Declarations are a stack: restore each prefix's previous binding.
    while scoped and scopes[SCOPE * (scoped - 1)] == depth:
        scoped -= 1
        info[scopes[SCOPE * scoped + 1] * INFO + BOUND] = scopes[SCOPE * scoped + 2]
    return scoped


@inner
def element_letter(name: int, info: Longs, letters: int) -> int:
    """Return the automaton's input letter for an element, by its local name and its namespace's number in the rules."""
    prefix = info[name * INFO + PREFIX]
    letter = np.int64(info[name * INFO + ELEMENT])
    return letter + letters * rule_namespace(XMLNS if prefix < 0 else prefix, info)


@inner
def rule_namespace(prefix: int, info: Longs) -> int:
    """Return the number of a prefix's namespace in the rules, from 1, or 0 if they do not use it."""
    bound = info[prefix * INFO + BOUND]
    return np.int64(info[(bound - 1) * INFO + NAMESPACE]) if bound else 0


@inner
def attribute_of(letter: int, count: int, attributes: Longs, info: Longs) -> int:
    """Return the index of the first attribute of an XML tag that has a given name, or -1.

    The bits of `letter` below `SPACE` are the name, as a number in the rules. The bits above
    are the namespace that the attribute must have, or 0 if any is accepted. An attribute
    without a prefix takes precedence.
    """
    prefixed, space = -1, letter >> SPACE
    for each in range(count):
        number = attributes[each * ATTRIBUTES]
        if info[number * INFO + ATTRIBUTE] == letter & (1 << SPACE) - 1:
            prefix = info[number * INFO + PREFIX]
            if space and (prefix < 0 or rule_namespace(prefix, info) != space):
                continue
            # An attribute without a prefix wins at once.
            if prefix < 0:
                return each
            if prefixed < 0:
                prefixed = each
    return prefixed


@inner
def comment_end(text: Octets, at: int, end: int) -> int:
    """Return the offset after an XML comment that begins at `<!--`, or `REFUSED`."""
    place = at + 4
    # Find the first `--`; it must be followed by `>`.
    while place + 2 < end and not (text[place] == 0x2D and text[place + 1] == 0x2D):
        place += 1
    if place + 2 >= end or text[place + 2] != 0x3E:
        return REFUSED
    return place + 3


@inner
def instruction_end(
    text: Octets,
    at: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return the offset after an XML processing instruction `<?...?>`, `REFUSED` or `MANY_NAMES`.

    Its name must not have a prefix or be "xml" in any case.
    """
    info = names.info
    place = at + 2
    while place < end and not is_blank(text[place]) and text[place] != 0x3F:
        place += 1
    number = name_at(text, at + 2, place, names)
    if number < 0:
        return number
    # A target must not have a prefix, and <?xml?> is allowed only at the start of the document.
    if info[number * INFO + PREFIX] >= 0 or (
        place - at == 5
        and text[at + 2] | 32 == 0x78
        and text[at + 3] | 32 == 0x6D
        and text[at + 4] | 32 == 0x6C
    ):
        return REFUSED
    if place < end and text[place] == 0x3F and (place + 1 >= end or text[place + 1] != 0x3E):
        return REFUSED
    while place + 1 < end and not (text[place] == 0x3F and text[place + 1] == 0x3E):
        place += 1
    return place + 2 if place + 1 < end else REFUSED


@inner
def section_end(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Return the end of an XML CDATA section's text, and whether it needs decoding; or `REFUSED`."""
    decode = 0
    while at + 2 < end:
        byte = text[at]
        # `]]>`
        if byte == 0x5D and text[at + 1] == 0x5D and text[at + 2] == 0x3E:
            return at, decode
        if byte == 0x0D:
            decode = 1
        at += 1
    return REFUSED, 0


@inner
def child_number(frames: Longs, depth: int) -> int:
    """Count a child element of the XML element at `depth`. Return its number, from 1."""
    place = depth * FRAME + CHILDREN
    frames[place] += 1
    return np.int64(frames[place])


@inner
def after_marked(
    text: Octets, at: int, end: int, depth: int, frames: Longs, pieces: Longs, count: int
) -> tuple[int, int]:
    """Read an XML CDATA section or comment, and add the section's text to the element at `depth`.

    Return the offset after it, and the number of text pieces in use. Instead of the offset, it may
    return `REFUSED` or `FULL`.
    """
    if load8(text, at + 1) != SECTION_BEGINS or depth == 0:
        # `<!--`
        if text[at + 2] == 0x2D and text[at + 3] == 0x2D:
            return comment_end(text, at, end), count
        return REFUSED, 0
    # After `<![CDATA[`.
    start = at + 9
    at, decode = section_end(text, start, end)
    if at < 0:
        return REFUSED, 0
    if frames[depth * FRAME + TEXT] != UNREAD:
        count = add_text(frames, depth * FRAME, pieces, count, start, at, decode, 1)
        if count < 0:
            return FULL, 0
    return at + 3, count
