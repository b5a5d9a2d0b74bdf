"""How the scanner's tables are laid out: each is one array of rows of numbers, and these are the places in a row.

Names of elements and attributes as numbers: each is checked once, then known by its first and last eight bytes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8
from trailgate.formats.xml.kernels.characters import checked_name

SPARE: Final = 64  # bytes of zeros after the messages: they are looked at in words

# Kinds of records.
OUTER: Final = 0
OPERATIONS: Final = 1
COLUMNS: Final = 2
ANCHORS: Final = 3  # elements around a rule's that its paths begin at

# A kind of records, in ``shape``: where it begins in ``records``, how many fit, how many the messages before have, and this one
# with them; how many numbers a record has, a multiple of ``LINE``.
SHAPE: Final = 5
BASE: Final = 0
ROOM: Final = 1
KEPT: Final = 2
COUNT: Final = 3
WIDTH: Final = 4
LINE: Final = 8

# The length of a value that a record does not have: its path finds no element, or one without content.
ABSENT_CELL: Final = -1
EMPTY: Final = -2

# Fields of a record; those of columns have the first two alone. After them are its pointers to anchors, then start and length of each slot.
RULE: Final = 0
OWNER: Final = 1
MESSAGE: Final = 2
TRANSACTION: Final = 3
START: Final = 4
END: Final = 5
HEADS: Final = (6, 6, 2, 6)  # how many fields are before the pointers, by kind

# An instance of a rule, in ``instances``: where its record is in ``records``, the record's number, and its depth. There is a row for the
# last one of any depth, then one for each depth.
PLACED: Final = 3
PLACE: Final = 0
NUMBER: Final = 1
DEPTH: Final = 2

# An action: what it does (or the number of an attribute's name), the instance and level of its record, the field of the slot or pointer,
# the record's kind, and two more. Of what stores a path's value these are the field of further values, and the bit there.
ACTION: Final = 8
PHASES: Final = 4
INSTANCE: Final = 1
LEVEL: Final = 2
FIELD: Final = 3
KIND: Final = 4
FIRST: Final = 5
SECOND: Final = 6
# Of text below ``//``: the field of where the element begins that gave the value, else 0.
ORDER: Final = 7
# Levels below 0: of the one of an instance that is open, where none may be in another (the ORDER of its RECORD is 1), and of the document;
# those of fixed depths are ``DOCUMENT`` - depth.
LOOSE: Final = -1
DOCUMENT: Final = -2

# A prefix that is declared in an open element: the element's depth, the name, and what ``BOUND`` of that was before.
SCOPE: Final = 3


class What(IntEnum):
    """What an action does."""

    RECORD = 0  # opens a record; FIELD is the instance of its owner, FIRST the rule, SECOND whether it is a transaction's
    EXISTS = 1
    NAME = 2
    POSITION = 3
    LITERAL = 4  # FIRST: where it is among the literals, SECOND: its length
    POINT = 5  # FIRST: the instance of the anchor, SECOND: its level
    TEXT = 6
    CONTENT = 7
    EXACT_TEXT = 8
    CLOSE = 9


# A choice: where its groups of predicates begin, how many they are, and its first outcome. An outcome is for one value of each group, or none.
# A group is what predicates of a tag compare: by what, the attribute or counter, where its values are and how many, where its needs are
# and how many. A value is the bounds of a literal, or a number; a need is another group and which of its values must hold.
CHOICE: Final = 3
GROUP: Final = 6
BY_ATTRIBUTE: Final = 0
BY_POSITION: Final = 1
BY_TEXT: Final = 2

# A name, in ``info``.
INFO: Final = 9
SIZE: Final = 0
POOLED: Final = 1  # where its bytes are
PREFIX: Final = 2  # the name of its prefix, -1 where there is none
LOCAL: Final = 3
ELEMENT: Final = 4  # the number of an element's name in the rules, else 0
ATTRIBUTE: Final = 5
SEEN: Final = 6  # the last tag that had it as an attribute, 0 for elements alone, -1 before
BOUND: Final = (
    7  # 1 + the word of the namespace that it stands for as a prefix, 0 where it is not declared
)
NAMESPACE: Final = 8  # which namespace of the rules a word is, from 1, else 0
SPACE: Final = 20  # bits of an attribute's number in the rules, above which its namespace is

# Words that are always there: two prefixes, and the namespaces that are theirs alone. That of elements without a prefix is bound to ``XMLNS``.
XML: Final = 0
XMLNS: Final = 1
XML_SPACE: Final = 2
XMLNS_SPACE: Final = 3

# What ``used`` counts: names, bytes of names, tags with attributes, and where room for decoded values begins.
NAMES: Final = 0
POOL: Final = 1
SERIAL: Final = 2
DECODED: Final = 3
LITERALS: Final = 4
USED: Final = 5

# An open element, in ``frames``.
FRAME: Final = 11
STATE: Final = 1
TEXT: Final = 2
TEXT_START: Final = 3
TEXT_END: Final = 4
LAST: Final = 5  # of its pieces of text
INNER: Final = 6  # where its start tag ends
CHILDREN: Final = 7
FIRST_PIECE: Final = 8
NAME_SIZE: Final = 9
TAG_START: Final = 10

# States of an element's text.
NOTHING: Final = 0
PLAIN: Final = 1
SECTION: Final = 2
PIECES: Final = 3
UNREAD: Final = 4  # no rule needs it, nor where the element ends

# A piece of text that is decoded; NEXT is -1 for the last.
PIECE: Final = 4
PIECE_START: Final = 0
PIECE_END: Final = 1
IN_SECTION: Final = 2
NEXT: Final = 3

# An attribute of the tag that is read.
ATTRIBUTES: Final = 4
VALUE_START: Final = 1
VALUE_END: Final = 2
TO_DECODE: Final = 3

# How a scan ends. All but DONE are returned with the message that was not read.
DONE: Final = 0
REFUSED: Final = -1
FULL: Final = -2
MANY_NAMES: Final = -3
UNKNOWN_DECLARATION: Final = -4
NEEDS_MORE: Final = -5  # of a message that is cut: its text ends within a token

# Where the cutting of a message is: the token that comes next, how many elements and prefixes are open, the depth of the element that
# is not cut, whether the root has begun, and how much of ``cuts`` is written.
NOW: Final = 6
CUT_AT: Final = 0
CUT_DEPTH: Final = 1
CUT_SCOPED: Final = 2
CUT_INSIDE: Final = 3
CUT_BEGUN: Final = 4
CUT_WRITTEN: Final = 5

# A place to cut at, and how many elements are open there; then of each where its start tag is, and the size of its name.
CUT: Final = 2
OPENED: Final = 3


NO_NAME: Final = -1
NO_ROOM: Final = -2
EVERY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def first_place(first: int, last: int, size: int, places: int) -> int:
    """Return where in a table the search for a word begins, by its first and last eight bytes and its length."""
    mixed = np.uint64(first) ^ (np.uint64(last) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(size)
    return np.int64((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(40)) & (places - 1)


@kernel(writes=("table",))
def fill_table(keys: Words, info: Longs, names: int, table: Offsets) -> None:
    """Write the numbers of so many words to an empty table."""
    for number in range(names):
        size = info[number * INFO + SIZE]
        place = first_place(keys[2 * number], keys[2 * number + 1], size, len(table))
        while table[place]:
            place = (place + 1) & (len(table) - 1)
        table[place] = number + 1


@inner
def find_name(
    text: Octets, at: int, size: int, table: Offsets, keys: Words, info: Longs, pool: Octets
) -> int:
    """Return the number of a name of one byte or more, or -1 - its free place in the table."""
    first, last = load8(text, at), np.uint64(0)
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    place = first_place(first, last, size, len(table))
    while True:
        number = np.int64(table[place]) - 1
        if number < 0:
            return -1 - place
        if (
            keys[2 * number] == first
            and keys[2 * number + 1] == last
            and info[number * INFO + SIZE] == size
        ):
            alike = True
            pooled = info[number * INFO + POOLED]
            for byte in range(8, size - 8):
                alike &= text[at + byte] == pool[pooled + byte]
            if alike:
                return number
        place = (place + 1) & (len(table) - 1)


@inner
def insert_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Add a name at its free place of the table and return its number, or ``NO_ROOM``."""
    number, pooled = used[NAMES], used[POOL]
    if (number + 1) * INFO > len(info) or pooled + size > len(pool):
        return NO_ROOM
    first, last = load8(text, at), np.uint64(0)
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    keys[2 * number], keys[2 * number + 1] = first, last
    for byte in range(size):
        pool[pooled + byte] = text[at + byte]
    row = number * INFO
    info[row + SIZE], info[row + POOLED] = size, pooled
    info[row + PREFIX], info[row + LOCAL] = -1, -1
    info[row + ELEMENT], info[row + ATTRIBUTE] = 0, 0
    info[row + SEEN], info[row + BOUND] = -1, 0
    info[row + NAMESPACE] = 0
    table[place] = number + 1
    used[NAMES], used[POOL] = number + 1, pooled + size
    return number


@inner
def add_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Check a name that is new, add it and its parts; return its number, ``NO_NAME`` or ``NO_ROOM``."""
    colon = checked_name(text, at, at + size)
    if colon < 0:
        return NO_NAME
    number = insert_name(text, at, size, place, table, keys, info, pool, used)
    if number < 0 or colon == 0:
        return number
    prefix = find_name(text, at, colon, table, keys, info, pool)
    if prefix < 0:
        prefix = insert_name(text, at, colon, -1 - prefix, table, keys, info, pool, used)
    start, rest = at + colon + 1, size - colon - 1
    local = find_name(text, start, rest, table, keys, info, pool)
    if local < 0:
        local = insert_name(text, start, rest, -1 - local, table, keys, info, pool, used)
    if prefix < 0 or local < 0:
        return NO_ROOM
    info[number * INFO + PREFIX], info[number * INFO + LOCAL] = prefix, local
    info[number * INFO + ELEMENT] = info[local * INFO + ELEMENT]
    if prefix != XMLNS:
        info[number * INFO + ATTRIBUTE] = info[local * INFO + ATTRIBUTE]
    return number
