"""Records of matches, and the places of their values."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import inner
from trailgate.messages.xml.kernels.layout import (
    ACTION,
    ATTRIBUTES,
    BASE,
    CHILDREN,
    COLUMNS,
    COUNT,
    END,
    FIRST,
    FRAME,
    FULL,
    INNER,
    INSTANCE,
    KIND,
    LEVEL,
    MESSAGE,
    NOTHING,
    OPERATIONS,
    OUTER,
    OWNER,
    PHASES,
    PLAIN,
    POINTED,
    POINTERS,
    ROOM,
    RULE,
    SECOND,
    SECTION,
    SHAPE,
    SLOT,
    SLOTS,
    START,
    TEXT,
    TEXT_END,
    TEXT_START,
    TO_DECODE,
    TRANSACTION,
    VALUE_END,
    VALUE_START,
    What,
)
from trailgate.messages.xml.kernels.tags import attribute_of
from trailgate.messages.xml.kernels.texts import (
    OF_ATTRIBUTE,
    decoded,
    is_blank,
    joined_pieces,
    put_number,
)

RECORD = int(What.RECORD)
EXISTS = int(What.EXISTS)
NAMED = int(What.NAME)
POSITION = int(What.POSITION)
LITERAL = int(What.LITERAL)
TEXTUAL = int(What.TEXT)
EXACT = int(What.EXACT_TEXT)
CONTENT = int(What.CONTENT)
DIGITS = 20


@inner
def at_level(depth: int, level: int) -> int:
    """Return the depth that a level is, seen from an element's."""
    return depth - level if level >= 0 else -1 - level


@inner
def field_at(shape: Longs, kind: int, number: int, field: int) -> int:
    """Return where a field of a record is."""
    row = kind * SHAPE
    return shape[row + BASE] + field * shape[row + ROOM] + number


@inner
def store(
    records: Longs, shape: Longs, kind: int, number: int, slot: int, start: int, size: int
) -> None:
    """Store the place of a value; the first one of a slot counts."""
    place = field_at(shape, kind, number, POINTERS + shape[kind * SHAPE + POINTED] + 2 * slot)
    length = place + shape[kind * SHAPE + ROOM]
    if records[length] < 0:
        records[place], records[length] = start, size


@inner
def open_record(
    actions: Longs,
    row: int,
    depth: int,
    message: int,
    place: int,
    instances: Longs,
    width: int,
    records: Longs,
    shape: Longs,
) -> int:
    """Open the record of an action; return 0, or ``FULL``."""
    kind, owner = actions[row + KIND], actions[row + SLOT]
    number = shape[kind * SHAPE + COUNT]
    if number >= shape[kind * SHAPE + ROOM]:
        return FULL
    if owner >= 0:
        owner = instances[at_level(depth, actions[row + LEVEL]) * width + owner]
    records[field_at(shape, kind, number, RULE)] = actions[row + FIRST]
    records[field_at(shape, kind, number, OWNER)] = owner
    if kind != COLUMNS:
        transaction = -1
        if owner >= 0:
            transaction = records[field_at(shape, OUTER, owner, TRANSACTION)]
        elif actions[row + SECOND]:
            transaction = number
        records[field_at(shape, kind, number, TRANSACTION)] = transaction
        records[field_at(shape, kind, number, MESSAGE)] = message
        records[field_at(shape, kind, number, START)] = place
        records[field_at(shape, kind, number, END)] = place
    first = POINTERS + shape[kind * SHAPE + POINTED]
    for slot in range(shape[kind * SHAPE + SLOTS]):
        records[field_at(shape, kind, number, first + 2 * slot + 1)] = -1
    instances[depth * width + actions[row + INSTANCE]] = number
    shape[kind * SHAPE + COUNT] = number + 1
    return 0


@inner
def start_element(
    text: Octets,
    state: int,
    depth: int,
    message: int,
    place: int,
    name: int,
    name_size: int,
    bounds: Longs,
    actions: Longs,
    frames: Longs,
    instances: Longs,
    width: int,
    records: Longs,
    shape: Longs,
    literals: int,
    side: int,
) -> int:
    """Open the records of an element and store what is known of it; return where decoded values end, or ``FULL``."""
    for number in range(bounds[state * PHASES], bounds[state * PHASES + 1]):
        row = number * ACTION
        if open_record(actions, row, depth, message, place, instances, width, records, shape) < 0:
            return FULL
    for number in range(bounds[state * PHASES + 1], bounds[state * PHASES + 2]):
        row = number * ACTION
        what, kind, slot = actions[row], actions[row + KIND], actions[row + SLOT]
        record = instances[at_level(depth, actions[row + LEVEL]) * width + actions[row + INSTANCE]]
        if what == EXISTS:
            store(records, shape, kind, record, slot, 0, 0)
        elif what == NAMED:
            store(records, shape, kind, record, slot, name, name_size)
        elif what == LITERAL:
            start = literals + actions[row + FIRST]
            store(records, shape, kind, record, slot, start, actions[row + SECOND])
        elif what == POSITION:
            if side + DIGITS > len(text):
                return FULL
            position = frames[(depth - 1) * FRAME + CHILDREN] if depth else 0
            start = side
            side = put_number(text, position, side)
            store(records, shape, kind, record, slot, start, side - start)
        else:
            anchor = instances[
                at_level(depth, actions[row + SECOND]) * width + actions[row + FIRST]
            ]
            records[field_at(shape, kind, record, POINTERS + slot)] = anchor
    return side


@inner
def store_attributes(
    text: Octets,
    state: int,
    depth: int,
    count: int,
    bounds: Longs,
    actions: Longs,
    attributes: Longs,
    info: Longs,
    instances: Longs,
    width: int,
    records: Longs,
    shape: Longs,
    side: int,
) -> int:
    """Store the attributes that rules name; return where decoded values end, or ``FULL``."""
    for number in range(bounds[state * PHASES + 2], bounds[state * PHASES + 3]):
        row = number * ACTION
        each = attribute_of(actions[row], count, attributes, info)
        if each < 0:
            continue
        start = attributes[each * ATTRIBUTES + VALUE_START]
        end = attributes[each * ATTRIBUTES + VALUE_END]
        if attributes[each * ATTRIBUTES + TO_DECODE]:
            if side + end - start > len(text):
                return FULL
            end = decoded(text, start, end, OF_ATTRIBUTE, side)
            start, side = side, end
        record = instances[at_level(depth, actions[row + LEVEL]) * width + actions[row + INSTANCE]]
        store(records, shape, actions[row + KIND], record, actions[row + SLOT], start, end - start)
    return side


@inner
def end_element(
    text: Octets,
    state: int,
    depth: int,
    tag: int,
    place: int,
    bounds: Longs,
    actions: Longs,
    frames: Longs,
    pieces: Longs,
    instances: Longs,
    width: int,
    records: Longs,
    shape: Longs,
    side: int,
) -> int:
    """Store the text and content of an element, and where it ends; return where decoded values end, or ``FULL``.

    ``tag`` is where its end tag begins, ``place`` where that ends, in its message.
    """
    first, last = bounds[state * PHASES + 3], bounds[state * PHASES + 4]
    if first == last:
        return side
    frame = depth * FRAME
    start, end = frames[frame + TEXT_START], frames[frame + TEXT_END]
    kind = frames[frame + TEXT]
    exact, exact_end = start, end
    if kind == PLAIN:
        while start < end and is_blank(text[start]):
            start += 1
        while end > start and is_blank(text[end - 1]):
            end -= 1
    elif kind != NOTHING and kind != SECTION:
        exact = side
        side, start, end = joined_pieces(text, frames, frame, pieces, side)
        if side < 0:
            return FULL
        exact_end = side
    for number in range(first, last):
        row = number * ACTION
        what, slot = actions[row], actions[row + SLOT]
        record = instances[at_level(depth, actions[row + LEVEL]) * width + actions[row + INSTANCE]]
        if what == TEXTUAL:
            if kind != NOTHING:
                store(records, shape, actions[row + KIND], record, slot, start, end - start)
        elif what == EXACT:
            size = exact_end - exact if kind != NOTHING else 0
            store(records, shape, actions[row + KIND], record, slot, exact if size else 0, size)
        elif what == CONTENT:
            within = frames[frame + INNER]
            if tag > within:
                store(records, shape, actions[row + KIND], record, slot, within, tag - within)
        else:
            records[field_at(shape, OPERATIONS, record, END)] = place
    return side
