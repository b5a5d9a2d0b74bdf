"""Choose the XML scanner's next state for elements with predicates, such as `order[2]`.

Predicates compare an attribute, the element's position, or its text. Text is known only at the end
tag, so the kernel looks ahead over the element's content (`element_text`), and the main scan reads
it again afterwards. Faults in the content are left to the main scan; here the predicate simply does
not match.
"""

from __future__ import annotations

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner
from trailgate.formats.xml.kernels.characters import is_blank
from trailgate.formats.xml.kernels.tables import (
    ATTRIBUTES,
    BY_POSITION,
    BY_TEXT,
    CHOICE,
    FRAME,
    FULL,
    GROUP,
    LITERALS,
    NOTHING,
    PIECES,
    PLAIN,
    TEXT,
    TEXT_END,
    TEXT_START,
    TO_DECODE,
    UNREAD,
    VALUE_END,
    VALUE_START,
    NameArrays,
    RuleArrays,
    WorkArrays,
)
from trailgate.formats.xml.kernels.tags import attribute_of, tag_end
from trailgate.formats.xml.kernels.text import (
    OF_ATTRIBUTE,
    add_text,
    after_marked,
    decode_references,
    join_pieces,
    text_end,
)


@inner
def choose_state(
    text: Octets,
    choice: int,
    depth: int,
    count: int,
    rules: RuleArrays,
    names: NameArrays,
    work: WorkArrays,
    side: int,
    at: int,
    end: int,
    piece_count: int,
) -> int:
    """Return the state that the predicates of an XML tag choose, or the reason to refuse the message.

    `at` is the start of the element's content, or -1 if it is empty. All predicates at this point
    of the rules are grouped by what they compare. Each group yields a value: 0 if none of its
    literals is equal, otherwise the literal's number from 1. The values are the digits of a
    mixed-radix number that indexes `outcomes`.

    Example: `[@type='new']`, `[@type='old']` and `[2]` are two groups, with two values and one
    value: 3 * 2 = 6 outcomes. For the second element, with type "old", the first group has the
    value 2 and the other the value 1: outcome 2 + 1 * 3 = 5.
    """
    choices, predicates, width = rules.choices, rules.predicates, rules.counters
    counters, attributes = work.counters, work.attributes
    row = choice * CHOICE
    groups = choices[row + 1]
    # The last slots of `counters` hold the value of each group, for `needs` of later groups.
    chosen = len(counters) - groups
    outcome, size = choices[row + 2], 1
    for number in range(groups):
        group = choices[row] + number * GROUP
        by, values = predicates[group], predicates[group + 3]
        start, stop, value = 1, 0, 0
        if by == BY_POSITION:
            # A position counts only the elements that satisfy other predicates, as in
            # `a[@x='1'][2]`: these are the group's needs.
            satisfied = True
            for need in range(predicates[group + 5]):
                place = predicates[group + 4] + 2 * need
                satisfied &= counters[chosen + predicates[place]] == predicates[place + 1]
            if satisfied:
                counters[depth * width + predicates[group + 1]] += 1
                start = 0
                stop = counters[depth * width + predicates[group + 1]]
        elif by == BY_TEXT:
            if at >= 0:
                start, stop = element_text(
                    text, at, end, depth + 1, work.frames, work.pieces, piece_count, side
                )
                if start < 0:
                    return start
        else:
            each = attribute_of(predicates[group + 1], count, attributes, names.info)
            if each >= 0:
                start = attributes[each * ATTRIBUTES + VALUE_START]
                stop = attributes[each * ATTRIBUTES + VALUE_END]
                if attributes[each * ATTRIBUTES + TO_DECODE]:
                    stop = decode_references(text, start, stop, OF_ATTRIBUTE, side)
                    start = side
        if stop >= start:
            value = equal_value(
                text, start, stop, by == BY_POSITION, predicates[group + 2], values, predicates,
                names.used[LITERALS],
            )  # fmt: skip
        counters[chosen + number] = value
        outcome += value * size
        size *= values + 1
    return rules.outcomes[outcome]


@inner
def equal_value(
    text: Octets,
    start: int,
    stop: int,
    is_number: bool,
    first: int,
    values: int,
    predicates: Longs,
    literals: int,
) -> int:
    """Return the number, from 1, of the predicate's literal that a text equals, or 0 if it equals none.

    The text is `text[start:stop]`. With `is_number`, the literals are numbers, and the number
    `stop` is compared with them instead.
    """
    # A literal is two numbers: its begin and end in the bytes from ``literals`` on. A literal that
    # is a number has its value as the first of them.
    for value in range(values):
        place = first + 2 * value
        if is_number:
            if predicates[place] == stop:
                return value + 1
            continue
        size = predicates[place + 1] - predicates[place]
        if stop - start != size:
            continue
        wanted = literals + predicates[place]
        at = 0
        while at < size and text[start + at] == text[wanted + at]:
            at += 1
        if at == size:
            return value + 1
    return 0


@inner
def element_text(
    text: Octets,
    at: int,
    end: int,
    depth: int,
    frames: Longs,
    pieces: Longs,
    count: int,
    side: int,
) -> tuple[int, int]:
    """Look ahead for the XML element's own text that a predicate compares, and return its bounds without surrounding blanks.

    Without text, the end is before the start.

    Uses the frames of the element and of the next depth. The start is `FULL` if there is no room
    for pieces of text.

    Example: for `<a> x<b>y</b><!--z--> </a>` the loop reads " x" (kept), the tags around "y"
    (nested text is ignored), the comment and " ", and joins " x" and " " to "x".
    """
    frame = depth * FRAME
    frames[frame + TEXT] = NOTHING
    frames[frame + FRAME + TEXT] = UNREAD
    inside = 0
    while True:
        start = at
        at, decode = text_end(text, at, end)
        if at < 0 or at + 1 >= end:
            return 1, 0
        if at > start and inside == 0:
            count = add_text(frames, frame, pieces, count, start, at, decode, 0)
            if count < 0:
                return FULL, 0
        byte = text[at + 1]
        # An end tag: of this element if nothing is open inside.
        if byte == 0x2F:
            if inside == 0:
                break
            inside -= 1
            at = tag_end(text, at, end)
        # `<!`: a comment or a CDATA section, whose text counts only if nothing is open inside.
        elif byte == 0x21:
            at, count = after_marked(
                text, at, end, depth if inside == 0 else depth + 1, frames, pieces, count
            )
            if at == FULL:
                return FULL, 0
            if at < 0:
                return 1, 0
        else:
            at = tag_end(text, at, end)
            # Neither a processing instruction (`<?`) nor an empty element (`/>`): an element was
            # opened.
            if byte != 0x3F and at > 0 and text[at - 2] != 0x2F:
                inside += 1
        if at < 0:
            return 1, 0
    kind = frames[frame + TEXT]
    if kind == NOTHING:
        return 1, 0
    start, stop = frames[frame + TEXT_START], frames[frame + TEXT_END]
    if kind == PLAIN:
        while start < stop and is_blank(text[start]):
            start += 1
        while stop > start and is_blank(text[stop - 1]):
            stop -= 1
    elif kind == PIECES:
        side, start, stop = join_pieces(text, frames, frame, pieces, side)
        if side < 0:
            return FULL, 0
    return start, stop
