"""Find the commands, headers and bodies of STOMP 1.2 frames in one pass.

A frame is a command line, header lines, an empty line, the body and a NUL (STOMP 1.2, Augmented
BNF).
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel

# The types of frames.
OTHER: Final = 0
MESSAGE: Final = 1
RECEIPT: Final = 2
ERROR: Final = 3
CONNECTED: Final = 4

# Problems, returned instead of the number of frames.
NO_NAME: Final = -1  # a header line without a colon, or with nothing before it
BAD_LENGTH: Final = -2  # a content-length that is not a number
NO_NUL: Final = -3  # no NUL after the body
TOO_LONG: Final = -4  # more header lines or bytes than a frame may have

# Elements of ``counts``: the number of header lines, and the offset after the last complete frame.
LINES: Final = 0
PLACE: Final = 1
COUNTS: Final = 2

# Rows of the table ``frames``, which has one column per frame: its type, header lines and body.
KIND: Final = 0
FIRST_LINE: Final = 1
END_LINE: Final = 2
BODY: Final = 3
BODY_END: Final = 4
FRAME: Final = 5

# Rows of the table ``lines``, which has one column per header line. ESCAPED is 1 if the line contains
# a backslash.
NAME: Final = 0
NAME_END: Final = 1
VALUE: Final = 2
VALUE_END: Final = 3
ESCAPED: Final = 4
LINE: Final = 5

LONGEST_HEADERS: Final = 1 << 20  # bytes: brokers refuse frames with more
LONGEST_BODY: Final = 1 << 30  # bytes: half of what an Arrow column of bodies can hold

NUL: Final = 0
NEWLINE: Final = 10
RETURN: Final = 13
COLON: Final = 58
BACKSLASH: Final = 92


@inner
def line_end(data: Octets, at: int, end: int) -> int:
    """Return the offset of the next line feed in STOMP bytes, or ``end`` if there is none."""
    while at < end and data[at] != NEWLINE:
        at += 1
    return at


@inner
def kind_of(data: Octets, begin: int, end: int) -> int:
    """Return the type of a STOMP frame, from the length and the first letter of its command.

    That is enough because servers send only four commands: MESSAGE, RECEIPT, ERROR and CONNECTED.
    The type of any other command is OTHER.
    """
    size = end - begin
    if size == 7 and data[begin] == 77:  # MESSAGE
        return MESSAGE
    if size == 7 and data[begin] == 82:  # RECEIPT
        return RECEIPT
    if size == 5 and data[begin] == 69:  # ERROR
        return ERROR
    if size == 9 and data[begin] == 67:  # CONNECTED
        return CONNECTED
    return OTHER


@inner
def is_name(data: Octets, begin: int, end: int, name: Octets) -> bool:
    """Return whether ``data[begin:end]``, the name of a STOMP header, equals ``name``."""
    if end - begin != len(name):
        return False
    for at in range(len(name)):
        if data[begin + at] != name[at]:
            return False
    return True


@inner
def number_at(data: Octets, begin: int, end: int) -> int:
    """Parse the decimal number of a content-length, or return -1 if it is invalid or too large."""
    if end <= begin or end - begin > 10:
        return -1
    number = 0
    for at in range(begin, end):
        digit = int(data[at]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = 10 * number + digit
    return number if number <= LONGEST_BODY else -1


@kernel(writes=("frames", "lines", "counts"))
def find_frames(
    data: Octets,
    begin: int,
    end: int,
    length_name: Octets,
    limit: int,
    frames: Longs,
    lines: Longs,
    counts: Longs,
) -> int:
    r"""Find the complete STOMP frames in ``data[begin:end]``, at most ``limit``.

    Returns their number, or a problem such as ``NO_NUL``, which is below 0.

    ``length_name`` is ``b"content-length"``. ``frames`` and ``lines`` are tables with a row for
    each constant such as ``BODY``, and a column for each frame or header line. ``counts`` gets the
    number of header lines, and the offset at which the next call begins. The search stops at an
    incomplete frame, or if a table is full.

    Example: ``MESSAGE\n`` ``id:7\n`` ``\n`` ``hi\0`` is one frame: a MESSAGE with header line 0 and
    the body 14:16. The name of the line is 8:10, and its value 11:12.
    """
    room = len(frames) // FRAME
    line_room = len(lines) // LINE
    found = 0
    line = 0
    at = begin
    counts[LINES] = 0
    counts[PLACE] = begin
    while found < min(room, limit):
        while at < end and (data[at] == NEWLINE or data[at] == RETURN or data[at] == NUL):
            at += 1  # heart-beats, and line ends that may follow a frame
        counts[PLACE] = at
        if at >= end:
            return found
        frame = at
        stop = line_end(data, at, end)
        if stop >= end:
            return TOO_LONG if end - frame > LONGEST_HEADERS else found
        # A line may end with CR LF; ``last`` is the offset of its end without either.
        last = stop - 1 if stop > at and data[stop - 1] == RETURN else stop
        kind = kind_of(data, at, last)
        first_line = line
        length = -1
        at = stop + 1
        whole = False
        while True:
            if at - frame > LONGEST_HEADERS:
                return TOO_LONG
            stop = line_end(data, at, end)
            if stop >= end:
                break
            last = stop - 1 if stop > at and data[stop - 1] == RETURN else stop
            if last == at:
                at = stop + 1
                whole = True
                break
            if line >= line_room:
                # The table is full: the next call starts with this frame. If it is the first one,
                # it alone has more lines than the table.
                return TOO_LONG if found == 0 else found
            colon = at
            slash = 0
            while colon < last and data[colon] != COLON:
                if data[colon] == BACKSLASH:
                    slash = 1
                colon += 1
            if colon >= last or colon == at:
                return NO_NAME
            for place in range(colon + 1, last):
                if data[place] == BACKSLASH:
                    slash = 1
            lines[NAME * line_room + line] = at
            lines[NAME_END * line_room + line] = colon
            lines[VALUE * line_room + line] = colon + 1
            lines[VALUE_END * line_room + line] = last
            lines[ESCAPED * line_room + line] = slash
            if length < 0 and is_name(data, at, colon, length_name):
                length = number_at(data, colon + 1, last)
                if length < 0:
                    return BAD_LENGTH
            line += 1
            at = stop + 1
        if not whole:
            return TOO_LONG if end - frame > LONGEST_HEADERS else found
        # With a content-length the body may contain NULs; without it the body ends at the first
        # NUL.
        stop = at + length
        if length < 0:
            stop = at
            while stop < end and data[stop] != NUL:
                stop += 1
            if stop - at > LONGEST_BODY:
                return TOO_LONG
        if stop >= end:
            return found
        if data[stop] != NUL:
            return NO_NUL
        frames[KIND * room + found] = kind
        frames[FIRST_LINE * room + found] = first_line
        frames[END_LINE * room + found] = line
        frames[BODY * room + found] = at
        frames[BODY_END * room + found] = stop
        found += 1
        at = stop + 1
        counts[LINES] = line
        counts[PLACE] = at
    return found
