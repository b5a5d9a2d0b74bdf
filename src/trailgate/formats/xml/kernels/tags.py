"""Read XML tags with their attributes, and processing instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, instruction
from trailgate.columnar.word_kernels import EVERY, first_mark, load8
from trailgate.formats.xml.kernels.characters import after_blanks, is_blank
from trailgate.formats.xml.kernels.names import (
    bind_prefixes,
    is_bound,
    name_at,
    name_end,
    rule_namespace,
)
from trailgate.formats.xml.kernels.tables import (
    ATTRIBUTE,
    ATTRIBUTES,
    FRAME,
    INFO,
    NAME_SIZE,
    POOLED,
    PREFIX,
    REFUSED,
    SCOPED,
    SEEN,
    SERIAL,
    SPACE,
    TO_DECODE,
    VALUE_END,
    VALUE_START,
    XMLNS,
    NameArrays,
    WorkArrays,
)
from trailgate.formats.xml.kernels.text import (
    AMPERSAND,
    LOWER,
    ONE,
    UPPER,
    read_reference,
)


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
def start_tag(
    text: Octets,
    at: int,
    end: int,
    depth: int,
    names: NameArrays,
    work: WorkArrays,
    scoped: int,
    side: int,
) -> tuple[int, int, int, int, int]:
    """Read an XML start tag, and bind the prefixes that it declares.

    Return the offset after it, the number of its name, the number of attributes, whether the
    element is empty, and the number of bound prefixes.

    Instead of the offset, a negative value is the reason to refuse the message. Example: `<a:b
    x="1"/>` returns its end, the number of "a:b", 1, 1, and `scoped` unchanged.
    """
    info, used = names.info, names.used
    frames, attributes = work.frames, work.attributes
    place = name_end(text, at + 1, end)
    name = name_at(text, at + 1, place, names)
    if name < 0:
        return name, 0, 0, 0, 0
    # Room for this frame and one more, which predicates use to look ahead.
    if place >= end or (depth + 3) * FRAME > len(frames):
        return REFUSED, 0, 0, 0, 0
    info[name * INFO + SEEN] = max(info[name * INFO + SEEN], 0)
    frames[(depth + 1) * FRAME + NAME_SIZE] = place - at - 1
    at, count, closed = place + 1, 0, 0
    if text[place] != 0x3E:
        used[SERIAL] += 1
        at, count, closed, prefixed = read_attributes(
            text, place, end, used[SERIAL], names, attributes
        )
        if at < 0:
            return at, 0, 0, 0, 0
        if prefixed:
            scoped = bind_prefixes(
                text, count, depth + 1, attributes, names, work.scopes, scoped, side
            )
            if scoped < 0:
                return scoped, 0, 0, 0, 0
            used[SCOPED] = scoped
    if not is_bound(info[name * INFO + PREFIX], info):
        return REFUSED, 0, 0, 0, 0
    return at, name, count, closed, scoped


@inner
def after_end_tag(
    text: Octets,
    at: int,
    end: int,
    depth: int,
    frames: Longs,
    names: NameArrays,
) -> int:
    """Return the offset after an XML end tag, or `REFUSED`.

    The name is compared with the name of the open element: its first and last eight bytes with the
    keys that it has in the table of names. Words read beyond the message are within the text,
    because `SPARE` bytes follow all messages.

    Example: at `</id >` in an element "id", the word from 2 on is masked to two bytes, which equal
    the first key; the second key is 0. The result is 6.
    """
    keys, info, pool = names.keys, names.info, names.pool
    if depth == 0:
        return REFUSED
    name, size = frames[depth * FRAME], frames[depth * FRAME + NAME_SIZE]
    at += 2
    first, last = load8(text, at), np.uint64(0)
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    alike = keys[2 * name] == first and keys[2 * name + 1] == last
    # The bytes between the first and the last eight.
    if size > 16:
        pooled = info[name * INFO + POOLED]
        for byte in range(8, size - 8):
            alike = alike and text[at + byte] == pool[pooled + byte]
    at += size
    if not alike or at >= end:
        return REFUSED
    if text[at] != 0x3E:
        at = after_blanks(text, at, end)
        if at >= end or text[at] != 0x3E:
            return REFUSED
    return at + 1


@inner
def value_end(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Return the end of an XML attribute's value, and whether it needs decoding; or `REFUSED`.

    The opening quote is at `at - 1`.

    Example: for `"x&amp;y"` it returns the offset of the closing quote, and 1. A `<` in a value is
    refused.
    """
    quote, decode = text[at - 1], 0
    while at < end:
        marks = value_marks(text, at, quote)
        quotes, others = marks & LOWER, marks >> UPPER
        if quotes:
            # Only marks before the first closing quote count.
            others &= (quotes & (np.uint64(0) - quotes)) - ONE
        if not others:
            if quotes:
                at += first_mark(quotes)
                break
            at += 32
            continue
        at += first_mark(others)
        if at >= end:
            break
        decode = 1
        if text[at] == AMPERSAND:
            size, _ = read_reference(text, at, end)
            if size == 0:
                return REFUSED, 0
            at += size
        # `<` is not allowed in a value.
        elif text[at] == 0x3C:
            return REFUSED, 0
        else:
            at += 1
    return (at, decode) if at < end else (REFUSED, 0)


@inner
def tag_end(text: Octets, at: int, end: int) -> int:
    """Return the offset after an XML tag or processing instruction, or `REFUSED`.

    In a tag, a `>` inside quotes does not count. An instruction ends at `?>`, quotes or not.
    """
    # `<?`
    instruction = text[at + 1] == 0x3F
    quote = 0
    at += 2
    while at < end:
        byte = text[at]
        if instruction:
            if byte == 0x3E and text[at - 1] == 0x3F:
                return at + 1
        elif quote:
            if byte == quote:
                quote = 0
        elif byte == 0x22 or byte == 0x27:
            quote = byte
        elif byte == 0x3E:
            return at + 1
        at += 1
    return REFUSED


@instruction
def value_marks(data: Any, at: int, quote: Any) -> Any:
    """Compare 32 bytes of an XML attribute at once, and return two bits for each.

    The lower 32 bits mark the quote, the upper 32 bits ``&``, ``<`` and controls.
    """
    marks = np.uint64(0)
    for index in range(32):
        byte = data[at + index]
        if byte == quote:
            marks |= np.uint64(1) << np.uint64(index)
        if byte == 0x26 or byte == 0x3C or byte < 0x20:
            marks |= np.uint64(1) << np.uint64(32 + index)
    return marks
