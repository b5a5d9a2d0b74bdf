"""Frames of STOMP 1.2: one pass that finds where their commands, headers and bodies lie.

A frame is a command line, header lines, an empty line, the body and a NUL (STOMP 1.2, Augmented BNF).
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import inner, kernel

# What a frame is, in ``kinds``.
OTHER: Final = 0
MESSAGE: Final = 1
RECEIPT: Final = 2
ERROR: Final = 3
CONNECTED: Final = 4

# Problems, in place of the number of frames.
NO_NAME: Final = -1  # a header line without a colon, or with nothing before it
BAD_LENGTH: Final = -2  # a content-length that is not a number
NO_NUL: Final = -3  # no NUL after the body
TOO_LONG: Final = -4  # more header lines or bytes than a frame may have

# What is counted, in ``counts``: header lines, and the place after the last whole frame.
LINES: Final = 0
PLACE: Final = 1

LONGEST_HEADERS: Final = 1 << 20  # bytes: brokers refuse frames with more
LONGEST_BODY: Final = 1 << 30  # bytes: what one column of bodies has room for, twice

NUL: Final = 0
NEWLINE: Final = 10
RETURN: Final = 13
COLON: Final = 58
BACKSLASH: Final = 92


@inner
def line_end(data: Octets, at: int, end: int) -> int:
    """Return the place of the next line feed, ``end`` where there is none."""
    while at < end and data[at] != NEWLINE:
        at += 1
    return at


@inner
def kind_of(data: Octets, begin: int, end: int) -> int:
    """Return what a command is, by its length and its first letter: a server sends only these."""
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
    """Return whether a header has a name."""
    if end - begin != len(name):
        return False
    for at in range(len(name)):
        if data[begin + at] != name[at]:
            return False
    return True


@inner
def number_at(data: Octets, begin: int, end: int) -> int:
    """Return the number in digits between two places, -1 where there is none or it is too large."""
    if end <= begin or end - begin > 10:
        return -1
    number = 0
    for at in range(begin, end):
        digit = int(data[at]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = 10 * number + digit
    return number if number <= LONGEST_BODY else -1


@kernel(
    writes=(
        "kinds",
        "first_lines",
        "body_starts",
        "body_ends",
        "names",
        "name_ends",
        "values",
        "value_ends",
        "escaped",
        "counts",
    )
)
def find_frames(
    data: Octets,
    begin: int,
    end: int,
    length_name: Octets,
    kinds: Longs,
    first_lines: Longs,
    body_starts: Longs,
    body_ends: Longs,
    names: Longs,
    name_ends: Longs,
    values: Longs,
    value_ends: Longs,
    escaped: Octets,
    counts: Longs,
) -> int:
    """Write the places of the whole frames between two places; return how many there are, or a problem.

    ``length_name`` is content-length. A frame's header lines are those from its number in ``first_lines`` to the next frame's. ``escaped`` marks lines with a
    backslash. It stops where a frame is not whole, and where an array is full.
    """
    found = 0
    lines = 0
    at = begin
    counts[LINES] = 0
    counts[PLACE] = begin
    while found < len(kinds):
        while at < end and (data[at] == NEWLINE or data[at] == RETURN or data[at] == NUL):
            at += 1  # heart-beats, and line ends that may follow a frame
        counts[PLACE] = at
        if at >= end:
            return found
        frame = at
        stop = line_end(data, at, end)
        if stop >= end:
            return TOO_LONG if end - frame > LONGEST_HEADERS else found
        last = stop - 1 if stop > at and data[stop - 1] == RETURN else stop
        kind = kind_of(data, at, last)
        first_line = lines
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
            if lines >= len(names):
                # Full: this frame comes first next time, unless it alone has more than fit.
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
            names[lines] = at
            name_ends[lines] = colon
            values[lines] = colon + 1
            value_ends[lines] = last
            escaped[lines] = slash
            if length < 0 and is_name(data, at, colon, length_name):
                length = number_at(data, colon + 1, last)
                if length < 0:
                    return BAD_LENGTH
            lines += 1
            at = stop + 1
        if not whole:
            return TOO_LONG if end - frame > LONGEST_HEADERS else found
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
        kinds[found] = kind
        first_lines[found] = first_line
        body_starts[found] = at
        body_ends[found] = stop
        found += 1
        at = stop + 1
        counts[LINES] = lines
        counts[PLACE] = at
    return found
