"""The layout of the XML scanner's tables.

Each table is one array of integers with rows of fixed width; the constants are the columns of a
row.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from trailgate.arrays import Longs, Octets, Offsets, Words

SPARE: Final = (
    64  # zero bytes after the messages, because they are read in blocks of up to 64 bytes
)

# Types of records.
OUTER: Final = 0
OPERATIONS: Final = 1
COLUMNS: Final = 2
ANCHORS: Final = 3  # elements around a rule's element at which its paths begin (as in ../id)

# A record type in `shape`: its offset in `records`, its capacity, the number of records of the messages
# before, the same including this message, and the width of a record, a multiple of `LINE`.
SHAPE: Final = 5
BASE: Final = 0
ROOM: Final = 1
KEPT: Final = 2
COUNT: Final = 3
WIDTH: Final = 4
LINE: Final = 8

# Lengths of values that a record lacks: the path finds no element, or an element without content.
ABSENT_CELL: Final = -1
EMPTY: Final = -2

# The fields of a record; column records have only the first two. After them follow the pointers to
# anchors, then the start and length of each value slot.
RULE: Final = 0
OWNER: Final = 1
MESSAGE: Final = 2
TRANSACTION: Final = 3
START: Final = 4
END: Final = 5
HEADS: Final = (6, 6, 2, 6)  # the number of fields before the pointers, by record type

# An instance of a rule in `instances`: the offset of its record in `records`, the record's number, and
# its depth. Row 0 is the last instance of any depth; then there is one row per depth.
PLACED: Final = 3
PLACE: Final = 0
NUMBER: Final = 1
DEPTH: Final = 2

# An action: what it does (or the number of an attribute's name), the instance and level of its record,
# the field of the slot or pointer, the record's type, and two operands. For an action that stores a
# path's value, the operands are the field that marks repeated values, and the bit in it.
ACTION: Final = 8
PHASES: Final = 4
INSTANCE: Final = 1
LEVEL: Final = 2
FIELD: Final = 3
KIND: Final = 4
FIRST: Final = 5
SECOND: Final = 6
# For text below `//`: the field with the start of the element that supplied the value, otherwise 0.
ORDER: Final = 7
# Negative levels: LOOSE is the only open instance, at any depth, of a rule whose matches must not be
# nested (the ORDER of its RECORD is 1). DOCUMENT is the document; a fixed depth is DOCUMENT - depth.
LOOSE: Final = -1
DOCUMENT: Final = -2

# A namespace prefix declared in an open element: the element's depth, the prefix, and its BOUND before.
SCOPE: Final = 3


# A choice: the offset of its groups of predicates, their number, and its first outcome. There is one
# outcome for each combination of the groups' values. A group: what is compared, the attribute or counter,
# the offset and number of its values, and the offset and number of its needs. A value is the bounds of a
# literal, or a number. A need is another group and the value that it must have.
CHOICE: Final = 3
GROUP: Final = 6
BY_ATTRIBUTE: Final = 0
BY_POSITION: Final = 1
BY_TEXT: Final = 2

# A name in `info`.
INFO: Final = 9
SIZE: Final = 0
POOLED: Final = 1  # the offset of its bytes in the pool
PREFIX: Final = 2  # the number of its prefix, or -1
LOCAL: Final = 3
ELEMENT: Final = 4  # its number as an element name in the rules, otherwise 0
ATTRIBUTE: Final = 5
SEEN: Final = 6  # the last tag that had it as an attribute; 0: only used for elements; -1: not used
BOUND: Final = 7  # as a prefix: 1 + the word of its namespace, or 0 if it is not declared
NAMESPACE: Final = 8  # as a namespace: its number in the rules, from 1, otherwise 0
SPACE: Final = 20  # bits of an attribute's number in the rules; its namespace is in the bits above

# Words that always exist: two prefixes and their namespaces. The namespace of elements without a
# prefix (xmlns="...") is bound to `XMLNS`.
XML: Final = 0
XMLNS: Final = 1
XML_SPACE: Final = 2
XMLNS_SPACE: Final = 3

# Slots of `used`: the numbers of names, of bytes in the pool, and of tags with attributes; the offsets
# of the next decoded value and of the literals; the number of prefixes that are bound in this message.
NAMES: Final = 0
POOL: Final = 1
SERIAL: Final = 2
DECODED: Final = 3
LITERALS: Final = 4
SCOPED: Final = 5
USED: Final = 6

# An open element in `frames`.
FRAME: Final = 11
STATE: Final = 1
TEXT: Final = 2
TEXT_START: Final = 3
TEXT_END: Final = 4
LAST: Final = 5  # its last piece of text
INNER: Final = 6  # the end of its start tag
CHILDREN: Final = 7
FIRST_PIECE: Final = 8
NAME_SIZE: Final = 9
TAG_START: Final = 10

# States of an element's text.
NOTHING: Final = 0
PLAIN: Final = 1
SECTION: Final = 2
PIECES: Final = 3
UNREAD: Final = 4  # no rule needs the text or the end of the element

# A piece of text that must be decoded; NEXT is -1 for the last one.
PIECE: Final = 4
PIECE_START: Final = 0
PIECE_END: Final = 1
IN_SECTION: Final = 2
NEXT: Final = 3

# An attribute of the current tag. The first column is its name.
ATTRIBUTES: Final = 4
VALUE_START: Final = 1
VALUE_END: Final = 2
TO_DECODE: Final = 3

# How a scan ends. All but DONE are returned with the number of the message that was not read.
DONE: Final = 0
REFUSED: Final = -1
FULL: Final = -2
MANY_NAMES: Final = -3
UNKNOWN_DECLARATION: Final = -4
NEEDS_MORE: Final = -5  # only when cutting: the text so far ends within a token

# The state of cutting a message: the offset of the next token, the numbers of open elements and
# prefixes, the depth of the open match (0 if none), whether the root has begun, and how much of `cuts`
# is written.
NOW: Final = 6
CUT_AT: Final = 0
CUT_DEPTH: Final = 1
CUT_SCOPED: Final = 2
CUT_INSIDE: Final = 3
CUT_BEGUN: Final = 4
CUT_WRITTEN: Final = 5

# A cut: its offset and the number of open elements; then for each of these the bounds of its start tag
# and the size of its name.
CUT: Final = 2
OPENED: Final = 3
NO_ROOM: Final = -2


class NameArrays(NamedTuple):
    """The words of an XML scan, such as names and namespaces, which are numbered from 0.

    `table` is a hash table of the numbers, plus 1. Word n has two keys (its first and last eight
    bytes), a row of `INFO` numbers in `info`, and its bytes in `pool`. `used` states how much is
    filled.
    """

    table: Offsets
    keys: Words
    info: Longs
    pool: Octets
    used: Longs


class RuleArrays(NamedTuple):
    """The tables of the XML rules, as `Automaton` has them.

    `letters` is the number of element names per namespace, and `counters` the number of counters
    per depth. `instances` is the number of instances: one for each pair of a rule and a record
    type.
    """

    step: Offsets
    choices: Longs
    outcomes: Longs
    predicates: Longs
    bounds: Longs
    actions: Longs
    letters: int
    instances: int
    counters: int


class WorkArrays(NamedTuple):
    """The working arrays of an XML scan.

    `frames` has a row for each open element, and `scopes` one for each namespace prefix declared in
    them. `instances` refers to the open records of rules by depth, `counters` counts elements for
    position predicates, `attributes` are those of the current tag, and `pieces` are pieces of text.
    """

    frames: Longs
    instances: Longs
    counters: Longs
    attributes: Longs
    pieces: Longs
    scopes: Longs


class MessageArrays(NamedTuple):
    """A batch of XML messages: message i is `text[starts[i] : ends[i]]`; decoded values follow."""

    text: Octets
    starts: Longs
    ends: Longs


class MatchArrays(NamedTuple):
    """The records of XML matches, and in `shape` a row of `SHAPE` columns for each record type."""

    records: Offsets
    shape: Longs


class ActionType(IntEnum):
    """What an action of the XML scanner does: open or close a match's record, or store a value in it."""

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
