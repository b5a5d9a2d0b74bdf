"""Text of XML elements and attributes, CDATA sections and comments: find its end, decode references, and join its pieces."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, instruction
from trailgate.columnar.word_kernels import first_mark, load8
from trailgate.formats.xml.kernels.characters import is_blank
from trailgate.formats.xml.kernels.tables import (
    FIRST_PIECE,
    FRAME,
    FULL,
    IN_SECTION,
    LAST,
    NEXT,
    NOTHING,
    PIECE,
    PIECE_END,
    PIECE_START,
    PIECES,
    PLAIN,
    REFUSED,
    SECTION,
    TEXT,
    TEXT_END,
    TEXT_START,
    UNREAD,
)

AMPERSAND: Final = 0x26
CARRIAGE: Final = 0x0D
LINE: Final = 0x0A
BRACKET: Final = 0x5D
LOWER: Final = np.uint64(0xFFFFFFFF)
UPPER: Final = np.uint64(32)
ONE: Final = np.uint64(1)

# Where text comes from decides how it is decoded.
OF_ELEMENT: Final = 0
OF_SECTION: Final = 1  # CDATA
OF_ATTRIBUTE: Final = 2
AMP: Final = np.uint64(0x3B706D61)  # "amp;"
LT: Final = np.uint64(0x3B746C)
GT: Final = np.uint64(0x3B7467)
APOS: Final = np.uint64(0x3B736F7061)
QUOT: Final = np.uint64(0x3B746F7571)
SECTION_BEGINS: Final = np.uint64(0x5B41544144435B21)  # "![CDATA["


@inner
def text_end(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Return the end of XML text, at a `<` or the end, and whether it needs decoding; or `REFUSED`.

    32 bytes are tested at a time. Text needs decoding (1) if it has a reference or a carriage
    return; "]]>" is not allowed. Example: `a&lt;b<c>` returns 6 and 1, because of the reference.
    """
    begin, decode = at, 0
    while at < end:
        marks = text_marks(text, at)
        tags, others = marks & LOWER, marks >> UPPER
        if tags:
            # Keep only the marks below the lowest tag mark: tags & -tags is the lowest set bit, and
            # minus one gives all bits below it.
            others &= (tags & (np.uint64(0) - tags)) - ONE
        if not others:
            if tags:
                return min(at + first_mark(tags), end), decode
            at += 32
            continue
        at += first_mark(others)
        if at >= end:
            break
        byte = text[at]
        if byte == AMPERSAND:
            size, _ = read_reference(text, at, end)
            if size == 0:
                return REFUSED, 0
            decode = 1
            at += size
        elif byte == CARRIAGE:
            decode = 1
            at += 1
        # `>` after `]]`.
        elif at - begin >= 2 and text[at - 1] == BRACKET and text[at - 2] == BRACKET:
            return REFUSED, 0
        else:
            at += 1
    return end, decode


@inner
def read_reference(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Return the length and the character of an XML reference at an `&`; length 0 if it is none."""
    if at + 3 >= end:
        return 0, 0
    # `&#`
    if text[at + 1] == 0x23:
        return number_reference(text, at, end)
    # The bytes after the `&`, the first one lowest: `lt;` is the word ...3B746C. The masks keep the
    # three to five bytes to compare.
    word = load8(text, at + 1)
    size, point = 0, 0
    if word & np.uint64(0xFFFFFF) == LT:
        size, point = 4, 0x3C
    elif word & np.uint64(0xFFFFFF) == GT:
        size, point = 4, 0x3E
    elif word & np.uint64(0xFFFFFFFF) == AMP:
        size, point = 5, 0x26
    elif word & np.uint64(0xFFFFFFFFFF) == APOS:
        size, point = 6, 0x27
    elif word & np.uint64(0xFFFFFFFFFF) == QUOT:
        size, point = 6, 0x22
    if at + size > end:
        return 0, 0
    return size, point


@inner
def number_reference(text: Octets, at: int, end: int) -> tuple[int, int]:
    """Return the length and the character of an XML reference such as `&#10;`; length 0 if it is none.

    Only characters allowed in XML are accepted. The number is capped at 0x110000, which is
    above all characters, so it cannot overflow.

    Example: `&#x41;` and `&#65;` are 65, with 6 and 5 bytes; `&#0;` and `&#x41` return 0, 0.
    """
    hexadecimal = text[at + 2] == 0x78
    first = at + 3 if hexadecimal else at + 2
    place, point = first, 0
    while place < end:
        digit = np.int64(text[place])
        if 48 <= digit <= 57:
            digit -= 48
        elif hexadecimal and 97 <= (digit | 32) <= 102:
            digit = (digit | 32) - 87
        else:
            break
        point = min(point * (16 if hexadecimal else 10) + digit, 0x110000)
        place += 1
    # No digits, or no semicolon after them.
    if place == first or place >= end or text[place] != 0x3B:
        return 0, 0
    if not (
        point == 9
        or point == 10
        or point == 13
        or 0x20 <= point <= 0xD7FF
        or 0xE000 <= point <= 0xFFFD
        or 0x10000 <= point <= 0x10FFFF
    ):
        return 0, 0
    return place + 1 - at, point


@inner
def decode_references(text: Octets, at: int, end: int, how: int, to: int) -> int:
    """Write XML text to the offset `to`, with references and line ends decoded.

    `how` is the kind of text, such as `OF_ATTRIBUTE`. Return the offset after the written text,
    which is never longer than before.
    """
    while at < end:
        byte = text[at]
        if byte == AMPERSAND and how != OF_SECTION:
            size, point = read_reference(text, at, end)
            to = put_character(text, point, to)
            at += size
            continue
        # CR LF and a single CR become LF (XML 1.0, end-of-line handling).
        if byte == CARRIAGE:
            if at + 1 < end and text[at + 1] == LINE:
                at += 1
            byte = np.uint8(LINE)
        # Line ends and tabs in attributes become blanks (XML 1.0, attribute-value normalization).
        if how == OF_ATTRIBUTE and byte < 0x20:
            byte = np.uint8(0x20)
        text[to] = byte
        at += 1
        to += 1
    return to


@inner
def put_character(text: Octets, point: int, to: int) -> int:
    """Write the character of an XML reference as UTF-8. Return the offset after it."""
    # The first byte states the size in its upper bits, and each further one has six bits.
    # Example: U+20AC is 0010 000010 101100 in bits: 1110 0010, 10 000010, 10 101100, or E2 82 AC.
    if point < 0x80:
        text[to] = point
        return to + 1
    if point < 0x800:
        text[to] = 0xC0 | point >> 6
        text[to + 1] = 0x80 | point & 63
        return to + 2
    if point < 0x10000:
        text[to] = 0xE0 | point >> 12
        text[to + 1] = 0x80 | point >> 6 & 63
        text[to + 2] = 0x80 | point & 63
        return to + 3
    text[to] = 0xF0 | point >> 18
    text[to + 1] = 0x80 | point >> 12 & 63
    text[to + 2] = 0x80 | point >> 6 & 63
    text[to + 3] = 0x80 | point & 63
    return to + 4


@inner
def add_text(
    frames: Longs,
    frame: int,
    pieces: Longs,
    count: int,
    start: int,
    end: int,
    decode: int,
    section: int,
) -> int:
    """Add a piece to an open XML element's text. Return the number of pieces in use, or `FULL`.

    A single piece without anything to decode is stored only as a span in the frame.
    """
    if frames[frame + TEXT] == NOTHING and not decode:
        frames[frame + TEXT] = SECTION if section else PLAIN
        frames[frame + TEXT_START], frames[frame + TEXT_END] = start, end
        return count
    if (count + 2) * PIECE > len(pieces):
        return FULL
    # A second piece: turn the single span into the first piece of a list.
    if frames[frame + TEXT] == PLAIN or frames[frame + TEXT] == SECTION:
        first, last = frames[frame + TEXT_START], frames[frame + TEXT_END]
        in_section = 1 if frames[frame + TEXT] == SECTION else 0
        frames[frame + TEXT] = NOTHING
        count = add_piece(frames, frame, pieces, count, first, last, in_section)
    return add_piece(frames, frame, pieces, count, start, end, section)


@inner
def add_piece(
    frames: Longs, frame: int, pieces: Longs, count: int, start: int, end: int, section: int
) -> int:
    """Append a piece of text to the list of an open XML element.

    Return the number of pieces in use.
    """
    row = count * PIECE
    pieces[row + PIECE_START], pieces[row + PIECE_END] = start, end
    pieces[row + IN_SECTION], pieces[row + NEXT] = section, -1
    # The pieces of an element are a linked list: NEXT of its last piece is the row of this one.
    if frames[frame + TEXT] == PIECES:
        pieces[frames[frame + LAST] * PIECE + NEXT] = count
    else:
        frames[frame + FIRST_PIECE] = count
    frames[frame + LAST] = count
    frames[frame + TEXT] = PIECES
    return count + 1


@inner
def join_pieces(
    text: Octets, frames: Longs, frame: int, pieces: Longs, to: int
) -> tuple[int, int, int]:
    """Decode and join an XML element's pieces of text.

    Return the end of the joined text and its bounds without surrounding blanks, or `FULL`.

    Blanks in CDATA sections are kept. Example: " a", CDATA "b ", " " are joined to " ab  "; the
    bounds exclude the first blank and the last one, but not the blank of the CDATA section.
    """
    start = to
    blanks_end, blanks_start = np.int64(-1), to
    piece = frames[frame + FIRST_PIECE]
    while piece >= 0:
        row = piece * PIECE
        first, last = pieces[row + PIECE_START], pieces[row + PIECE_END]
        if to + last - first > len(text):
            return FULL, 0, 0
        section = pieces[row + IN_SECTION]
        # Leading blanks end at the first CDATA section, and trailing ones begin after the last.
        if section and blanks_end < 0:
            blanks_end = to
        to = decode_references(text, first, last, OF_SECTION if section else OF_ELEMENT, to)
        if section:
            blanks_start = to
        piece = pieces[row + NEXT]
    if blanks_end < 0:
        blanks_end = to
    end = to
    while start < blanks_end and is_blank(text[start]):
        start += 1
    blanks_start = max(blanks_start, start)
    while end > blanks_start and is_blank(text[end - 1]):
        end -= 1
    return to, start, end


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


@instruction
def text_marks(data: Any, at: int) -> Any:
    """Compare 32 bytes of XML text at once, and return two bits for each.

    The lower 32 bits mark ``<``, the upper 32 bits ``&``, ``>`` and CR.
    """
    marks = np.uint64(0)
    for index in range(32):
        byte = data[at + index]
        if byte == 0x3C:
            marks |= np.uint64(1) << np.uint64(index)
        if byte == 0x26 or byte == 0x3E or byte == 0x0D:
            marks |= np.uint64(1) << np.uint64(32 + index)
    return marks
