"""The XML scanner: one pass over a batch of messages that checks them and finds the values that the rules name.

The scanner is a finite automaton: each element name moves it to a state, and states have actions
(`records.py`) that store spans of values. Values are copied only if they have references, line ends
or several pieces. A message that the scanner refuses leaves no records; the general engine reads it
again, or reports its fault.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import EVERY, load8
from trailgate.formats.xml.kernels.choices import choose_state
from trailgate.formats.xml.kernels.names import (
    BOUND,
    CHILDREN,
    COUNT,
    DECODED,
    DEPTH,
    DONE,
    FIRST_PIECE,
    FRAME,
    FULL,
    INFO,
    INNER,
    KEPT,
    NAME_SIZE,
    NOTHING,
    PHASES,
    PIECES,
    PLACED,
    POOLED,
    PREFIX,
    REFUSED,
    SCOPE,
    SCOPED,
    SEEN,
    SERIAL,
    SHAPE,
    SIZE,
    STATE,
    TAG_START,
    TEXT,
    UNKNOWN_DECLARATION,
    UNREAD,
    XMLNS,
    MatchArrays,
    MessageArrays,
    NameArrays,
    RuleArrays,
    WorkArrays,
    find_name,
    insert_name,
)
from trailgate.formats.xml.kernels.records import end_element, start_element, store_attributes
from trailgate.formats.xml.kernels.tags import (
    after_blanks,
    after_marked,
    bind_prefixes,
    child_number,
    element_letter,
    instruction_end,
    name_at,
    name_end,
    read_attributes,
    unbind_prefixes,
)
from trailgate.formats.xml.kernels.text import add_text, is_blank, text_end

DECLARATION_BEGINS: Final = np.uint64(0x6C6D783F3C)  # "<?xml"
FIVE: Final = np.uint64(0xFFFFFFFFFF)
MARK: Final = np.uint64(0xBFBBEF)
THREE: Final = np.uint64(0xFFFFFF)


@kernel(writes=("names",))
def intern_word(
    text: Octets,
    start: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return the number of a word in the XML name table, or `NO_ROOM`.

    A new word is added, without a check that it is a name.
    """
    number = find_name(text, start, end - start, names)
    if number >= 0:
        return number
    return insert_name(text, start, end - start, -1 - number, names)


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
def unbind_all(scopes: Longs, names: NameArrays) -> None:
    """Unbind the namespace prefixes of an XML message that is not read to its end."""
    info, used = names.info, names.used
    scoped = used[SCOPED]
    while scoped:
        scoped -= 1
        info[scopes[SCOPE * scoped + 1] * INFO + BOUND] = scopes[SCOPE * scoped + 2]
    used[SCOPED] = 0
    # Serial numbers of its attributes may be left in SEEN: skip far ahead, so that none seems to be repeated.
    used[SERIAL] += 1 << 32


@inner
def mark_size(text: Octets, begin: int, end: int) -> int:
    """Return the size of an XML message's byte order mark: 3 or 0."""
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
def local_name(at: int, name: int, info: Longs) -> tuple[int, int]:
    """Return the offset and size of an XML name without its prefix."""
    prefix, size = info[name * INFO + PREFIX], info[name * INFO + SIZE]
    if prefix < 0:
        return at, size
    skipped = info[prefix * INFO + SIZE] + 1
    return at + skipped, size - skipped


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
def is_bound(prefix: int, info: Longs) -> bool:
    """Return whether an XML element may have this prefix; -1 means none."""
    return prefix < 0 or (prefix != XMLNS and info[prefix * INFO + BOUND] > 0)


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
