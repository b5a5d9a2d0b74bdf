"""Records of matches, and the places of their values."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner
from trailgate.formats.xml.kernels.names import (
    ACTION,
    ATTRIBUTES,
    BASE,
    CHILDREN,
    COLUMNS,
    COUNT,
    DEPTH,
    EMPTY,
    END,
    FIELD,
    FIRST,
    FRAME,
    FULL,
    INNER,
    INSTANCE,
    KIND,
    LEVEL,
    LINE,
    MESSAGE,
    NOTHING,
    NUMBER,
    ORDER,
    OWNER,
    PHASES,
    PIECES,
    PLACE,
    PLACED,
    PLAIN,
    REFUSED,
    ROOM,
    RULE,
    SECOND,
    SHAPE,
    START,
    TAG_START,
    TEXT,
    TEXT_END,
    TEXT_START,
    TO_DECODE,
    TRANSACTION,
    UNREAD,
    VALUE_END,
    VALUE_START,
    WIDTH,
    What,
)
from trailgate.formats.xml.kernels.strings import (
    OF_ATTRIBUTE,
    decoded,
    is_blank,
    joined_pieces,
    put_number,
)
from trailgate.formats.xml.kernels.tags import attribute_of

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
def row_of(depth: int, level: int) -> int:
    """Return the row of instances that a level is, seen from an element's depth; 0 is ``LOOSE``, others are a depth and 1."""
    return depth - level + 1 if level >= 0 else -1 - level


@inner
def record_of(actions: Longs, row: int, depth: int, instances: Longs, width: int) -> int:
    """Return where the record of an action is."""
    level = row_of(depth, actions[row + LEVEL])
    return instances[(level * width + actions[row + INSTANCE]) * PLACED + PLACE]


@inner
def store(
    records: Offsets, record: int, actions: Longs, row: int, start: int, size: int, begin: int
) -> None:
    """Store the place of a value in the slot of an action, or that it is ``EMPTY``; its element begins at ``begin``.

    The value of the element that begins first counts; that a path finds a further one clears a bit, where an action has one.
    """
    place = record + actions[row + FIELD]
    ordered = actions[row + ORDER]
    if records[place + 1] < 0:
        records[place], records[place + 1] = start, size
        if ordered and size >= 0:
            records[record + ordered] = begin
        return
    if ordered and size >= 0 and begin < records[record + ordered]:
        records[place], records[place + 1] = start, size
        records[record + ordered] = begin
    if size >= 0 and actions[row + SECOND]:
        records[record + actions[row + FIRST] + 1] &= ~actions[row + SECOND]


@inner
def store_once(records: Offsets, place: int, start: int, size: int) -> None:
    """Store a value in a slot, unless there is one."""
    if records[place + 1] < 0:
        records[place], records[place + 1] = start, size


@inner
def open_record(
    actions: Longs,
    row: int,
    depth: int,
    message: int,
    place: int,
    frames: Longs,
    instances: Longs,
    width: int,
    records: Offsets,
    shape: Longs,
) -> int:
    """Open the record of an action; return 0, ``FULL``, or ``REFUSED`` for one that is in another and must not be."""
    kind = actions[row + KIND]
    own = kind * SHAPE
    number = shape[own + COUNT]
    if number >= shape[own + ROOM]:
        return FULL
    size = shape[own + WIDTH]
    record = shape[own + BASE] + number * size
    for line in range(record, record + size, LINE):
        for field in range(LINE):
            records[line + field] = -1
    records[record + RULE] = actions[row + FIRST]
    transaction = number if actions[row + SECOND] else -1
    if actions[row + FIELD] >= 0:
        level = row_of(depth, actions[row + LEVEL])
        owner = (level * width + actions[row + FIELD]) * PLACED
        records[record + OWNER] = instances[owner + NUMBER]
        if kind != COLUMNS:
            transaction = records[instances[owner + PLACE] + TRANSACTION]
    if kind != COLUMNS:
        records[record + TRANSACTION] = transaction
        records[record + MESSAGE] = message
        records[record + START] = place
        records[record + END] = place
    opened = ((depth + 1) * width + actions[row + INSTANCE]) * PLACED
    instances[opened + PLACE], instances[opened + NUMBER] = record, number
    if actions[row + ORDER]:
        last = actions[row + INSTANCE] * PLACED
        before = instances[last + DEPTH]
        if 0 <= before < depth:
            begun = frames[before * FRAME + TAG_START] - frames[depth * FRAME + TAG_START] + place
            if records[instances[last + PLACE] + START] == begun:
                return REFUSED
        instances[last + PLACE], instances[last + NUMBER] = record, number
        instances[last + DEPTH] = depth
    shape[own + COUNT] = number + 1
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
    records: Offsets,
    shape: Longs,
    literals: int,
    side: int,
) -> int:
    """Open the records of an element and store what is known of it; return where decoded values end, ``FULL`` or ``REFUSED``."""
    for number in range(bounds[state * PHASES], bounds[state * PHASES + 1]):
        row = number * ACTION
        opened = open_record(
            actions, row, depth, message, place, frames, instances, width, records, shape
        )
        if opened < 0:
            return opened
    for number in range(bounds[state * PHASES + 1], bounds[state * PHASES + 2]):
        row = number * ACTION
        what = actions[row]
        slot = record_of(actions, row, depth, instances, width) + actions[row + FIELD]
        if what == EXISTS:
            store_once(records, slot, 0, 0)
        elif what == NAMED:
            store_once(records, slot, name, name_size)
        elif what == LITERAL:
            store_once(records, slot, literals + actions[row + FIRST], actions[row + SECOND])
        elif what == POSITION:
            if side + DIGITS > len(text):
                return FULL
            position = frames[(depth - 1) * FRAME + CHILDREN] if depth else 0
            start = side
            side = put_number(text, position, side)
            store_once(records, slot, start, side - start)
        else:
            level = row_of(depth, actions[row + SECOND])
            anchor = (level * width + actions[row + FIRST]) * PLACED + NUMBER
            if level > 0:
                records[slot] = instances[anchor]
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
    records: Offsets,
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
        record = record_of(actions, row, depth, instances, width)
        store(records, record, actions, row, start, end - start, 0)
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
    records: Offsets,
    side: int,
) -> int:
    """Store the text and content of an element, and where it ends; return where decoded values end, or ``FULL``.

    ``tag`` is where its end tag begins, ``place`` where that ends, in its message.
    """
    frame = depth * FRAME
    kind = frames[frame + TEXT]
    if kind == UNREAD:
        return side
    begin = frames[frame + TAG_START]
    start, end = frames[frame + TEXT_START], frames[frame + TEXT_END]
    exact, exact_end = start, end
    if kind == PLAIN:
        while start < end and is_blank(text[start]):
            start += 1
        while end > start and is_blank(text[end - 1]):
            end -= 1
    elif kind == PIECES:
        exact = side
        side, start, end = joined_pieces(text, frames, frame, pieces, side)
        if side < 0:
            return FULL
        exact_end = side
    for number in range(bounds[state * PHASES + 3], bounds[state * PHASES + 4]):
        row = number * ACTION
        what = actions[row]
        record = record_of(actions, row, depth, instances, width)
        if what == TEXTUAL:
            # Where there is no text, where it starts was never written.
            size = end - start if kind != NOTHING else EMPTY
            store(records, record, actions, row, start if size != EMPTY else 0, size, begin)
        elif what == EXACT:
            size = exact_end - exact if kind != NOTHING else 0
            store(records, record, actions, row, exact if size else 0, size, begin)
        elif what == CONTENT:
            within = frames[frame + INNER]
            size = tag - within if tag > within else EMPTY
            store(records, record, actions, row, within, size, begin)
        else:
            records[record + END] = place
    return side
