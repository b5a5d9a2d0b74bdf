"""The XML scanner: one pass over a batch of messages that checks them and finds the values that the rules name.

The scanner is a finite automaton: each element name moves it to a state, and states have actions
(`match_records.py`) that store spans of values. Values are copied only if they have references,
line ends or several pieces. A message that the scanner refuses leaves no records; the general
engine reads it again, or reports its fault.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import load8
from trailgate.formats.xml.kernels.characters import after_blanks, is_blank
from trailgate.formats.xml.kernels.match_records import end_element, start_element, store_attributes
from trailgate.formats.xml.kernels.names import (
    element_letter,
    find_name,
    local_name,
    unbind_all,
    unbind_prefixes,
)
from trailgate.formats.xml.kernels.predicates import choose_state
from trailgate.formats.xml.kernels.tables import (
    CHILDREN,
    COUNT,
    DECODED,
    DEPTH,
    DONE,
    FIRST_PIECE,
    FRAME,
    FULL,
    INNER,
    KEPT,
    NOTHING,
    PHASES,
    PIECES,
    PLACED,
    REFUSED,
    SCOPED,
    SHAPE,
    STATE,
    TAG_START,
    TEXT,
    UNKNOWN_DECLARATION,
    UNREAD,
    MatchArrays,
    MessageArrays,
    NameArrays,
    RuleArrays,
    WorkArrays,
)
from trailgate.formats.xml.kernels.tags import (
    after_end_tag,
    instruction_end,
    start_tag,
)
from trailgate.formats.xml.kernels.text import add_text, after_marked, text_end

DECLARATION_BEGINS: Final = np.uint64(0x6C6D783F3C)  # "<?xml"
FIVE: Final = np.uint64(0xFFFFFFFFFF)
MARK: Final = np.uint64(0xBFBBEF)
THREE: Final = np.uint64(0xFFFFFF)


@kernel(writes=("messages.text", "names", "work", "found", "refused"))
def scan_xml(
    messages: MessageArrays,
    first: int,
    names: NameArrays,
    rules: RuleArrays,
    work: WorkArrays,
    found: MatchArrays,
    refused: Mask,
) -> tuple[int, int]:
    """Scan XML messages from number `first` on, and mark those that are refused.

    Returns the number of messages and `DONE`. If a message needs larger arrays, or has an unknown
    declaration, returns the number of this message and the reason.
    """
    while True:
        first, code = scan_until_refused(messages, first, names, rules, work, found)
        if code != REFUSED:
            return first, code
        refused[first] = True
        first += 1
        unbind_all(work.scopes, names)


@inner
def scan_until_refused(
    messages: MessageArrays,
    first: int,
    names: NameArrays,
    rules: RuleArrays,
    work: WorkArrays,
    found: MatchArrays,
) -> tuple[int, int]:
    """Scan XML messages from number `first` on, until one cannot be read.

    Returns the number of messages and `DONE`, or the first message that could not be read and the
    reason, for example `REFUSED` or `FULL`.

    Each iteration of the inner loop reads the text up to a `<`, then the token there: an end tag, a
    comment or CDATA section, an instruction, or a start tag. A start tag moves the automaton:
    `state = step[step[above] + letter]`, where `above` is the parent's state. A negative state is a
    choice by predicates.

    Example with a rule for `/orders/order` and the value `id/text()`: the message
    `<orders><order><id>7</id></order></orders>` gives one record. Its element spans the bytes 8 to
    33, and its value is the byte at 19.
    """
    text, starts, ends = messages
    info, used = names.info, names.used
    step, bounds = rules.step, rules.bounds
    frames, instances, pieces, scopes = work.frames, work.instances, work.pieces, work.scopes
    shape = found.shape
    for message in range(first, len(starts)):
        for kind in range(len(shape) // SHAPE):
            # Records of a message that was refused are overwritten: COUNT starts from KEPT.
            shape[kind * SHAPE + COUNT] = shape[kind * SHAPE + KEPT]
        begin, end = starts[message], ends[message]
        side = used[DECODED]
        for instance in range(rules.instances):
            instances[instance * PLACED + DEPTH] = -1
        depth, begun, piece_count, scoped = 0, False, 0, 0
        used[SCOPED] = 0
        mark = mark_size(text, begin, end)
        at = after_declaration(text, begin + mark, end, names)
        if at < 0:
            return message, at
        open_frame(0, 0, 0, at, rules, work)
        side = start_element(text, 0, 0, message, mark, 0, 0, rules, names, work, found, side)
        if side < 0:
            return message, FULL
        while True:
            start = at
            at, decode = text_end(text, at, end)
            if at < 0:
                return message, REFUSED
            if depth == 0:
                if after_blanks(text, start, at) < at:
                    return message, REFUSED
                if at >= end:
                    break
            elif at > start and frames[depth * FRAME + TEXT] != UNREAD:
                piece_count = add_text(
                    frames, depth * FRAME, pieces, piece_count, start, at, decode, 0
                )
                if piece_count < 0:
                    return message, FULL
            if at + 1 >= end:
                return message, REFUSED
            tag = at
            byte = text[at + 1]
            closed = 0
            # `</`
            if byte == 0x2F:
                at = after_end_tag(text, at, end, depth, frames, names)
                if at < 0:
                    return message, at
                closed = 1
            # `<!`: a comment or a CDATA section. A document type is refused.
            elif byte == 0x21:
                at, piece_count = after_marked(text, at, end, depth, frames, pieces, piece_count)
                if at < 0:
                    return message, at
            # `<?`
            elif byte == 0x3F:
                at = instruction_end(text, at, end, names)
                if at < 0:
                    return message, at
            else:
                # A second root element.
                if depth == 0 and begun:
                    return message, REFUSED
                begun = True
                at, name, count, closed, scoped = start_tag(
                    text, at, end, depth, names, work, scoped, side
                )
                if at < 0:
                    return message, at
                child_number(frames, depth)
                above = np.int64(frames[depth * FRAME + STATE])
                state = np.int64(step[step[above] + element_letter(name, info, rules.letters)])
                if state < 0:
                    # Predicates may decode an attribute, or the tag's text, into the room at
                    # `side`.
                    if 2 * (at - tag) + side > len(text):
                        return message, FULL
                    state = choose_state(
                        text, -1 - state, depth, count, rules, names, work, side,
                        -1 if closed else at, end, piece_count,
                    )  # fmt: skip
                    if state < 0:
                        return message, state
                depth += 1
                open_frame(depth, name, state, at, rules, work)
                frames[depth * FRAME + TAG_START] = tag
                # The state has actions.
                if bounds[state * PHASES + PHASES] > bounds[state * PHASES]:
                    start, size = local_name(tag + 1, name, info)
                    side = start_element(
                        text, state, depth, message, tag - begin, start, size, rules, names,
                        work, found, side,
                    )  # fmt: skip
                    if side < 0:
                        return message, side
                    if count:
                        side = store_attributes(
                            text, state, depth, count, rules, info, work, found.records, side
                        )
                        if side < 0:
                            return message, FULL
                tag = at
            if closed:
                frame = depth * FRAME
                side = end_element(
                    text, frames[frame + STATE], depth, tag, at - begin, rules, work,
                    found.records, side,
                )  # fmt: skip
                if side < 0:
                    return message, FULL
                # The pieces of the closed element are no longer needed.
                if frames[frame + TEXT] == PIECES:
                    piece_count = frames[frame + FIRST_PIECE]
                scoped = unbind_prefixes(scopes, scoped, depth, info)
                used[SCOPED] = scoped
                depth -= 1
        if not begun:
            return message, REFUSED
        for kind in range(len(shape) // SHAPE):
            shape[kind * SHAPE + KEPT] = shape[kind * SHAPE + COUNT]
        used[DECODED] = side
    return len(starts), DONE


@inner
def mark_size(text: Octets, begin: int, end: int) -> int:
    """Return the size of the byte order mark at which the scan of an XML message begins: 3 or 0."""
    return 3 if end - begin >= 3 and load8(text, begin) & THREE == MARK else 0


@inner
def after_declaration(text: Octets, start: int, end: int, names: NameArrays) -> int:
    """Return the offset after an XML declaration.

    This is the same offset if there is no declaration. Negative values are reasons to refuse the
    message.

    Only declarations that are already among the words are accepted; the caller checks and adds new
    ones.
    """
    at = start
    # `<?xml` and a blank.
    if end - at < 6 or load8(text, at) & FIVE != DECLARATION_BEGINS or not is_blank(text[at + 5]):
        return at
    at += 6
    while at + 1 < end and not (text[at] == 0x3F and text[at + 1] == 0x3E):
        at += 1
    if at + 1 >= end:
        return REFUSED
    at += 2
    known = find_name(text, start, at - start, names) >= 0
    return at if known else UNKNOWN_DECLARATION


@inner
def open_frame(
    depth: int,
    name: int,
    state: int,
    at: int,
    rules: RuleArrays,
    work: WorkArrays,
) -> None:
    """Initialize the frame of an XML element whose start tag ends at `at`."""
    frames, bounds, counted = work.frames, rules.bounds, rules.counters
    frame = depth * FRAME
    frames[frame], frames[frame + STATE] = name, state
    # Text is collected only if the state has actions at the end tag.
    needed = bounds[state * PHASES + 4] > bounds[state * PHASES + 3]
    frames[frame + TEXT] = NOTHING if needed else UNREAD
    frames[frame + CHILDREN] = 0
    frames[frame + INNER] = at
    for counter in range(depth * counted, (depth + 1) * counted):
        work.counters[counter] = 0


@inner
def child_number(frames: Longs, depth: int) -> int:
    """Count a child of the element at `depth` that the XML scan has open. Return its number, from 1."""
    place = depth * FRAME + CHILDREN
    frames[place] += 1
    return np.int64(frames[place])
