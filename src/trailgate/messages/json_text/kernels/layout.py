"""What the scanner's numbers mean: kinds of values, problems of texts, and counters."""

from __future__ import annotations

from typing import Final

SPARE: Final = 64  # bytes of zeros after the messages: they are looked at in words

# Kinds of values.
OBJECT: Final = 1
ARRAY: Final = 2
STRING: Final = 3
NUMBER: Final = 4
TRUE: Final = 5
FALSE: Final = 6
NULL: Final = 7

# What is wrong with a message's text (RFC 8259).
GOOD: Final = 0
ENDED: Final = 1
NO_VALUE: Final = 2
NO_NAME: Final = 3
NO_COLON: Final = 4
NO_COMMA: Final = 5
BAD_NUMBER: Final = 6
BAD_LITERAL: Final = 7
CONTROL: Final = 8
BAD_ESCAPE: Final = 9
LONE_SURROGATE: Final = 10
OPEN_STRING: Final = 11
TOO_DEEP: Final = 12
TWICE: Final = 13

# What ``used`` counts.
NODES: Final = 0
RECORDS: Final = 1
NAMES: Final = 2
POOL: Final = 3
DECODED: Final = 4  # where room for decoded strings begins
SERIAL: Final = 5  # of objects whose members are emitted
SCHEMA: Final = 6  # where the last opaque object is, and how long
SCHEMA_SIZE: Final = 7
USED: Final = 8

# A name, in ``info``.
INFO: Final = 4
SIZE: Final = 0
POOLED: Final = 1  # where its bytes are, a quote after them
FIRST: Final = 2  # the first member that an object of this name had last
NEXT: Final = 3  # the member that followed last

ROOT: Final = 0  # the name of documents

# How a scan ends; more room is needed for what is named.
DONE: Final = 0
MORE_NODES: Final = -1
MORE_NAMES: Final = -2
OUTSIDE: Final = -3

# Stack of open values: the node (or one of these), the last member's name, the byte that closes it.
FRAME: Final = 3
NODE: Final = 0
LAST: Final = 1
CLOSING: Final = 2
HIDDEN: Final = -1  # members are not nodes
WRAPPED: Final = -2  # an array of records around them
