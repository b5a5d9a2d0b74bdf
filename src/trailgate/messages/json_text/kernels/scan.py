"""JSON texts of messages to the places of their values, in one pass that checks all of RFC 8259's grammar."""

from __future__ import annotations

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8
from trailgate.messages.json_text.kernels.layout import (
    ARRAY,
    BAD_LITERAL,
    BAD_NUMBER,
    CLOSING,
    CONTROL,
    DECODED,
    DONE,
    ENDED,
    FALSE,
    FIRST,
    FRAME,
    GOOD,
    HIDDEN,
    INFO,
    LAST,
    MORE_NAMES,
    MORE_NODES,
    NEXT,
    NO_COLON,
    NO_COMMA,
    NO_NAME,
    NO_VALUE,
    NODE,
    NODES,
    NULL,
    NUMBER,
    OBJECT,
    OPEN_STRING,
    OUTSIDE,
    RECORDS,
    ROOT,
    SCHEMA,
    SCHEMA_SIZE,
    SERIAL,
    SPARE,
    STRING,
    TOO_DEEP,
    TRUE,
    TWICE,
    WRAPPED,
)
from trailgate.messages.json_text.kernels.names import NO_ROOM, is_name, name_number
from trailgate.messages.json_text.kernels.strings import (
    ESCAPE,
    QUOTE,
    decode_string,
    special_byte,
)


@kernel(
    writes=(
        "text", "table", "info", "pool", "seen", "stack", "used", "name", "kind", "start",
        "length", "last", "record_node", "record_message", "problem", "place",
    )
)  # fmt: skip
def scan(
    text: Octets,
    size: int,
    starts: Longs,
    ends: Longs,
    first: int,
    levels: int,
    opaque: int,
    table: Offsets,
    info: Longs,
    pool: Octets,
    seen: Longs,
    stack: Longs,
    used: Longs,
    name: Offsets,
    kind: Octets,
    start: Longs,
    length: Longs,
    last: Offsets,
    record_node: Longs,
    record_message: Longs,
    problem: Octets,
    place: Longs,
) -> tuple[int, int]:
    """Write the nodes of the messages from ``first`` on; return the message that was not read and why.

    A message holds documents, with blanks or nothing between them; an array at its top holds them too. Each is a record. Nodes are the records, and the
    members of objects up to ``levels`` below them; they come in the order of the text. ``last`` is the node after a node's members. The members
    of an object named ``opaque`` are not nodes, nor is anything in an array. A string's place is its text without the quotes; one with escapes is decoded after the messages.
    ``problem`` and ``place`` are what is wrong with a message and at which byte; it has no nodes then.

    ``text`` has ``size`` bytes of messages, ``SPARE`` zeros, and room for as much again.
    """
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
            elif byte == 0x7B or byte == 0x5B:
                begin = at
                own = used[SCHEMA_SIZE]
                hides = word == opaque and word != ROOT and depth - wrapped == 1
                if hides and 0 < own <= end - at and is_same(text, used[SCHEMA], at, own):
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
                        if inside == HIDDEN:  # where it began is needed at its end
                            inside = -3 - node
                    closing = 0x7D if member else 0x5D
                    stack[frame + NODE] = inside if inside >= 0 else HIDDEN
                    stack[frame + LAST] = -1 if inside >= 0 else inside
                    stack[frame + CLOSING] = used[SERIAL] << 8 | closing
                    depth += 1
                    at += 1
                    while at < end and is_blank(text[at]):
                        at += 1
                    if at >= end or text[at] != closing:
                        continue
            elif byte == 0x2D or 48 <= byte <= 57:
                begin, at = at, number_end(text, at, end)
                if at < 0:
                    at, code = -1 - at, BAD_NUMBER
                    break
                if node >= 0:
                    kind[node], start[node] = NUMBER, begin
                    length[node], last[node] = at - begin, nodes
            else:
                begin, what = at, literal(text, at, end)
                if what == 0:
                    code = BAD_LITERAL if 97 <= byte <= 122 else NO_VALUE
                    break
                at += 5 if what == FALSE else 4
                if node >= 0:
                    kind[node], start[node] = what, begin
                    length[node], last[node] = at - begin, nodes
            # A value is done; so are those that end here.
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
    """Return whether a byte is one of JSON's blanks."""
    return byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09


@inner
def is_same(text: Octets, one: int, other: int, size: int) -> bool:
    """Return whether two parts of a text are the same."""
    done = 0
    while size - done >= 8:
        if load8(text, one + done) != load8(text, other + done):
            return False
        done += 8
    while done < size:
        if text[one + done] != text[other + done]:
            return False
        done += 1
    return True


@inner
def number_end(text: Octets, at: int, end: int) -> int:
    """Return where a number ends, or -1 - the place where it breaks the grammar."""
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
def literal(text: Octets, at: int, end: int) -> int:
    """Return the kind of the literal at a place, 0 for none."""
    if at + 4 <= end:
        if (
            text[at] == 0x74
            and text[at + 1] == 0x72
            and text[at + 2] == 0x75
            and text[at + 3] == 0x65
        ):
            return TRUE
        if (
            text[at] == 0x6E
            and text[at + 1] == 0x75
            and text[at + 2] == 0x6C
            and text[at + 3] == 0x6C
        ):
            return NULL
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
