"""The JSON scanner: one pass over the bytes of all messages that checks the complete grammar of RFC 8259.

The scan writes nodes: the type and span of each value (`scanner.py` has an example). Three things
make it fast:

- Member names are numbers. Messages mostly have the same members in the same order, so each name
  remembers which name followed it last time (`NEXT`), and one comparison of words confirms the
  guess. Otherwise the name is looked up by its hash.
- Strings without escapes are only spans. Others are decoded into the room after the messages (RFC
  8259 section 7).
- Strings are searched for quotes, escapes and control characters 32 bytes at a time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, instruction, kernel
from trailgate.columnar.strings_kernels import spans_equal
from trailgate.columnar.word_kernels import EVERY, first_mark, load8

SPARE: Final = (
    64  # zero bytes after the messages, because they are read in blocks of 32 and 8 bytes
)

# Types of values.
OBJECT: Final = 1
ARRAY: Final = 2
STRING: Final = 3
NUMBER: Final = 4
TRUE: Final = 5
FALSE: Final = 6
NULL: Final = 7
# What a text calls them.
KINDS = {
    OBJECT: "an object", ARRAY: "an array", STRING: "a string", NUMBER: "a number",
    TRUE: "true", FALSE: "false", NULL: "null",
}  # fmt: skip

# Faults in a message's text (RFC 8259).
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

# Slots of `used`: how much of each array is filled.
NODES: Final = 0
RECORDS: Final = 1
NAMES: Final = 2
POOL: Final = 3
DECODED: Final = 4  # where the next decoded string is written
SERIAL: Final = 5  # the number of objects so far whose members are nodes
SCHEMA: Final = 6  # the offset of the last opaque object; the next slot is its size
SCHEMA_SIZE: Final = 7
USED: Final = 8

# Slots of a name in `info`.
INFO: Final = 4
SIZE: Final = 0
POOLED: Final = 1  # the offset of its bytes in the pool, followed by a quote
FIRST: Final = 2  # the first member of the last object with this name
NEXT: Final = 3  # the member that followed this one last time

ROOT: Final = 0  # the number of the empty name, which documents have

# How a scan ends: complete, an array is too small, or messages lie outside the buffer.
DONE: Final = 0
MORE_NODES: Final = -1
MORE_NAMES: Final = -2
OUTSIDE: Final = -3

# A frame of the stack of open values: the node (or HIDDEN or WRAPPED), the name of its last member,
# and the byte that closes it with the object's serial number above it.
FRAME: Final = 3
NODE: Final = 0
LAST: Final = 1
CLOSING: Final = 2
HIDDEN: Final = -1  # the members of this value are not nodes
WRAPPED: Final = -2  # the top-level array around records
NO_ROOM: Final = -1  # instead of a name's number: the table of names is full
QUOTE: Final = 0x22
ESCAPE: Final = 0x5C
LOWER: Final = np.uint64(0xFFFFFFFF)  # the lower half of a word
UPPER: Final = np.uint64(32)  # the shift that moves the upper half to the lower one
# 0.618 (the golden ratio less one) times 2**64. It is odd, and its bits follow no pattern, so a product with it
# spreads each byte of a name over the upper bits of the hash.
FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


class JsonText(NamedTuple):
    """The text of a batch: `size` bytes of JSON messages, `SPARE` zeros, and room for decoded strings.

    Message i is `text[starts[i] : ends[i]]`.
    """

    text: Octets
    size: int
    starts: Longs
    ends: Longs


class ScanTables(NamedTuple):
    """The arrays that are kept from one JSON scan to the next, such as the member names seen so far.

    `table` is the hash table of names, with a row of `info` and some bytes of `pool` for each.
    `stack` has a frame for each open value, and `used` states how much of each array is filled.
    `seen` detects repeated names: it has a stamp for each level and name, the serial number of the
    last object that had it.
    """

    table: Offsets
    info: Longs
    pool: Octets
    seen: Longs
    stack: Longs
    used: Longs


class NodeArrays(NamedTuple):
    """The nodes of a JSON scan: each value's name, type and span, and the next node outside of it."""

    name: Offsets
    kind: Octets
    start: Longs
    length: Longs
    last: Offsets


class RootArrays(NamedTuple):
    """The JSON documents (records) of a scan: the node and the message number of each."""

    record_node: Longs
    record_message: Longs


class FaultArrays(NamedTuple):
    """The fault in each message's JSON text, such as `NO_COLON` or `GOOD`, and its offset."""

    problem: Octets
    place: Longs


@inner
def is_name(text: Octets, at: int, number: int, info: Longs, pool: Octets) -> bool:
    """Return whether the JSON text at an offset is the member name `number` and a closing quote.

    Both are read in words of eight bytes, so eight bytes must follow the text and the pool. Of the
    last word, only the bytes of the name and the quote are compared.
    """
    pooled, size = info[number * INFO + POOLED], info[number * INFO + SIZE] + 1
    done = 0
    while size - done >= 8:
        if load8(text, at + done) != load8(pool, pooled + done):
            return False
        done += 8
    # The last word has 1 to 7 used bytes. They are its lower ones, because words are little-endian.
    # Example: 3 bytes are left: EVERY >> 40 is 0xFFFFFF, and bytes 3 to 7 may differ.
    if done < size:
        differ = load8(text, at + done) ^ load8(pool, pooled + done)
        return bool(differ & (EVERY >> np.uint64(64 - 8 * (size - done))) == 0)
    return True


@inner
def name_number(
    text: Octets, at: int, size: int, table: Offsets, info: Longs, pool: Octets, used: Longs
) -> int:
    """Return the number of a member name that the JSON scan has reached.

    A new name is added; `NO_ROOM` if it does not fit.
    """
    place = hash_name(text, at, size) & (len(table) - 1)
    while True:
        number = np.int64(table[place])
        if number == ROOT:
            break
        if info[number * INFO + SIZE] == size:
            alike, pooled = True, info[number * INFO + POOLED]
            for byte in range(size):
                alike &= text[at + byte] == pool[pooled + byte]
            if alike:
                return number
        place = (place + 1) & (len(table) - 1)
    number, pooled = used[NAMES], used[POOL]
    # Keep the hash table at most half full. Nine more bytes: the quote, and eight for reads of
    # words.
    if 2 * number >= len(table) or (number + 1) * INFO > len(info) or pooled + size + 9 > len(pool):
        return NO_ROOM
    for byte in range(size):
        pool[pooled + byte] = text[at + byte]
    pool[pooled + size] = 0x22
    row = number * INFO
    info[row + SIZE], info[row + POOLED] = size, pooled
    info[row + FIRST], info[row + NEXT] = ROOT, ROOT
    table[place] = number
    used[NAMES], used[POOL] = number + 1, pooled + size + 1
    return number


@inner
def hash_name(text: Octets, at: int, size: int) -> int:
    """Hash the bytes of a JSON member name to 40 bits."""
    mixed = np.uint64(size)
    for byte in range(size):
        mixed = (mixed ^ np.uint64(text[at + byte])) * FACTOR
        # Spread the high bits down, since the table index uses the low bits of the result.
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(24))


@kernel(writes=("table",))
def fill_table(info: Longs, pool: Octets, names: int, table: Offsets) -> int:
    """Insert all JSON member names into an empty hash table. Return the number of names."""
    for number in range(1, names):
        pooled, size = info[number * INFO + POOLED], info[number * INFO + SIZE]
        # The table's length is a power of two, so the mask is the remainder. A name whose place is
        # taken moves on to the next free one; there is always one, because the table is at most
        # half full.
        place = hash_name(pool, pooled, size) & (len(table) - 1)
        while table[place] != ROOT:
            place = (place + 1) & (len(table) - 1)
        table[place] = number
    return names


@inner
def special_byte(text: Octets, at: int, end: int) -> int:
    """Return the offset of the next quote, backslash or control character in JSON text.

    Without one, returns some offset from `end` on. The text is followed by 64 zeros, which count as
    control characters, so the search ends there.
    """
    while at < end:
        marks = string_marks(text, at)
        marks = (marks | marks >> UPPER) & LOWER
        if marks:
            return at + first_mark(marks)
        at += 32
    return at


@inner
def decode_string(text: Octets, start: int, at: int, end: int, to: int) -> tuple[int, int]:
    r"""Decode a string with escapes that the JSON scan has reached: it begins at `start`, and is written to offset `to`.

    `at` is its first escape. The decoded text is written after all messages, so nothing is
    overwritten. It is never longer than the string: an escape of 2 bytes becomes 1, one of 6 at most
    3, and a pair of 12 becomes 4. Returns the offset of the closing quote and the end of the decoded
    text. In case of a fault, returns its offset and minus its code.

    Example: `a\n\u00e9"` with the string at 0, the first escape at 1 and `to` = 100 writes the bytes
    61 0A C3 A9, and returns the quote at 9 and 104.
    """
    for place in range(start, at):
        text[to + place - start] = text[place]
    to += at - start
    while True:
        byte = text[at]
        if byte == QUOTE:
            return at, to
        if byte != ESCAPE:
            return at, -CONTROL
        if at + 1 >= end:
            return end, -OPEN_STRING
        byte = text[at + 1]
        if byte == 0x75:  # u
            point = four_digits(text, at + 2, end)
            if point < 0:
                return at, -BAD_ESCAPE
            size = 6
            if 0xD800 <= point < 0xE000:
                low = -1
                if (
                    point < 0xDC00
                    and at + 7 < end
                    and text[at + 6] == ESCAPE
                    and text[at + 7] == 0x75
                ):
                    low = four_digits(text, at + 8, end)
                if not 0xDC00 <= low < 0xE000:
                    return at, -LONE_SURROGATE
                # A surrogate pair, such as \ud83d\ude00 for U+1F600.
                point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
                size = 12
            to = write_point(text, to, point)
            at += size
        else:
            plain = unescape(byte)
            if plain == 0:
                return at, -BAD_ESCAPE
            text[to] = np.uint8(plain)
            to += 1
            at += 2
        begin = at
        at = special_byte(text, at, end)
        if at >= end:
            return end, -OPEN_STRING
        for place in range(begin, at):
            text[to + place - begin] = text[place]
        to += at - begin


@inner
def unescape(byte: int) -> int:
    r"""Return the character of a JSON escape by the letter after its backslash, or 0.

    The result is 0 for letters without an escape, and for the `u` of `\u00e9`.
    """
    if byte == QUOTE or byte == ESCAPE or byte == 0x2F:
        return int(byte)
    if byte == 0x6E:
        return 0x0A
    if byte == 0x72:
        return 0x0D
    if byte == 0x74:
        return 0x09
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    return 0


@inner
def four_digits(text: Octets, at: int, end: int) -> int:
    r"""Return the value of the four hexadecimal digits of a JSON escape such as `\u00e9`, or -1."""
    if at + 4 > end:
        return -1
    number = 0
    for place in range(at, at + 4):
        byte = np.int64(text[place])
        if 48 <= byte <= 57:
            digit = byte - 48
        # The bit 0x20 makes A to F lower case, and changes no other byte to one of a to f.
        elif 97 <= byte | 0x20 <= 102:
            digit = (byte | 0x20) - 87
        else:
            return -1
        number = number << 4 | digit
    return number


@inner
def write_point(text: Octets, to: int, point: int) -> int:
    """Write a character of a string that the JSON scan decodes, as UTF-8. Return the offset after it."""
    # The first byte states the size in its upper bits, and each further one has six bits.
    # Example: U+00E9 is 11 101001 in bits: 110 00011, 10 101001, or C3 A9.
    if point < 0x80:
        text[to] = np.uint8(point)
        return to + 1
    if point < 0x800:
        text[to] = np.uint8(0xC0 | point >> 6)
        text[to + 1] = np.uint8(0x80 | point & 63)
        return to + 2
    if point < 0x10000:
        text[to] = np.uint8(0xE0 | point >> 12)
        text[to + 1] = np.uint8(0x80 | point >> 6 & 63)
        text[to + 2] = np.uint8(0x80 | point & 63)
        return to + 3
    text[to] = np.uint8(0xF0 | point >> 18)
    text[to + 1] = np.uint8(0x80 | point >> 12 & 63)
    text[to + 2] = np.uint8(0x80 | point >> 6 & 63)
    text[to + 3] = np.uint8(0x80 | point & 63)
    return to + 4


@kernel(writes=("messages.text", "tables", "into", "roots", "faults"))
def scan_json(
    messages: JsonText,
    first: int,
    levels: int,
    opaque: int,
    tables: ScanTables,
    into: NodeArrays,
    roots: RootArrays,
    faults: FaultArrays,
) -> tuple[int, int]:
    """Scan JSON messages from number `first` on into nodes and records.

    Returns the number of messages and `DONE`. If an array is too small, or a message is not within
    the text, returns the number of this message and the reason.

    A message has documents, separated by blanks or nothing; they may also be in one array at the
    top. Each document is a record. Nodes are the records, and the members of objects down to
    `levels` below them, in the order of the text. Values in arrays are not nodes, nor are the
    members of a record's member with the name `opaque`. `last` is the next node outside of a value.
    A string's span excludes the quotes; one with escapes is decoded after the messages. A message
    with a fault has no nodes.

    Example: for `{"a":1,"b":{"c":2}}` and levels = 2 the loop runs once per value:

        {        root node 0; push a frame whose members are nodes; expect a name
        "a":1    node 1; a comma follows, so another name is expected
        "b":{    node 2; push a frame
        "c":2    node 3; the two closing braces pop both frames: last[2] = last[0] = 4
    """
    text, size, starts, ends = messages
    table, info, pool, seen, stack, used = tables
    name, kind, start, length, last = into
    record_node, record_message = roots
    problem, place = faults
    if len(text) < 2 * size + 3 * SPARE or len(seen) < (levels + 1) * (len(info) // INFO):
        return first, OUTSIDE
    names = len(info) // INFO
    depths = len(stack) // FRAME
    for number in range(first, len(starts)):
        at, end = starts[number], ends[number]
        if at < 0 or end < at or end > size:
            return number, OUTSIDE
        nodes, records, decoded = used[NODES], used[RECORDS], used[DECODED]
        code = GOOD
        depth = wrapped = 0
        member = False
        # A UTF-8 byte order mark.
        if end - at >= 3 and text[at] == 0xEF and text[at + 1] == 0xBB and text[at + 2] == 0xBF:
            at += 3
        while True:
            while at < end and is_blank(text[at]):
                at += 1
            if at >= end:
                code = ENDED if depth else GOOD
                break
            frame = (depth - 1) * FRAME
            word = ROOT
            if member:
                if text[at] != QUOTE:
                    code = NO_NAME
                    break
                at += 1
                parent = stack[frame + NODE]
                # A member that is not a node: only check that its name is a string.
                if parent == HIDDEN:
                    stop = special_byte(text, at, end)
                    if stop < end and text[stop] == ESCAPE:
                        stop, written = decode_string(text, at, stop, end, decoded)
                        if written < 0:
                            at, code = stop, -written
                            break
                    if stop >= end or text[stop] != QUOTE:
                        at, code = stop, OPEN_STRING if stop >= end else CONTROL
                        break
                    at = stop + 1
                else:
                    before = stack[frame + LAST]
                    # `link` is the slot with the guess for the next name: after the previous
                    # member, or the first member of an object with this name.
                    link = (
                        np.int64(name[parent]) * INFO + FIRST
                        if before < 0
                        else before * INFO + NEXT
                    )
                    word = info[link]
                    if (
                        word != ROOT
                        and is_name(text, at, word, info, pool)
                        and (at + info[word * INFO] < end)
                    ):
                        at += info[word * INFO] + 1
                    else:
                        begin, stop = at, special_byte(text, at, end)
                        bytes_ = stop - at
                        plain = True
                        if stop < end and text[stop] == ESCAPE:
                            begin, plain = decoded, False
                            stop, written = decode_string(text, at, stop, end, decoded)
                            if written < 0:
                                at, code = stop, -written
                                break
                            bytes_ = written - decoded
                        if stop >= end or text[stop] != QUOTE:
                            at, code = stop, OPEN_STRING if stop >= end else CONTROL
                            break
                        word = name_number(text, begin, bytes_, table, info, pool, used)
                        if word == NO_ROOM:
                            return number, MORE_NAMES
                        if plain:
                            info[link] = word
                        at = stop + 1
                    stack[frame + LAST] = word
                    # One stamp per level and name. The serial number of the open object shows
                    # whether it had this name.
                    stamp = (depth - wrapped) * names + word
                    if seen[stamp] == stack[frame + CLOSING] >> 8:
                        at, code = at - 1, TWICE
                        break
                    seen[stamp] = stack[frame + CLOSING] >> 8
                while at < end and is_blank(text[at]):
                    at += 1
                if at >= end:
                    code = ENDED
                    break
                # A colon.
                if text[at] != 0x3A:
                    code = NO_COLON
                    break
                at += 1
                while at < end and is_blank(text[at]):
                    at += 1
                if at >= end:
                    code = ENDED
                    break
            # A value begins here.
            byte = text[at]
            top = depth == wrapped
            # `[` at the top: the records are the elements of this array.
            if top and depth == 0 and byte == 0x5B:
                wrapped = 1
                stack[NODE], stack[LAST], stack[CLOSING] = WRAPPED, -1, 0x5D
                depth = 1
                member = False
                at += 1
                while at < end and is_blank(text[at]):
                    at += 1
                if at < end and text[at] == 0x5D:
                    depth = wrapped = 0
                    at += 1
                continue
            node = np.int64(-1)
            # A record, or a member of an object whose members are nodes.
            if top or (member and stack[frame + NODE] >= 0):
                if nodes + 1 >= len(name) or records + 1 >= len(record_node):
                    return number, MORE_NODES
                node = nodes
                nodes += 1
                name[node] = word
                if top:
                    record_node[records], record_message[records] = node, number
                    records += 1
            if byte == QUOTE:
                begin = at + 1
                stop = special_byte(text, begin, end)
                bytes_ = stop - begin
                if stop < end and text[stop] == ESCAPE:
                    own = begin
                    begin = decoded
                    stop, written = decode_string(text, own, stop, end, decoded)
                    if written < 0:
                        at, code = stop, -written
                        break
                    bytes_ = written - decoded
                    if node >= 0:
                        decoded = written
                if stop >= end or text[stop] != QUOTE:
                    at, code = stop, OPEN_STRING if stop >= end else CONTROL
                    break
                at = stop + 1
                if node >= 0:
                    kind[node], start[node], length[node], last[node] = STRING, begin, bytes_, nodes
            # An object or an array.
            elif byte == 0x7B or byte == 0x5B:
                begin = at
                own = used[SCHEMA_SIZE]
                hides = word == opaque and word != ROOT and depth - wrapped == 1
                if hides and 0 < own <= end - at and spans_equal(text, used[SCHEMA], at, own):
                    kind[node] = OBJECT if byte == 0x7B else ARRAY
                    start[node], length[node], last[node] = begin, own, nodes
                    at += own
                else:
                    if depth >= depths:
                        code = TOO_DEEP
                        break
                    frame = depth * FRAME
                    inside = HIDDEN
                    member = byte == 0x7B
                    if member and node >= 0 and depth - wrapped < levels and not hides:
                        inside = node
                        used[SERIAL] += 1
                    if node >= 0:
                        kind[node], start[node] = OBJECT if member else ARRAY, begin
                        if inside == HIDDEN:  # its node is needed at its end, to set the length
                            inside = -3 - node
                    closing = 0x7D if member else 0x5D
                    # A hidden value that is a node itself keeps its number as -3 - node in LAST, a
                    # slot that hidden frames do not use otherwise.
                    stack[frame + NODE] = inside if inside >= 0 else HIDDEN
                    stack[frame + LAST] = -1 if inside >= 0 else inside
                    stack[frame + CLOSING] = used[SERIAL] << 8 | closing
                    depth += 1
                    at += 1
                    while at < end and is_blank(text[at]):
                        at += 1
                    if at >= end or text[at] != closing:
                        continue
            # A minus sign or a digit.
            elif byte == 0x2D or 48 <= byte <= 57:
                begin, at = at, number_end(text, at, end)
                if at < 0:
                    at, code = -1 - at, BAD_NUMBER
                    break
                if node >= 0:
                    kind[node], start[node] = NUMBER, begin
                    length[node], last[node] = at - begin, nodes
            else:
                begin, what = at, literal_type(text, at, end)
                if what == 0:
                    code = BAD_LITERAL if 97 <= byte <= 122 else NO_VALUE
                    break
                at += 5 if what == FALSE else 4
                if node >= 0:
                    kind[node], start[node] = what, begin
                    length[node], last[node] = at - begin, nodes
            # A value has ended. Close the containers that end here too, up to a comma.
            more = False
            while depth:
                while at < end and is_blank(text[at]):
                    at += 1
                frame = (depth - 1) * FRAME
                closing = stack[frame + CLOSING] & 0xFF
                if at >= end:
                    code = ENDED
                    break
                if text[at] == closing:
                    at += 1
                    depth -= 1
                    node = stack[frame + NODE]
                    if node == WRAPPED:
                        wrapped = 0
                        continue
                    if node == HIDDEN and stack[frame + LAST] <= -3:
                        node = -3 - stack[frame + LAST]
                        if depth - wrapped == 1 and name[node] == opaque:
                            # Remember the span of the opaque object. If the next message has the
                            # same bytes (Kafka Connect repeats its schema), they are compared and
                            # skipped.
                            used[SCHEMA], used[SCHEMA_SIZE] = start[node], at - start[node]
                    if node >= 0:
                        length[node], last[node] = at - start[node], nodes
                elif text[at] == 0x2C:
                    at += 1
                    more = True
                    member = closing == 0x7D
                    if stack[frame + NODE] == WRAPPED:
                        member = False
                    break
                else:
                    code = NO_COMMA
                    break
            if code != GOOD:
                break
            if not more:
                member = False
        if code != GOOD:
            problem[number], place[number] = code, min(at, end)
            used[SCHEMA_SIZE] = 0
        else:
            used[NODES], used[RECORDS], used[DECODED] = nodes, records, decoded
    return len(starts), DONE


@inner
def is_blank(byte: int) -> bool:
    """Return whether a byte is JSON white space."""
    return byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09


@inner
def number_end(text: Octets, at: int, end: int) -> int:
    """Return the offset after a JSON number, or -1 minus the offset of its fault."""
    # RFC 8259, 6: a minus sign, digits without a leading zero, a point and digits, an exponent; all
    # but the first digits are optional. Each group of digits has at least one.
    if text[at] == 0x2D:
        at += 1
    begin = at
    while at < end and 48 <= text[at] <= 57:
        at += 1
    if at == begin or (at > begin + 1 and text[begin] == 48):
        return -1 - begin
    if at < end and text[at] == 0x2E:
        at += 1
        begin = at
        while at < end and 48 <= text[at] <= 57:
            at += 1
        if at == begin:
            return -1 - at
    # e or E: the bit 0x20 makes a letter a small one.
    if at < end and text[at] | 0x20 == 0x65:
        at += 1
        if at < end and (text[at] == 0x2B or text[at] == 0x2D):
            at += 1
        begin = at
        while at < end and 48 <= text[at] <= 57:
            at += 1
        if at == begin:
            return -1 - at
    return at


@inner
def literal_type(text: Octets, at: int, end: int) -> int:
    """Return the type of the JSON literal at an offset: TRUE, FALSE, NULL, or 0."""
    if at + 4 <= end:
        # true
        if (
            text[at] == 0x74
            and text[at + 1] == 0x72
            and text[at + 2] == 0x75
            and text[at + 3] == 0x65
        ):
            return TRUE
        # null
        if (
            text[at] == 0x6E
            and text[at + 1] == 0x75
            and text[at + 2] == 0x6C
            and text[at + 3] == 0x6C
        ):
            return NULL
        # false
        if (
            at + 5 <= end
            and text[at] == 0x66
            and text[at + 1] == 0x61
            and text[at + 2] == 0x6C
            and text[at + 3] == 0x73
            and text[at + 4] == 0x65
        ):
            return FALSE
    return 0


@instruction
def string_marks(data: Any, at: int) -> Any:
    """Compare 32 bytes of a JSON string at once, and return two bits for each.

    The lower 32 bits mark the quote, the upper 32 bits the backslash and controls.
    """
    marks = np.uint64(0)
    for index in range(32):
        byte = data[at + index]
        if byte == 0x22:
            marks |= np.uint64(1) << np.uint64(index)
        if byte == 0x5C or byte < 0x20:
            marks |= np.uint64(1) << np.uint64(32 + index)
    return marks
